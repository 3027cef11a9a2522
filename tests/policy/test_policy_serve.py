"""The section 'serve': what it takes, what it fills in, and what it refuses, all at once and with lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_policy import SMALL
from test_policy_gateway import is_answered

from sqlanon import plan, policy
from sqlanon.errors import PolicyError
from sqlanon.policy import files, gateway
from sqlanon.policy.serve import Http, Serve, ServeLimits, Timeouts, Tls

MINIMAL = gateway.MINIMAL + "\n"
FULL = """\
serve:
  host: 0.0.0.0
  port: 5433
  database: 2024
  users: people.users
  audit: logs/audit.jsonl
  tls: {certificate: server.crt, key: server.key}
  workers: 4
  memory: 1GB
  limits: {connections: 10, unauthenticated: 5, message: 1 mb, result: 1048576}
  timeouts: {authentication: 5, idle: 60, statement: 2.5}
  http: {port: 8443, local_metrics: true}
  console: true
  policies: kept
  dry_run: [analyst]
  administrators: [analyst]
"""


def message_of(section: str, before: str = MINIMAL) -> str:
    with pytest.raises(PolicyError) as caught:
        files.parse_serve(before + section)
    return str(caught.value)


def test_a_section_is_read_in_full() -> None:
    read = files.parse_serve(MINIMAL + FULL, "clinic.yml", Path("here"))
    wanted = Serve(
        host="0.0.0.0",
        port=5433,
        database="2024",
        users="people.users",
        audit="logs/audit.jsonl",
        tls=Tls(certificate="server.crt", key="server.key"),
        workers=4,
        memory=2**30,
        limits=ServeLimits(connections=10, unauthenticated=5, message=2**20, result=2**20),
        timeouts=Timeouts(authentication=5, idle=60, statement=2.5),
        http=Http(port=8443, local_metrics=True),
        policies="kept",
        dry_run=("analyst",),
        administrators=("analyst",),
        console=True,
    )
    assert read.model_dump() == wanted.model_dump()
    assert read.gateway == files.parse_gateway(MINIMAL)
    assert (read.database_name, read.statement_timeout) == ("2024", 2.5)
    assert (read.located_users, read.located_audit) == (Path("here/people.users"), Path("here/logs/audit.jsonl"))
    assert read.located_tls == (Path("here/server.crt"), Path("here/server.key"))
    assert (read.is_dry("analyst"), read.is_dry("other")) == (True, False)
    assert read.line_of("tls", "key") == 8


@pytest.mark.parametrize("section", ["", "serve: {}\n", "serve: {http: off}\n"])
def test_what_is_left_out_has_a_default(section: str, tmp_path: Path) -> None:
    file = tmp_path / "clinic.yml"
    file.write_text(MINIMAL + section, encoding="utf-8")
    read = files.load_serve(file)
    assert (read.host, read.port, read.database_name, read.workers, read.memory) == (
        "127.0.0.1",
        6543,
        "clinic",
        3,
        2**31,
    )
    assert (read.located_users, read.located_audit) == (tmp_path / "clinic.users", tmp_path / "clinic.audit.jsonl")
    assert (read.http, read.tls, read.located_tls, read.dry_run) == (None, None, None, False)
    assert read.limits.model_dump() == {
        "connections": 100, "unauthenticated": 20, "statements": 16, "wrong_passwords": 10,
        "message": 16 * 2**20, "result": 256 * 2**20,
    }  # fmt: skip
    assert (read.timeouts.authentication, read.timeouts.idle, read.statement_timeout) == (10, 3600, 30)
    assert read.gateway.located_ledger == str(tmp_path / "clinic.ledger")


def test_the_console_is_part_of_the_http_door() -> None:
    assert "there is none" in message_of("serve: {console: true}\n")
    assert "there is none" in message_of("serve: {console: true, http: off}\n")
    assert files.parse_serve(MINIMAL + "serve: {console: true, http: {port: 8080}}\n").console


def test_all_that_is_wrong_is_told_at_once() -> None:
    said = message_of(
        """\
serve:
  host: 0.0.0.0
  prot: 5432
  port: 70000
  users: policy.ledger
  audit: ./warehouse.duckdb
  workers: 0
  memory: 2 GiB
  limits: {message: 1kB, connections: true}
  timeouts: {idle: 0, statement: soon}
  http: {port: 0, host: a}
  dry_run: [analist, 5]
"""
    )
    assert said == (
        "policy.yml:3: the host '0.0.0.0' can be reached from elsewhere, and needs tls\n"
        "  hint: add 'tls: {certificate: server.crt, key: server.key}', or use 127.0.0.1\n"
        "policy.yml:4: unknown key 'prot'\n"
        "  hint: did you mean 'port'?\n"
        "policy.yml:5: 'port' must be a port from 0 to 65535, not 70000\n"
        "  hint: port that clients connect to; 0 takes a free one\n"
        "policy.yml:6: the file of users cannot be the ledger\n"
        "  hint: give it a file of its own\n"
        "policy.yml:7: the audit log cannot be the database\n"
        "  hint: give it a file of its own\n"
        "policy.yml:8: 'workers' must be an integer from 1 to 256, not 0\n"
        "  hint: processes that answer statements\n"
        "policy.yml:9: 'memory' must be a size such as 16MB, not '2 GiB'\n"
        "  hint: the units are B, kB, MB and GB\n"
        "policy.yml:10: 'connections' must be an integer from 1 to 10000, not true\n"
        "  hint: most clients at a time\n"
        "policy.yml:10: 'message' must be a size from 64kB to 512MB\n"
        "  hint: the units are B, kB, MB and GB\n"
        "policy.yml:11: 'idle' must be a number of seconds greater than 0, at most 2592000 (30 days), not 0\n"
        "  hint: seconds that a client may be idle\n"
        "policy.yml:11: 'statement' must be a number of seconds greater than 0, at most 2592000 (30 days), not text\n"
        "  hint: seconds that a statement may run; the timeout of the gateway if left out\n"
        "policy.yml:12: unknown key 'host'\n"
        "  hint: the keys here are port, local_metrics\n"
        "policy.yml:13: the gateway has no principal 'analist'\n"
        "  hint: did you mean 'analyst'?\n"
        "policy.yml:13: the gateway has no principal '5'\n"
        "  hint: there are analyst\n"
        "14 problems in policy.yml"
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("serve:\n", "policy.yml:2: 'serve' has no value"),
        ("serve: []\n", "policy.yml:2: 'serve' must be a mapping, not a list"),
        ("serve: {tls: {key: a}}\n", "policy.yml:2: 'tls': 'certificate' is missing"),
        ("serve: {tls: yes}\n", "'tls' must be a mapping such as {certificate: server.crt, key: server.key}, not text"),
        ("serve: {host: 'a b'}\n", "policy.yml:2: 'host' cannot be 'a b'"),
        ("serve: {host: '*'}\n", "0.0.0.0 stands for all addresses"),
        ("serve: {http: {port: 6543}}\n", "policy.yml:2: both doors have the port 6543"),
        ("serve: {http: on}\n", "'http' must be 'off', or a mapping such as {port: 8080}, not text"),
        ("serve: {dry_run: sometimes}\n", "'dry_run' must be true, false, or a list of principals, not text"),
        ("serve: {users: a, audit: ./a}\n", "policy.yml:2: the audit log cannot be the file of users"),
        ("serve: {users: policy.yml}\n", "policy.yml:2: the file of users cannot be the policy"),
        ("serve: {audit: 'https://a'}\n", "policy.yml:2: 'audit' is a file, not a URL"),
        ("serve: {memory: 1MB}\n", "'memory' must be a size from 256MB to 1024GB"),
    ],
)
def test_what_is_refused(section: str, said: str) -> None:
    assert said in message_of(section)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "db.example.org", "::ffff:127.0.0.1", "LOCALHOST.evil"])
def test_off_loopback_needs_tls(host: str) -> None:
    assert "needs tls" in message_of(f"serve: {{host: '{host}'}}\n")
    tls = "tls: {certificate: a, key: b}"
    assert files.parse_serve(MINIMAL + f"serve: {{host: '{host}', {tls}}}\n").tls == Tls(certificate="a", key="b")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1", "LocalHost"])
def test_loopback_does_not(host: str) -> None:
    assert files.parse_serve(MINIMAL + f"serve: {{host: '{host}'}}\n").host == host


def test_a_file_with_serve_needs_a_gateway() -> None:
    assert "the file has no section 'gateway'" in message_of("serve: {}\n", "")
    with pytest.raises(PolicyError, match="a section 'serve' but no 'gateway'"):
        policy.parse(SMALL + "serve: {}\n")


def test_a_policy_to_publish_may_hold_both_and_does_not_depend_on_them() -> None:
    whole = policy.parse(SMALL + MINIMAL + FULL)
    assert isinstance(whole, files.PolicyFile)
    assert whole.serve == files.parse_serve(SMALL + MINIMAL + FULL)
    assert plan.policy_hash(whole) == plan.policy_hash(policy.parse(SMALL))


def test_answers_do_not_depend_on_how_they_are_served() -> None:
    assert files.parse_gateway(MINIMAL + FULL).fingerprint == files.parse_gateway(MINIMAL).fingerprint


def test_the_json_schema_covers_the_section() -> None:
    found = policy.json_schema()["$defs"]
    assert set(found["Serve"]["properties"]) == set(yaml.safe_load(FULL)["serve"])
    for part in ("Serve", "ServeLimits", "Timeouts", "Tls"):
        assert all(each.get("description") for each in found[part]["properties"].values()), part
    assert found["Http"]["anyOf"][0] == {"const": "off"}


WORDS = st.sampled_from(["host", "port", "tls", "certificate", "key", "::1", "0.0.0.0", "off", "analyst", "16MB"])
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=examples(200))
@given(st.dictionaries(st.sampled_from([*Serve.model_fields, "pots"]), DATA, max_size=4))
def test_any_section_is_answered(data: dict[str, Any]) -> None:
    is_answered(yaml.safe_dump(yaml.safe_load(MINIMAL) | {"serve": data}, allow_unicode=True))
