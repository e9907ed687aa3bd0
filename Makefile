PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Development data, where it is; tests and benchmarks that need it skip where it is not.
export WINDLASS_DATA ?= $(wildcard ../shared/data)

.PHONY: demo test fuzz check lint types env clean

demo: env  ## train a place-name transliterator; SCRIPT=greek for another script
	$(BIN)/windlass demo --script $(or $(SCRIPT),devanagari)

test: check  ## environment, lint, types, tests; the slowest ten are listed
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations=10 --durations-min=1

fuzz: env  ## damaged bundles, recipes and files; MINUTES=60 or CASES=100000, SEED=2, KIND=files, CASE=7
	$(BIN)/python tests/fuzz/run.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(CASES),--cases $(CASES)) \
	  $(if $(SEED),--seed $(SEED)) $(if $(KIND),--kind $(KIND)) $(if $(CASE),--case $(CASE))

check: lint types  ## lint and types

lint: env  ## ruff: rules and format
	$(BIN)/ruff check --no-cache src tests benchmarks
	$(BIN)/ruff format --no-cache --check src tests benchmarks

types: env  ## mypy, strict
	$(BIN)/mypy

env: $(VENV)/.made  ## the environment

$(VENV)/.made: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
