# Two commands for everyone: `make demo` (core only, no torch) and `make test` (everything).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
FUZZ_SECONDS ?= 60
WORKERS ?= 2

.PHONY: demo test soak fuzz check format rules clean

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

format: $(VENV)/all.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The generated tables of PROTOCOL.md, and the goldens of the rules.
rules: $(VENV)/all.stamp
	$(BIN)/python -m protocol.text < PROTOCOL.md > PROTOCOL.new && mv PROTOCOL.new PROTOCOL.md

$(VENV)/core.stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/all.stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ $(VENV)/core.stamp

clean:
	rm -rf $(VENV) build dist mvc-demo *.egg-info
