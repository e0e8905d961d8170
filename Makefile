# Every target makes .venv from scratch when it is missing; nothing is needed but python3 (>= 3.11).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
.PHONY: demo test tests test-rest test-outside test-slow test-browser test-wheel test-docs lint bench paper wheel docs clean

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "whichvars needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

# the package and what reports need: half of what the tests need
$(VENV)/.installed-demo: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) '.[report]'
	touch $@

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) '.[dev]'
	touch $@ $(VENV)/.installed-demo

$(VENV)/.installed-docs: $(VENV)/.installed
	$(INSTALL) '.[docs]'
	touch $@

$(VENV)/.installed-browser: $(VENV)/.installed
	$(INSTALL) '.[browser]'
	touch $@

demo: $(VENV)/.installed-demo
	$(BIN)/python -m whichvars demo

lint: $(VENV)/.installed
	$(BIN)/ruff check conftest.py src tests benchmarks papers wheels
	$(BIN)/ruff format --check conftest.py src tests benchmarks papers wheels
	$(BIN)/mypy

# the tests begin while mypy still reads, so that no core waits
test: $(VENV)/.installed
	$(MAKE) --no-print-directory --jobs=2 lint tests

# one process more than CI has cores: some wait, for a kernel that another compiles or for a run that was killed. Where Python is told
# to keep no bytecode, each of them would rewrite every test module again, for five seconds
tests: export PYTHONDONTWRITEBYTECODE =
tests: $(VENV)/.installed
	$(BIN)/pytest -n 3 --dist worksteal

# combinations of parameters: `make test` meets each value of each parameter of a test once, see conftest.py
test-rest: $(VENV)/.installed
	$(BIN)/pytest -n 3 --dist worksteal -m rest

# what is not installed with the package: benchmarks, peers, the paper's figures
test-outside: $(VENV)/.installed
	$(BIN)/pytest -n 3 --dist worksteal tests/outside

test-slow: $(VENV)/.installed
	$(BIN)/pytest -n 2 --dist worksteal -m slow tests

# needs Debian's chromium and chromium-driver; pictures go to tests/browser/screenshots
test-browser: $(VENV)/.installed-browser
	$(BIN)/pytest -m browser tests/browser

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks $(ARGS)

# makes the runs that are not kept yet; the paper's own sizes: make paper ARGS=--full
paper: $(VENV)/.installed
	$(BIN)/python -m papers.individual_adaptation $(ARGS)

# a wheel with machine code in dist/: nothing is compiled where it is installed
wheel: $(VENV)/.installed
	rm -rf build/objects dist
	$(BIN)/python wheels/objects.py build/objects
	WHICHVARS_OBJECTS=$(CURDIR)/build/objects $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

test-wheel: wheel
	$(BIN)/pytest -m wheel tests/wheel

# every page, without running the scripts of the gallery, which take minutes; CI runs this
test-docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build -q -W -D plot_gallery=0 -b html docs docs/_build/checked
	$(BIN)/python docs/check.py docs/_build/checked

docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build -W -b html docs docs/_build/html
	$(BIN)/python docs/check.py docs/_build/html

clean:
	rm -rf $(VENV) docs/_build docs/gallery tests/browser/screenshots .pytest_cache .mypy_cache .ruff_cache .hypothesis
