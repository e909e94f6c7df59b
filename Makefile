# The environment is made once, in .venv; `make demo` on a fresh machine needs Python (3.11 or newer) and make, nothing else.
PYTHON ?= python3
VENV ?= .venv
SCALE ?= fast
MINUTES ?= 25
# One process a core; the tests of a file stay together, as they share what they have trained.
PYTEST_ARGS ?= -n auto --dist loadfile
# What is killed, cut off, filled up, merged, spread and fuzzed, in its long form: docs/reliability.md says what it holds.
FAULTS := $(addprefix tests/,test_fuzzing.py test_remembered.py $(addprefix experiments/test_,killed.py stopping.py store.py run.py growing.py merging.py \
	launchers.py) $(addprefix simulation/test_,lifetime.py workers.py backends.py many_clients.py memory.py) data/test_pickles.py \
	data/test_archives.py cli/test_main.py notebooks/test_kernels.py metrics/test_divergence.py)
# Whether the notebooks of the site are run: off, or cache (a notebook that has not changed is not run again).
EXECUTE ?= off
# The browser of `make browser`.
CHROMIUM ?= $(firstword $(foreach name,chromium chromium-browser google-chrome,$(shell command -v $(name))))
# What JupyterLab adds to a notebook when it saves it, beside outputs and counts.
ADDED := $(addprefix metadata.language_info.,codemirror_mode file_extension mimetype nbconvert_exporter pygments_lexer version)
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check

.PHONY: help demo test test-all test-faults browser chromium lab strip docs lint format gpu clean
.DELETE_ON_ERROR:

help:
	@echo "make demo    regenerate one table on bundled data (installs what it needs first)"
	@echo "make test    run the tests of every method in its plain form (the same);  make test-all  all tests"
	@echo "make test-faults  the fault suite in its long form: kills, damage, full disks, sweeps, fuzzing"
	@echo "make browser JupyterLab, score card and site in headless Chromium; pictures of what was seen in outputs/browser"
	@echo "make lab     open JupyterLab on the notebooks"
	@echo "make strip   what running a notebook adds to it is in no diff and no commit of this clone any more"
	@echo "make docs    build the documentation site into outputs/site;  EXECUTE=cache: with the tutorials' outputs"
	@echo "make lint    check style and formatting;  make format  mend them"
	@echo "make gpu     everything that waits for a GPU, in MINUTES=$(MINUTES): tests, measurements, tables at the papers' scale"
	@echo "make clean   remove the environment and what tools left behind"

demo: $(VENV)/.installed
	$(VENV)/bin/pflrepro reproduce demo/digits --scale $(SCALE) --figures outputs

test: $(VENV)/.installed-dev
	$(VENV)/bin/python -m pytest $(PYTEST_ARGS) -m "not variant and not slow"

test-all: $(VENV)/.installed-dev
	$(VENV)/bin/python -m pytest $(PYTEST_ARGS)

test-faults: $(VENV)/.installed-dev
	HYPOTHESIS_PROFILE=faults $(VENV)/bin/python -m pytest $(PYTEST_ARGS) $(FAULTS)

browser: chromium docs $(VENV)/.installed-browser
	rm -rf outputs/browser
	CHROMIUM="$(CHROMIUM)" PICTURES=outputs/browser $(VENV)/bin/python -m pytest tests/browser

chromium:
	@test -n "$(CHROMIUM)" || { echo "make browser needs Chromium (apt install chromium), or: make browser CHROMIUM=/path/to/it" >&2; exit 1; }

lab: $(VENV)/.installed
	$(VENV)/bin/python -m jupyterlab notebooks

strip: $(VENV)/.installed-dev
	git config filter.notebook.clean "'$(CURDIR)/$(VENV)/bin/python' -m nbstripout --keep-id --extra-keys '$(ADDED)'"
	git config filter.notebook.smudge cat
	git add --renormalize notebooks

docs: $(VENV)/.installed-docs
	$(VENV)/bin/python -m sphinx -c docs/site -d outputs/site-cache -D nb_execution_mode=$(EXECUTE) --quiet --fail-on-warning . outputs/site
	@echo "open outputs/site/index.html"

lint: $(VENV)/.installed-dev
	$(VENV)/bin/python -m ruff check .
	$(VENV)/bin/python -m ruff format --check .

format: $(VENV)/.installed-dev
	$(VENV)/bin/python -m ruff check --fix .
	$(VENV)/bin/python -m ruff format .

gpu: $(VENV)/.installed-dev
	$(VENV)/bin/python benchmarks/gpu_day.py --minutes $(MINUTES)

clean:
	rm -rf $(VENV) dist docs/site/written .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamp files: an environment is installed again only when pyproject.toml changes.
$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(PIP) install --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(PIP) install --editable '.[dev]'
	@touch $(VENV)/.installed $@

$(VENV)/.installed-browser: pyproject.toml | $(VENV)/bin/python
	$(PIP) install --editable '.[dev,browser]'
	@touch $(VENV)/.installed $(VENV)/.installed-dev $@

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/bin/python
	$(PIP) install --editable '.[docs]'
	@touch $(VENV)/.installed $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "pflrepro needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
