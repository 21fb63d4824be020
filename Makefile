# `make demo` and `make test` need Python 3.11+, make and a package index; the rest they set up themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Hundreds of processes are started here, Spark's workers among them: each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test classes check format bench docs simulate soak guarantees clean lock java setup

help:
	@echo "make demo    see typed messages go through contract, broker and endpoint, surviving a kill"
	@echo "make test    run all tests; servers are installed and started by the tests themselves"
	@echo "make check   lint, types, layers"
	@echo "make bench   run the benchmarks beside their peers"
	@echo "make soak    200,000 messages through each broker, with processes and servers killed"
	@echo "make simulate  make up faults from seeds; WORLD=delivery SEED=42 replays one, SEEDS=100000 runs many"
	@echo "make guarantees  disturb each broker, check what became of the messages, write docs/guarantees.md"
	@echo "make docs    build the documentation"
	@echo "make clean   remove everything that was made"

$(STAMP): requirements.lock pyproject.toml hatch_build.py $(wildcard src/dragoman/formats/avro/native/*.p[yx][xi])
	@sh scripts/setup $(PYTHON) $(VENV)
	@touch $(STAMP)

setup: $(STAMP)

java:
	@sh scripts/java

demo: setup java
	@$(BIN)/dragoman demo

test: setup java
	@$(MAKE) --no-print-directory -j2 check classes
	@sh scripts/test

classes: setup java
	@$(BIN)/python -m tests.classes

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo > .lint-imports.log 2>&1 || { cat .lint-imports.log; exit 1; }

format: setup
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: setup java
	@for script in benchmarks/bench_*.py; do echo "== $$script"; PYTHONPATH=. $(BIN)/python $$script || exit 1; done

soak: setup java
	@$(BIN)/python -m tests.soak

WORLD ?=
SEEDS ?= 1000

simulate: setup
	@$(BIN)/python -m dragoman.testing.simulation $(WORLD) $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

guarantees: setup java
	@$(BIN)/python -m tests.soak --run all --page docs/guarantees.md

docs: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lock: setup
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --all-extras --group dev pyproject.toml -o requirements.lock

clean:
	rm -rf src/dragoman/formats/avro/native/*.so $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .dragoman build dist site .lint-imports.log .coverage
