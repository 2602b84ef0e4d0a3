# Two commands matter: `make demo` and `make test`. Both create .venv and install what is missing, once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# torch first and pinned, so that every later range is satisfied by it. Where the package index has CUDA builds alone, a
# CPU machine works with those too; to save the space, install torch's CPU build into .venv first.
TORCH := $(shell sed -n 's/^\(torch==.*\)/\1/p' constraints.txt)
TESTS ?= tests

.PHONY: demo test test-long test-all lint bench docs clean

demo: $(VENV)/.run
	$(BIN)/raptor demo --out runs/demo
	@echo "Open runs/demo/report.html in a browser; every stage has its numbers and figures in a directory beside it"

# Two processes of one thread each: threads of two processes would wait for one another.
test: lint
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not long" $(TESTS)

# What takes minutes: many kills, long trainings, fuzzing, every window size.
test-long: $(VENV)/.long
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m long $(TESTS)

test-all: test test-long

lint: $(VENV)/.test
	$(BIN)/ruff check src tests tools
	$(BIN)/ruff format --check src tests tools
	$(BIN)/mypy

bench: $(VENV)/.test
	$(BIN)/raptor bench

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "raptor needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) install -q $(TORCH)
	$(PIP) install -q -c constraints.txt -e .
	@touch $@

# torchvision has no CPU build everywhere, and timm needs so little of it that its dependencies can stay away;
# where timm cannot be had, its tests say so and skip.
$(VENV)/.test: $(VENV)/.run
	$(PIP) install -q -c constraints.txt -e '.[test]'
	$(PIP) install -q -c constraints.txt --no-deps torchvision timm || echo "timm cannot be had: its tests will skip"
	@touch $@

$(VENV)/.long: $(VENV)/.test
	$(PIP) install -q -c constraints.txt atheris || echo "atheris cannot be had: fuzzing that coverage guides will skip"
	@touch $@

$(VENV)/.docs: $(VENV)/.run
	$(PIP) install -q -c constraints.txt -e '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) runs site .mypy_cache .pytest_cache .ruff_cache
