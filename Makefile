# Everything sets itself up: a Python 3.11 or newer and a package index are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(VENV)/bin/uv pip install --quiet --compile-bytecode --python $(VENV)/bin/python
# A file stays with one worker, which sets up once what its tests share; tests/conftest.py says in which order they start.
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder
include tools.mk

.PHONY: run test check quick lint bench fuzz mutants format lock clean help

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

run: $(VENV)/run.done  ## start the gateway (with demo servers when nothing is configured)
	@exec $(BIN)/trunkline up $(ARGS)

test: $(VENV)/dev.done .tools/done  ## run every test
	$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

check: $(VENV)/dev.done  ## format, lint, types, imports, fast tests
	$(BIN)/ruff format --quiet src tests bench
	@$(MAKE) --no-print-directory --jobs 2 --output-sync lint quick

quick: $(VENV)/dev.done  # the tests that are not slow
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow" $(ARGS)

lint: $(VENV)/dev.done  ## lint, types, imports; changes nothing
	$(BIN)/ruff format --check --quiet src tests bench
	$(BIN)/ruff check --quiet src tests bench
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

BENCHES ?= calls callers stages growth stalls selection cache batcher annotations finders everyday discovery fairness people results traces programs console
bench: $(VENV)/dev.done  ## measure CPU per call, stage by stage, and what the parts cost (BENCH=smallest only tries them)
	@for name in $(BENCHES); do echo "== $$name"; $(BIN)/python bench/$$name.py || exit 1; done

fuzz: $(VENV)/dev.done  ## send the HTTP server and client raw bytes for long (EXAMPLES=20000)
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest $(PARALLEL) --timeout 0 tests/fuzz $(ARGS)

mutants: $(VENV)/dev.done  ## break what keeps somebody out, line by line, and list what no test notices (ARGS=gateway/guard.py)
	$(BIN)/python -m tests.mutants $(ARGS)

format: $(VENV)/dev.done  ## format and fix what can be fixed
	$(BIN)/ruff format src tests bench
	$(BIN)/ruff check --fix src tests bench

lock:  ## pin what is installed, by version and hash
	uv pip compile -q --universal --generate-hashes --no-header --no-annotate --python-version 3.11 pyproject.toml --group build -o requirements/run.txt
	uv pip compile -q --universal --generate-hashes --no-header --no-annotate --python-version 3.11 pyproject.toml --all-extras --group dev -o requirements/dev.txt

clean:  ## forget what was installed
	rm -rf $(VENV) .tools

$(VENV)/bin/uv: requirements/uv.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@touch $@

$(VENV)/run.done: $(VENV)/bin/uv requirements/run.txt pyproject.toml
	@$(UV) --require-hashes -r requirements/run.txt
	@$(UV) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev.done: $(VENV)/bin/uv requirements/dev.txt pyproject.toml
	@$(UV) --require-hashes -r requirements/dev.txt
	@$(UV) --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/run.done
