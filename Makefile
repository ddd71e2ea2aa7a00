# Everything sets itself up: Python 3.11 or later and make are all that is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The tests start hundreds of processes: each module is compiled once, whatever the machine prefers.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest
# What was installed is in no folder of PATH yet.
GO_ON = @echo; echo 'To use runner in this terminal: . $(BIN)/activate'

.DEFAULT_GOAL := help
.PHONY: demo test test-slow test-all lint format docs reference lock newest torture torture-cluster fuzz bench bench-cluster clean help

demo: $(VENV)/.installed ## run the whole loop on the sandbox and show the report
	@$(BIN)/runner demo
	$(GO_ON)

test: $(VENV)/.installed-dev ## run the tests that a change needs: four to five minutes on two cores
	$(PYTEST) -n auto --dist worksteal
	$(GO_ON)

test-slow: $(VENV)/.installed-dev ## run the others: kills, fuzzing, clusters, the state remote, the workflows, a hundred rehearsals
	$(PYTEST) -n auto --dist worksteal -m slow

test-all: test test-slow ## run all tests

lint: $(VENV)/.installed-dev ## check style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(VENV)/.installed-dev ## put the code into shape
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(VENV)/.installed-dev ## build the documentation as a site with search, in build/docs; each broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --config-file .ci/mkdocs.yml

reference: $(VENV)/.installed-dev ## write the generated schemas and pages of docs/reference anew
	@$(BIN)/python -m tests.docs.reference

lock: $(VENV)/.installed-dev ## renew the locks: the newest releases, with the hashes of all of their files; then run the tests on them
	.ci/lock $(BIN)
	$(MAKE) test

torture: $(VENV)/.installed-dev ## kill and mislead the runner 2,000 times on all kinds of records (faults=N, seed=N)
	@$(BIN)/python -m tests.torture $(if $(faults),--faults $(faults)) $(if $(seed),--seed $(seed))

torture-cluster: $(VENV)/.installed-dev ## the same 100 times, with plans from a cluster (faults=N, seed=N)
	@$(BIN)/python -m tests.torture --ledger cluster --faults $(or $(faults),100) $(if $(seed),--seed $(seed))

fuzz: $(VENV)/.installed-dev ## let Schemathesis fuzz the sandbox for five minutes (seconds=N, seed=N)
	FUZZ_SECONDS=$(or $(seconds),300) FUZZ_SEED=$(or $(seed),$(shell date +%s)) \
		$(PYTEST) -n 0 -m slow tests/sandbox/web/test_fuzz.py

bench: $(VENV)/.installed-dev ## measure planning, sending, the sandbox and reports, as ratios, and how often reports are wrong (wrk and gcc are used where they are installed)
	@$(BIN)/python -m tests.benchmarks.loading
	@$(BIN)/python -m tests.benchmarks.audience
	@$(BIN)/python -m tests.benchmarks.delivery
	@$(BIN)/python -m tests.benchmarks.cost
	@$(BIN)/python -m tests.benchmarks.sandbox
	@$(BIN)/python -m tests.benchmarks.reconcile
	@$(BIN)/python -m tests.benchmarks.report
	@$(BIN)/python -m tests.benchmarks.error_rates

bench-cluster: $(VENV)/.installed-dev ## measure plans of 10,000,000 people on a cluster of two processes (rows=N), and what its stages cost
	@$(BIN)/python -m tests.benchmarks.cluster_stages
	@$(BIN)/python -m tests.benchmarks.ledger_at_size
	@$(BIN)/python -m tests.benchmarks.plan_again
	@$(BIN)/python -m tests.benchmarks.client_memory
	@$(BIN)/python -m tests.benchmarks.cluster_plan $(if $(rows),--rows $(rows))

clean: ## remove what was built and installed here, and the sandbox's data
	rm -rf $(VENV) .runner build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /make \1\t/' | expand -t 22

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than Python 3.11: name another one, as in: make demo PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Locked, with hashes: a new release of somebody else's package is no failure of a fresh checkout.
$(VENV)/.installed: pyproject.toml .github/requirements.lock | $(BIN)/python
	$(PIP) --require-hashes --requirement .github/requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml .ci/requirements.lock | $(BIN)/python
	$(PIP) --require-hashes --requirement .ci/requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/.installed

newest: | $(BIN)/python ## install the newest releases instead of the locked ones, to try them
	$(PIP) --upgrade hatchling
	$(PIP) --upgrade --no-build-isolation --editable '.[postgres,cluster,telemetry,test,lint,docs,bench,lock]'
	@touch $(VENV)/.installed $(VENV)/.installed-dev
