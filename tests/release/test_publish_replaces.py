"""What somebody else made is not replaced by a release, and who may read a release may read the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Database
from test_publish import simple, simple_policy

from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.release import publish
from sqlanon.release.stored_evidence import load_evidence


@pytest.mark.parametrize("release", [{"table": "r"}, {"view": "r"}])
@pytest.mark.parametrize("made", ["TABLE", "VIEW"])
def test_what_somebody_else_made_is_not_replaced(
    database: Database, release: dict[str, str], made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = simple(database, ["a"] * 4, release=release)
    database.run(f"CREATE {made} r AS SELECT 1 AS mine")
    monkeypatch.setattr("sqlanon.release.publish_release.prepare_problem", None)  # nothing is searched
    with pytest.raises(PolicyError, match=f"{made.lower()} 'r' exists and was not published by sqlanon"):
        publish(asked, database.engine)
    assert database.fetch("SELECT mine FROM r") == [(1,)]
    database.run(f"DROP {made} r")


@pytest.mark.full
@pytest.mark.parametrize("release", [{"table": "r"}, {"view": "r"}])
def test_what_somebody_else_makes_during_the_search_is_not_replaced(
    database: Database, release: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = simple(database, ["a"] * 4, release=release)
    import sqlanon.release.publish_release as module

    real = module.solve_problem

    def slow(task: Any) -> Any:
        database.run("CREATE TABLE r AS SELECT 1 AS mine")
        return real(task)

    monkeypatch.setattr(module, "solve_problem", slow)
    with pytest.raises(PolicyError, match="was not published by sqlanon"):
        publish(asked, database.engine)
    assert database.fetch("SELECT mine FROM r") == [(1,)]
    assert [name for name in database.engine.tables() if name.startswith("r")] == ["r"]


@pytest.mark.full
def test_a_dropped_release_leaves_no_right_to_what_follows_it(database: Database) -> None:
    publish(simple(database, ["a"] * 4), database.engine)
    database.run("DROP TABLE r")
    database.run("CREATE VIEW r AS SELECT 1 AS mine")
    with pytest.raises(PolicyError, match="view 'r' exists and was not published"):
        publish(simple_policy(), database.engine)
    assert database.fetch("SELECT mine FROM r") == [(1,)]
    database.run("DROP VIEW r")


@pytest.mark.full
def test_our_own_release_is_replaced_however_it_is_spelt(database: Database) -> None:
    schema = "main" if database.engine.dialect == "duckdb" else "public"
    simple(database, ["a"] * 4)
    for release in ({"table": "r"}, {"table": f"{schema}.r"}, {"view": "r"}, {"view": "r"}, {"table": "r"}):
        publish(simple_policy(release=release), database.engine)
        assert database.fetch("SELECT COUNT(*) FROM r") == [(4,)]
        kind, name = next(iter(release.items()))
        assert database.fetch("SELECT release FROM sqlanon_releases WHERE status = 'current'") == [(name,)]
        assert len([item for item in database.engine.tables() if item.startswith("r")]) == (1 if kind == "table" else 2)
    if database.engine.dialect == "duckdb":  # where R is r
        publish(simple_policy(release={"table": "R"}), database.engine)


@pytest.mark.parametrize("source", [{"table": "T"}, {"query": "SELECT * FROM (SELECT zip, s, who FROM t)"}])
def test_the_source_is_not_replaced(database: Database, source: dict[str, str]) -> None:
    simple(database, ["a"] * 4)
    with pytest.raises(PolicyError, match="would replace a table that is read"):
        publish(simple_policy(source=source, release={"table": "t"}), database.engine)
    assert database.fetch("SELECT COUNT(*) FROM t") == [(4,)]


@pytest.mark.parametrize("name", ["r.csv", "r.parquet", "r.csv.evidence.json"])
def test_somebody_elses_file_is_not_replaced(duck: Database, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    asked = simple(duck, ["a"] * 4, release={"path": str(tmp_path / name.removesuffix(".evidence.json"))})
    with pytest.raises(SqlanonError, match=r"was not published by sqlanon|cannot be read"):
        publish(asked, duck.engine)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(name, "mine")]


@pytest.mark.full
@pytest.mark.parametrize("broken", ["", "{", "[]", "{}", '{"release": {}, "plan": {}, "policy": {}}'])
def test_corrupt_evidence(database: Database, tmp_path: Path, broken: str) -> None:
    publish(simple(database, ["a"] * 4), database.engine)
    database.run(f"UPDATE sqlanon_releases SET evidence = '{broken}'")
    for act in (load_evidence, publish):
        with pytest.raises(SqlanonError, match="the evidence of 'r' cannot be read"):
            act(simple_policy(), database.engine)
    path = tmp_path / "r.csv"
    (tmp_path / "r.csv.evidence.json").write_text(broken)
    with pytest.raises(SqlanonError, match="cannot be read"):
        load_evidence(simple_policy(release={"path": str(path)}), database.engine)


@pytest.mark.full
@pytest.mark.parametrize("release", [{"table": "r"}, {"view": "r"}])
def test_who_may_read_a_release_may_read_the_next(postgres: Database, release: dict[str, str]) -> None:
    asked = simple(postgres, ["a"] * 4, release=release)
    publish(asked, postgres.engine)
    for role in ("reader", '"the ""boss"""', "clerk", "outsider"):
        postgres.run(f"CREATE ROLE {role}")
    try:
        postgres.run("GRANT SELECT ON r TO reader, PUBLIC")
        postgres.run('GRANT SELECT, DELETE ON r TO "the ""boss""" WITH GRANT OPTION')
        postgres.run("GRANT SELECT (zip) ON r TO clerk")
        postgres.run("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO outsider")
        kept = "SELECT attname, acl::text FROM (SELECT NULL AS attname, relacl AS acl FROM pg_class WHERE oid = "
        kept += "'r'::regclass UNION ALL SELECT attname, attacl FROM pg_attribute WHERE attrelid = 'r'::regclass) AS t"
        before = sorted(map(str, postgres.fetch(kept)))
        assert "outsider" not in str(before) and "clerk=r" in str(before)
        publish(asked, postgres.engine)
        assert [line for line in sorted(map(str, postgres.fetch(kept))) if "=" in line] == [
            line for line in before if "=" in line
        ]
        if release == {"table": "r"}:
            # The owner alone reads what he never granted to anybody.
            postgres.run('REVOKE ALL ON r FROM reader, PUBLIC, "the ""boss""", clerk')
            publish(asked, postgres.engine)
            acl = str(postgres.fetch("SELECT relacl::text FROM pg_class WHERE oid = 'r'::regclass"))
            assert not any(role in acl for role in ("reader", "boss", "clerk", "outsider"))
    finally:
        postgres.run("DROP VIEW IF EXISTS r" if "view" in release else "DROP TABLE IF EXISTS r")
        for role in ("reader", '"the ""boss"""', "clerk", "outsider"):
            postgres.run(f"DROP OWNED BY {role}")
            postgres.run(f"DROP ROLE {role}")


@pytest.mark.full
def test_grants_to_nobody(database: Database) -> None:
    """A release that was never granted to anybody is republished as such."""
    asked = simple(database, ["a"] * 4)
    for _ in range(2):
        publish(asked, database.engine)
    if database.engine.dialect == "postgres":
        assert database.fetch("SELECT relacl FROM pg_class WHERE oid = 'r'::regclass") == [(None,)]
