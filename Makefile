# Everything needs only python3 (3.11 or newer, with venv), make and a package index: the first target
# that needs it makes .venv from requirements.lock. `make help` lists the targets.

PYTHON ?= python3
RUN := .venv/bin/python -m
# Tests run in as many processes as there are cores, up to four: each one loads the compiled kernels.
PYTEST_ARGS ?= --numprocesses=auto --maxprocesses=4 --dist=loadgroup
SNAKEMAKE_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help environment figures published quick report test test-full bench lint format lock clean-env

help:  ## list the targets
	@awk -F ':.*##' '/^[a-z-]+:.*##/ {printf "  make %-12s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

environment:  ## make .venv from the lock, where missing or outdated
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) not found; name a Python 3.11 or newer: make PYTHON=..."; exit 1; }
	@$(PYTHON) scripts/environment.py

figures: environment  ## every figure and table at the paper's scale, into figures/ and results/
	$(RUN) snakemake all $(SNAKEMAKE_ARGS)

published: environment  ## compare with published result files, row by row
	$(RUN) snakemake published $(SNAKEMAKE_ARGS)

quick: environment  ## the whole pipeline, small, in about a minute, into work/test/
	@mkdir -p work/test
	$(RUN) snakemake all --configfile config/test.yaml --directory work/test $(SNAKEMAKE_ARGS)

report: figures  ## figures, tables and claims as one HTML file, report.html
	$(RUN) snakemake report --report report.html

test: environment  ## the tests
	$(RUN) pytest $(PYTEST_ARGS)

test-full: environment  ## the tests with the slow ones
	$(RUN) pytest -m "full or not full" $(PYTEST_ARGS)

bench: environment  ## measure the kernels' speed
	$(RUN) benchmarks

lint: environment  ## style, types and the pipeline's own checks
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy
	$(RUN) snakefmt --check Snakefile rules
	$(RUN) snakemake --lint

format: environment  ## put the sources into the common style
	$(RUN) ruff check --fix
	$(RUN) ruff format
	$(RUN) snakefmt Snakefile rules

lock: environment  ## resolve requirements.lock anew
	$(RUN) uv pip compile pyproject.toml --extra dev --universal --generate-hashes --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --no-header --upgrade --output-file requirements.lock

clean-env:  ## remove .venv; results and figures stay
	rm -rf .venv
