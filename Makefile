# `make demo` and `make test` do all the set-up on a fresh machine with Python >= 3.11, pip, venv and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Laws of the code, definitions and first errors: what tells within a minute or two whether a change is on its way.
QUICK := tests/laws/test_laws.py tests/laws/test_layers.py tests/laws/test_names.py \
	tests/evidence/test_worked_examples.py tests/evidence/test_attacks_worked.py tests/cli/test_first_errors.py \
	tests/policy/test_policy.py tests/gateway/test_gateway_reading.py tests/gateway/test_gateway_messages.py
# uv installs in a fifth of the time; where it is not to be had, pip does.
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
# The tests start hundreds of processes: without compiled files each of them would spend a second on compiling imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo quick test test-full spark test-long bench lint reference clean

demo: $(VENV)/installed
	$(BIN)/sqlanon demo demo

quick: $(VENV)/installed-test
	$(BIN)/pytest -n auto -m "not long" -k "not postgres" sqlanon $(QUICK)

test: $(VENV)/installed-test
	$(BIN)/ruff check sqlanon tests
	$(BIN)/ruff format --check sqlanon tests
	@$(BIN)/mypy & types=$$!; $(BIN)/pytest -m "not long" -n auto; tests=$$?; wait $$types && exit $$tests

spark: $(VENV)/installed-test  # Spark for the tests, about 450 MB; without it they are skipped
	$(INSTALL) "pyspark[connect]>=4.3,<4.4"

test-full: test  # then what it left out: tests marked `full`, and all examples of the properties
	$(BIN)/pytest --rest -m "not long" -n auto

test-long: $(VENV)/installed-test
	$(BIN)/pytest --full -m long -n auto

bench: $(VENV)/installed-test
	$(BIN)/python tests/bench/checks.py
	$(BIN)/python tests/bench/search.py 1000000 10000000
	$(BIN)/python tests/bench/mondrian.py 1000000 10000000
	$(BIN)/python tests/bench/least_loss.py
	$(BIN)/python tests/bench/gateway.py 100000 10000000
	$(BIN)/python tests/bench/proxy.py
	$(BIN)/python tests/bench/history.py
	$(BIN)/python tests/bench/methods.py
	$(BIN)/python tests/bench/risk.py
	$(BIN)/python tests/bench/anatomy.py
	$(BIN)/python tests/bench/paths.py
	$(BIN)/python tests/bench/dataframes.py
	$(BIN)/python tests/bench/entities.py
	$(BIN)/python tests/bench/protected_tables.py

reference: $(VENV)/installed-test
	$(BIN)/python tests/write_reference.py

lint: $(VENV)/installed-test
	$(BIN)/ruff check sqlanon tests
	$(BIN)/ruff format --check sqlanon tests
	$(BIN)/mypy

$(VENV)/bin/pip:
	$(PYTHON) -c 'import sys; sys.exit("sqlanon needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(BIN)/uv: $(VENV)/bin/pip
	$(PIP) uv || touch $@

$(VENV)/installed: $(BIN)/uv pyproject.toml
	$(INSTALL) -e . 2>/dev/null || $(PIP) -e .
	touch $@

$(VENV)/installed-test: $(BIN)/uv pyproject.toml
	$(INSTALL) -e '.[test,clients]' 2>/dev/null || $(PIP) -e '.[test]'
	$(INSTALL) -e '.[clients]' 2>/dev/null || $(PIP) -e '.[clients]' \
		|| echo "Django, ibis, connectorx, ADBC or pgcli could not be installed: their tests are skipped" >&2
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) demo dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
