"""Transformations in a policy: what is published, what is kept secret, what is refused, and the groups of MDAV."""

from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import transforming
from click.testing import CliRunner
from conftest import Database
from transforming import KEY, OTHER_KEY, changed, people, policy, with_people

from sqlanon.cli import main
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.evidence.checks import check
from sqlanon.policy import Source
from sqlanon.release import publish
from sqlanon.release.plan_refresh import plan_refresh
from sqlanon.release.release_script import release_script
from sqlanon.release.retire_release import retire

SWAPPED = [
    {"pram": {"columns": ["job"], "keep": 0.6, "invariant": True}},
    {"sampling": {"share": 0.5}},
    {"rank_swap": {"columns": ["age"], "percent": 20}},
]


def released(database: Database) -> list[tuple[Any, ...]]:
    return sorted(database.fetch("SELECT age, income, job, town FROM released"), key=str)


@pytest.mark.full
def test_a_release_of_transformed_rows_is_checked_as_written(database: Database) -> None:
    with_people(database, people(300))
    asked = policy(SWAPPED, hierarchies={"age": {"intervals": {"widths": [10, 20]}}}, minimize="ncp")
    done = publish(asked, database.engine, secret=KEY, workload=False)
    rows = changed(database, SWAPPED)
    assert done.evidence is not None and done.evidence.holds
    assert done.document["records"] == len(rows) < 200
    assert done.document["released"] == len(released(database))
    shown = Counter((row["income"], row["job"], row["town"]) for row in rows)
    assert not Counter(row[1:] for row in released(database)) - shown
    methods = [item["method"] for item in done.document["transformations"]]
    assert methods == ["pram", "sampling", "rank_swap"]
    assert done.document["transformations"][0]["params"]["keep"] == 0.6
    assert json.loads(done.document["policy"]["text"])["transformations"] == SWAPPED
    assert any(line.startswith("rank_swap: a rank.") for line in done.document["not_protected"])
    # Nothing is left behind.
    assert not [
        name for name in database.engine.tables() if not name.startswith(("people", "released", "sqlanon_releases"))
    ]
    first = released(database)
    publish(asked, database.engine, secret=KEY, workload=False)
    assert released(database) == first
    with pytest.raises(PolicyError, match="was drawn under another key"):
        publish(asked, database.engine, secret=OTHER_KEY, workload=False)
    retire(asked, database.engine)
    publish(asked, database.engine, secret=OTHER_KEY, workload=False)
    assert released(database) != first


@pytest.mark.full
def test_a_plan_is_of_the_rows_that_will_be_published(duck: Database) -> None:
    with_people(duck, people(200))
    asked = policy(SWAPPED, hierarchies={"age": {"intervals": {"widths": [10, 20]}}}, minimize="ncp")
    found = plan_refresh(asked, duck.engine, secret=KEY)
    assert found.refused is None and found.plan is not None
    assert found.plan.hash == publish(asked, duck.engine, secret=KEY, workload=False).plan.hash
    refused = plan_refresh(asked, duck.engine).refused
    assert refused is not None and "secret" in str(refused).lower() + str(refused.hint).lower()


def test_the_key_is_in_no_statement_and_no_evidence(duck: Database, caplog: pytest.LogCaptureFixture) -> None:
    with_people(duck, people(200))
    seen: list[str] = []
    execute = duck.engine.execute
    query = duck.engine.query

    def watched(tree: Any) -> None:
        seen.append(tree.sql("duckdb"))
        execute(tree)

    def asked(tree: Any) -> Any:
        seen.append(tree.sql("duckdb"))
        return query(tree)

    duck.engine.execute, duck.engine.query = watched, asked  # type: ignore[method-assign]
    with caplog.at_level(logging.DEBUG):
        done = publish(policy(SWAPPED), duck.engine, secret=KEY, workload=False)
    assert len(seen) > 10 and "sqlanon_changed_seeds" in "".join(seen)
    for text in (*seen, json.dumps(done.document, default=str), done.plan.to_json(), caplog.text):
        assert KEY not in text
    seeds = duck.fetch("SELECT 1 FROM duckdb_tables() WHERE table_name LIKE 'sqlanon_changed%'")
    assert seeds == []


@pytest.mark.full_on_postgres
def test_a_script_makes_the_same_rows_by_hand(database: Database) -> None:
    with_people(database, people(200))
    asked = policy(SWAPPED, algorithm="full_domain")
    done = publish(asked, database.engine, secret=KEY, workload=False)
    first = released(database)
    script = release_script(asked, done.plan, database.engine.dialect)
    assert KEY not in script
    database.run("DROP TABLE released")
    begin = next(line for line in script.splitlines() if line.startswith("-- CREATE TEMPORARY"))
    database.run(begin.removeprefix("-- ").replace("the value of SQLANON_KEY", KEY))
    for statement in script.split(";\n"):
        lines = [line for line in statement.splitlines() if not line.startswith("--")]
        if "".join(lines).strip():
            database.run("\n".join(lines))
    assert released(database) == first


@pytest.mark.full_on_postgres
def test_models_compare_with_the_rows_after_the_transformations(database: Database) -> None:
    """All jobs are drawn anew: the release is close to that distribution, and far from the one of the source."""
    rows = [{**row, "job": "nurse" if row["id"] % 10 else "cook"} for row in people(400, nulls=False)]
    with_people(database, rows)
    roles = dict.fromkeys(transforming.TYPES, "insensitive")
    roles |= {"id": "identifier", "town": "quasi_identifier", "job": "sensitive"}
    use = [{"random_replacement": {"columns": ["job"], "retention": 0.01, "domain": transforming.JOBS}}]
    models = [{"t_closeness": {"t": 0.2}}]
    done = publish(policy(use, columns=roles, models=models), database.engine, secret=KEY, workload=False)
    assert done.document["checks"][0]["measured"] < 0.2
    asked, there = policy(use, columns=roles, models=models), Source(table="released")
    again = check(asked, database.engine, release=there, secret=KEY)
    assert again.holds and again.checks[0].measured == pytest.approx(done.document["checks"][0]["measured"])
    alone = check(asked, database.engine, release=there)
    assert alone.holds and any("SQLANON_KEY" in note for note in alone.notes)
    source = check(asked, database.engine)
    assert any("before its transformations" in note for note in source.notes)
    plain = policy([], columns=roles, models=models)
    assert not check(plain, database.engine, release=there).holds  # as if the distribution of the source counted


@pytest.mark.full
def test_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    connection = duckdb.connect(str(tmp_path / "shop.duckdb"))
    connection.execute(
        "CREATE TABLE people AS SELECT i AS id, 20 + i % 5 AS age, i * 100 AS income FROM range(100) t(i)"
    )
    connection.close()
    (tmp_path / "policy.yml").write_text(
        "source: {database: shop.duckdb, table: people}\n"
        "columns: {id: identifier, age: quasi_identifier, income: insensitive}\n"
        "transformations:\n  - rank_swap: {columns: [income], percent: 10}\n"
        "models: [{k_anonymity: {k: 5}}]\nrelease: {table: released}\n"
    )
    monkeypatch.setenv("SQLANON_KEY", "")
    runner = CliRunner()
    refused = runner.invoke(main, ["publish", str(tmp_path / "policy.yml")])
    assert refused.exit_code == 2 and "key of at least 16 characters" in refused.output
    monkeypatch.setenv("SQLANON_KEY", KEY)
    done = runner.invoke(main, ["publish", str(tmp_path / "policy.yml"), "--no-workload"])
    assert done.exit_code == 0, done.output
    checked = runner.invoke(main, ["check", str(tmp_path / "shop.duckdb"), "released"])
    assert checked.exit_code == 0, checked.output
    page = runner.invoke(main, ["explain", "rank_swap"])
    assert "a transformation" in page.output and "What it does not protect" in page.output
    assert "rank_swap" in runner.invoke(main, ["models"]).output
    report = runner.invoke(
        main, ["report", str(tmp_path / "policy.yml"), "-o", str(tmp_path / "r.html"), "--explore", "1"]
    )
    assert report.exit_code == 0 and "rank_swap" in (tmp_path / "r.html").read_text()


# ---- bad input


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ({"rank_swop": {"columns": ["age"], "percent": 5}}, "did you mean 'rank_swap'"),
        ({"rank_swap": {"columns": ["agee"], "percent": 5}}, "is not declared\n  hint: did you mean 'age'"),
        ({"rank_swap": {"columns": ["id"], "percent": 5}}, "'id' is an identifier, which is not changed"),
        ({"rank_swap": {"columns": ["age", "age"], "percent": 5}}, "the column 'age' is there twice"),
        ({"rank_swap": {"columns": [], "percent": 5}}, "'columns' must not be empty"),
        ({"rank_swap": {"columns": ["age"], "percent": 0}}, "'percent' must be > 0"),
        ({"rank_swap": {"columns": ["age"], "percnt": 5}}, "unknown key 'percnt'\n  hint: did you mean 'percent'"),
        ({"rank_swap": 5}, "rank_swap takes a mapping of parameters, not 5"),
        ("rank_swap", "a transformation is one method with its parameters, not text"),
        ({"sampling": {"share": 1.5}}, "'share' must be < 1"),
        ({"sampling": {"share": 0.5, "strata": ["town"]}}, "'strata' need 'exact: true'"),
        ({"sampling": {"share": 0.5, "exact": True, "strata": ["twon"]}}, "column 'twon' of 'strata' is not declared"),
        ({"rounding": {"columns": ["age"], "base": 0}}, "'base' must be > 0"),
        ({"rounding": {"columns": ["age"], "base": 1e-9}}, "has too many decimals"),
        ({"top_bottom_coding": {"columns": ["age"]}}, "give 'top', 'bottom' or both"),
        ({"top_bottom_coding": {"columns": ["age"], "top": 1, "bottom": 2}}, "which is below 'bottom'"),
        ({"top_bottom_coding": {"columns": ["age"], "top": 50, "top_value": 40}}, "would hide among others"),
        ({"additive_noise": {"columns": ["age"], "alpha": 0}}, "'alpha' must be > 0"),
        ({"additive_noise": {"columns": ["age"], "alpha": 1, "kind": "liner"}}, "'liner'"),
        ({"data_swap": {"columns": ["age"], "share": 0.5, "within": ["age"]}}, "is in 'columns' and in 'within'"),
        ({"permutation": {"columns": ["age"], "within": ["age"]}}, "is in 'columns' and in 'within'"),
        ({"pram": {"columns": ["job"]}}, "give either 'keep' or 'matrix'"),
        ({"pram": {"columns": ["job"], "keep": 1}}, "'keep' must be < 1"),
        ({"pram": {"columns": ["job"], "matrix": {"a": {"a": 0.5, "b": 0.4}, "b": {"b": 1}}}}, "adds up to 0.9, not"),
        ({"pram": {"columns": ["job"], "matrix": {"a": {"a": 1.5, "b": -0.5}, "b": {"b": 1}}}}, "not between 0 and 1"),
        ({"pram": {"columns": ["job"], "matrix": {"a": {"c": 1}, "b": {"b": 1}}}}, "may become 'c', which has no row"),
        ({"pram": {"columns": ["job"], "matrix": {"a": {"a": 1}, "b": {"b": 1}}}}, "the matrix changes nothing"),
        ({"random_replacement": {"columns": ["job"], "retention": 0.5, "rho1": 0.1}}, "and 'rho2' belong together"),
        ({"random_replacement": {"columns": ["job"], "retention": 0.5, "domain": ["a", "a"]}}, "at least two values"),
        ({"microaggregation": {"columns": ["age"], "k": 1}}, "'k' must be >= 2"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_policy_is_refused_with_its_line(use: Any, message: str) -> None:
    with pytest.raises(PolicyError) as error:
        policy([use])
    assert message in str(error.value)
    assert str(error.value).startswith("policy.yml:1: ")


def test_transformations_do_not_go_with_a_history() -> None:
    with pytest.raises(PolicyError, match="cannot be combined with a history"):
        policy([SWAPPED[0]], history={}, person="id", release={"view": "released"})


CONSTANT = {"rent": 5.0, "tax": 5}


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ({"rounding": {"columns": ["job"], "base": 10}}, "'job' is of type"),
        ({"rounding": {"columns": ["age"], "base": 0.5}}, "whose values are no multiples of 0.5"),
        ({"top_bottom_coding": {"columns": ["age"], "top": 50.5}}, "'age' holds integers, 50.5 is none"),
        ({"additive_noise": {"columns": ["job"], "alpha": 1}}, "to which no number can be added"),
        ({"additive_noise": {"columns": ["smoker"], "alpha": 1}}, "to which no number can be added"),
        ({"additive_noise": {"columns": ["rent"], "alpha": 1}}, "'rent' is constant"),
        ({"additive_noise": {"columns": ["age", "tax"], "alpha": 1, "kind": "correlated"}}, "'tax' is constant"),
        ({"additive_noise": {"columns": ["income", "age"], "alpha": 1, "kind": "linear"}}, "'income' holds NULLs"),
        ({"rank_swap": {"columns": ["job"], "percent": 50}}, "which has no ranks"),
        ({"rank_swap": {"columns": ["age"], "percent": 1}}, "fewer than 4 ranks"),
        ({"pram": {"columns": ["rent"], "keep": 0.5}}, "whose values are no categories"),
        ({"pram": {"columns": ["town"], "matrix": {"A": {"A": 0.5, "B": 0.5}, "B": {"B": 1}}}}, "matrix does not have"),
        ({"pram": {"columns": ["tax"], "keep": 0.5}}, "fewer than two values"),
        ({"random_replacement": {"columns": ["town"], "retention": 0.5, "domain": ["A", "B"]}}, "domain does not have"),
        ({"microaggregation": {"columns": ["income"], "k": 3}}, "'income' holds NULLs"),
        ({"microaggregation": {"columns": ["born"], "k": 3}}, "which has no mean"),
        ({"microaggregation": {"columns": ["age"], "k": 200}}, "fewer than k"),
    ],
    ids=str,
)  # fmt: skip
def test_data_that_a_method_cannot_work_on_is_refused(duck: Database, use: dict[str, Any], message: str) -> None:
    with_people(duck, [{**row, **CONSTANT} for row in people(80)])
    with pytest.raises(PolicyError) as error:
        changed(duck, [use])
    assert message in str(error.value)
    assert str(error.value).startswith("policy.yml:1: ")
    assert duck.fetch("SELECT 1 FROM duckdb_tables() WHERE table_name LIKE 'sqlanon%'") == []


def test_dependent_columns_have_no_correlated_noise(database: Database) -> None:
    with_people(database, [{**row, "rent": 3.0 * row["age"] + 1} for row in people(60, nulls=False)])
    with pytest.raises(PolicyError, match="'rent' is a linear function of the columns before it"):
        changed(database, [{"additive_noise": {"columns": ["age", "rent"], "alpha": 0.1, "kind": "correlated"}}])


def test_unknown_columns_and_short_keys_are_refused(duck: Database) -> None:
    with_people(duck, people(30), without=("job",))
    with pytest.raises(SqlanonError, match="column 'job' is not in the source"):
        changed(duck, [SWAPPED[1]])
    with_people(duck, people(30))
    for secret in (None, "", "too short"):
        with pytest.raises(PolicyError, match="key of at least 16 characters"):
            changed(duck, [SWAPPED[1]], secret=secret)
    assert changed(duck, [{"rounding": {"columns": ["age"], "base": 10}}], secret=None)


def test_an_exact_sample_draws_no_persons(duck: Database) -> None:
    with_people(duck, people(30))
    with pytest.raises(PolicyError, match="the policy counts persons"):
        changed(duck, [{"sampling": {"share": 0.5, "exact": True}}], person="id")


# ---- microaggregation


@pytest.mark.full_on_postgres
def test_groups_are_of_k_rows_and_show_their_means(database: Database) -> None:
    rows = people(203, nulls=False)
    with_people(database, rows)
    for exact in (True, False):
        use = {"microaggregation": {"columns": ["rent", "age"], "k": 5, "exact": exact, "block": 60}}
        found = changed(database, [use])
        groups: dict[Any, list[int]] = {}
        for row in found:
            groups.setdefault((row["rent"], row["age"]), []).append(row["id"])
        assert all(5 <= len(members) < 10 for members in groups.values())
        for (rent, age), members in groups.items():
            assert rent == pytest.approx(sum(rows[i]["rent"] for i in members) / len(members), abs=1e-6)
            assert abs(age - sum(rows[i]["age"] for i in members) / len(members)) <= 0.5 + 1e-9


@pytest.mark.full
def test_microaggregated_rows_are_anonymous_without_a_hierarchy(duck: Database) -> None:
    with_people(duck, people(120, nulls=False))
    roles = dict.fromkeys(transforming.TYPES, "insensitive")
    roles |= {"id": "identifier", "age": "quasi_identifier", "rent": "quasi_identifier"}
    asked = policy(
        [{"microaggregation": {"columns": ["age", "rent"], "k": 4}}],
        columns=roles,
        models=[{"k_anonymity": {"k": 4}}],
        suppression_limit=0,
    )
    done = publish(asked, duck.engine, workload=False)
    assert done.document["released"] == 120 and all(item["level"] == 0 for item in done.document["attributes"])
