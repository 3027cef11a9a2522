"""Second draws of the same rows are refused by the record of releases, however the rows are reached."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import correlation
from typing import Any

import pytest
import transforming
from conftest import Database
from transforming import KEY, OTHER_KEY, changed, load, people, policy, with_people

from sqlanon.errors import PolicyError
from sqlanon.release import publish
from sqlanon.release.plan_refresh import plan_refresh
from sqlanon.release.retire_release import retire


def noisy(alpha: float, release: str, **more: Any) -> Any:
    changes = {key: more.pop(key) for key in ("source", "columns", "person") if key in more}
    use = {"additive_noise": {"columns": ["income"], "alpha": alpha, **more}}
    given: dict[str, Any] = {"release": {"path" if "/" in release else "table": release}}
    return policy([use], **given, **changes)


def put(database: Database, asked: Any, secret: str = KEY) -> Any:
    return publish(asked, database.engine, secret=secret, workload=False)


def refused(database: Database, asked: Any, secret: str = KEY) -> PolicyError:
    tables = sorted(database.engine.tables())
    told = plan_refresh(asked, database.engine, secret=secret).refused
    with pytest.raises(PolicyError) as error:
        put(database, asked, secret)
    assert told is not None and str(told) == str(error.value)
    assert sorted(database.engine.tables()) == tables
    return error.value


@pytest.mark.full
def test_a_second_level_is_refused_and_a_ladder_is_not(database: Database) -> None:
    with_people(database, people(120, nulls=False))
    done = put(database, noisy(0.1, "one"))
    assert done.document["draws"]["columns"] == {"income": ['["additive_noise",{"from":0.0,"to":0.1}]']}
    assert KEY not in json.dumps(done.document, default=str)
    error = refused(database, noisy(0.5, "two"))
    assert "'income' was drawn with other parameters in the release 'one' of the same rows" in str(error)
    assert "'ladder: [0.1, 0.5]'" in str(error.hint) and "retire that release" in str(error.hint)
    assert "alpha" in str(refused(database, noisy(0.05, "two")).hint)
    refused(database, noisy(0.5, "one"))  # whoever read the first version has it
    put(database, noisy(0.1, "two"))
    first, second = (sorted(database.fetch(f"SELECT income FROM {name}")) for name in ("one", "two"))
    assert first == second
    put(database, noisy(0.5, "three", ladder=[0.1, 0.5]))
    put(database, noisy(2, "four", ladder=[0.1, 0.5, 2]))
    refused(database, noisy(0.5, "five", ladder=[0.1, 0.2, 0.5]))
    refused(database, noisy(0.5, "five", ladder=[0.5, 2]))
    put(database, noisy(0.1, "five", ladder=[0.1, 0.2, 0.5]))


def test_another_key_is_another_draw(database: Database) -> None:
    with_people(database, people(120, nulls=False))
    put(database, noisy(0.1, "one"))
    error = refused(database, noisy(0.1, "two"), OTHER_KEY)
    assert "under another key" in str(error) and "SQLANON_KEY" in str(error.hint)


@pytest.mark.full
def test_after_a_release_is_retired_another_one_may_take_its_place(database: Database) -> None:
    with_people(database, people(120, nulls=False))
    put(database, noisy(0.1, "one"))
    put(database, noisy(0.1, "one"))
    refused(database, noisy(0.5, "two"))
    retire(noisy(0.1, "one"), database.engine)
    put(database, noisy(0.5, "two"))
    refused(database, noisy(0.1, "one"))


@pytest.mark.full
def test_the_same_rows_are_found_through_views_and_queries(database: Database) -> None:
    with_people(database, people(120, nulls=False))
    database.run("CREATE VIEW seen AS SELECT * FROM people WHERE id < 60")
    database.run("CREATE VIEW further AS SELECT * FROM seen")
    put(database, noisy(0.1, "one", source={"view": "further"}))
    for source in (
        {"table": "people"},
        {"view": "seen"},
        {"query": "SELECT * FROM people WHERE id > 50"},
        {"query": "WITH a AS (SELECT * FROM people) SELECT * FROM a"},
    ):
        assert "of the same rows" in str(refused(database, noisy(0.5, "two", source=source)))
    # Nobody is in both.
    put(database, noisy(0.5, "two", source={"query": "SELECT * FROM people WHERE id >= 60"}))
    # Another table that happens to have the same numbers.
    load(database, "others", transforming.TYPES, people(80, seed=2, nulls=False))
    put(database, noisy(0.2, "three", source={"table": "others"}))
    # Without an identity nobody knows.
    roles = dict.fromkeys(transforming.TYPES, "insensitive") | {"age": "quasi_identifier"}
    far = {"query": "SELECT * FROM people WHERE id >= 60"}
    refused(database, noisy(0.2, "four", source=far, columns=roles))
    for view in ("further", "seen"):
        database.run(f"DROP VIEW {view}")


OTHERS = [name for name in transforming.TYPES if name != "income"]


def view_of(income: str, table: str = "people") -> str:
    """A view of the people whose incomes agree with none of the table, so that only its definition tells of it."""
    return f"CREATE VIEW hidden AS SELECT {', '.join(OTHERS)}, {income} AS income FROM {table}"


# DuckDB keeps a lambda as text that the parser cannot read, and a function after FROM names no table.
UNREADABLE = {
    "lambda": (view_of("list_sum(list_transform([income], lambda x: x + 1))"), "cannot read the definition of the"),
    "macro": (view_of("income + 1", "everybody()"), "the view 'hidden' calls everybody()"),
    "query": (view_of("income + 1", "query('FROM people')"), "the view 'hidden' calls query()"),
    "query_table": (view_of("income + 1", "query_table('people')"), "the view 'hidden' calls query_table()"),
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("what", sorted(UNREADABLE))
def test_a_view_that_cannot_be_read_may_hold_the_same_rows(duck: Database, what: str) -> None:
    made, reason = UNREADABLE[what]
    with_people(duck, people(120, nulls=False))
    duck.run("CREATE MACRO everybody() AS TABLE FROM people")
    duck.run(made)
    duck.run("CREATE VIEW outer_one AS FROM hidden")
    put(duck, noisy(0.1, "one"))
    for name in ("hidden", "outer_one"):
        error = refused(duck, noisy(0.5, "two", source={"view": name}))
        assert "'income' was drawn with other parameters in the release 'one'" in str(error)
        assert f"of what may be the same rows ({'sqlanon ' if what == 'lambda' else ''}{reason}" in str(error)
        assert ("without syntax of its engine" if what == "lambda" else "name the tables") in str(error.hint)
        assert "retire that release" in str(error.hint)
    # The same in the other direction, for samples, and for noise at another scale.
    sampled = [{"sampling": {"share": 0.3}}]
    put(duck, policy(sampled, source={"view": "hidden"}, release={"table": "three"}))
    asked = policy(sampled, release={"table": "four"})
    assert reason in str(refused(duck, asked, OTHER_KEY))
    wider = {"query": "SELECT * REPLACE (5 * income AS income) FROM hidden"}
    error = refused(duck, noisy(0.1, "five", source=wider))
    assert "spreads more or less" in str(error) and reason in str(error)
    put(duck, noisy(0.1, "six", source={"view": "hidden"}))  # the same draws are no reason to refuse


def test_a_view_that_cannot_be_read_of_other_persons_goes_on(duck: Database) -> None:
    with_people(duck, people(120, nulls=False))
    put(duck, noisy(0.1, "one"))
    far = [{**row, "id": row["id"] + 1000} for row in people(120, seed=2, nulls=False)]
    load(duck, "others", transforming.TYPES, far)
    duck.run(view_of("list_transform([income], lambda x: x + 1)[1]", "others"))
    put(duck, noisy(0.5, "two", source={"view": "hidden"}))


POSTGRES = {
    "a form of its own": (view_of("income + 1 + length(xmlserialize(CONTENT NULL::xml AS text))"), None),
    "a materialized view": (view_of("income + 1").replace("VIEW", "MATERIALIZED VIEW"), None),
    "a function": (view_of("income + 1", "everybody()"), "calls everybody()"),
}  # fmt: skip


@pytest.mark.parametrize("what", sorted(POSTGRES))
def test_views_of_postgres_are_found_in_its_own_record(postgres: Database, what: str) -> None:
    made, reason = POSTGRES[what]
    with_people(postgres, people(120, nulls=False))
    listed = ", ".join(f"{name} {kind}" for name, kind in transforming.TYPES.items())
    postgres.run(f"CREATE FUNCTION everybody() RETURNS TABLE ({listed}) LANGUAGE sql AS 'SELECT * FROM people'")
    postgres.run(made)
    put(postgres, noisy(0.1, "one"))
    error = refused(postgres, noisy(0.5, "two", source={"query": "SELECT * FROM hidden"}))
    assert "'income' was drawn with other parameters in the release 'one'" in str(error)
    assert ("of the same rows" if reason is None else reason) in str(error)
    error = refused(postgres, noisy(0.5, "two", source={"query": "SELECT * FROM everybody()"}))
    assert "calls everybody()" in str(error)


def test_a_part_of_a_table_is_the_same_rows(postgres: Database) -> None:
    """The rows of a partition are rows of its table, whatever a query makes of the values."""
    with_people(postgres, people(120, nulls=False))
    postgres.run("CREATE TABLE whole (LIKE people) PARTITION BY RANGE (id)")
    postgres.run("CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (1000)")
    postgres.run("INSERT INTO whole SELECT * FROM people")
    postgres.run("DROP TABLE people")
    put(postgres, noisy(0.1, "one", source={"table": "whole"}))
    changed_rows = {"query": f"SELECT {', '.join(OTHERS)}, income + 1 AS income FROM part"}
    assert "of the same rows" in str(refused(postgres, noisy(0.5, "two", source=changed_rows)))


@pytest.mark.full
def test_rows_whose_source_is_gone_may_be_the_same(duck: Database, tmp_path: Path) -> None:
    """A table that was renamed, or a file that was moved, can no longer be compared."""
    with_people(duck, people(120, nulls=False))
    duck.run(f"COPY people TO '{tmp_path}/people.parquet'")
    put(duck, noisy(0.1, "one"))
    duck.run("ALTER TABLE people RENAME TO persons")
    persons = {"table": "persons"}
    error = refused(duck, noisy(0.5, "two", source=persons))
    assert "of what may be the same rows ('people' is not there any more)" in str(error)
    assert "give back the table or file" in str(error.hint)
    put(duck, noisy(0.1, "two", source=persons))  # the same draws
    duck.run("ALTER TABLE persons RENAME TO people")
    put(duck, noisy(0.1, "three", source={"path": f"{tmp_path}/people.parquet"}))
    (tmp_path / "people.parquet").rename(tmp_path / "moved.parquet")
    put(duck, policy([], source={"path": f"{tmp_path}/moved.parquet"}, release={"table": "four"}))  # nothing is drawn


@pytest.mark.full
def test_copies_and_other_names_are_the_same_rows(duck: Database, tmp_path: Path) -> None:
    with_people(duck, people(120, nulls=False))
    put(duck, noisy(0.1, "one"))
    duck.run("CREATE SCHEMA far")
    duck.run("CREATE TABLE far.people AS FROM people")
    duck.run("CREATE TABLE copied AS FROM people WHERE id >= 20 ORDER BY income")
    duck.run("UPDATE copied SET income = income + 1 WHERE id % 4 = 0")
    duck.run("CREATE MACRO everybody() AS TABLE FROM people")
    for ending in ("csv", "parquet"):
        duck.run(f"COPY people TO '{tmp_path}/copied.{ending}'")
    for source in (
        {"table": "far.people"},
        {"table": "copied"},
        {"query": "SELECT * FROM everybody()"},
        {"path": f"{tmp_path}/copied.csv"},
        {"path": f"{tmp_path}/copied.parquet"},
        {"query": f"SELECT * FROM read_csv('{tmp_path}/copied.csv')"},
    ):
        assert "with other parameters" in str(refused(duck, noisy(0.5, "two", source=source))), source
        assert "under another key" in str(refused(duck, noisy(0.1, "two", source=source), OTHER_KEY)), source
    roles = dict.fromkeys(transforming.TYPES, "insensitive") | {"id": "identifier", "age": "quasi_identifier"}
    renamed = {("salary" if name == "income" else name): role for name, role in roles.items()}
    for written in ("people", "copied"):
        source = {"query": f"SELECT * EXCLUDE (income), income AS salary FROM {written}"}
        use = [{"additive_noise": {"columns": ["salary"], "alpha": 0.1}}]
        error = refused(duck, policy(use, source=source, columns=renamed, release={"table": "two"}))
        assert "'salary', which holds the values of 'income', was drawn under another name" in str(error)
    # Other columns of the same persons are other values, and so are those of other persons.
    put(duck, policy([{"additive_noise": {"columns": ["tax"], "alpha": 0.5}}], source={"table": "copied"},
                     release={"table": "two"}))  # fmt: skip
    duck.run("CREATE TABLE others AS SELECT * REPLACE (119 - id AS id) FROM people")
    put(duck, noisy(0.5, "three", source={"table": "others"}))


def test_rows_without_an_identity_are_the_same_if_they_are_equal(duck: Database) -> None:
    with_people(duck, people(120, nulls=False))
    roles = dict.fromkeys(transforming.TYPES, "insensitive") | {"age": "quasi_identifier"}
    put(duck, noisy(0.1, "one", columns=roles))
    duck.run("CREATE TABLE copied AS FROM people WHERE id >= 20")
    assert "'income'" in str(refused(duck, noisy(0.5, "two", columns=roles, source={"table": "copied"})))
    load(duck, "others", transforming.TYPES, people(120, seed=2, nulls=False))
    put(duck, noisy(0.5, "two", columns=roles, source={"table": "others"}))


IDENTITIES = {
    "more identifiers": {"columns": {"job": "identifier"}},
    "another type": {"source": {"query": "SELECT * REPLACE (CAST(id AS VARCHAR) AS id) FROM people"}},
    "rows that share it": {"source": {"query": "FROM people UNION ALL (FROM people WHERE id = 3)"}},
}


@pytest.mark.parametrize("what", sorted(IDENTITIES))
def test_another_identity_is_another_draw(duck: Database, what: str) -> None:
    """The parameters and the key are the same, and yet the second release averages the noise of the first."""
    rows = people(400, nulls=False)
    with_people(duck, rows)
    roles = dict.fromkeys(transforming.TYPES, "insensitive") | {"id": "identifier", "age": "quasi_identifier"}
    changes = dict(IDENTITIES[what])
    changes["columns"] = roles | changes.get("columns", {})
    use = [{"additive_noise": {"columns": ["rent"], "alpha": 0.5}}]
    found = [{row["id"]: row["rent"] for row in changed(duck, use, **more)} for more in ({"columns": roles}, changes)]
    noise = [[one.get(row["id"], one.get(str(row["id"]))) - row["rent"] for row in rows] for one in found]
    assert abs(correlation(*noise)) < 4.5 / math.sqrt(400)
    put(duck, noisy(0.1, "one", columns=roles))
    error = refused(duck, noisy(0.1, "two", **changes))
    assert "'income' was drawn by another identity in the release 'one'" in str(error)
    assert "identify rows by id (integer), as that release does" in str(error.hint)


@pytest.mark.full
def test_the_order_of_identifiers_and_of_columns_is_part_of_an_identity(duck: Database) -> None:
    with_people(duck, people(120, nulls=False))
    roles = dict.fromkeys(transforming.TYPES, "insensitive") | {"age": "quasi_identifier"}
    both = roles | {"id": "identifier", "job": "identifier"}
    put(duck, noisy(0.1, "one", columns=both))
    turned = {"job": "identifier"} | {name: role for name, role in both.items() if name != "job"}
    assert "by another identity" in str(refused(duck, noisy(0.1, "two", columns=turned)))
    load(duck, "others", transforming.TYPES, people(120, seed=2, nulls=False))
    put(duck, noisy(0.1, "two", columns=roles, source={"table": "others"}))
    for read in ("SELECT town, * EXCLUDE (town) FROM others", "SELECT * FROM others"):
        asked = noisy(0.1, "three", columns=roles, source={"query": read})
        if read.startswith("SELECT town"):
            assert "by another identity" in str(refused(duck, asked))
        else:
            put(duck, asked)


@pytest.mark.full
def test_noise_at_another_scale_is_another_draw(database: Database) -> None:
    """The scale follows the rows: a part of them, with the same policy, would have noise of its own to average."""
    with_people(database, people(200, nulls=False))
    done = put(database, noisy(0.1, "one"))
    ((step, _),) = done.document["draws"]["scales"]["income"]
    part = {"query": "SELECT * FROM people WHERE income < 25000"}
    error = refused(database, noisy(0.1, "two", source=part))
    assert "'income' spreads more or less than in the release 'one' of the same rows" in str(error)
    kept = {"income": float(f"{2 ** (step / 32):.6g}")}
    assert f"write 'spread: {{income: {kept['income']:g}}}'" in str(error.hint)
    put(database, noisy(0.1, "two", source=part, spread=kept))
    first, second = (
        {row[:-1]: row[-1] for row in database.fetch(f"SELECT rent, tax, income FROM {name}")}
        for name in ("one", "two")
    )
    assert len(second) > 50 and all(first.get(key, value) == value for key, value in second.items())
    put(database, noisy(0.1, "one", spread=kept))
    # Rows that come do not matter as long as the scale stays.
    database.run("INSERT INTO people SELECT id + 1000, age, income, rent, tax, born, job, smoker, town FROM people")
    put(database, noisy(0.1, "one"))


def test_a_sample_under_another_key_shows_other_persons(duck: Database) -> None:
    with_people(duck, people(200, nulls=False))

    def sampled(share: float, release: str, **changes: Any) -> Any:
        return policy([{"sampling": {"share": share}}], release={"table": release}, **changes)

    put(duck, sampled(0.3, "one"))
    put(duck, sampled(0.5, "two"))
    assert "the sample was drawn under another key" in str(refused(duck, sampled(0.3, "three"), OTHER_KEY))
    roles = dict.fromkeys(transforming.TYPES, "insensitive") | {"age": "quasi_identifier"}
    assert "the sample was drawn by another identity" in str(refused(duck, sampled(0.3, "three", columns=roles)))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"spread": {"tax": 3}}, "'spread' names 'tax', which gets no noise"),
        ({"spread": {"income": 0}}, "must be > 0"),
        ({"spread": {"income": 3}, "kind": "linear"}, "'spread' needs kind: uncorrelated"),
    ],
)
def test_a_wrong_spread_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        policy([{"additive_noise": {"columns": ["income"], "alpha": 0.5, **more}}])


@pytest.mark.full
def test_other_columns_and_other_methods(duck: Database) -> None:
    with_people(duck, people(200, nulls=False))
    put(duck, noisy(0.1, "one"))
    put(duck, policy([{"rank_swap": {"columns": ["rent"], "percent": 20}}], release={"table": "two"}))
    swapped = [{"rank_swap": {"columns": ["income"], "percent": 20}}]
    assert "'income'" in str(refused(duck, policy(swapped, release={"table": "three"})))
    refused(duck, policy([{"rank_swap": {"columns": ["rent"], "percent": 30}}], release={"table": "three"}))
    noise = {"additive_noise": {"columns": ["income"], "alpha": 0.1}}
    # More draws on top of those, other rows less, and what is no draw tell nothing new.
    put(duck, policy([noise, *swapped], release={"table": "three"}))
    put(duck, policy([noise, {"sampling": {"share": 0.5}}], release={"table": "four"}))
    put(duck, policy([noise, {"rounding": {"columns": ["income"], "base": 1000}}], release={"table": "five"}))
    refused(duck, policy([{"rounding": {"columns": ["income"], "base": 1000}}, noise], release={"table": "six"}))
    masked = [{"masking": {"columns": ["town"], "format": "name", "keep_first": 1}}]
    put(duck, policy(masked, release={"table": "six"}))
    masked[0]["masking"] = {"columns": ["town"], "format": "name", "keep_last": 1}
    refused(duck, policy(masked, release={"table": "seven"}))


def test_a_release_of_an_older_sqlanon_drew_otherwise(duck: Database) -> None:
    with_people(duck, people(120, nulls=False))
    put(duck, noisy(0.1, "one"))
    ((text,),) = duck.fetch("SELECT evidence FROM sqlanon_releases")
    document = json.loads(text)
    del document["draws"]
    duck.engine._connection.execute(  # type: ignore[attr-defined]
        "UPDATE sqlanon_releases SET evidence = ?", [json.dumps(document)]
    )
    assert "by an older sqlanon" in str(refused(duck, noisy(0.1, "two")))
    put(duck, policy([], release={"table": "three"}))


@pytest.mark.full
def test_files_are_compared_with_the_files_beside_them(duck: Database, tmp_path: Path) -> None:
    with_people(duck, people(120, nulls=False))
    put(duck, noisy(0.5, f"{tmp_path}/one.parquet", ladder=[0.1, 0.5]))
    refused(duck, noisy(0.2, f"{tmp_path}/two.csv"))
    put(duck, noisy(0.1, f"{tmp_path}/one.parquet"))
    # What the first version of the file was is known still.
    refused(duck, noisy(0.5, f"{tmp_path}/one.parquet", ladder=[0.1, 0.3, 0.5]))
    refused(duck, noisy(0.5, f"{tmp_path}/folder/"))
    put(duck, noisy(0.1, f"{tmp_path}/folder/"))
    put(duck, noisy(0.1, f"{tmp_path}/two.csv"))
    put(duck, noisy(0.1, "one"))
    refused(duck, noisy(0.2, f"{tmp_path}/elsewhere/"))
    (tmp_path / "far").mkdir()
    refused(duck, noisy(0.2, f"{tmp_path}/far/one.parquet"))  # the record of the database says so


def sampled_people(release: str, **params: Any) -> Any:
    roles = {"id": "identifier", "age": "quasi_identifier", "disease": "sensitive"}
    return policy(
        [], columns=roles, models=[{"expected_confidence": {"beta": 0.5}}], release={"table": release},
        algorithm={"sample_and_generalize": {"rate": 0.5, "distortion": 1, **params}}, suppression_limit=1.0,
    )  # fmt: skip


@pytest.mark.full
def test_who_reads_the_policy_does_not_know_who_was_sampled(database: Database) -> None:
    """The sample comes from the key. Another key makes another sample, which shows more persons, and is refused."""
    rows = [{"id": i, "age": i % 4, "disease": "abcdefgh"[i // 4 % 8]} for i in range(160)]
    load(database, "people", {"id": "BIGINT", "age": "INTEGER", "disease": "VARCHAR"}, rows)
    with pytest.raises(PolicyError, match="samples need a key"):
        publish(sampled_people("one"), database.engine, workload=False)
    shown = []
    for key in (KEY, OTHER_KEY):
        done = put(database, sampled_people("one", seed="public"), key)
        assert KEY not in json.dumps(done.document, default=str)
        shown.append(sorted(database.fetch("SELECT age, disease FROM one")))
        assert "under another key" in str(refused(database, sampled_people("two", seed="public"), KEY + key))
        assert "with other parameters" in str(refused(database, sampled_people("two", seed="other"), key))
        put(database, sampled_people("two", seed="public"), key)
        assert sorted(database.fetch("SELECT age, disease FROM two")) == shown[-1]
        for name in ("one", "two"):
            retire(sampled_people(name, seed="public"), database.engine)
    assert shown[0] != shown[1] and len(shown[0]) == len(shown[1])


def test_a_sample_that_was_drawn_without_the_key_is_another_one(duck: Database) -> None:
    """Earlier versions drew from the seed alone, whatever the key was."""
    rows = [{"id": i, "age": i % 4, "disease": "abcdefgh"[i // 4 % 8]} for i in range(160)]
    load(duck, "people", {"id": "BIGINT", "age": "INTEGER", "disease": "VARCHAR"}, rows)
    put(duck, sampled_people("one"))
    ((text,),) = duck.fetch("SELECT evidence FROM sqlanon_releases")
    assert text.count(',\\"key\\"]') == 1
    duck.engine._connection.execute(  # type: ignore[attr-defined]
        "UPDATE sqlanon_releases SET evidence = ?", [text.replace(',\\"key\\"]', "]")]
    )
    assert "with other parameters" in str(refused(duck, sampled_people("two")))


def test_groups_that_are_drawn_twice_are_refused(duck: Database) -> None:
    """A person is in a group of each release: what both groups have in common is what the person has."""
    rows = [{"id": i, "age": i % 7, "disease": "abcdefgh"[i % 8]} for i in range(160)]
    load(duck, "people", {"id": "BIGINT", "age": "INTEGER", "disease": "VARCHAR"}, rows)
    roles = {"id": "identifier", "age": "quasi_identifier", "disease": "sensitive"}

    def grouped(l: int, release: str, name: str = "anatomy") -> Any:  # noqa: E741
        return policy(
            [], columns=roles, models=[{"distinct_l_diversity": {"l": l}}], algorithm={name: {"l": l}},
            release={"table": release}, suppression_limit=0.0,
        )  # fmt: skip

    put(duck, grouped(2, "one"))
    put(duck, grouped(2, "one"))
    assert "'disease' was drawn with other parameters" in str(refused(duck, grouped(4, "two")))
