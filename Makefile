# Every tool of the project runs through one of these targets; .ci/run calls the same ones.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: help env demo test lint format bench docs picture lock test-versions clean

help:            ## show this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

env: $(VENV)/.done   ## make the development environment

$(VENV)/.done: requirements/dev.txt requirements/uv.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

demo: env        ## run the example application, instrumented, and show its report
	$(BIN)/python examples/demo.py

test: lint       ## lint, then all tests
	$(BIN)/python -m pytest -n auto

lint: env        ## ruff (checks and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: env      ## let ruff mend what it can
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

test-versions: env   ## the suite on the lowest and highest supported libraries, on every Python at hand (PYTHONS=3.10,3.13: on these)
	$(BIN)/python tests/versions.py $(if $(PYTHONS),--pythons $(PYTHONS))

bench: env       ## bare against instrumented against the least possible work
	$(BIN)/python -m bench

docs: env        ## write what is generated from the code: docs/emitted.md, docs/configuration.md
	$(BIN)/python docs/generate.py

picture: env     ## make docs/images/report.png from the demo's report (needs Chromium)
	$(BIN)/python docs/picture.py

lock: env        ## renew the pinned environments: development, and the lowest supported libraries
	$(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.10 --generate-hashes --no-header \
	    --extra all --extra presidio --extra instruments-any --group dev --group validators --group agents pyproject.toml -o requirements/dev.txt
	$(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.10 --generate-hashes --no-header --no-annotate \
	    --constraint requirements/lowest.in --extra all --extra presidio --extra instruments-any --group dev \
	    --group validators --group agents pyproject.toml -o requirements/lowest.txt
	echo uv | $(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.10 --generate-hashes --no-header \
	    - -o requirements/uv.txt

clean:           ## remove what the targets made
	rm -rf $(VENV) .venv-* .guardspan build dist .mypy_cache .pytest_cache .ruff_cache report.html
