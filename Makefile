# Two commands do all the set-up: `make run` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DOCS   := $(VENV)/.docs

.PHONY: run test docs figures evidence soak format clean

run: $(READY)
	$(BIN)/seedspread quickstart

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo
	@# mypy beside the tests; three processes on two cores, because one mostly waits for what it kills; slow files first
	@$(BIN)/mypy & mypy=$$!; status=0; $(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder || status=$$?; wait $$mypy || status=$$?; exit $$status

# Every run of docs/evidence.md once more, into the store `evidence-runs`: about 25 core-hours; killed, it goes on when started again.
evidence: $(READY)
	$(BIN)/seedspread run evidence/studies/all.toml --store evidence-runs

# Long repetitions of what `make test` does a few times.
soak: $(READY)
	$(BIN)/pytest -m soak
	$(BIN)/pytest -m hypothesis --hypothesis-profile soak

# Every picture of README and docs, from today's code and the figures that were measured; a test says if one is stale.
figures: $(READY)
	PYTHONPATH=. $(BIN)/python tools/figures.py

# The site, in build/site; needs no network once $(DOCS) is there. Every warning is an error.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html"

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV)

# pip of the outer Python fills the environment (`--python`), so no ensurepip is needed: Debian ships it apart.
# First every package with its hash; then this package and torch, which has none (requirements.txt says why), built by the backend that is there now.
$(READY): pyproject.toml constraints.txt requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "seedspread needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up $(VENV) (once; a few minutes, most of it PyTorch) ..."
	$(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --no-deps --require-hashes --requirement requirements.txt
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --constraint constraints.txt --no-build-isolation --editable '.[train,dev]'
	@touch $@

# PIP_CONSTRAINT, unlike --constraint, holds for the build backend too.
$(DOCS): $(READY)
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(PYTHON) -m pip --python $(BIN)/python install --quiet --editable '.[docs]'
	@touch $@
