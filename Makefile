# Two commands for everyone: `make demo` (core only, no torch) and `make test` (everything).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
FUZZ_SECONDS ?= 60
WORKERS ?= 2
DOCKER ?= docker
IMAGE ?= mvc-scorer
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
REVISION = $(shell git describe --always --abbrev=40 --exclude '*' --dirty 2>/dev/null)
EPOCH = $(or $(shell git log -1 --format=%ct 2>/dev/null),0)
LOCK := $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --no-header --no-emit-index-url --only-binary :all: \
  --python-version 3.11 --python-platform x86_64-manylinux_2_28

.PHONY: demo test soak fuzz check format rules image image-test lock clean

demo: $(VENV)/core.stamp
	$(BIN)/mvc demo --dir mvc-demo --force

test: $(VENV)/all.stamp
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile

# What `make test` samples, in full: 200 kills and 40 submits at once, every hostile input in the real decoding process.
soak: $(VENV)/all.stamp
	MVC_SOAK=1 MVC_MUSEUM=all $(BIN)/python -m pytest -s tests/scorer/test_ledger_fire.py $(wildcard tests/museum)

# Looks for inputs that break a promise, FUZZ_SECONDS for each target; what it finds stays in tests/fuzz/corpus.
fuzz: $(VENV)/all.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	$(BIN)/python -m tests.fuzz.run --seconds $(FUZZ_SECONDS)

check: $(VENV)/all.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint --ignore DL3002 --ignore DL3003 --ignore DL3008 docker/*.Dockerfile

format: $(VENV)/all.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The generated tables of PROTOCOL.md, and the goldens of the rules.
rules: $(VENV)/all.stamp
	$(BIN)/python -m protocol.text < PROTOCOL.md > PROTOCOL.new && mv PROTOCOL.new PROTOCOL.md

# The scorer's image, for user 10001 and, with the same layers, for user 0.
image:
	$(DOCKER) build -f docker/scorer.Dockerfile --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) \
	  --build-arg SOURCE_DATE_EPOCH=$(EPOCH) -t $(IMAGE):$(VERSION) .
	$(DOCKER) build -f docker/root.Dockerfile --build-arg IMAGE=$(IMAGE):$(VERSION) -t $(IMAGE):$(VERSION)-root docker
	$(DOCKER) images $(IMAGE)

image-test: $(VENV)/all.stamp
	MVC_IMAGE_TESTS=required $(BIN)/python -m pytest tests/docker

# The requirements of the image with their digests, made again from pyproject.toml.
lock: $(VENV)/lock.stamp
	$(LOCK) pyproject.toml --excludes docker/left-out.txt --output-file docker/requirements.lock
	$(LOCK) docker/build.in --output-file docker/build.lock

$(VENV)/core.stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/all.stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,baseline]'
	touch $@ $(VENV)/core.stamp

$(VENV)/lock.stamp:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.13'
	touch $@

clean:
	rm -rf $(VENV) build dist mvc-demo *.egg-info
