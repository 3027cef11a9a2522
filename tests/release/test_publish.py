"""Publishing: what is written holds, what fails leaves the previous release in place."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from read_labels import parsed, unquoted

from sqlanon.cli import main
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.evidence.checks import check
from sqlanon.evidence.loss import loss
from sqlanon.plan import Plan
from sqlanon.policy import Policy, Source, parse
from sqlanon.relations.source import relation
from sqlanon.release import publish
from sqlanon.release.release_script import release_script

TYPES = {"id": "TEXT", "age": "INTEGER", "zip": "TEXT", "sex": "TEXT", "disease": "TEXT", "note": "INTEGER"}
HIERARCHIES = {"age": {"intervals": {"widths": [10, 20]}}, "zip": {"prefix": {"length": 3}}}
TREE = {"disease": {"tree": {"tree": {"*": {"grave": ["hiv", "cancer"], "mild": ["flu", "cold"]}}}}}
row = st.fixed_dictionaries(
    {
        "id": st.integers(0, 30).map(str),
        "age": st.one_of(st.none(), st.integers(0, 60)),
        "zip": st.sampled_from(["101", "102", "201", None]),
        "sex": st.sampled_from(["f", "m"]),
        "disease": st.sampled_from(["hiv", "cancer", "flu", "cold", None]),
        "note": st.integers(0, 3),
    }
)


def policy(models: list[Any], **more: Any) -> Policy:
    roles: dict[str, Any] = {
        "id": "identifier",
        "age": "quasi_identifier",
        "zip": "quasi_identifier",
        "sex": "quasi_identifier",
        "disease": "sensitive",
        "note": "insensitive",
    }
    written = {
        "source": {"table": "t"},
        "columns": roles,
        "models": models,
        "hierarchies": HIERARCHIES | TREE,
        "release": {"table": "r"},
        "absent_values": "allow",
    }
    return parse(json.dumps(written | more))


def example_rows(count: int) -> list[dict[str, Any]]:
    diseases = ["hiv", "cancer", "flu", "cold"]
    return [
        {
            "id": f"p{i}",
            "age": 20 + (i * 7) % 41,
            "zip": ["101", "102", "201"][i % 3],
            "sex": "fm"[(i // 3) % 2],
            "disease": diseases[(i * i + i // 5) % 4],
            "note": i % 4,
        }
        for i in range(count)
    ]


MODELS: list[list[Any]] = [
    [{"k_anonymity": {"k": 3}}],
    [{"k_anonymity": {"k": 2}}, {"distinct_l_diversity": {"l": 2}}],
    [{"entropy_l_diversity": {"l": 1.5}}],
    [{"t_closeness": {"t": 0.4}}],
    [{"hierarchical_t_closeness": {"t": 0.3}}, {"k_anonymity": {"k": 2}}],
    [{"recursive_cl_diversity": {"c": 2, "l": 2}}],
    [{"basic_beta_likeness": {"beta": 1}}],
]
ALGORITHMS: list[Any] = [None, "exhaustive", "heuristic", {"full_domain": {"recode_suppressed": True}}]


RELEASES = {
    "rows": st.lists(row, max_size=40),
    "models": st.sampled_from(MODELS),
    "limit": st.sampled_from([0.0, 0.2, 0.6]),
    "keep": st.booleans(),
    "person": st.booleans(),
    "algorithm": st.sampled_from(ALGORITHMS),
}


@pytest.mark.full
@settings(max_examples=examples(8))
@given(**RELEASES)
def test_a_release_never_breaks_its_policy(database: Database, **drawn: Any) -> None:
    never_breaks(database, **drawn)


@pytest.mark.long
@settings(max_examples=examples(50))
@given(**RELEASES)
def test_a_release_never_breaks_its_policy_in_full(database: Database, **drawn: Any) -> None:
    never_breaks(database, **drawn)


def never_breaks(
    database: Database, rows: Any, models: Any, limit: float, keep: bool, person: bool, algorithm: Any
) -> None:
    database.table("t", TYPES, rows)
    database.run("DROP TABLE IF EXISTS r")
    asked = policy(
        models,
        suppression_limit=limit,
        suppressed_rows="keep" if keep else "drop",
        **({"algorithm": algorithm} if algorithm else {}),
        **({"person": "id"} if person else {}),
    )
    try:
        done = publish(asked, database.engine, workload=keep)
    except PolicyError:
        return
    assert done.evidence is not None and done.evidence.holds
    assert done.plan.suppressed <= limit * len(rows) + 1e-9
    released = database.fetch("SELECT age, zip, sex, disease, note FROM r")
    assert len(released) == (len(rows) if keep else len(rows) - done.plan.suppressed)
    assert all(covers(released, rows, keep))
    if not person:  # without the person key a reader can count rows only
        assert check(asked, database.engine, release=Source(table="r")).holds


def covers(released: list[tuple[Any, ...]], rows: list[dict[str, Any]], keep: bool) -> list[bool]:
    """Whether each released row is the generalization of some original row with the same other columns."""
    return [any(covered(item, old, keep) for old in rows) for item in released]


def covered(new: tuple[Any, ...], old: dict[str, Any], keep: bool) -> bool:
    age, code, sex, disease, note = new
    if keep and (age, code, sex) == ("*", "*", "*"):
        return bool(note == old["note"])
    same = disease == old["disease"] and note == old["note"]
    return same and _age(age, old["age"]) and _prefix(code, old["zip"]) and sex in ("*", "{f, m}", "[f, m]", old["sex"])


def _age(label: Any, value: int | None) -> bool:
    if label == "*":
        return True
    if str(label).startswith("{"):
        return any(_age(None if item == "NULL" else unquoted(item), value) for item in parsed(label))
    if value is None or label is None:
        return label is None and value is None
    if str(label).endswith("]"):
        first, last = map(int, parsed(label))
        return first <= value <= last
    if str(label) == str(value):
        return True
    if ", " not in str(label):
        return False
    low, high = str(label).strip("[)").split(", ")
    return int(low) <= value < int(high)


def _prefix(label: str | None, value: str | None) -> bool:
    if label == "*":
        return True
    if label is not None and label.startswith("{"):
        return any(_prefix(None if item == "NULL" else unquoted(item), value) for item in parsed(label))
    if label is not None and label.endswith("]"):
        first, last = (unquoted(item) for item in parsed(label))
        return value is not None and first <= value <= last
    if value is None or label is None:
        return label is None and value is None
    return value.startswith(label.rstrip("*")) and len(label) == len(value)


@pytest.mark.full
def test_the_same_input_gives_the_same_plan(database: Database) -> None:
    database.table("t", TYPES, example_rows(200))
    asked = policy([{"k_anonymity": {"k": 4}}], suppression_limit=0.1)
    plans = [publish(asked, database.engine, dry_run=True).plan for _ in range(2)]
    database.table("t", TYPES, list(reversed(example_rows(200))))
    plans.append(publish(asked, database.engine, dry_run=True).plan)
    assert len({plan.hash for plan in plans}) == 1
    assert Plan.from_json(plans[0].to_json()).hash == plans[0].hash
    assert not [name for name in database.engine.tables() if name == "r"]


@pytest.mark.full
def test_the_losses_can_be_recomputed_from_the_tables(database: Database) -> None:
    """What the plan says of its loss is what the released table shows, read by other statements."""
    database.table("t", TYPES, [item | {"age": i * i % 61} for i, item in enumerate(example_rows(300))])
    asked = policy([{"k_anonymity": {"k": 12}}], suppression_limit=0.4, algorithm="full_domain")
    done = publish(asked, database.engine)
    assert done.plan.suppressed > 0 and any(done.plan.passes[0].values())
    found = loss(asked, database.engine, Source(table="r"))
    assert found.levels == dict(done.plan.passes[0])
    assert set(found.metrics) == set(done.document["loss"])
    assert found.metrics == pytest.approx(done.document["loss"], rel=1e-9)


@pytest.mark.full
@pytest.mark.full_on_postgres
def test_types_and_columns_are_kept(database: Database) -> None:
    database.table("t", TYPES, example_rows(60) * 4)
    publish(policy([{"k_anonymity": {"k": 4}}]), database.engine)
    types = {item.name: item for item in database.engine.columns(relation(Source(table="r"), database.engine.dialect))}
    assert list(types) == ["age", "zip", "sex", "disease", "note"]  # no identifier
    assert types["age"].numeric and types["note"].numeric  # nothing had to be generalized


@pytest.mark.full_on_postgres
def test_pseudonyms(database: Database) -> None:
    database.table("t", TYPES, example_rows(60) * 4)
    roles = {"id": {"role": "identifier", "pseudonym": True}}
    written = policy([{"k_anonymity": {"k": 4}}]).model_dump(mode="json", exclude_unset=True)
    written["columns"] |= roles
    written["models"] = [{"k_anonymity": {"k": 4}}]
    written["hierarchies"] = HIERARCHIES | TREE
    written["linked_rows"] = "accept"  # the pseudonym links the four rows of each
    asked = parse(json.dumps(written))
    with pytest.raises(PolicyError, match="SQLANON_KEY"):
        publish(asked, database.engine)
    done = publish(asked, database.engine, secret="a long enough secret")
    first = dict(database.fetch("SELECT id, COUNT(*) FROM r GROUP BY id"))
    assert len(first) == 60 and set(first.values()) == {4}
    assert not any(name.startswith("p") for name in first)
    assert "a long enough secret" not in json.dumps(done.document)
    import hashlib

    def twice(value: str) -> str:
        inner = hashlib.sha256(("a long enough secret:id:" + value).encode()).hexdigest()
        return hashlib.sha256(("a long enough secret" + inner).encode()).hexdigest()

    assert set(first) == {twice(f"p{i}") for i in range(60)}


class Listening:
    """A connection that notes the text of each statement."""

    def __init__(self, connection: Any) -> None:
        self.connection, self.heard = connection, list[str]()

    def execute(self, sql: str, *more: Any) -> Any:
        self.heard.append(sql)
        return self.connection.execute(sql, *more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


PSEUDONYMS = {"zip": "quasi_identifier", "s": "sensitive", "who": {"role": "identifier", "pseudonym": True}}


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("algorithm", ["full_domain", "mondrian"])
def test_no_statement_holds_the_secret(database: Database, algorithm: str) -> None:
    asked = simple(database, ["a"] * 4, columns=PSEUDONYMS, algorithm=algorithm)
    connection = database.engine._connection  # type: ignore[attr-defined]
    listening = database.engine._connection = Listening(connection)  # type: ignore[attr-defined]
    done = publish(asked, database.engine, secret="a long enough secret")
    database.engine._connection = connection  # type: ignore[attr-defined]
    assert any("_secret_" in sql for sql in listening.heard)
    assert not any("a long enough secret" in sql for sql in listening.heard)
    assert "a long enough secret" not in done.document["sql"]


@pytest.mark.full
def test_the_script_of_pseudonyms_leaves_the_secret_to_its_owner(database: Database) -> None:
    asked = simple(database, ["a"] * 4, columns=PSEUDONYMS)
    done = publish(asked, database.engine, secret="a long enough secret")
    expected = sorted(map(str, database.fetch("SELECT * FROM r")))
    script = release_script(asked, done.plan, database.engine.dialect)
    assert "-- Make the table sqlanon_search_secret_1 yourself" in script
    given = re.sub("^-- (CREATE TEMPORARY TABLE sqlanon_search_secret_1.*)$", r"\1;", script, flags=re.MULTILINE)
    given = re.sub("^--.*$", "", given, flags=re.MULTILINE).replace("the value of SQLANON_KEY", "a long enough secret")
    database.run("DROP TABLE r")
    for statement in filter(str.strip, given.split(";")):
        database.run(statement)
    assert sorted(map(str, database.fetch("SELECT * FROM r"))) == expected


@pytest.mark.full
@pytest.mark.parametrize("path", ["data/t.csv", "data/*.csv", "data"])
def test_a_plan_belongs_to_its_policy_wherever_that_lies(tmp_path: Path, path: str) -> None:
    hashes = set()
    for name in ("one", "two"):
        folder = tmp_path / name
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "t.csv").write_text("zip,s\n" + "a,x\n" * 4)
        text = f"source: {{path: {path}}}\ncolumns: {{zip: quasi_identifier, s: sensitive}}\n"
        (folder / "policy.yml").write_text(text + "models: [{k_anonymity: {k: 2}}]\nrelease: {path: r.csv}\n")
        plan = folder / "plan.json"
        result = CliRunner().invoke(main, ["publish", str(folder / "policy.yml"), "--plan", str(plan)])
        assert result.exit_code == 0, result.output
        assert (folder / "r.csv").exists()
        result = CliRunner().invoke(main, ["compile", str(folder / "policy.yml"), "--plan", str(plan)])
        assert result.exit_code == 0, result.output
        *_, release = re.sub("^--.*$", "", result.output, flags=re.MULTILINE).strip().split(";\n\n")
        assert str(folder / "data") in release  # what was published
        hashes.add(Plan.from_json(plan.read_text()).policy)
    assert len(hashes) == 1


def test_a_view_and_files(duck: Database, tmp_path: Path) -> None:
    duck.table("t", TYPES, example_rows(90))
    for _ in range(2):
        publish(policy([{"k_anonymity": {"k": 3}}], release={"view": "v"}), duck.engine)
    assert duck.fetch("SELECT COUNT(*) FROM v") == [(90,)]
    assert len([name for name in duck.engine.tables() if name.startswith("v")]) == 2  # the view, and one table
    for name in ("r.parquet", "r.csv"):
        path = tmp_path / name
        publish(policy([{"k_anonymity": {"k": 3}}], release={"path": str(path)}), duck.engine)
        assert duck.fetch(f"SELECT COUNT(*) FROM '{path}'") == [(90,)]
        assert json.loads((tmp_path / f"{name}.evidence.json").read_text())["holds"]
    assert sorted(item.name for item in tmp_path.iterdir()) == [
        "r.csv", "r.csv.evidence.json", "r.parquet", "r.parquet.evidence.json",
    ]  # fmt: skip


# Bad input --------------------------------------------------------------------------------------------------------


def refused(database: Database, rows: list[dict[str, Any]], asked: Policy) -> str:
    database.table("t", TYPES, rows)
    with pytest.raises(SqlanonError) as caught:
        publish(asked, database.engine)
    assert "r" not in database.engine.tables()
    return str(caught.value)


@pytest.mark.full_on_postgres
def test_no_feasible_solution_says_what_blocks(database: Database) -> None:
    text = refused(database, example_rows(10), policy([{"k_anonymity": {"k": 11}}]))
    assert "k_anonymity (k=11) cannot hold" in text and "10" in text
    one = [item | {"disease": "flu"} for item in example_rows(10)]
    text = refused(database, one, policy([{"distinct_l_diversity": {"l": 2}}, {"k_anonymity": {"k": 2}}]))
    assert "distinct_l_diversity of 'disease' (l=2) cannot hold" in text and "k_anonymity" not in text
    text = refused(database, [], policy([{"k_anonymity": {"k": 2}}]))
    assert "no rows" in text


def skewed(database: Database, **more: Any) -> Policy:
    """Four rows that two secrets share, and forty that have one: as a whole they fail, the four alone do not."""
    rows = [{"zip": "a" if i < 4 else "b", "s": "y" if i < 2 else "x", "who": f"p{i}"} for i in range(44)]
    database.table("t", {"zip": "TEXT", "s": "TEXT", "who": "TEXT"}, rows)
    return simple_policy(models=[{"entropy_l_diversity": {"l": 1.9}}], **more)


def test_a_time_limit_is_no_proof(database: Database) -> None:
    asked = skewed(database, suppression_limit=0.95)
    with pytest.raises(PolicyError, match="the time limit ended the search") as caught:
        publish(asked, database.engine, dry_run=True, time_limit=1e-9)
    assert caught.value.hint == "raise --time-limit"
    assert publish(asked, database.engine, dry_run=True).plan.suppressed == 40
    with pytest.raises(PolicyError, match=r"k_anonymity \(k=45\) cannot hold"):  # which no time would change
        hopeless = simple_policy(models=[{"k_anonymity": {"k": 45}}])
        publish(hopeless, database.engine, dry_run=True, time_limit=1e-9)


def test_the_suppression_limit_that_would_do(database: Database) -> None:
    with pytest.raises(PolicyError, match=r"was found .* limit of 10\.0%") as caught:
        asked = skewed(database, suppression_limit=0.1, algorithm="exhaustive")
        publish(asked, database.engine, dry_run=True)
    assert "of 2 generalizations measured, the nearest would suppress 40 of 44 rows" in str(caught.value)
    assert caught.value.hint == "a suppression_limit of 91.0% would do, or looser requirements"
    assert publish(skewed(database, suppression_limit=0.91), database.engine, dry_run=True).plan.suppressed == 40
    with pytest.raises(PolicyError, match=r"was found .* limit of 10\.0%") as caught:
        publish(skewed(database, suppression_limit=0.1), database.engine, dry_run=True)
    assert caught.value.hint == "loosen the requirements, or allow more suppression"  # how much, it did not look


def test_no_suppression_limit_beyond_everything_is_suggested(database: Database) -> None:
    rows = [{"zip": "a", "s": "x", "who": f"p{i}"} for i in range(9)]
    database.table("t", {"zip": "TEXT", "s": "TEXT", "who": "TEXT"}, rows)
    asked = simple_policy(models=[{"entropy_l_diversity": {"l": 1.9}}], suppression_limit=1.0)
    with pytest.raises(PolicyError, match=r"limit of 100\.0%") as caught:
        publish(asked, database.engine, dry_run=True)
    assert caught.value.hint == "loosen the requirements"


def test_a_value_without_a_hierarchy_entry(database: Database) -> None:
    rows = [*example_rows(10), example_rows(1)[0] | {"disease": "plague"}]
    text = refused(database, rows, policy([{"hierarchical_t_closeness": {"t": 0.3}}]))
    assert "plague" in text and "does not cover" in text


@pytest.mark.full
def test_an_all_null_column(database: Database) -> None:
    database.table("t", TYPES, [item | {"zip": None} for item in example_rows(30)])
    done = publish(policy([{"k_anonymity": {"k": 3}}]), database.engine)
    assert done.evidence is not None and done.evidence.holds


def test_columns_without_a_role_do_not_leave(database: Database) -> None:
    database.table("t", TYPES | {"salary": "INTEGER"}, [item | {"salary": 1} for item in example_rows(10)])
    with pytest.raises(PolicyError, match="columns without a role: salary"):
        publish(policy([{"k_anonymity": {"k": 2}}]), database.engine)


@pytest.mark.full_on_postgres
def test_quotes_and_unicode_in_names(database: Database) -> None:
    names = {'a"ge': "INTEGER", "Größe ∅": "TEXT", "select": "TEXT"}
    rows = [{'a"ge': i % 5, "Größe ∅": "ab"[i % 2], "select": "xy"[i % 2]} for i in range(40)]
    database.table('tab"le', names, rows)
    roles = {'a"ge': "quasi_identifier", "Größe ∅": "quasi_identifier", "select": "sensitive"}
    written = {
        "source": {"table": '"tab""le"'},
        "columns": roles,
        "models": [{"k_anonymity": {"k": 3}}],
        "release": {"table": '"rel""ease é"'},
    }
    done = publish(parse(json.dumps(written)), database.engine)
    assert done.plan.suppressed == 0
    assert database.fetch('SELECT COUNT(*) FROM "rel""ease é"') == [(40,)]
    database.run('DROP TABLE "rel""ease é"')


LINES = """\
source: {table: t}
columns: {zip: quasi_identifier, s: sensitive, who: identifier}
models: [{k_anonymity: {k: 2}}]
algorithm:
  ALGORITHM
release: {table: r}
"""


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        ("mondriann", "unknown algorithm 'mondriann'\n  hint: did you mean 'mondrian'?"),
        ("mondriann: {}", "unknown algorithm 'mondriann'"),
        ("mondrian: {strikt: true}", "unknown key 'strikt'\n  hint: did you mean 'strict'?"),
        ("mondrian: {strict: 7}", "'strict' must be true or false, not 7"),
        ("infogain_mondrian: {class_attribute: ss}", "the class attribute 'ss' is no column of the policy"),
    ],
)
def test_algorithms_are_checked_at_the_door(algorithm: str, said: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse(LINES.replace("ALGORITHM", algorithm))
    assert str(caught.value).startswith(("policy.yml:4: ", "policy.yml:5: ")) and said in str(caught.value)


def test_what_an_algorithm_refuses_has_a_line(database: Database) -> None:
    simple(database, ["a"] * 4)
    text = LINES.replace("ALGORITHM", "mondrian: {strict: false}")
    diverse = text.replace("k_anonymity: {k: 2}", "distinct_l_diversity: {l: 2}")
    with pytest.raises(PolicyError, match=r"policy\.yml:[45]: 'strict: false' parts rows"):
        publish(parse(diverse), database.engine)
    loose = text.replace("models: [", "models:\n  [")
    with pytest.raises(PolicyError, match=r"policy\.yml:8: regions need 'nulls: value'"):
        publish(parse(loose + "nulls: unique\n"), database.engine)
    other = text.replace("}]", "}, {xy_anonymity: {k: 2, x: [zip], y: [s]}}]")
    with pytest.raises(
        PolicyError, match=r"policy\.yml:3: mondrian cannot reach xy_anonymity\n  hint: take full_domain"
    ):
        publish(parse(other), database.engine)


# What an attacker would try ---------------------------------------------------------------------------------------


def simple_policy(**more: Any) -> Policy:
    written: dict[str, Any] = {
        "source": {"table": "t"},
        "columns": {"zip": "quasi_identifier", "s": "sensitive", "who": "identifier"},
        "models": [{"k_anonymity": {"k": 2}}],
        "release": {"table": "r"},
    }
    return parse(json.dumps(written | more))


def simple(database: Database, zips: list[str | None], **more: Any) -> Policy:
    """A table of these postal codes, and a policy for it."""
    rows = [{"zip": code, "s": f"x{i % 3}", "who": f"p{i}"} for i, code in enumerate(zips)]
    database.table("t", {"zip": "TEXT", "s": "TEXT", "who": "TEXT"}, rows)
    database.run("DROP TABLE IF EXISTS r")
    return simple_policy(**more)


def test_a_value_spelt_like_null_is_nobodys_double(database: Database) -> None:
    asked = simple(database, ["\u2205 NULL", None, "b", *["a"] * 17], suppression_limit=0.2)
    try:
        publish(asked, database.engine)
    except SqlanonError:
        return
    sizes = [int(count) for (count,) in database.fetch("SELECT COUNT(*) FROM r GROUP BY zip")]
    assert min(sizes) >= 2 and sum(sizes) <= 20


@pytest.mark.parametrize("model", ["distinct_l_diversity", "entropy_l_diversity"])
def test_a_sensitive_value_spelt_like_null_is_counted_once(database: Database, model: str) -> None:
    """Two values in a class are two, in the release as in the source."""
    asked = simple(database, ["a"] * 4, models=[{model: {"l": 2}}], sensitive_nulls="value")
    values = ["\u2205 NULL", None, "\u2205 NULL", None]
    database.table("t", {"zip": "TEXT", "s": "TEXT"}, [{"zip": "a", "s": value} for value in values])
    database.run("CREATE TABLE r AS SELECT * FROM t")
    found = check(asked, database.engine, release=Source(table="r")).checks[0]
    assert found.measured == pytest.approx(2) and found.holds


@pytest.mark.parametrize("kind", ["VARCHAR(10)", "INTEGER"])
def test_a_release_may_hold_its_values_in_another_type(database: Database, kind: str) -> None:
    asked = simple(database, ["a"] * 3, models=[{"distinct_l_diversity": {"l": 3}}])
    database.table("t", {"zip": "TEXT", "s": kind}, [{"zip": "a", "s": str(i)} for i in range(3)])
    database.run("CREATE TABLE r AS SELECT zip, CAST(s AS TEXT) AS s FROM t")
    assert check(asked, database.engine, release=Source(table="r")).checks[0].measured == 3


def test_rows_with_values_spelt_like_null_are_written_once(database: Database) -> None:
    """Where the region of a row depends on its sensitive value."""
    asked = simple(database, [], models=[{"distinct_l_diversity": {"l": 2}}], algorithm="top_down_recoding")
    rows = [{"zip": f"{i % 2}", "s": ["\u2205 NULL", None, "x"][i // 10], "who": f"p{i}"} for i in range(30)]
    database.table("t", {"zip": "TEXT", "s": "TEXT", "who": "TEXT"}, rows)
    publish(asked, database.engine)
    assert sorted(database.fetch("SELECT s, COUNT(*) FROM r GROUP BY s"), key=str) == [
        ("x", 10),
        ("\u2205 NULL", 10),
        (None, 10),
    ]


@pytest.mark.full
@pytest.mark.parametrize(("kind", "spelt"), [("NUMERIC", ["1.0", "1.00"]), ("DOUBLE PRECISION", ["0.0", "-0.0"])])
def test_equal_numbers_that_are_spelt_differently_are_one_value(
    database: Database, kind: str, spelt: list[str]
) -> None:
    asked = simple(database, [], suppression_limit=0.5)
    rows = [{"zip": text, "s": "x", "who": f"p{i}"} for i, text in enumerate([*spelt * 2, "7"])]
    database.table("t", {"zip": kind, "s": "TEXT", "who": "TEXT"}, rows)
    publish(asked, database.engine)
    assert [count for (count,) in database.fetch("SELECT COUNT(*) FROM r GROUP BY zip")] == [4]


def test_a_row_without_details_is_checked_while_it_tells_a_secret(database: Database) -> None:
    """`keep` leaves rows of '*' out of the checks, but not those that still show a sensitive value."""
    asked = simple(database, ["a"] * 4, suppressed_rows="keep", models=[{"distinct_l_diversity": {"l": 2}}])
    rows: list[dict[str, Any]] = [{"zip": "*", "s": "x1"}] * 3 + [{"zip": "a", "s": "x0"}, {"zip": "a", "s": "x1"}]
    database.table("released", {"zip": "TEXT", "s": "TEXT"}, rows)
    assert not check(asked, database.engine, release=Source(table="released")).checks[0].holds
    database.table("released", {"zip": "TEXT", "s": "TEXT"}, [{"zip": "*", "s": None}] * 3 + rows[3:])
    assert check(asked, database.engine, release=Source(table="released")).checks[0].holds


@pytest.mark.full
def test_the_order_of_rows_tells_nothing(database: Database) -> None:
    rows = [item | {"age": 20 + i // 40} for i, item in enumerate(example_rows(400))]
    database.table("t", TYPES, rows)
    publish(policy([{"k_anonymity": {"k": 2}}], suppression_limit=0.5), database.engine)
    notes = [note for (note,) in database.fetch("SELECT note FROM r")]
    assert len(notes) > 100 and notes != [item["note"] for item in rows][: len(notes)]


@pytest.mark.full
@pytest.mark.parametrize("count", [200, 4000])
def test_the_order_of_rows_does_not_follow_exact_values(database: Database, count: int) -> None:
    """Every row has an age of its own, so that dictionaries are as large as the table."""
    rows = [item | {"age": i, "note": i, "zip": "101", "sex": "f"} for i, item in enumerate(example_rows(count))]
    database.table("t", TYPES, rows)
    widths = {"age": {"intervals": {"widths": [count // 4, count]}}}
    levels = {"hierarchies": HIERARCHIES | TREE | widths, "algorithm": "full_domain"}
    publish(policy([{"k_anonymity": {"k": 5}}], **levels), database.engine)
    shown = database.fetch("SELECT age, note FROM r")
    assert len(shown) == count and len({age for age, _ in shown}) == 4
    for label in {age for age, _ in shown}:
        notes = [note for age, note in shown if age == label]
        rising = sum(left < right for left, right in itertools.pairwise(notes))
        # Half of them rise in a random order; this far off it is one time in many millions.
        assert abs(rising - (len(notes) - 1) / 2) <= 6 * ((len(notes) + 1) / 12) ** 0.5


@pytest.mark.full
def test_passwords_stay_out_of_the_evidence(database: Database) -> None:
    asked = simple(database, ["a"] * 4, source={"table": "t", "database": "postgresql://ann:s3cret@host/db"})
    assert "s3cret" not in json.dumps(publish(asked, database.engine).document)


@pytest.mark.full_on_postgres
def test_the_person_key_is_not_left_in_the_table(database: Database) -> None:
    publish(simple(database, ["a"] * 4, person="who"), database.engine)
    if database.engine.dialect == "postgres":
        dropped = "SELECT COUNT(*) FROM pg_attribute WHERE attrelid = 'r'::regclass AND attisdropped"
        assert database.fetch(dropped) == [(0,)]
    columns = database.engine.columns(relation(Source(table="r"), database.engine.dialect))
    assert sorted(item.name for item in columns) == ["s", "zip"]


@pytest.mark.full
def test_the_person_key_is_not_in_a_script(database: Database) -> None:
    """Whoever runs the SQL by hand drops no column afterwards."""
    asked = simple(database, ["a"] * 4 + ["b"], person="who", suppression_limit=0.5)
    done = publish(asked, database.engine)
    ours = sorted(database.fetch("SELECT * FROM r"))
    database.run("DROP TABLE r")
    for statement in release_script(asked, done.plan, database.engine.dialect).split(";\n"):
        if statement.strip():
            database.run(statement)
    columns = [item.name for item in database.engine.columns(relation(Source(table="r"), database.engine.dialect))]
    assert sorted(columns) == ["s", "zip"]
    assert sorted(database.fetch("SELECT * FROM r")) == ours
    released = done.document["sql"].split("-- the release", 1)[1]
    assert "who" not in released.split("FROM", 1)[0]


@pytest.mark.full
def test_small_counts_do_not_follow_from_the_evidence(database: Database) -> None:
    shown = publish(simple(database, ["m"] * 99 + ["f"]), database.engine).document["distributions"]["zip"]
    assert (shown["before"], shown["before_more"]) == ([], 2)  # 99 of 100 would tell that there is one other
    done = publish(simple(database, ["m"] * 21 + ["n"] * 20 + ["f"], suppression_limit=0.1), database.engine)
    assert done.plan.suppressed == 1
    # All three are counted in the source, so that what m and n leave over would tell of one row.
    shown = done.document["distributions"]["zip"]
    assert (shown["before"], shown["suppressed"], shown["before_more"]) == ([["m", 21]], [["m", 0]], 2)


@pytest.mark.full
def test_old_tables_of_a_view_are_dropped_and_nobody_elses(database: Database) -> None:
    schema = "main" if database.engine.dialect == "duckdb" else "public"
    asked = simple(database, ["a"] * 4, release={"view": f"{schema}.shown"})
    database.run("CREATE TABLE shown__1 AS SELECT 1 AS a")
    for _ in range(3):
        publish(asked, database.engine)
    left = [name for name in database.engine.tables() if name.startswith("shown")]
    assert len(left) == 3 and "shown__1" in left  # the view, its table, and the user's own
    database.run("DROP VIEW shown")
    database.run("DROP TABLE shown__1")


def test_a_foreign_table_of_that_name_is_not_overwritten(database: Database) -> None:
    asked = simple(database, ["a"] * 4)
    database.run("CREATE TABLE r__staged AS SELECT 1 AS a")
    with pytest.raises(PolicyError, match="r__staged"):
        publish(asked, database.engine)
    assert database.fetch("SELECT a FROM r__staged") == [(1,)]
    database.run("DROP TABLE r__staged")


@pytest.mark.full
def test_models_that_hold_only_sometimes_are_not_pruned(database: Database) -> None:
    """observed_only takes the monotonicity from delta-disclosure: the search must not rely on it."""
    pairs = [("a", "x"), ("b", "y"), ("b", "x"), ("c", "y"), ("c", "y"), ("d", "x")]
    rows = [{"zip": code, "s": s, "who": f"p{i}"} for i, (code, s) in enumerate(pairs * 2)]
    database.table("t", {"zip": "TEXT", "s": "TEXT", "who": "TEXT"}, rows)
    tree = {"zip": {"tree": {"tree": {"*": {"low": ["a", "b"], "high": ["c", "d"]}}}}}
    for delta in (0.2, 0.5, 0.8, 1.2):
        models = [{"delta_disclosure": {"delta": delta, "observed_only": True}}]
        losses = []
        for name in ("full_domain", "exhaustive"):
            asked = simple_policy(models=models, algorithm=name, hierarchies=tree)
            try:
                losses.append(publish(asked, database.engine, dry_run=True).plan.loss)
            except PolicyError:
                losses.append(None)
        assert losses[0] == losses[1], delta


# Failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_failing_check_leaves_the_previous_release(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.table("t", TYPES, example_rows(60))
    publish(policy([{"k_anonymity": {"k": 3}}]), database.engine)
    before = sorted(map(str, database.fetch("SELECT * FROM r")))
    import sqlanon.release.publish_release as release

    real = release.plan_rewriting

    def forgetful(task: Any, solution: Any, secret: Any) -> Any:
        """A rewrite that shows the rows that should have been suppressed, and the values as they are."""
        from dataclasses import replace

        return real(task, replace(solution, passes=(task.table.bottom,)), secret)

    monkeypatch.setattr(release, "plan_rewriting", forgetful)
    monkeypatch.setattr("sqlanon.lattice.problem.Problem.passes", unsuppressed)
    with pytest.raises(PolicyError, match="was not published"):
        publish(policy([{"k_anonymity": {"k": 9}}], suppression_limit=0.2, algorithm="full_domain"), database.engine)
    assert sorted(map(str, database.fetch("SELECT * FROM r"))) == before
    assert not [name for name in database.engine.tables() if "staged" in name]


def unsuppressed(self: Any, nodes: Any, **more: Any) -> Any:
    from sqlanon.relations.rewrite import Pass

    return [Pass(node, None) for node in nodes]
