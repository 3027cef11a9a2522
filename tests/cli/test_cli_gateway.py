"""The commands of the gateway: what they print, what they refuse, and what they leave in the ledger."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
from clinic import POLICY, TWO, ask, make, run

import sqlanon.gateway
from sqlanon.cli import main
from sqlanon.gateway import Gate, open_gateway
from sqlanon.gateway.price.noise import Mechanisms
from sqlanon.ledger import Ledger
from sqlanon.mechanisms import KeySelection, Mechanism, laplace, select_keys
from sqlanon.policy.files import parse_gateway


def exact_laplace(sensitivity: int, epsilon: float) -> Mechanism:
    real = laplace(sensitivity, epsilon)
    return Mechanism(lambda values: [int(value) for value in values], real.cost, real.scale)


def exact_keys(groups: int, minimum: int, epsilon: float, delta: float) -> KeySelection:
    real = select_keys(groups, minimum, epsilon, delta)
    return KeySelection(lambda persons: list(persons), real.cost, real.scale, real.threshold, real.minimum)


EXACT = Mechanisms(laplace=exact_laplace, select_keys=exact_keys)


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data, a policy and a new ledger, as the working directory."""
    monkeypatch.chdir(tmp_path)
    make(tmp_path)
    return tmp_path


@pytest.fixture
def exact(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The commands with a gate that adds no noise: there is no option for that, and no variable."""
    opened = sqlanon.gateway.open_gateway

    def without_noise(policy: Any) -> Gate:
        gate = opened(policy)
        gate.mechanisms = EXACT
        return gate

    monkeypatch.setattr(sqlanon.gateway, "open_gateway", without_noise)
    yield


def test_answer_as_a_table(exact: None) -> None:
    result = ask('SELECT "Straße ""日本""", count(*) AS n, avg(born) FROM patients GROUP BY 1')
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        ' Straße "日本" |    n    |     avg\n'
        "---------------+---------+--------------\n"
        " B             | 300 ± 6 | 1970.0 ± 1.6\n"
        " Ä             | 100 ± 6 | 1968.0 ± 5.9\n"
        "(2 rows)\n"
    )
    assert result.stderr.startswith("spent epsilon 1; analyst has epsilon 2 and delta 0.0001 left, renewed on ")
    again = ask('SELECT "Straße ""日本""", count(*) AS n, avg(born) FROM patients GROUP BY 1', "--no-intervals")
    assert "±" not in again.stdout
    assert again.stderr.startswith("answered before, so it cost nothing; analyst has epsilon 2 and delta")


def test_csv_and_json_hold_the_error_bars(exact: None) -> None:
    written = ask("SELECT ward, count(*) AS n FROM patients GROUP BY ward", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(written.stdout)))
    assert [row["ward"] for row in rows] == ["w0", "w1", "w2"]
    assert [int(row["n"]) for row in rows] == [134, 133, 133]
    assert all(float(row["n_low"]) < int(row["n"]) < float(row["n_high"]) for row in rows)
    document = json.loads(ask("SELECT count(*) AS n, 1 AS n_low FROM visits", "--format", "json").stdout)
    assert document["columns"] == ["n", "n_low", "n_low_1", "n_high"]
    assert document["rows"][0]["n"] == 800 and document["rows"][0]["n_low"] == 1
    assert document["cost"]["epsilon"] == pytest.approx(1) and document["left"]["epsilon"] == pytest.approx(1)
    assert not document["cached"] and not document["synthetic"]
    plain = json.loads(ask("SELECT count(*) AS n FROM visits", "--format", "json", "--no-intervals").stdout)
    assert plain["columns"] == ["n"] and plain["cached"]


def test_public_tables_cost_nothing(clinic: Path) -> None:
    result = ask("SELECT * FROM wards ORDER BY beds DESC LIMIT 1")
    assert result.stdout == " ward | beds\n------+------\n w2   |   20\n(1 row)\n"
    assert result.stderr == "no persons in it: answered as it is, at no cost\n"
    assert ask("SELECT ward FROM wards WHERE beds < 0").stdout.endswith("(0 rows)\n")


def test_no_noise_cannot_be_asked_for(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQLANON_SEED", "SQLANON_EXACT", "SQLANON_TEST"):
        monkeypatch.setenv(name, "1")
    query = main.get_command(click.Context(main), "query")
    assert query is not None
    assert {option for param in query.params for option in param.opts if option.startswith("--")} == {
        "--file", "--as", "--epsilon", "--error", "--dialect", "--param", "--format", "--no-intervals", "--explain",
        "--verbose", "--choose", "--dry-run",
    }  # fmt: skip
    counts = set()
    for number in range(3):
        answer = ask(f"SELECT count(*) FROM visits WHERE cost > -{number + 1}", "--epsilon", "0.05", "--format", "csv")
        counts.add(answer.stdout.splitlines()[1].split(",")[0])
    assert len(counts) > 1  # three times the same rows


@pytest.mark.parametrize(
    ("sql", "lines"),
    [
        (
            "SELECT count(*)\nFROM visits\nWHERE  cots > 3",
            ['ERROR:  column "cots" does not exist', "LINE 3: WHERE  cots > 3", "               ^",
             "HINT:  did you mean 'cost'?", "SQLSTATE:  42703"],
        ),
        (
            "SELECT '日本\t', count(*) FROM vists",
            ['ERROR:  relation "vists" does not exist', "LINE 1: SELECT '日本 ', count(*) FROM vists",
             "                                      ^", "HINT:  did you mean 'visits'?", "SQLSTATE:  42P01"],
        ),
        (
            "SELECT * FROM visits",
            ["ERROR:  rows of persons are not shown", "HINT:  ask for aggregates: COUNT, SUM, AVG, …, with a GROUP BY "
             "that does not hold the privacy unit", "SQLSTATE:  42501"],
        ),
        (
            "SELECT * FROM visits ORDER BY cost LIMIT 5",
            ["ERROR:  rows of persons are not shown", "HINT:  ask for aggregates: COUNT, SUM, AVG, …, with a GROUP BY "
             "that does not hold the privacy unit", "SQLSTATE:  42501"],
        ),
        (
            "SELECT count(*) FROM (SELECT * FROM visits LIMIT 5) t",
            ["ERROR:  LIMIT below the aggregate is not answered",
             "LINE 1: SELECT count(*) FROM (SELECT * FROM visits LIMIT 5) t",
             "                                                         ^",
             "HINT:  order and limit the answer itself", "SQLSTATE:  0A000"],
        ),
        ("DROP TABLE visits", ["ERROR:  DROP is not answered", "HINT:  only SELECT is", "SQLSTATE:  0A000"]),
    ],
)  # fmt: skip
def test_refusals_look_like_postgresql(clinic: Path, sql: str, lines: list[str]) -> None:
    result = ask(sql)
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr.splitlines() == lines


def test_a_long_line_is_cut_around_the_place(clinic: Path) -> None:
    sql = f"SELECT {'1 + ' * 60}nothing{' + 1' * 60} FROM visits"
    _, line, caret, *_ = ask(sql).stderr.splitlines()
    assert line.startswith("LINE 1: ...") and line.endswith("...") and len(line) < 120
    assert line[caret.index("^") :].startswith("nothing")


def test_terminals_are_not_fooled(exact: None) -> None:
    shown = ask("SELECT '\x1b[31m\nred' AS \"a\x07b\", count(*) FROM visits")
    assert shown.exit_code == 0 and "\x1b" not in shown.output and "\x07" not in shown.output
    assert "\\x1b[31m\\nred" in shown.stdout
    refused = ask('SELECT count(*) FROM "\x1b[31m"')
    assert refused.exit_code == 1 and "\x1b" not in refused.output


def test_explain_is_free(clinic: Path) -> None:
    written, flag = ask("EXPLAIN SELECT count(*) FROM visits"), ask("SELECT count(*) FROM visits", "--explain")
    assert written.stdout == flag.stdout and written.stderr == flag.stderr
    cost, error, left, more = written.stdout.splitlines()
    assert (cost, error) == ("Cost: epsilon 1", "Expected error, in 95 of 100 cases: count ±30")
    assert left.startswith("Left to analyst: epsilon 3, delta 0.0001: 3 such questions until 20")
    assert more == "(EXPLAIN VERBOSE shows the plan and the SQL)"
    whole = [
        ask("EXPLAIN VERBOSE SELECT count(*) FROM visits"),
        ask("SELECT count(*) FROM visits", "--explain", "--verbose"),
    ]
    assert whole[0].stdout == whole[1].stdout and whole[0].stdout.startswith("Cost: epsilon 1\n")
    assert "at most 10 rows" in whole[0].stdout and "SELECT" in whole[0].stdout and "SELECT" not in written.stdout
    assert "nothing spent" in written.stderr
    with Ledger.open("policy.ledger") as ledger:
        assert ledger.history() == []
    as_json = json.loads(ask("SELECT count(*) FROM visits", "--explain", "--format", "json").stdout)
    assert as_json["columns"] == ["QUERY PLAN"]
    assert "LINE 1: SELECT cots" in ask("SELECT cots FROM visits", "--explain").stderr


def test_the_budget_runs_out(clinic: Path) -> None:
    for number in range(3):
        assert ask(f"SELECT count(*) FROM visits WHERE cost > {number}").exit_code == 0
    result = ask("SELECT count(*) FROM visits WHERE cost > 50")
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr.startswith("ERROR:  analyst 'analyst' has epsilon 0 left, the statement needs 1.00\nHINT:  ")
    assert result.stderr.endswith("SQLSTATE:  53400\n")
    assert ask("SELECT count(*) FROM visits WHERE cost > 1").exit_code == 0, "what was answered stays free"
    shown = run("budget", "show", "policy.yml").stdout
    assert " analyst   |       3 |     3 |    0 |" in shown
    granted = run("budget", "grant", "policy.yml", "analyst", "0.5", "--reason", "a paper")
    assert granted.stdout.startswith("granted; analyst has epsilon 0.5 and delta")
    assert ask("SELECT count(*) FROM visits WHERE cost > 50", "--epsilon", "0.5").exit_code == 0
    assert ask("SELECT count(*) FROM visits WHERE cost > 51", "--epsilon", "0.5").exit_code == 1
    shown = run("budget", "show", "policy.yml").stdout
    assert " analyst   |     3.5 |   3.5 |    0 |" in shown and "was granted epsilon 0.5 of it" in shown
    document = json.loads(run("budget", "show", "policy.yml", "--json").stdout)
    assert document[0]["granted"]["epsilon"] == 0.5
    listed = run("budget", "history", "policy.yml", "--limit", "3").stdout
    assert "a paper" in listed and listed.endswith("(3 rows)\n")
    head = run("budget", "verify", "policy.yml").stdout.splitlines()[1].removeprefix("head ")
    assert run("budget", "verify", "policy.yml", "--head", head).exit_code == 0
    assert run("budget", "verify", "policy.yml", "--head", "1:" + "0" * 64).exit_code == 2
    assert "is not EVENTS:HASH" in run("budget", "verify", "policy.yml", "--head", "x").stderr
    events = [json.loads(line) for line in run("budget", "export", "policy.yml").stdout.splitlines()]
    assert [event["id"] for event in events] == list(range(1, 10))
    assert run("budget", "export", "policy.yml", "-o", "out.jsonl").exit_code == 0
    assert len(Path("out.jsonl").read_text(encoding="utf-8").splitlines()) == 9


def test_epsilon_stays_within_the_policy(clinic: Path) -> None:
    for epsilon in ("3", "0", "-1", "nan"):
        result = ask("SELECT count(*) FROM visits", "--epsilon", epsilon)
        assert result.exit_code == 1 and "SQLSTATE:  22023" in result.stderr, epsilon


@pytest.mark.parametrize("args", [("x", "1"), ("analyst", "0"), ("analyst", "-1"), ("analyst", "nan")])
def test_grants_that_are_none(clinic: Path, args: tuple[str, str]) -> None:
    result = run("budget", "grant", "policy.yml", "--reason", "r", "--", *args)
    assert result.exit_code == 2 and "Traceback" not in result.output
    assert run("budget", "grant", "policy.yml", "analyst", "1").exit_code == 2  # without a reason
    with Ledger.open("policy.ledger") as ledger:
        assert ledger.history() == []


def test_who_asks(clinic: Path) -> None:
    Path("policy.yml").write_text(TWO, encoding="utf-8")
    nobody = ask("SELECT count(*) FROM visits")
    assert nobody.exit_code == 2 and "hint: add --as with one of alice, bob" in nobody.stderr
    typo = ask("SELECT count(*) FROM visits", "--as", "alcie")
    assert typo.exit_code == 2 and "hint: did you mean 'alice'?" in typo.stderr
    assert ask("SELECT count(*) FROM visits", "--as", "bob").exit_code == 0
    assert 'relation "patients" does not exist' in ask("SELECT count(*) FROM patients", "--as", "bob").stderr
    assert run("budget", "history", "policy.yml", "--as", "alice").stdout.endswith("(0 rows)\n")


def test_sql_from_a_file_or_standard_input(exact: None, tmp_path: Path) -> None:
    expected = ask("SELECT count(*) AS n FROM visits").stdout
    sql = "-- how many\nSELECT count(*) AS n\nFROM visits;\n"
    assert ask("-", stdin=sql).stdout == expected
    Path("q.sql").write_bytes(b"\xef\xbb\xbf" + sql.encode())
    assert run("query", "policy.yml", "--file", "q.sql").stdout == expected
    for args in (["SELECT 1", "--file", "q.sql"], [], ["--file", "absent.sql"]):
        result = run("query", "policy.yml", *args)
        assert result.exit_code == 2 and result.stderr.startswith("Usage:"), args
    assert "not UTF-8" in ask("-", stdin=b"SELECT '\xff'").stderr


@pytest.mark.full
def test_parameters(exact: None) -> None:
    sql = "SELECT count(*) AS n FROM visits WHERE cost >= ? AND day < ?"
    given = ask(sql, "--param", "10", "--param", "2025-02-01", "--format", "csv", "--no-intervals")
    expected = sum(1 for i in range(800) if i % 90 >= 10 and i % 300 < 31)
    assert given.stdout == f"n\n{expected}\n", given.output
    postgres = ask("SELECT count(*) AS n FROM patients WHERE ward = $1", "--param", "w1", "--dialect", "postgres")
    assert postgres.stdout.splitlines()[2].startswith(" 133 ±")
    for args in (["--param", "1"], ["--param", "1", "--param", "2025-01-01", "--param", "x"]):
        assert ask(sql, *args).exit_code == 1
    for odd in ("", "'", "''", "1e999", "9" * 40, "0x10", "2025-99-99", "日本", "-", "+5", "1_000", "NaN"):
        result = ask("SELECT count(*) AS n FROM patients WHERE ward = ?", "--param", odd, "--explain")
        assert result.exit_code in (0, 1) and (result.exit_code == 0 or "ERROR: " in result.stderr), odd


def test_without_a_ledger_nothing_is_answered(clinic: Path) -> None:
    Path("policy.ledger").unlink()
    for args in (["query", "policy.yml", "SELECT count(*) FROM visits"], ["budget", "show", "policy.yml"]):
        result = run(*args)
        assert result.exit_code == 2 and result.stdout == ""
        assert "there is no ledger at policy.ledger" in result.stderr
        assert "sqlanon budget init policy.yml" in result.stderr
    again = run("budget", "init", "policy.yml")
    assert again.exit_code == 0 and run("budget", "init", "policy.yml").exit_code == 2


def test_a_damaged_ledger_answers_nothing(clinic: Path) -> None:
    ask("SELECT count(*) FROM visits")
    with sqlite3.connect("policy.ledger") as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
        for name in names:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE events SET epsilon = '0' WHERE kind = 'charge'")
    connection.close()
    for args in (["query", "policy.yml", "SELECT count(*) FROM visits"], ["budget", "verify", "policy.yml"]):
        result = run(*args)
        assert result.exit_code == 2 and result.stdout == "" and "is damaged" in result.stderr
    Path("policy.ledger").write_bytes(b"no ledger" * 100)
    assert ask("SELECT count(*) FROM visits").exit_code == 2


def test_a_database_that_is_locked_or_missing(clinic: Path) -> None:
    code = "import duckdb, sys; c = duckdb.connect('clinic.duckdb'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        holder.stdout.readline()
        locked = ask("SELECT count(*) FROM visits")
        holder.stdin.close()
    assert locked.exit_code == 2 and "in use by another process" in locked.stderr
    Path("clinic.duckdb").unlink()
    missing = ask("SELECT count(*) FROM visits")
    assert missing.exit_code == 2 and "there is no database 'clinic.duckdb'" in missing.stderr
    with Ledger.open("policy.ledger") as ledger:
        assert ledger.history() == []
    assert run("query", "absent.yml", "SELECT 1").exit_code == 2


def test_many_rows(exact: None) -> None:
    sql = "SELECT a.ward, b.beds, c.ward AS w, d.ward AS x, e.ward AS y, f.ward AS z, g.ward AS v FROM " + " , ".join(
        f"wards AS {name}" for name in "abcdefg"
    )
    result = ask(sql)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.endswith("(2187 rows)\n") and len(result.stdout.splitlines()) == 2190


def test_an_empty_answer_says_why(clinic: Path) -> None:
    result = ask("SELECT born, count(*) FROM patients GROUP BY born")
    assert result.stdout.endswith("(0 rows)\n")
    assert re.search(r"^groups of fewer than about \d+ persons are left out$", result.stderr, re.MULTILINE)


def test_an_answer_says_which_groups_are_left_out_and_what_has_no_error_bars(clinic: Path) -> None:
    """As psql's NOTICE does: or whoever sees some groups would think that there are no others."""
    result = ask("SELECT ward, count(*) AS n FROM patients GROUP BY ward")
    assert re.match(r"groups of fewer than about \d+ persons are left out\nspent epsilon 1 ", result.stderr)
    found = json.loads(ask("SELECT ward, count(*) AS n FROM patients GROUP BY ward", "--format", "json").stdout)
    assert found["left_out_below"] > 5 and found["without_bars"] == []
    declared = ask(
        "SELECT a / n AS mean FROM (SELECT sum(cost) AS a, count(*) AS n FROM visits) AS t", "--format", "json"
    )
    assert json.loads(declared.stdout)["left_out_below"] is None
    assert declared.stderr.startswith("mean: with noise, but how much is not known\nspent epsilon")


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(Path(sqlanon.gateway.__file__).parents[2])}


@pytest.mark.full
def test_an_interrupt_keeps_the_charge(clinic: Path) -> None:
    """The answer waits for its time when Ctrl-C comes: nothing is shown, and the charge stays.

    Nothing is kept either, or a second question would tell whether the data had been read when Ctrl-C came.
    """
    Path("policy.yml").write_text(
        POLICY.replace("answer_time: 0", "answer_time: 3600\n  timeout: 3600"), encoding="utf-8"
    )
    # A shell in the background lets its children ignore the signal.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from sqlanon.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "query", "policy.yml", "SELECT count(*) FROM visits"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as asking:
        with Ledger.open("policy.ledger") as ledger:
            for _ in range(600):
                if len(ledger.history()) == 1:
                    break
                time.sleep(0.1)
        time.sleep(1)  # long enough to read the data
        for _ in range(10):  # the first one may come before the wait begins, which it does not keep from beginning
            asking.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                asking.wait(5)
                break
        else:
            asking.kill()
        out, err = asking.communicate()
    assert asking.returncode == 130 and out == ""
    assert err == "sqlanon: interrupted; what was charged by then stays charged\n"
    with Ledger.open("policy.ledger") as ledger:
        assert [event.kind for event in ledger.history()] == ["charge", "failed"]


def test_the_public_names(clinic: Path) -> None:
    gate = sqlanon.open_gateway("policy.yml")
    answer = gate.answer("SELECT count(*) FROM visits")
    assert isinstance(answer, sqlanon.Answer) and not answer.synthetic
    gate.close()
    with pytest.raises(sqlanon.SqlanonError, match="there is no ledger"):
        open_gateway(parse_gateway(POLICY, "other.yml", clinic))
