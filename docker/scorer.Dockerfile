# The scorer's image: the kit and its locked requirements in one folder, /opt/mvc, over a plain Python.
#   docker build -f docker/scorer.Dockerfile .
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONHASHSEED=0
RUN apt-get update -qq && apt-get install -qq --no-install-recommends binutils >/dev/null

COPY docker/build.lock docker/requirements.lock /build/docker/
RUN python3 -m venv /build/tools && python3 -m venv --without-pip /opt/mvc && \
    /build/tools/bin/pip install --quiet --require-hashes --no-deps -r /build/docker/build.lock && \
    /build/tools/bin/pip --python /opt/mvc/bin/python install --quiet --require-hashes --no-deps --no-compile \
      --only-binary :all: -r /build/docker/requirements.lock
COPY docker/prune.py /build/docker/
RUN python3 /build/docker/prune.py /opt/mvc/lib/python3.11/site-packages

COPY . /build
ARG VERSION=0.1.0
# Fails where VERSION is not the one in pyproject.toml: the label must be true.
RUN cd /build && /build/tools/bin/pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir dist . && \
    /build/tools/bin/pip --python /opt/mvc/bin/python install --quiet --no-deps --no-compile --no-index \
      dist/mvc_kit-${VERSION}-py3-none-any.whl
RUN cd /opt/mvc && find bin -type f ! -name mvc -delete && rm -rf include share && \
    cp /build/docker/mvc-scorer bin/ && cp /build/docker/start.py . && echo ${VERSION} > version && \
    bin/python -c "import importlib.metadata as m; print(*sorted(f'{d.name}=={d.version}' for d in m.distributions()), sep='\n')" \
      > packages.txt

# Code for any x86-64, whatever machine builds the image; the same in the image itself.
ENV NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES="" OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
RUN NUMBA_CACHE_DIR=/opt/mvc/kernels MVC_CACHE=/opt/mvc/tables /opt/mvc/bin/python -P /build/docker/selftest.py

ARG SOURCE_DATE_EPOCH=0
RUN chmod -R a+rX,go-w /opt/mvc && find /opt/mvc -exec touch -h -d @${SOURCE_DATE_EPOCH} {} +

FROM ${BASE} AS scorer
COPY --from=build /opt/mvc /opt/mvc
# A base may come without bytecode of the standard library; what the scorer loads of it gets some.
RUN python3 -m compileall -q -i /opt/mvc/standard-library.txt
ENV PATH=/opt/mvc/bin:/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    PYTHONSAFEPATH=1 PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    MVC_KERNELS=/opt/mvc/kernels MVC_CACHE=/opt/mvc/tables NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES="" \
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
WORKDIR /
USER 10001:10001
ENTRYPOINT ["mvc-scorer"]
ARG VERSION=0.1.0
ARG REVISION=""
LABEL org.opencontainers.image.title="mvc-scorer" \
      org.opencontainers.image.description="Judges a submission of calibrated predictions and scores it with hidden labels" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
