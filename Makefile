# One verb an action. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench fuzz docs lock clean
BIN := .venv/bin

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Prepare this checkout; leaves .venv/bin/lading
	@scripts/setup.sh run

demo: setup ## Run a pipeline on real reads: once, again (all reused), and with one parameter changed
	@$(BIN)/python -m examples.phage

# The first run installs the Arvados Python client, pinned in requirements/client.txt, into an environment of its own.
test: ## Run every test, with real engines
	@scripts/setup.sh test
	@scripts/test.sh

check: ## Lint, types, layers, purity of core, documentation
	@scripts/setup.sh test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/rules
	$(BIN)/python -m docs.generate --check
	$(BIN)/sphinx-build -q -W -E docs docs/_build

bench: ## Measure latency and throughput against crun and docker in the same run
	@scripts/setup.sh test
	@$(BIN)/python -m bench

fuzz: ## Make 20,000 generated calls by the OpenAPI document, and 5,000 with spoiled bodies
	@scripts/setup.sh test
	@$(BIN)/python -m tests.fuzz

docs: ## Write the generated pages and build docs/_build
	@scripts/setup.sh test
	$(BIN)/python -m docs.generate
	$(BIN)/sphinx-build -q -W -E docs docs/_build

lock: ## Pin the dependencies anew
	@scripts/lock.sh

clean: ## Remove what the other actions left in this checkout
	rm -rf .venv docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* htmlcov build
