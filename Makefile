# Everything from a fresh clone: `make demo` and `make test` set up what they need.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null && $$p -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null \
	&& command -v $$p && break; done)

# Some images forbid Python to keep what it has compiled: then each of some thousand processes of the tests compiles the
# suite again, and each worker of pytest all tests (28 s of processor time instead of 7).
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo fis-demo unit test test-full test-docker test-kubernetes smoke chaos staging staging-down staging-kubernetes staging-kubernetes-down setup doctor lint lock clean host-deb

help:
	@echo "make demo       start a real three-zone cluster, slow one zone's network, judge, write a report (needs root)"
	@echo "make fis-demo   the same by a stand-in for AWS FIS: three experiments on a lab that passes for instances of EC2 (root)"
	@echo "make unit       the unit tests alone: no program of ours is started (some 4 minutes on 2 cores)"
	@echo "make test       unit and cluster tests (needs root for the cluster tests; at most 20 minutes on 2 cores)"
	@echo "make test-full  everything, experiments included"
	@echo "make test-docker  the tests of docker labs; installs and starts an engine where there is none (Debian, root)"
	@echo "make test-kubernetes  the tests of a Kubernetes box (root; hours); KUBERNETES_TESTS=sample: a few of them, some 10 minutes"
	@echo "make smoke      the short experiments: pytest -m 'chaos and smoke'"
	@echo "make staging    a staging cluster in a box, to try things on as if it were yours (root, haproxy, sshd, sudo, nft); make staging-down"
	@echo "make staging-kubernetes  a Kubernetes cluster in a box, with OpenSearch on it (root; docs/kubernetes.md); make staging-kubernetes-down"
	@echo "make host-deb   the package for hosts of clusters that others own (docs/hosts.md; needs dpkg-deb)"
	@echo "make doctor     what this machine has and lacks"

setup: $(READY)

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, for example: apt-get install python3 python3-venv"; exit 2; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV) \
		|| { rm -rf $(VENV); echo "python3 -m venv does not work here; on Debian: apt-get install python3-venv"; exit 2; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY)
	@$(BIN)/opensearch-chaos run experiments/zone-network-slowdown.yaml || case $$? in \
		1) echo "the demo is done; its verdict is a weakness: open the report";; \
		3) echo "the demo is done; its verdict is inconclusive: open the report";; \
		*) exit 1;; esac

# a lab, moto and the local endpoint of FIS, and three experiments by it (docs/fis.md)
fis-demo: $(READY)
	@$(BIN)/python -m chaos.commands.fis_demo

# The tests of the host program (tests/programs/test_host_*.py) are skipped, with the reason, where there is no root or
# no nftables, iproute2 or sudo: apt-get install --no-install-recommends nftables iproute2 sudo
# What needs no cluster is shared out among WORKERS, two for each of 2 cores, since many tests wait: those of
# tests/programs use a third of one while they run. A cluster has the machine for itself: three nodes take 24 s of
# processor time to start, and beside other tests verdicts that rest on time would be inconclusive. Both parts are run
# whatever the first says. JUNIT=FOLDER writes unit.xml and cluster.xml there.
WORKERS ?= 4
UNIT := tests/unit tests/negative tests/programs tests/browser
junit = $(if $(JUNIT),--junitxml=$(JUNIT)/$(1).xml -o junit_family=xunit2)
pytest-parts = status=0; \
	$(BIN)/python -m pytest $(UNIT) -m $(1) -n $(WORKERS) --dist worksteal $(call junit,unit) $(PYTEST_ARGS) || status=1; \
	$(BIN)/python -m pytest $(UNIT:%=--ignore=%) -m $(1) $(call junit,cluster) $(PYTEST_ARGS) || status=1; \
	$(2) \
	exit $$status
# What make test says last, whatever came before it.
left-out = echo "left out: the tests of the Kubernetes box, because they take hours (and root, and 9 GiB of memory)." \
	"All of them: make test-kubernetes. A few of them: make test-kubernetes KUBERNETES_TESTS=sample";

# what needs neither a cluster nor one of our own programs
unit: $(READY)
	$(BIN)/python -m pytest tests/unit -m "not full" -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test: $(READY)
	@$(call pytest-parts,"not full and not docker",$(left-out))

test-full: export HYPOTHESIS_ALL := 1
test-full: $(READY)
	$(call pytest-parts,"")
	$(BIN)/python -m pytest -m chaos $(PYTEST_ARGS)

# installs and starts an engine where there is none (root on Debian); fails where none can be had
DOCKER_TESTS ?= docker
test-docker: $(READY)
	$(BIN)/python tests/docker/engine.py $(BIN)/python -m pytest -m "$(DOCKER_TESTS)" tests/docker $(PYTEST_ARGS)

# root, and what docs/kubernetes.md says that a box needs; each module brings its box up and takes it away
KUBERNETES_TESTS ?= kubernetes
test-kubernetes: $(READY)
	$(BIN)/python -m pytest -m "$(KUBERNETES_TESTS)" tests/cluster/test_*kube*.py $(PYTEST_ARGS)

smoke: $(READY)
	$(BIN)/python -m pytest -m "chaos and smoke" -v $(PYTEST_ARGS)

chaos: $(READY)
	$(BIN)/python -m pytest -m chaos -v $(PYTEST_ARGS)

# BOX names it, so that there can be several; ARGS for its options (python tests/box up --help)
BOX ?= staging
staging: $(READY)
	@$(BIN)/python tests/box --name $(BOX) up $(ARGS)

staging-down: $(READY)
	@$(BIN)/python tests/box --name $(BOX) down

# ARGS for its options (python tests/kubebox up --help); the first time it builds Kubernetes, some six minutes
staging-kubernetes: $(READY)
	@$(BIN)/python tests/kubebox --name $(BOX) up $(ARGS)

staging-kubernetes-down: $(READY)
	@$(BIN)/python tests/kubebox --name $(BOX) down

doctor: $(READY)
	$(BIN)/opensearch-chaos doctor

lint: $(READY)
	$(BIN)/ruff check chaos tests benchmarks
	$(BIN)/ruff format --check chaos tests benchmarks
	$(BIN)/mypy chaos
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tests/circles.py

# the same bytes each time; build/oschaos-host_VERSION_all.deb
host-deb: $(READY)
	@$(BIN)/python -m chaos.hosts.deb build

# needs uv (pip install uv); hashes, no index addresses
lock:
	uv pip compile pyproject.toml --extra dev --extra docker --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --upgrade -o requirements.lock

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
