# Everything runs in .venv, which make creates and fills by itself; `make` alone lists the targets.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh

VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
STOPS ?=
# Unit tests make thousands of small files. In memory that takes a tenth of all their time less; a small /dev/shm, as in
# containers, is left alone.
SHARED_MEMORY = $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 1048576 { print "/dev/shm" }')
ONLY ?=
# Test files side by side: most wait for timers of servers, so more of them run than there are cores. Each takes about
# 1.5 GB, most of it a Java broker. Tests with Spark run one after the other, they share a session.
JOBS ?= 4
# How many examples properties try: tests/examples.py. FLOORS=yes counts in `make test` how much of each package is run.
EXAMPLES ?= quick
FLOORS ?=
UNIT = -m tests.side_by_side -q --hypothesis-profile $(EXAMPLES) -m "not long"
# There are so many of them that it takes half a minute to collect them.
NOT_UNIT = --ignore tests/unit --ignore tests/property --ignore tests/test_house.py
# Compiled modules are kept, whatever the shell says: every server a test starts would compile all of them again.
export PYTHONDONTWRITEBYTECODE :=
CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11 python
PYTHON ?= $(shell for p in $(CANDIDATES); do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV)/.demo ## a day of work: 336,776 departures through broker, consumer and Spark (ARGS="--rate 5000 --fresh")
	$(BIN)/python -m demo $(ARGS)

.PHONY: pipeline
pipeline: $(VENV)/.examples ## flights through a topic into Delta tables, exactly once, with checked numbers (ARGS="--days 30 --registry URL")
	$(BIN)/python -m examples.pipeline $(ARGS)

.PHONY: unit
unit: $(VENV)/.dev ## what needs no server and no Spark, on all cores, with a tenth of the examples of properties
	TMPDIR=$(or $(SHARED_MEMORY),$(TMPDIR),/tmp) $(BIN)/python $(UNIT) $(ARGS)

.PHONY: floors
floors: $(VENV)/.dev ## the same tests, and how much of each package they run
	$(BIN)/coverage erase
	TMPDIR=$(or $(SHARED_MEMORY),$(TMPDIR),/tmp) $(BIN)/coverage run $(UNIT)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage json --quiet -o .coverage-floors.json
	$(BIN)/python tools/coverage_floors.py .coverage-floors.json

.PHONY: test
test: $(VENV)/.dev ## all tests but the long ones, with a third of the examples of properties (ARGS="tests/unit -k wire" for some of them)
ifneq ($(ARGS),)
	$(BIN)/python -m pytest $(ARGS)
else
	@echo "tests with Spark, which take longest one after the other, run beside the others and are shown after them"; \
	$(BIN)/python -m pytest -m "spark and not long" --durations 15 $(NOT_UNIT) > .spark-tests.log 2>&1 & spark=$$!; \
	trap 'kill $$spark 2>/dev/null' INT TERM; \
	make --no-print-directory $(if $(FLOORS),floors,unit) EXAMPLES=some; unit=$$?; \
	$(BIN)/python -m pytest -m "not spark and not long" --numprocesses $(JOBS) --dist loadfile \
		--no-loadscope-reorder --durations 30 $(NOT_UNIT); others=$$?; \
	wait $$spark; spark=$$?; cat .spark-tests.log; rm -f .spark-tests.log; \
	echo "unit tests, others, tests with Spark ended with status $$unit, $$others, $$spark"; \
	test $$unit -eq 0 -a $$others -eq 0 -a $$spark -eq 0
endif

.PHONY: test-long
test-long: $(VENV)/.dev ## the tests that take minutes each, and all examples of the properties
	$(BIN)/python -m tests.side_by_side -q -m "not long" tests/unit tests/property
	$(BIN)/python -m pytest -m long --durations 0

.PHONY: check
check: static floors ## both, before you open a pull request

.PHONY: static
static: style types accelerator ## style, types, import layers, generated files, the accelerator's own tests

.PHONY: style
style: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/python tools/make_blocking.py --check

.PHONY: types
types: $(VENV)/.dev
	$(BIN)/mypy

.PHONY: accelerator
accelerator: $(VENV)/.dev
	@if command -v cargo >/dev/null; then set -ex; cd native; cargo test --quiet --locked --no-default-features; \
		if cargo clippy --version && cargo fmt --version; then cargo fmt --check; \
		PYO3_PYTHON=$(abspath $(BIN)/python) cargo clippy --quiet --locked --all-targets -- --deny warnings; fi; fi

.PHONY: docs
docs: $(VENV)/.docs ## the documentation into site/; broken links and undocumented public names are errors
	$(BIN)/python -m pytest -q tests/docs/test_public_names.py tests/docs/test_site.py
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env --write-all docs site

.PHONY: bench
bench: $(VENV)/.dev ## the figures against the Java peer (ONLY=send-1 for one row)
	$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY)) $(ARGS)

.PHONY: profile
profile: $(VENV)/.profile ## a flame graph of our broker under the load of a row (ROW=send-256 ARGS="--native --seconds 20")
	$(BIN)/python -m benchmarks.profile $(ROW) $(ARGS)

.PHONY: growth
growth: $(VENV)/.dev ## a steady producer beside many topics, groups and members, ours and Java's (ARGS="--only topics --size 20000 --side ours")
	$(BIN)/python -m benchmarks.growth $(ARGS)

.PHONY: chaos
chaos: $(VENV)/.dev ## failures under load, judged (ARGS="--minutes 10 --scenario broker-killed --seed 7 --java")
	$(BIN)/python -m tests.chaos $(ARGS)

.PHONY: fuzz
fuzz: $(VENV)/.dev ## 200,000 mutated requests to broker, name server and HA port, gRPC calls, PROXY headers (ARGS="--seed 7 --target broker --sockets")
	$(BIN)/python -m tests.fuzz $(ARGS)

.PHONY: simulate
simulate: $(VENV)/.dev ## 10,000 schedules of a simulated cluster, judged (ARGS="--schedules 500 --seed 7 --scenario orderly")
	PYTHONHASHSEED=0 $(BIN)/python -m tests.simulation $(ARGS)

.PHONY: damage
damage: $(VENV)/.dev ## random damages to the files of stopped stores, judged (ARGS="--rounds 1000 --seed 7 --only commitlog")
	$(BIN)/python -m tests.damage $(ARGS)

.PHONY: mutants
mutants: $(VENV)/.dev ## faults at random, and who notices (ARGS="--since main" for lines you changed, "--only store/log --sample 50")
	$(BIN)/python -m tests.mutants $(ARGS)

.PHONY: crashes
crashes: $(VENV)/.dev ## Spark's processes and servers killed (ARGS="--runs 100 --java --seed 7") and stopped (STOPS="--runs 100 --java")
	$(BIN)/python -m tests.spark.crashes $(ARGS)
	$(BIN)/python -m tests.spark.stops $(STOPS)

.PHONY: format
format: $(VENV)/.dev ## sort imports and format
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

.PHONY: clean
clean: ## remove the environment, caches and what demo and bench wrote
	rm -rf $(VENV) native/target .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* dist build site \
		demo-data pipeline-data bench-results spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# -- the environment: one stamp per set of packages, renewed when their list changes

$(VENV)/.venv:
	@if [ -z "$(PYTHON)" ]; then \
		echo "Python 3.11 or newer is needed and none of '$(CANDIDATES)' is; install one or say make PYTHON=/path/to/python" >&2; exit 1; fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than 3.11; say make PYTHON=/path/to/a/newer/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) comes without venv; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.demo: $(VENV)/.venv pyproject.toml constraints.txt
	$(INSTALL) --editable '.[demo]'
	@touch $@

$(VENV)/.examples: $(VENV)/.venv pyproject.toml constraints.txt
	$(INSTALL) --editable '.[examples,fast,rich]'
	@touch $@

NATIVE := native/pyproject.toml native/Cargo.toml native/Cargo.lock $(wildcard native/src/*.rs native/python/*/*.py*)

$(VENV)/.dev: $(VENV)/.venv pyproject.toml constraints.txt $(NATIVE)
	$(INSTALL) --editable . --group dev
	@if command -v cargo >/dev/null; then echo "building the accelerator (native/)" && $(INSTALL) ./native; else \
		echo "no accelerator: it needs Rust (cargo); Python does the same, only slower, and its tests are skipped"; fi
	@touch $@

# Where py-spy has no wheel, cProfile takes its place.
$(VENV)/.profile: $(VENV)/.dev
	-$(INSTALL) --group profile
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(INSTALL) --group docs
	@touch $@
