"""SQL for owners over the proxy, by the clients that people have: psql, psycopg, SQLAlchemy, pgjdbc, dbt-postgres."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from conftest import ROOT, TESTS
from ddl_world import CREATE, GATEWAY, LABELS, OPTIONS, ROWS, fill
from proxy_servers import free_port, run_sqlanon, stop, wait_for

PASSWORD = "correct horse"
DRIVER = Path("/usr/share/java/postgresql.jar")
PSQL = shutil.which("psql")


@dataclass
class OwnerServer:
    folder: Path
    port: int

    def connect(self, user: str = "olga", **more: Any) -> psycopg.Connection[Any]:
        given = {"host": "127.0.0.1", "port": self.port, "dbname": "shop", "password": PASSWORD, "autocommit": True}
        return psycopg.connect(user=user, **(given | more))

    def environment(self, user: str = "olga") -> dict[str, str]:
        given = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        return given | {
            "PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": user, "PGPASSWORD": PASSWORD,
            "PGDATABASE": "shop", "PGCLIENTENCODING": "UTF8", "PSQLRC": "/dev/null", "PAGER": "cat",
        }  # fmt: skip

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        """From the file itself: what was published, seen without the proxy."""
        for _ in range(50):
            try:
                with duckdb.connect(str(self.folder / "shop.duckdb"), read_only=True) as made:
                    return made.sql(text).fetchall()
            except duckdb.IOException:  # it is being replaced
                time.sleep(0.1)
        raise AssertionError("the database cannot be opened")

    def versions(self, view: str) -> list[tuple[int, str]]:
        found = self.sql("SELECT version, status, release FROM sqlanon_releases ORDER BY version")
        return [(int(row[0]), str(row[1])) for row in found if row[2] == view]

    @property
    def audit(self) -> list[dict[str, Any]]:
        text = (self.folder / "shop.audit.jsonl").read_text(encoding="utf-8")
        return [entry for entry in map(json.loads, text.splitlines()) if entry.get("kind") == "owner"]


@contextmanager
def served(folder: Path, text: str = GATEWAY, name: str = "shop.yml") -> Iterator[OwnerServer]:
    fill(folder)
    policy, port = folder / name, free_port()
    policy.write_text(text.replace("port: 0", f"port: {port}, database: shop"), encoding="utf-8")
    run_sqlanon("budget", "init", str(policy))
    for user in ("olga", "anna", "aude"):
        run_sqlanon("user", "add", str(policy), user, "--stdin", given=PASSWORD + "\n")
    log = folder / "log"
    with log.open("ab") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "sqlanon", "serve", str(policy)], stdin=subprocess.DEVNULL, stdout=written,
            stderr=written, env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        )  # fmt: skip
    try:
        wait_for(port, process, log)
        yield OwnerServer(folder, port)
    finally:
        stop(process, 15)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnerServer]:
    with served(tmp_path_factory.mktemp("owner")) as found:
        with found.connect() as made:
            made.execute(LABELS)  # several statements at once
        yield found


def view(name: str) -> str:
    return CREATE.replace("research.patients", f"research.{name}")


def test_psycopg_publishes_refreshes_and_drops(server: OwnerServer) -> None:
    notices: list[str] = []
    with server.connect() as made:
        made.add_notice_handler(lambda found: notices.append(str(found.message_primary)))
        cursor = made.execute(f"EXPLAIN {view('first')}")
        lines = [row[0] for row in cursor.fetchall()]
        assert cursor.description is not None and cursor.description[0].name == "QUERY PLAN"
        assert lines[0] == "source:" and lines[-1].endswith("nothing was written")
        assert made.execute(view("first")).statusmessage == "CREATE MATERIALIZED VIEW"
        assert any(f"published {ROWS} rows" in notice for notice in notices)
        assert made.execute("REFRESH MATERIALIZED VIEW research.first").statusmessage == "REFRESH MATERIALIZED VIEW"
        assert server.versions("research.first") == [(1, "superseded"), (2, "current")]
        cursor = made.execute("SELECT release, version, holds, loss FROM sqlanon.releases WHERE status = 'current'")
        assert cursor.description is not None
        assert [column.type_code for column in cursor.description] == [25, 20, 16, 701]
        (row,) = cursor.fetchall()
        assert row[:3] == ("research.first", 2, True) and 0 <= row[3] < 1
        assert made.execute("DROP MATERIALIZED VIEW research.first").statusmessage == "DROP MATERIALIZED VIEW"
        assert made.execute("SELECT count(*) FROM sqlanon.releases WHERE status = 'current'").fetchone() == (0,)
        binary = made.execute("SELECT principal, epsilon_left FROM sqlanon.budget ORDER BY 1", binary=True).fetchall()
        assert binary == [("anna", 100.0), ("aude", 100.0), ("olga", 100.0)]


@pytest.mark.full
def test_every_statement_is_in_the_audit_log_without_its_literals(server: OwnerServer) -> None:
    with server.connect() as made:
        made.execute("SECURITY LABEL FOR sqlanon ON COLUMN other.secret IS 'sensitive'")
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            made.execute("SECURITY LABEL FOR sqlanon ON COLUMN other.secret IS 'senstive'")
        made.execute("SELECT n FROM sqlanon.audit WHERE principal = 'olga' LIMIT 1")
    last = [entry for entry in server.audit if "other" in entry["shape"]]
    assert [(entry["decision"], entry["sqlstate"]) for entry in last] == [
        ("answered", "00000"), ("answered", "00000"), ("refused", "22023")
    ]  # fmt: skip
    assert last[0]["shape"] == "security label for sqlanon on column other . secret is ?"
    assert {entry["principal"] for entry in server.audit} == {"olga"}


@pytest.mark.parametrize("user", ["anna", "aude"])
def test_others_are_refused_as_before(server: OwnerServer, user: str) -> None:
    before = len(server.audit)
    with server.connect(user) as made:
        for text, state in (
            (view("theirs"), "25006"), ("REFRESH MATERIALIZED VIEW research.first", "25006"),
            ("SECURITY LABEL FOR sqlanon ON COLUMN patients.name IS 'insensitive'", "0A000"),
            ("ALTER ROLE anna SET sqlanon.budget = '50 per month'", "25006"), ("SET sqlanon.k = 5", "42704"),
        ):  # fmt: skip
            with pytest.raises(psycopg.Error) as found:
                made.execute(text)
            assert found.value.sqlstate == state, text
        for name in ("releases", "evidence", "budget", "audit", "policies", "findings", "runs", "verdicts"):
            with pytest.raises(psycopg.Error):
                made.execute(f"SELECT * FROM sqlanon.{name}")
    assert len(server.audit) == before


@pytest.mark.full
def test_an_owner_who_tries_the_rights_of_another_is_no_owner(server: OwnerServer) -> None:
    with server.connect() as made:
        made.execute("SET sqlanon.simulate = 'anna'")
        with pytest.raises(psycopg.Error) as found:
            made.execute(view("simulated"))
        assert found.value.sqlstate == "25006"


@pytest.mark.full
def test_errors_have_their_places_and_a_transaction_is_told_of(server: OwnerServer) -> None:
    notices: list[str] = []
    with server.connect(autocommit=False) as made:
        made.add_notice_handler(lambda found: notices.append(str(found.message_primary)))
        with pytest.raises(psycopg.errors.SyntaxError) as found:
            made.execute("CREATE MATERIALIZED VIEW x WITH (sqlanon.k = ) AS TABLE patients")
        assert found.value.diag.statement_position == "46"
        made.rollback()
        made.execute("SECURITY LABEL FOR sqlanon ON COLUMN other.x IS 'identifier'")
        made.rollback()
    assert any("took effect at once" in notice for notice in notices)


@pytest.mark.full
@pytest.mark.skipif(PSQL is None, reason="needs psql (package postgresql-client)")
def test_psql(server: OwnerServer) -> None:
    script = f"""
{view("by_psql")};
REFRESH MATERIALIZED VIEW research.by_psql;
SELECT version, status FROM sqlanon.releases WHERE release = 'research.by_psql' ORDER BY version;
SELECT count(*) FROM sqlanon.runs WHERE release = 'research.by_psql' \\gset
\\echo runs :count
"""
    done = subprocess.run(
        [PSQL or "psql", "-X", "-At", "-v", "ON_ERROR_STOP=1"], input=script, capture_output=True, encoding="utf-8",
        timeout=300, env=server.environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "CREATE MATERIALIZED VIEW", "REFRESH MATERIALIZED VIEW", "1|superseded", "2|current", "runs 2",
    ]  # fmt: skip
    assert f"NOTICE:  published {ROWS} rows" in done.stderr


@pytest.mark.full
def test_sqlalchemy(server: OwnerServer) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    url = sqlalchemy.URL.create("postgresql+psycopg", "olga", PASSWORD, "127.0.0.1", server.port, "shop")
    engine = sqlalchemy.create_engine(url)
    try:
        with engine.begin() as made:  # in a transaction, as it does by itself
            made.execute(sqlalchemy.text(view("by_alchemy")))
            made.execute(sqlalchemy.text("REFRESH MATERIALIZED VIEW research.by_alchemy"))
        releases = sqlalchemy.table(
            "releases", sqlalchemy.column("release"), sqlalchemy.column("version"), schema="sqlanon"
        )
        with engine.connect() as made:
            found = made.execute(
                sqlalchemy.text(
                    "SELECT release, max(version) FROM sqlanon.releases WHERE status = 'current' GROUP BY 1"
                )
            ).all()
            assert ("research.by_alchemy", 2) in [tuple(row) for row in found]
            plain = made.execute(sqlalchemy.select(releases.c.release, releases.c.version)).all()
            assert ("research.by_alchemy", 2) in [tuple(row) for row in plain]
    finally:
        engine.dispose()


@pytest.mark.full
@pytest.mark.skipif(not DRIVER.exists(), reason="needs pgjdbc (package libpostgresql-jdbc-java)")
@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java (package default-jdk-headless)")
def test_pgjdbc(server: OwnerServer, tmp_path: Path) -> None:
    compiler = ["java", "-XX:TieredStopAtLevel=1", "-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", str(DRIVER)]
    made = subprocess.run(
        [*compiler, "-d", str(tmp_path), str(TESTS / "jdbc" / "OwnerSql.java")], capture_output=True, text=True
    )
    if made.returncode != 0 and "jdk.compiler" in made.stderr:
        pytest.skip("needs a JDK (package default-jdk-headless): this Java has no compiler")
    assert made.returncode == 0, made.stderr
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{DRIVER}:{tmp_path}", "OwnerSql"], capture_output=True,
        encoding="utf-8", timeout=300,
        env=os.environ | {"OWNER_URL": f"jdbc:postgresql://127.0.0.1:{server.port}/shop", "OWNER_PASSWORD": PASSWORD,
                          "OWNER_CREATE": view("by_jdbc")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"warning published {ROWS} rows")
    assert lines[1:] == ["columns release:varchar version:int8 holds:bool", "research.by_jdbc 1 true",
                         "research.by_jdbc 2 true", "plan source:"]  # fmt: skip


# ---- dbt

PROJECT = {
    "dbt_project.yml": "name: owners\nversion: '1.0'\nprofile: owners\nmodels:\n  owners:\n    +schema: null\n",
    "models/by_dbt.sql": "{{ config(materialized='materialized_view', pre_hook=[\n"
    + ",\n".join(f'  "SET {option.strip()}"' for option in OPTIONS.split(","))
    + "\n]) }}\nSELECT * FROM {{ source('shop', 'patients') }}\n",
    "models/sources.yml": "version: 2\nsources:\n  - name: shop\n    schema: public\n    tables: [{name: patients}]\n",
}


@pytest.mark.full
def test_dbt_postgres(server: OwnerServer, tmp_path: Path) -> None:
    """dbt's own materialization, as it is: the first run creates the view, the second refreshes it."""
    if not importlib.util.find_spec("dbt.adapters.postgres"):
        pytest.skip("needs dbt-postgres: pip install 'sqlanon[test]'")
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    profile = {"owners": {"target": "dev", "outputs": {"dev": {
        "type": "postgres", "host": "127.0.0.1", "port": server.port, "user": "olga", "password": PASSWORD,
        "dbname": "shop", "schema": "research", "threads": 1,
    }}}}  # fmt: skip
    (tmp_path / "profiles.yml").write_text(json.dumps(profile), encoding="utf-8")
    driver = """
import json, sys, time
from dbt.cli.main import dbtRunner
found = []
for words in (["run"], ["run"]):
    done = dbtRunner().invoke([*words, "--profiles-dir", ".", "--quiet"])
    results = [[str(each.status), each.message] for each in getattr(done.result, "results", None) or []]
    found.append([done.success, results, str(done.exception)])
    time.sleep(4)
open("found.json", "w").write(json.dumps(found))
"""
    done = subprocess.run(
        [sys.executable, "-c", driver], cwd=tmp_path, capture_output=True, text=True, timeout=600,
        env=os.environ | {"DO_NOT_TRACK": "1", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = json.loads((tmp_path / "found.json").read_text())
    assert first[0], (first, done.stdout)
    assert second[0], (second, done.stdout)
    assert [first[1][0][0], second[1][0][0]] == ["success", "success"]
    assert second[1][0][1] == "REFRESH MATERIALIZED VIEW"
    assert server.versions("research.by_dbt") == [(1, "superseded"), (2, "current")]


# ---- a gateway that is kept over SQL


@pytest.mark.full
def test_a_budget_that_is_set_over_sql_holds_at_once(tmp_path: Path) -> None:
    with served(tmp_path, name="shop.sql.yml") as server:
        with server.connect() as made:
            made.execute("ALTER ROLE anna SET sqlanon.budget = '0.6 per month'")
        with server.connect("anna") as asking:
            for _ in range(100):
                left = asking.execute("SHOW sqlanon.budget").fetchone()
                if left is not None and left[2] == 0.6:
                    break
                time.sleep(0.2)
            asking.execute("SET sqlanon.epsilon = 0.5")
            asking.execute("SELECT count(*) FROM patients")
            with pytest.raises(psycopg.Error) as found:
                asking.execute("SELECT sum(age) FROM patients")
            assert found.value.sqlstate == "53400"
