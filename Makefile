# `make demo` and `make test` do all the set-up on a fresh machine with Python >= 3.11, pip, venv and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-long bench lint reference clean

demo: $(VENV)/installed
	$(BIN)/sqlanon demo demo

test: $(VENV)/installed-test lint
	$(BIN)/python -m compileall -q sqlanon  # once, for the hundreds of processes that the tests start
	$(BIN)/pytest -m "not long" -n auto

test-long: $(VENV)/installed-test
	$(BIN)/pytest -m long -n auto

bench: $(VENV)/installed-test
	$(BIN)/python tests/bench/checks.py
	$(BIN)/python tests/bench/search.py 1000000 10000000
	$(BIN)/python tests/bench/mondrian.py 1000000 10000000
	$(BIN)/python tests/bench/gateway.py 100000 10000000
	$(BIN)/python tests/bench/proxy.py
	$(BIN)/python tests/bench/history.py
	$(BIN)/python tests/bench/methods.py
	$(BIN)/python tests/bench/risk.py
	$(BIN)/python tests/bench/anatomy.py

reference: $(VENV)/installed-test
	$(BIN)/python tests/write_reference.py

lint: $(VENV)/installed-test
	$(BIN)/ruff check sqlanon tests
	$(BIN)/ruff format --check sqlanon tests
	$(BIN)/mypy

$(VENV)/bin/pip:
	$(PYTHON) -c 'import sys; sys.exit("sqlanon needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/pip pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/installed-test: $(VENV)/bin/pip pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test]'
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[clients]' \
		|| echo "Django, ibis, connectorx, ADBC or pgcli could not be installed: their tests are skipped" >&2
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) demo dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
