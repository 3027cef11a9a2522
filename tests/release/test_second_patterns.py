"""Two releases of the same persons in different patterns: attacks that work, and the refusal that prevents them."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import Database
from test_made_release import KINDS, ROWS, TYPES

from sqlanon.errors import NotReleased, PolicyError
from sqlanon.policy import Policy, parse
from sqlanon.release import publish
from sqlanon.release.plan_refresh import plan_refresh
from sqlanon.release.retire_release import retire

KEY = "a key of enough characters"
SHAPES = [kind for kind in KINDS if kind != "groups"]
TREE = {"*": {"V": ["a", "e"], "O": ["b", "c", "d"]}}
UP = {"a": "V", "e": "V", "b": "O", "c": "O", "d": "O"}
BASKETS = {1: "e b", 2: "e b", 3: "e c", 4: "e c", 7: "a d", 8: "a"}


def make_policy(kind: str, name: str = "shown", **more: Any) -> Policy:
    return parse(json.dumps({"release": {"table": name}, **KINDS[kind], **more}))


def basket_policy(name: str, algorithm: str, limit: float = 0.9) -> Policy:
    data = {
        "source": {"table": "baskets"},
        "person": "who",
        "shape": "set",
        "columns": {"who": "identifier", "what": "item"},
        "hierarchies": {"what": {"tree": {"tree": TREE}}},
        "models": [{"km_anonymity": {"k": 2, "m": 2}}],
        "algorithm": algorithm,
        "suppression_limit": limit,
        "release": {"table": name},
    }
    return parse(json.dumps(data))


def shown_sets(database: Database, name: str) -> list[str]:
    found = defaultdict(set)
    for number, item in database.fetch(f"SELECT person_number, what FROM {name}"):
        found[number].add(item)
    return sorted(" ".join(sorted(items)) for items in found.values())


@pytest.mark.full_on_postgres
def test_what_two_patterns_tell_together(database: Database) -> None:
    """Each release holds for two persons and two items. Who has both finds the one person with a and d."""
    rows = [{"who": who, "what": item} for who, items in BASKETS.items() for item in items.split()]
    database.table("baskets", {"who": "BIGINT", "what": "TEXT"}, rows)
    one, other = basket_policy("one", "item_suppression"), basket_policy("other", "apriori", 0)
    publish(one, database.engine)
    assert shown_sets(database, "one") == ["a", "a", "b e", "b e", "c e", "c e"]  # d is suppressed
    with pytest.raises(NotReleased, match="'one' shows 6 of the same persons in another way"):
        publish(other, database.engine)
    assert database.engine.find(["other"]) is None
    retire(one, database.engine)
    publish(other, database.engine)
    assert shown_sets(database, "other") == ["O V"] * 5 + ["V"]
    sets = {who: set(items.split()) for who, items in BASKETS.items()}
    first = {who for who, items in sets.items() if "a" in items}
    second = {who for who, items in sets.items() if {"V", "O"} <= {UP[item] for item in items}}
    assert (len(first), len(second), first & second) == (2, 5, {7})


@pytest.mark.full
@pytest.mark.full_on_postgres
@pytest.mark.parametrize("kind", SHAPES)
def test_the_same_may_be_shown_again(database: Database, kind: str) -> None:
    database.table("visits", TYPES, ROWS)
    first = publish(make_policy(kind), database.engine)
    again = publish(make_policy(kind), database.engine, secret=KEY)  # whatever the key
    assert again.document["pattern"]["shown"] == first.document["pattern"]["shown"]
    assert publish(make_policy(kind, "beside"), database.engine).evidence is not None
    plan = plan_refresh(make_policy(kind), database.engine)
    assert plan.refused is None


@pytest.mark.full
@pytest.mark.full_on_postgres
@pytest.mark.parametrize("kind", SHAPES)
def test_persons_who_have_changed_are_not_shown_again(database: Database, kind: str) -> None:
    """With one person more, what only the second release has is theirs."""
    database.table("visits", TYPES, ROWS)
    publish(make_policy(kind), database.engine)
    before = sorted(database.fetch("SELECT * FROM shown"))
    database.run("INSERT INTO visits VALUES (13, 1, 'eyes', 'd1'), (13, 2, 'eyes', 'd1'), (13, 3, 'eyes', 'd1')")
    for name in ("shown", "beside"):
        with pytest.raises(NotReleased, match="rows that have changed since") as caught:
            publish(make_policy(kind, name), database.engine)
        assert "retire 'shown' first" in (caught.value.hint or "")
    refused = plan_refresh(make_policy(kind), database.engine).refused
    assert refused is not None and "rows that have changed since" in refused.message
    assert sorted(database.fetch("SELECT * FROM shown")) == before
    retire(make_policy(kind), database.engine)
    publish(make_policy(kind), database.engine)


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("kind", SHAPES)
def test_other_persons_may_follow(database: Database, kind: str) -> None:
    """Some patients after others, while the rows of these stay as they were."""
    more = [{**row, "patient": int(row["patient"]) + 12} for row in ROWS if int(row["patient"]) < 8]
    database.table("visits", TYPES, [*ROWS, *more])
    chosen = "patient, ward" if kind == "set" else "patient, day, ward"

    def of(where: str) -> dict[str, Any]:
        return {"source": {"query": f"SELECT {chosen} FROM visits WHERE {where}"}}

    publish(make_policy(kind, "first", **of("patient <= 6")), database.engine, secret=KEY)
    publish(make_policy(kind, "second", **of("patient BETWEEN 7 AND 12")), database.engine, secret=KEY)
    with pytest.raises(NotReleased, match=r"'(first|second)' shows [0-9]+ of the same persons"):
        publish(make_policy(kind, "third", **of("patient > 4")), database.engine, secret=KEY)
    with pytest.raises(NotReleased, match="was published with a key"):
        publish(make_policy(kind, "third", **of("patient > 4")), database.engine)
    database.run("DELETE FROM visits WHERE patient = 1")
    with pytest.raises(NotReleased, match="'first' shows rows that have changed since"):
        publish(make_policy(kind, "third", **of("patient > 12")), database.engine, secret=KEY)


def test_a_table_of_strangers_is_not_compared(database: Database) -> None:
    database.table("visits", TYPES, ROWS)
    publish(make_policy("sequence"), database.engine)
    database.run("CREATE TABLE others AS SELECT * FROM visits WHERE patient > 2")
    source = {"query": "SELECT patient, day, ward FROM others"}
    assert publish(make_policy("sequence", "beside", source=source), database.engine).evidence is not None


@pytest.mark.full
def test_patterns_of_files(duck: Database, tmp_path: Path) -> None:
    duck.table("visits", TYPES, ROWS)
    for kind, name in [(kind, name) for kind in SHAPES for name in ("one.csv", "one.csv", "two.parquet", "versions/")]:
        if name == "one.csv" and not (tmp_path / kind).exists():
            (tmp_path / kind).mkdir()
        publish(
            make_policy(kind, release={"path": str(tmp_path / kind / name) + "/" * name.endswith("/")}), duck.engine
        )
    duck.run("UPDATE visits SET ward = 'ears' WHERE patient < 4")
    for name in ("one.csv", "three.csv"):
        with pytest.raises(NotReleased, match="rows that have changed since"):
            publish(make_policy("set", release={"path": str(tmp_path / "set" / name)}), duck.engine)


def test_a_release_of_an_older_sqlanon(database: Database) -> None:
    database.table("visits", TYPES, ROWS)
    publish(make_policy("sequence"), database.engine)
    database.run("UPDATE sqlanon_releases SET evidence = REPLACE(evidence, '\"pattern\"', '\"other\"')")
    with pytest.raises(NotReleased, match="a sqlanon that did not keep what it shows"):
        publish(make_policy("sequence"), database.engine)


def test_a_query_of_its_time(database: Database) -> None:
    """Each refresh shows the patients of one day, and is compared with those of the days before as they were."""
    rows = [{**row, "day": 10 * int(row["day"])} for row in ROWS if row["day"] == 1 + (int(row["patient"]) > 6)]
    database.table("visits", TYPES, rows)
    query = "SELECT patient, day, ward FROM visits WHERE day = EXTRACT(MINUTE FROM CAST(:due AS TIMESTAMP))"
    policy = make_policy("sequence", source={"query": query})
    for minute in (10, 20, 10):
        done = publish(policy.at(datetime(2026, 11, 19, 8, minute, tzinfo=UTC)), database.engine)
        assert done.document["pattern"]["due"] == f"2026-11-19T08:{minute}:00+00:00"
    database.run("UPDATE visits SET day = 20 WHERE patient = 1")
    with pytest.raises(NotReleased, match="rows that have changed since"):
        publish(policy.at(datetime(2026, 11, 19, 8, 20, tzinfo=UTC)), database.engine)


def test_a_file_is_retired(duck: Database, tmp_path: Path) -> None:
    duck.table("visits", TYPES, ROWS)
    shown = make_policy("set", release={"path": str(tmp_path / "one.csv")})
    groups = parse(json.dumps({"source": {"table": "visits"}, **KINDS["groups"],
                               "release": {"path": str(tmp_path / "two.csv")}}))  # fmt: skip
    publish(shown, duck.engine)
    publish(groups, duck.engine, secret=KEY)
    assert {path.name for path in tmp_path.iterdir()} > {"one.csv", "two.csv", "two_sensitive.csv"}
    assert retire(shown, duck.engine) == [str(tmp_path / "one.csv")]
    assert retire(groups, duck.engine) == [str(tmp_path / "two.csv"), str(tmp_path / "two_sensitive.csv")]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(PolicyError, match="there is no release"):
        retire(shown, duck.engine)
