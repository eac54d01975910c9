# The reference baseline for labs: the kit with torch for CUDA. The driver comes from the machine (docker run --gpus all).
#   docker build -f docker/baseline.Dockerfile --target baseline -t mvc-baseline .
# The stages wheel and core hold nothing for a GPU and build anywhere.
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS wheel
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY docker/build.lock /build/docker/
RUN python3 -m venv /build/tools && \
    /build/tools/bin/pip install --quiet --require-hashes --no-deps -r /build/docker/build.lock
COPY . /build
WORKDIR /build
RUN tools/bin/pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir dist .

FROM ${BASE} AS core
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY --from=wheel /build/dist /dist
RUN python3 -m venv /opt/mvc && /opt/mvc/bin/pip install --quiet /dist/*.whl && /opt/mvc/bin/mvc --version
ENV PATH=/opt/mvc/bin:/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    PYTHONSAFEPATH=1 PYTHONNOUSERSITE=1 PYTHONUNBUFFERED=1

FROM core AS baseline
# torch's wheels carry CUDA's libraries; another version of CUDA: --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu126
ARG TORCH_INDEX=""
RUN wheel="$(ls /dist/*.whl)" && \
    /opt/mvc/bin/pip install --quiet ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} "${wheel}[baseline]" && \
    /opt/mvc/bin/python -c "import open_clip, timm, torch, torchvision, transformers; print(torch.__version__, torch.version.cuda)"
# Weights: mount a folder and name it (--weights /weights/...), or let the hub's cache live on a volume.
ENV HF_HOME=/weights/hub HOME=/tmp MVC_CACHE=/tmp/mvc NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /work
USER 10001:10001
ENTRYPOINT ["mvc"]
CMD ["baseline", "--help"]
LABEL org.opencontainers.image.title="mvc-baseline" \
      org.opencontainers.image.description="Trains the reference baseline of the mvc kit" \
      org.opencontainers.image.licenses="Apache-2.0"
