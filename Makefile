# Two commands matter: `make demo` and `make test`. They create the environments that they need, once.
#   .venv       raptor and its requirements: what a user needs
#   .venv-test  what only the tests, the linters and the benchmarks need; every other package comes from .venv
#   .venv-docs  what only the documentation needs; likewise

PYTHON ?= python3
VENV := .venv
TEST := .venv-test
DOCS := .venv-docs
BIN := $(VENV)/bin
PIP := python -m pip --disable-pip-version-check
# torch first and pinned, so that every later range is satisfied by it. Where the package index has CUDA builds alone, a
# CPU machine works with those too; to save the space, install torch's CPU build into .venv first.
TORCH := $(shell sed -n 's/^\(torch==.*\)/\1/p' constraints.txt)
TESTS ?= tests
# Of the studies: images, size and directory of jobs.
DATA ?= uoft-cs/cifar100
SIZE ?= laptop
STUDIES ?= runs/studies

.PHONY: demo test test-long test-all lint bench docs studies results clean

demo: $(VENV)/.run
	$(BIN)/raptor demo --out runs/demo
	@echo "Open runs/demo/report.html in a browser; every stage has its numbers and figures in a directory beside it"

# Two processes of one thread each: threads of two processes would wait for one another.
test: lint
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(TEST)/bin/python -m pytest -n 2 -m "not long" $(TESTS)

# What takes minutes: many kills, long trainings, fuzzing, every window size.
test-long: $(TEST)/.long
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(TEST)/bin/python -m pytest -n 2 -m long $(TESTS)

test-all: test test-long

lint: $(TEST)/.test
	$(TEST)/bin/ruff check src tests tools
	$(TEST)/bin/ruff format --check src tests tools
	$(TEST)/bin/mypy --python-executable $(TEST)/bin/python

bench: $(TEST)/.test
	$(TEST)/bin/raptor bench

# All studies on one core, then the page of results. After an interruption: `make studies` continues, and `make results`
# writes the page for the jobs that are done.
studies: $(TEST)/.test
	OMP_NUM_THREADS=1 $(TEST)/bin/raptor study all --size $(SIZE) --data $(DATA) --out $(STUDIES) --device cpu --resume
	$(MAKE) results

results: $(TEST)/.test
	OMP_NUM_THREADS=1 $(TEST)/bin/python tools/keep_results.py $(STUDIES) docs/results
	$(TEST)/bin/python tools/write_results.py

docs: $(DOCS)/.docs
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "raptor needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# The stamps .test and .docs are from a version that installed everything into .venv: such an environment is emptied.
$(VENV)/.run: $(VENV)/.made pyproject.toml constraints.txt
	@if [ -e $(VENV)/.test ] || [ -e $(VENV)/.docs ]; then $(PYTHON) -m venv --clear $(VENV) && touch $(VENV)/.made; fi
	$(BIN)/$(PIP) install -q $(TORCH)
	$(BIN)/$(PIP) install -q -c constraints.txt -e .
	@touch $@

# An environment on top of .venv. A .pth file adds the packages of .venv after its own, so pip finds them installed and
# does not install them again. `addsitedir` also reads the .pth files of .venv. pip itself comes from .venv too.
$(TEST)/.made $(DOCS)/.made: $(VENV)/.made | $(VENV)/.run
	$(BIN)/python -m venv --clear --without-pip $(@D)
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	  > "$$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth"
	@touch $@

# torchvision has no CPU build everywhere, and timm needs so little of it that its dependencies can stay away;
# where timm cannot be had, its tests say so and skip.
$(TEST)/.test: $(VENV)/.run $(TEST)/.made
	$(TEST)/bin/$(PIP) install -q -c constraints.txt -e '.[test]'
	$(TEST)/bin/$(PIP) install -q -c constraints.txt --no-deps torchvision timm || echo "timm cannot be had: its tests will skip"
	@touch $@

$(TEST)/.long: $(TEST)/.test
	$(TEST)/bin/$(PIP) install -q -c constraints.txt atheris || echo "atheris cannot be had: fuzzing that coverage guides will skip"
	@touch $@

$(DOCS)/.docs: $(VENV)/.run $(DOCS)/.made
	$(DOCS)/bin/$(PIP) install -q -c constraints.txt -e '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) $(TEST) $(DOCS) runs site .mypy_cache .pytest_cache .ruff_cache
