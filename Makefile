# Two commands for everyone: `make demo` (core only, no torch) and `make test` (everything).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test check format rules clean

demo: $(VENV)/core.stamp
	$(BIN)/mvc demo --dir mvc-demo --force

test: $(VENV)/all.stamp
	$(BIN)/python -m pytest

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
