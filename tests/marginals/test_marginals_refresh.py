"""Marginals from the command line: on a schedule, killed half-way, and with policies that are wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from click.testing import CliRunner, Result
from marginals_world import GATEWAY, SECTION

from sqlanon.cli import main
from sqlanon.errors import BudgetExhausted, PolicyError, SourceError
from sqlanon.gateway import open_gateway
from sqlanon.gateway.price.budgets import standings
from sqlanon.ledger import Ledger
from sqlanon.ledger.runs import Runs
from sqlanon.policy import load
from sqlanon.policy.files import load_marginals, load_serve
from sqlanon.schedule import Job, due, refresh

DUE = "2026-01-01T03:00:00+00:00"
SCHEDULE = "schedule: {cron: '@hourly', retries: 2}\n"


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "warehouse.duckdb")) as connection:
        connection.execute("CREATE TABLE users (user_id BIGINT PRIMARY KEY)")
        connection.execute(
            "CREATE TABLE visits AS SELECT i // 2 AS user_id, CAST(i % 100 AS INTEGER) AS age, "
            "['f', 'm'][i % 2 + 1] AS sex, 'R' || (i % 3) AS region, DATE '2026-01-05' AS seen, TRUE AS ok, "
            "1.5::DOUBLE AS cost, TIMESTAMP '2026-01-02 10:00:00' AS moment, 'n' AS note FROM range(3000) AS r(i)"
        )
    path = tmp_path / "policy.yml"
    path.write_text(GATEWAY + SECTION.replace(", cost: 2.5, seen: 30", "") + SCHEDULE)
    Ledger.create(tmp_path / "policy.ledger").close()
    return path


def spent(policy: Path) -> float:
    served = load_serve(policy).gateway
    with Ledger.open(policy.with_suffix(".ledger")) as ledger:
        return standings(served, ledger)[0].left.spent.epsilon


def shown(policy: Path, name: str) -> list[Any]:
    with duckdb.connect(str(policy.with_name("warehouse.duckdb"))) as connection:
        if not connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = ?", [name]).fetchall():
            return []
        return connection.execute(f"FROM {name}").fetchall()


def test_refresh_status_and_releases(policy: Path) -> None:
    done = run("refresh", str(policy))
    assert done.exit_code == 0, done.output
    assert re.search(r"refreshed, counts of 3,\d\d\d rows|refreshed, counts of 2,\d\d\d rows", done.output), done.output
    assert "each ± 24; spent epsilon 1; plan " in done.output
    ages, regions = shown(policy, "by_age_sex"), shown(policy, "by_region_sex")
    assert len(ages) == 20 and len(regions) == 6
    assert sum(row[-1] for row in ages) == sum(row[-1] for row in regions)
    assert all(abs(row[-1] - 500) < 200 for row in regions)
    assert run("refresh", str(policy)).exit_code == 0
    listed = run("releases", "list", str(policy)).output
    assert re.sub(r"\d{4}-\S+  plan \w+", "…", listed) == (
        "by_age_sex:\n   2  current     …\n   1  superseded  …\nby_region_sex:\n   2  current     …\n"
        "   1  superseded  …\n"
    )
    assert '"scale": 8.0' in run("releases", "show", str(policy), "2").output
    status = run("status", str(policy)).output
    assert "by_age_sex, by_region_sex" in status and status.count("done") == 2
    checked = run("check", str(policy.with_name("warehouse.duckdb")), "by_age_sex")
    assert checked.exit_code == 2 and "counts with differential privacy" in checked.output
    assert run("refresh", str(policy)).exit_code == 0
    last = run("refresh", str(policy))
    assert last.exit_code == 1 and "has epsilon 0 left" in last.output
    assert len(shown(policy, "by_age_sex")) == 20 and spent(policy) == 3.0
    assert run("releases", "retire", str(policy), "--yes").exit_code == 0
    assert shown(policy, "by_age_sex") == []


def test_a_schedule_charges_each_time_once(policy: Path) -> None:
    """Due each hour; when nothing is left it is refused, and not tried again for that hour."""
    job = Job(policy)
    start = datetime(2026, 1, 1, 10, 5, tzinfo=UTC)
    os.utime(policy, (start.timestamp(), start.timestamp()))
    for hour, used in ((1, 1.0), (2, 2.0), (3, 3.0)):
        moment = start + timedelta(hours=hour)
        assert (time := due(job, moment)) is not None
        assert refresh(job, time, now=lambda moment=moment: moment).error is None
        assert spent(policy) == used
        assert due(job, moment) is None
        assert refresh(job, time, now=lambda moment=moment: moment).run is None  # had already
    moment = start + timedelta(hours=4)
    refused = refresh(job, due(job, moment), now=lambda: moment)
    assert isinstance(refused.error, BudgetExhausted)
    assert due(job, moment + timedelta(minutes=20)) is None
    assert job.runs.listed(limit=1)[0].outcome == "refused"


def test_the_gateway_answers_the_tables_plainly(policy: Path) -> None:
    """They may be named before they are there; asking them costs nothing, and nobody but the refresh was charged."""
    named = "    by_age_sex: {released: true}\n    visits:\n"
    policy.write_text(policy.read_text().replace("    visits:\n", named, 1))
    assert run("refresh", str(policy)).exit_code == 0
    total = sum(row[-1] for row in shown(policy, "by_age_sex"))
    asked = run("query", str(policy), "SELECT sum(records) AS n FROM by_age_sex", "--format", "csv")
    assert asked.exit_code == 0 and asked.stdout.split() == ["n", str(total)]
    assert spent(policy) == 1.0


def test_a_database_that_is_open_for_writing_here(policy: Path) -> None:
    """A check goes on beside the writer, as in dbt; a gateway, which must not write, is not opened."""
    path = str(policy.with_name("warehouse.duckdb"))
    with duckdb.connect(path):
        checked = run("check", path, "visits", "--qi", "sex", "--k", "2")
        assert checked.exit_code == 0, checked.output
        with pytest.raises(SourceError) as error:
            open_gateway(policy)
        assert "is open in this process in another way" in str(error.value)
    gate = open_gateway(policy)
    gate.close()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("plan", "P"), 2, "a refresh shows its counts only after it is paid for"),
        (("refresh", "P", "--plan-hash", "0123456789ab"), 2, "there is no plan to hold a refresh to"),
        (("refresh", "P", "--backfill", "2026-01-01", "2026-01-02"), 2, "rows are counted as they are now"),
        (("releases", "rollback", "P", "1"), 2, "no earlier version is kept to go back to"),
    ],
)
def test_what_marginals_cannot_do_is_refused(policy: Path, words: tuple[str, ...], code: int, said: str) -> None:
    """Before anything is charged, tried or changed."""
    assert run("refresh", str(policy)).exit_code == 0
    before = shown(policy, "by_age_sex")
    done = run(*(str(policy) if word == "P" else word for word in words))
    assert done.exit_code == code and f"the policy has marginals: {said}" in done.output, done.output
    assert spent(policy) == 1.0 and shown(policy, "by_age_sex") == before
    assert len(Job(policy).runs.listed()) == 1


def test_what_the_record_says(policy: Path) -> None:
    """Nothing that was read from the data without noise: no fingerprint of them, with a key or without."""
    assert run("refresh", str(policy)).exit_code == 0
    found = json.loads(run("releases", "list", str(policy), "--json").output)
    assert [(item["release"], item["version"]) for item in found] == [("by_age_sex", 1), ("by_region_sex", 1)]
    for item in found:
        of_the_release = item["shown"].pop("fingerprint")  # of noisy counts, which everybody sees anyway
        assert len(of_the_release) == 32 and set(item["shown"].values()) == {None}
        assert item["policy_hash"] == load_serve(policy).gateway.fingerprint
    assert run("refresh", str(policy)).exit_code == 0
    changed = run("releases", "diff", str(policy), "1", "2").output
    assert '+ "run": 2' in changed and "epsilon" not in changed
    missing = run("releases", "show", str(policy), "3")
    assert missing.exit_code == 2 and "there is no version 3 of 'by_age_sex, by_region_sex'" in missing.output


def test_tables_that_are_there_are_retired(policy: Path) -> None:
    """One that the policy names since, and that was never written, is no reason to keep the others."""
    assert run("refresh", str(policy)).exit_code == 0
    policy.write_text(policy.read_text().replace("of: {", "of: {by_sex: [sex], "))
    listed = run("releases", "list", str(policy)).output
    assert listed.startswith("'by_sex' was not published yet\nby_age_sex:\n   1  current")
    done = run("releases", "retire", str(policy), "--yes")
    assert done.output == "'by_age_sex' is retired\n'by_region_sex' is retired\n"
    again = run("releases", "retire", str(policy), "--yes")
    assert again.exit_code == 2 and "there is no release 'by_sex, by_age_sex, by_region_sex'" in again.output
    assert [run.message for run in Job(policy).runs.listed()] == ["retired", None]


def test_counts_are_refreshed_while_others_read(policy: Path) -> None:
    """The file is replaced by one that has the new counts; the ledger is charged once."""
    path = policy.with_name("warehouse.duckdb")
    holds = "import duckdb, sys; c = duckdb.connect(sys.argv[1], read_only=True); print('open', flush=True); input()"
    words = [sys.executable, "-c", holds, str(path)]
    before = path.stat().st_ino
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None and reader.stdout.readline() == "open\n"
        done = run("refresh", str(policy))
        reader.communicate("\n")
    assert done.exit_code == 0, done.output
    assert path.stat().st_ino != before
    assert len(shown(policy, "by_age_sex")) == 20 and spent(policy) == 1.0


def test_a_process_that_dies_after_the_counts_are_out(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next try for that time finds them, sets the record right, and neither charges nor writes."""
    moment = datetime.fromisoformat(DUE)
    with monkeypatch.context() as patched:
        patched.setattr(Runs, "finish", lambda *_, **__: None)
        assert refresh(Job(policy), moment).error is None
    before = shown(policy, "by_age_sex")
    later = datetime.now(UTC) + timedelta(minutes=10)
    assert refresh(Job(policy), moment, now=lambda: later).published is None
    (told,) = Job(policy).runs.listed()
    assert (told.outcome, told.message) == ("done", "its process died afterwards")
    assert shown(policy, "by_age_sex") == before and spent(policy) == 1.0


# A refresh in a process of its own, killed where the first argument says.
CHILD = """
import os, signal, sys
import sqlanon.marginals, sqlanon.marginals.counting, sqlanon.marginals.tables
from datetime import datetime
from sqlanon.schedule import Job, refresh
from pathlib import Path

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

where = sys.argv[1]
if where == "before data are read":
    sqlanon.marginals.counting.exact_joint = die
elif where == "before they are paid for in full":
    sqlanon.marginals.counting.noisy_counts = die
elif where == "before tables are written":
    sqlanon.marginals.joint_of = die
elif where == "between two tables":
    swap, seen = sqlanon.marginals.tables.RelationTarget.swap, []
    def second(*args):
        swap(*args)
        seen.append(1)
        if len(seen) == 2:
            die()
    sqlanon.marginals.tables.RelationTarget.swap = second
print(refresh(Job(Path(sys.argv[2])), datetime.fromisoformat(sys.argv[3])).error)
"""


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("before data are read", False),
        pytest.param("before they are paid for in full", False, marks=pytest.mark.long),
        pytest.param("before tables are written", True, marks=pytest.mark.long),
        ("between two tables", True),
    ],
)
def test_a_killed_refresh_never_gives_a_table_for_free(policy: Path, where: str, kept: bool) -> None:
    """The charge stays, no table is there; another try writes what was paid for, or pays again."""
    words = [sys.executable, "-c", CHILD, where, str(policy), DUE]
    assert subprocess.run(words, capture_output=True).returncode == -signal.SIGKILL
    assert spent(policy) == 1.0
    assert shown(policy, "by_age_sex") == shown(policy, "by_region_sex") == []
    later = datetime.now(UTC) + timedelta(minutes=10)
    done = refresh(Job(policy), datetime.fromisoformat(DUE), now=lambda: later)
    assert done.error is None and done.published is not None
    assert len(shown(policy, "by_age_sex")) == 20
    assert spent(policy) == (1.0 if kept else 2.0)


# ---- policies that are wrong

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"table": "visit"}, "the gateway has no table 'visit'"),
    ({"of": {"x": ["age", "age"]}}, "'x' has a column twice"),
    ({"of": {"x": ["age", "sex"], "y": ["sex", "age"]}}, "'y' counts the same as 'x'"),
    ({"of": {"visits": ["sex"]}}, "'visits' is a table of the gateway, and would be replaced"),
    ({"of": {"Visits": ["sex"]}}, "'Visits' is a table of the gateway, and would be replaced"),
    ({"of": {"x": ["sex"]}, "synthetic": {"table": "X", "rows": 5}}, "'X' is written twice"),
    ({"of": {"x": []}}, "must not be empty"),
    ({"of": {}}, "must not be empty"),
    ({"of": {"x": ["records"]}}, "a column 'records' cannot be counted by"),
    ({"epsilon": 4}, "a refresh spends epsilon 4, more than the 3 of 'analyst'"),
    ({"epsilon": 0}, "a number greater than 0"),
    ({"epsilon": "1"}, "a number greater than 0"),
    ({"as": "bob"}, "the gateway has no principal 'bob'"),
    ({"bins": {"seen": 3}}, "no marginal counts by 'seen'"),
    ({"bins": {"age": 0}}, "'age' must be > 0.0"),
    ({"synthetic": {"table": "x"}}, "'rows' is missing"),
    ({"synthetic": {"table": "x", "rows": 2_000_000}}, "an integer from 1 to 1000000"),
    ({"marginal": 1}, "unknown key 'marginal'"),
]


@pytest.mark.parametrize(("changed", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_wrong_section_is_refused(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    data = {**yaml.safe_load(GATEWAY), "marginals": yaml.safe_load(SECTION)["marginals"] | {"bins": {"age": 10}}}
    data["marginals"] |= changed
    if "of" in changed:
        data["marginals"].pop("bins")
    (tmp_path / "policy.yml").write_text(yaml.safe_dump(data, sort_keys=False))
    with pytest.raises(PolicyError) as error:
        load_marginals(tmp_path / "policy.yml")
    assert said in str(error.value)
    assert re.search(r"policy.yml:\d+: ", str(error.value))


def test_sections_that_do_not_belong_together(tmp_path: Path) -> None:
    path = tmp_path / "policy.yml"
    for text, said in (
        (SECTION, "no section 'gateway'"),
        (GATEWAY + SCHEDULE, "the schedule has nothing to refresh"),
        (GATEWAY + SECTION + "source: {path: x.csv}\n", "a file refreshes a release or marginals, not both"),
    ):
        path.write_text(text.replace(", cost: 2.5, seen: 30", ""))
        with pytest.raises(PolicyError) as error:
            load_marginals(path) or load_serve(path)
        assert said in str(error.value)
    path.write_text(GATEWAY)
    assert load_marginals(path) is None
    with pytest.raises(PolicyError):
        load(path)


def test_who_pays(tmp_path: Path) -> None:
    data = {**yaml.safe_load(GATEWAY), "marginals": yaml.safe_load(SECTION)["marginals"] | {"bins": {"age": 10}}}
    data["gateway"]["controls"] = {"query_set_size": 5, "overlap": 0}
    data["gateway"]["principals"] = {
        "a": {},
        "b": {"controls": True},
        "c": {"tables": ["users"]},
        "d": {"epsilon": 0.5},
    }
    path = tmp_path / "policy.yml"
    for who, said in (
        (None, "who pays for the marginals?"),
        ("b", "principal 'b' is answered under controls"),
        ("c", "principal 'c' may not use the table 'visits'"),
        ("d", "more than the 0.5 of 'd'"),
    ):
        data["marginals"].pop("as", None)
        data["marginals"] |= {"as": who} if who else {}
        path.write_text(yaml.safe_dump(data))
        with pytest.raises(PolicyError) as error:
            load_marginals(path)
        assert said in str(error.value)
    data["marginals"]["as"] = "a"
    path.write_text(yaml.safe_dump(data))
    found = load_marginals(path)
    assert found is not None and found.who == "a"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"of": {"x": ["note"]}}, "column 'note' of 'visits' is hidden"),
        ({"of": {"x": ["agee"]}}, "column 'agee' of 'visits' is not there for 'analyst'"),
        ({"of": {"x": ["user_id"]}}, "tells persons apart"),
        ({"of": {"x": ["cost"]}}, "'cost' is no whole number, and needs a width of classes"),
        ({"of": {"x": ["age"]}, "bins": {"age": 2.5}}, "must be whole numbers wide"),
        ({"of": {"x": ["sex"]}, "bins": {"sex": 2}}, "'sex' has keys, and so no bins"),
        ({"of": {"x": ["cost"]}, "bins": {"cost": 0.0001}}, "'cost' has 100,000 values, more than 10,000"),
        ({"of": {"x": ["age", "seen"], "y": ["moment", "sex"]}}, "180,000 combinations of values, more than 100,000"),
    ],
)
def test_what_cannot_be_counted_by_costs_nothing(policy: Path, changed: dict[str, Any], said: str) -> None:
    data = yaml.safe_load(policy.read_text())
    data["marginals"].pop("bins")
    data["marginals"] |= changed
    policy.write_text(yaml.safe_dump(data, sort_keys=False))
    done = run("refresh", str(policy))
    assert done.exit_code == 2 and said in done.output, done.output
    assert spent(policy) == 0.0


def test_keys_of_another_kind(policy: Path) -> None:
    policy.write_text(policy.read_text().replace("keys: [f, m]", "keys: [1, 2]"))
    done = run("refresh", str(policy))
    assert done.exit_code == 2 and "the keys of 'sex' are of the kind int, the column is text" in done.output
    assert spent(policy) == 0.0


def test_without_a_ledger_nothing_is_counted(policy: Path) -> None:
    policy.with_suffix(".ledger").unlink()
    done = run("refresh", str(policy))
    assert done.exit_code == 2 and "ledger" in done.output
    assert shown(policy, "by_age_sex") == []
