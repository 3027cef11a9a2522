"""Settings of a session, as PostgreSQL keeps them."""

from __future__ import annotations

import pytest

from sqlanon.errors import Refused
from sqlanon.pgcatalog.session_settings import Settings


def settings(**started: str) -> Settings:
    made = Settings("ann", lambda role: role == "bob")
    for name, value in started.items():
        made.put(name, value)
    made.starting = dict(made.values)
    return made


def test_what_was_set_at_the_start_is_what_reset_goes_back_to() -> None:
    here = settings(application_name="psql")
    here.put("application_name", "other")
    assert here.get("Application_Name") == "other"
    here.put("application_name", None)
    assert here.get("application_name") == "psql"
    here.put("application_name", "third")
    here.reset()
    assert here.get("application_name") == "psql"


def test_a_transaction_takes_back_what_it_set() -> None:
    here = settings()
    here.begin()
    here.put("application_name", "inside")
    here.rollback()
    assert here.get("application_name") == ""
    here.begin()
    here.put("application_name", "kept")
    here.put("sqlanon.epsilon", "0.5", local=True)
    assert here.get("sqlanon.epsilon") == "0.5"
    here.commit()
    assert here.get("application_name") == "kept"
    assert here.get("sqlanon.epsilon") == ""


def test_local_outside_of_a_transaction_changes_nothing() -> None:
    here = settings()
    here.put("sqlanon.epsilon", "0.5", local=True)
    assert here.get("sqlanon.epsilon") == ""


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("client_encoding", "utf-8", "UTF8"),
        ("client_encoding", "UNICODE", "UTF8"),
        ("DateStyle", "ISO", "ISO, MDY"),
        ("datestyle", "iso, dmy", "ISO, DMY"),
        ("statement_timeout", "2s", "2000"),
        ("statement_timeout", "0", "0"),
        ("sqlanon.dry_run", "TRUE", "on"),
        ("TimeZone", "Europe/Athens", "UTC"),
        ("client_encoding", "'utf-8'", "UTF8"),
        ("sqlanon.simulate", "bob", "bob"),
        ("sqlanon.simulate", "", ""),
    ],
)
def test_values_that_are_taken(name: str, value: str, kept: str) -> None:
    here = settings()
    here.put(name, value)
    assert here.get(name) == kept


@pytest.mark.parametrize(
    ("name", "value", "sqlstate"),
    [
        ("client_encoding", "LATIN1", "22023"),
        ("DateStyle", "German", "22023"),
        ("TimeZone", "Nowhere/Land", "22023"),
        ("transaction_isolation", "chaos", "22023"),
        ("bytea_output", "escape", "22023"),
        ("standard_conforming_strings", "off", "22023"),
        ("sqlanon.epsilon", "-1", "22023"),
        ("sqlanon.epsilon", "0", "22023"),
        ("sqlanon.epsilon", "nan", "22023"),
        ("sqlanon.epsilon", "1e9", "22023"),
        ("sqlanon.error", "0", "22023"),
        ("sqlanon.error", "2%", "22023"),
        ("sqlanon.error", "much", "22023"),
        ("sqlanon.dry_run", "maybe", "22023"),
        ("statement_timeout", "soon", "22023"),
        ("application_name", "x" * 1001, "22023"),
        ("application_name", "a\nb", "22023"),
        ("server_version", "16", "55P02"),
        ("is_superuser", "on", "55P02"),
        ("session_authorization", "bob", "55P02"),
        ("memory_limit", "1TB", "42704"),
        ("enable_external_access", "true", "42704"),
        ("sqlanon.simulate", "postgres", "42501"),
    ],
)
def test_values_that_are_refused(name: str, value: str, sqlstate: str) -> None:
    here = settings()
    with pytest.raises(Refused) as error:
        here.put(name, value)
    assert error.value.sqlstate == sqlstate
    assert value not in error.value.message or len(value) < 3


def test_all_settings_can_be_shown() -> None:
    here = settings()
    shown = dict(here.all())
    assert shown["server_version"].startswith("15.0 (sqlanon ")
    assert shown["session_authorization"] == "ann"
    assert set(here.reported()) <= set(shown)
