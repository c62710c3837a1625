# One verb an action. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help setup assets demo test system affected base nightly coverage long check security bench fuzz mutations simulate cwl chaos soak pages cloud kubernetes hpc shell ga4gh docs screenshots dist deb image install-check vm-check release-check lock clean
BIN := .venv/bin

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nLevels of tests (docs/contributing.md):\n'
	@sed -n '/^| level |/,/^$$/p' docs/contributing.md

setup: ## Prepare this checkout; leaves .venv/bin/lading
	@scripts/setup.sh run

assets: ## Fetch the scripts of the page, pinned; without them it works by reload
	@scripts/assets.sh

demo: ## Run a pipeline on real reads: once, again (all reused), and with one parameter changed
	@scripts/setup.sh demo
	@$(BIN)/python -m examples.phage

# The first run installs programs that drive the server in environments of their own (tests/system/environments.py).
test: ## Run every test of modules, with core covered, and the quick ones with each real engine, fleet, database and client
	@scripts/setup.sh test
	@scripts/test.sh

# BASE: only those that the change since this revision can reach; `.ci/base` is the revision in this file.
system: ## Run the other tests with real processes, engines, fleets and browsers; with BASE=REV those that a change can reach
	@scripts/setup.sh test
	@scripts/test.sh system $(BASE)

affected: ## Print the tests of `make system` that the change since BASE (.ci/base) can reach, and why
	@scripts/setup.sh test
	@$(BIN)/python -m tests.affected --base "$(BASE)"

base: ## Note the revision REV (HEAD) as the one that was tested: `.ci/run` runs what later changes can reach
	@git rev-parse --verify $(or $(REV),HEAD) >.ci/base

nightly: ## Run all steps that take long, or STEPS="fuzz pages"; each with a time limit of its own; a table of times and results
	@scripts/setup.sh kubernetes
	@$(BIN)/python -m tests.nightly $(STEPS)

coverage: ## Run every test of modules under coverage: at least 92 % of everything, branches included
	@scripts/setup.sh test
	@scripts/test.sh coverage

LONG := tests/api/resources/test_lineage.py $(addprefix tests/system/test_,packaging.py snakemake.py soak.py page.py page_journey.py page_site.py page_webhooks.py)
long: ## Run the long tests that belong to no other target; the page in dark colours and on a phone
	@scripts/setup.sh test
	$(BIN)/pytest -q -m long $(LONG)

check: ## Lint, types, layers, purity of core, documentation
	@scripts/setup.sh test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.rules
	$(BIN)/python -m docs.generate --check
	$(BIN)/sphinx-build -q -W -E docs docs/_build

security: ## Attack a running system in every known way, on each engine; bandit, pip-audit; a table
	@scripts/setup.sh test
	@$(BIN)/python -m tests.security

bench: ## Measure latency and throughput against crun and docker in the same run
	@scripts/setup.sh test
	@$(BIN)/python -m bench

fuzz: ## On each database 20,000 generated calls by the OpenAPI document, and 5,000 with spoiled bodies; 10,000 to the HPC daemon, to TES and to WES; read 1,000,000 spoiled manifests
	@scripts/setup.sh test
	@$(BIN)/python -m tests.fuzz

cwl: ## Run every CWL case of tests/cwl with cwltool and with arvados-cwl-runner, and the whole day of tests/system; half an hour
	@scripts/setup.sh test
	$(BIN)/pytest -q -m long tests/cwl tests/system/test_newcomer.py tests/system/test_workflows.py tests/system/test_second_run.py tests/system/test_provenance_cwl.py tests/system/test_workflow_runs.py

MUTATIONS ?= 20
SEED ?= 0
mutations: ## Draw MUTATIONS (20) random mutations of five packages with SEED, run their tests on each; an hour for 60. At least 90 % must be found
	@scripts/setup.sh test
	@$(BIN)/python scripts/mutations.py --count $(MUTATIONS) --seed $(SEED)

SEEDS ?= 10000
simulate: ## Run SEEDS seeds of 500 steps of a simulated installation, find all planted bugs; 4 times 1,000 Slurm jobs, 200 times 100 Pods
	@scripts/setup.sh test
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS)
	@$(BIN)/python -m tests.simulation.slurm_scenario --seeds 4 --jobs 1000
	@$(BIN)/python -m tests.simulation.batch_scenario --jobs 1000
	@$(BIN)/python -m tests.simulation.kubernetes_scenario --seeds 200
	@$(BIN)/python -m tests.simulation.fair_scenario --seeds 200

chaos: ## Kill everything, again and again, under CONTAINERS (2,000) local ones, as many of an ordinary user, 500 through Slurm; an API dead for two minutes
	@scripts/setup.sh test
	$(BIN)/pytest -q -s -m long tests/system/test_bad_luck.py tests/system/test_dag.py
	@$(BIN)/python -m tests.system.chaos --local $(or $(CONTAINERS),2000) --user $(or $(CONTAINERS),2000)

MINUTES ?= 60
soak: ## MINUTES of steady load with random kills: flat memory, nothing left, each request ended once
	@scripts/setup.sh test
	@$(BIN)/python -m tests.system.soak --minutes $(MINUTES)

pages: ## Run every console block of README and docs as it is written, also what takes minutes
	@scripts/setup.sh test
	$(BIN)/pytest -q -m 'long or not long' tests/docs

hpc: ## Kill daemons, sshd, ranks, conductors and supervisors of MPI clusters, and cut their network
	@scripts/setup.sh test
	$(BIN)/pytest -q -m 'long or not long' tests/system/test_hpc.py tests/system/test_hpc_ipv6.py \
		tests/system/test_gang_first_process.py

SESSIONS := $(addprefix tests/system/test_,shell.py services.py forwarding.py live_logs.py many_tunnels.py)
shell: ## Enter containers with OpenSSH on every engine and fleet, directly and through tunnels; services, logs, two servers, 1,000 tunnels
	@scripts/setup.sh test
	$(BIN)/pytest -q -m 'long or not long' -n 2 --dist load $(SESSIONS)

cloud: ## 300 containers over 20 VMs of an EC2 on this machine, the dispatcher killed twice; 6 times 2,000 and once 20,000 in made-up time
	@scripts/setup.sh test
	@$(BIN)/python -m tests.simulation.cloud_scenario --seeds 6 --soak --exits 3000
	@$(BIN)/python -m tests.system.cloud
	$(BIN)/pytest -q -m 'long or not long' tests/system/test_cloud_trial.py tests/system/test_cloud_troubles.py tests/system/test_cloud_spot.py

kubernetes: ## CONTAINERS (500) over a real control plane of Kubernetes, and KUBELET (60) on a node with a real kubelet, both harmed; built at the first run, needs Go
	@scripts/setup.sh kubernetes
	$(BIN)/pytest -q -m 'long or not long' tests/system/test_kubernetes_api.py tests/system/test_kubernetes.py
	@$(BIN)/python -m tests.system.kubernetes --containers $(or $(CONTAINERS),500) --kubelet $(or $(KUBELET),60)

ga4gh: ## Run the programs of others against TES and WES: py-tes, pydantic-tes, Snakemake on S3, Toil, CWL workflows
	@scripts/setup.sh test
	$(BIN)/pytest -q -m 'long or not long' tests/system/test_tes.py tests/system/test_tes_contract.py tests/system/test_tes_clients.py tests/system/test_tes_toil.py tests/system/test_wes.py

screenshots: ## Draw every page with the data of the demonstration and of 1,000 requests into build/screenshots; those of README too
	@scripts/setup.sh test
	@$(BIN)/python -m tests.system.screenshots --readme

docs: ## Write the generated pages and build docs/_build
	@scripts/setup.sh test
	$(BIN)/python -m docs.generate
	$(BIN)/sphinx-build -q -W -E docs docs/_build

dist: ## Build the wheel and the sdist into dist, the same bytes for the same commit
	@scripts/setup.sh run
	@scripts/build.sh

deb: ## Build the Debian package into dist
	@scripts/setup.sh run
	@scripts/deb.sh

image: ## Build the OCI image of the server into dist, without a container engine
	@scripts/setup.sh run
	@scripts/image.sh

install-check: deb ## Install Lading in every way, each in a clean Debian root, to a first result; a table
	@$(BIN)/python scripts/clean_root.py

vm-check: dist ## Boot a clean Debian root with systemd in a virtual machine: containers of an ordinary user, limits by the kernel
	@$(BIN)/python scripts/vm_root.py

release-check: ## Check what a release needs: version, changelog, tag, same bytes twice, SBOM, licences, a clean root
	@scripts/setup.sh run
	@$(BIN)/python scripts/release_check.py

lock: ## Pin the dependencies anew
	@scripts/lock.sh

clean: ## Remove what the other actions left in this checkout
	find src tests bench docs examples plugins scripts -name __pycache__ -prune -exec rm -rf {} +
	rm -rf .venv docs/_build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* htmlcov build
