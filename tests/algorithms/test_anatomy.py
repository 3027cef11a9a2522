"""Anatomy: what its two tables tell and do not tell, its estimates, and how both tables are swapped in together."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import permutations
from pathlib import Path
from typing import Any

import parting
import pytest
from brute_minimality import blocks_of
from click.testing import CliRunner
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from parting import anatomy, patients, published, with_patients
from transforming import KEY, OTHER_KEY

import sqlanon
from sqlanon.algorithms import anatomy as module
from sqlanon.buckets.bucketize import prepare_rows
from sqlanon.cli import main
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.evidence.checks import check
from sqlanon.policy import Source
from sqlanon.relations.bucketization import GROUP, estimates
from sqlanon.release import publish
from sqlanon.release.plan_refresh import plan_refresh
from sqlanon.release.retire_release import retire

# Table III of the survey by Fung, Wang, Chen and Yu.
TABLE = [(30, "Male", "Hepatitis"), (30, "Male", "Hepatitis"), (30, "Male", "HIV"), (32, "Male", "Hepatitis")]
TABLE += [(32, "Male", "HIV"), (32, "Male", "HIV"), (36, "Female", "Flu"), (38, "Female", "Flu")]
TABLE += [(38, "Female", "Heart"), (38, "Female", "Heart")]


def groups(database: Database) -> dict[int, tuple[list[int], list[Any]]]:
    """The tags of each group, and its sensitive values."""
    found: dict[int, tuple[list[int], list[Any]]] = defaultdict(lambda: ([], []))
    for tag, group in database.fetch(f"SELECT tag, {GROUP} FROM released"):
        found[group][0].append(tag)
    for group, value, records in database.fetch(f"SELECT {GROUP}, disease, records FROM released_sensitive"):
        found[group][1].extend([value] * records)
    return dict(found)


@pytest.mark.full_on_postgres
def test_the_estimate_of_the_literature(database: Database) -> None:
    """Two patients of 38 have a heart disease: 1.5 by the groups of Table III (c) and (d), 0.4 by its ranges."""
    main_rows = [{"age": age, "sex": sex, GROUP: 1 if sex == "Male" else 2} for age, sex, _ in TABLE]
    database.table("iii", {"age": "INTEGER", "sex": "VARCHAR", GROUP: "BIGINT"}, main_rows)
    counted = Counter((1 if sex == "Male" else 2, disease) for _, sex, disease in TABLE)
    values = [{GROUP: group, "disease": disease, "records": n} for (group, disease), n in counted.items()]
    database.table("iii_sensitive", {GROUP: "BIGINT", "disease": "VARCHAR", "records": "BIGINT"}, values)
    tree = estimates("iii", ["age", "sex"], "disease")
    database.run(f"CREATE VIEW iii_estimates AS {tree.sql(database.engine.dialect)}")
    asked = "SELECT SUM(estimate) FROM {} WHERE age = 38 AND disease = 'Heart'"
    assert database.fetch(asked.format("iii_estimates")) == [(1.5,)]
    # The generalized table: [35-40) has five ages, each as likely as the others.
    ranges = [{"low": age // 5 * 5, "disease": disease} for age, _, disease in TABLE]
    database.table("ii", {"low": "INTEGER", "disease": "VARCHAR"}, ranges)
    by_range = "(SELECT low + i AS age, disease, CAST(0.2 AS DOUBLE PRECISION) AS estimate FROM ii, "
    by_range += "(VALUES (0), (1), (2), (3), (4)) AS v(i)) AS r"
    assert database.fetch(asked.format(by_range))[0][0] == pytest.approx(0.4)


def test_the_table_of_the_literature_is_published(database: Database) -> None:
    rows = [
        {"id": i, "tag": i, "age": age, "sex": sex, "disease": disease, "income": 0}
        for i, (age, sex, disease) in enumerate(TABLE)
    ]
    with_patients(database, rows)
    done = published(database, anatomy(2))
    assert done.evidence is not None and done.evidence.holds and done.evidence.records == 10
    assert len(groups(database)) == 5
    # Men and women are blocks of their own: as good as the groups of Table III, where the truth is 2.
    asked = "SELECT SUM(estimate) FROM released_estimates WHERE age = 38 AND disease = 'Heart'"
    assert database.fetch(asked) == [(1.5,)]
    truth = Counter(disease for _, _, disease in TABLE)
    told = dict(database.fetch("SELECT disease, SUM(estimate) FROM released_estimates GROUP BY disease"))
    assert told == pytest.approx(dict(truth))
    by_age = dict(database.fetch("SELECT age, SUM(estimate) FROM released_estimates GROUP BY age"))
    assert by_age == pytest.approx(dict(Counter(age for age, _, _ in TABLE)))


# Table 5 of the thesis by Gkountouna: engineers, lawyers and scientists, two of each.
JOBS = ["Civil eng.", "Electrical eng.", "Lawyer", "Lawyer", "Mathematician", "Physicist"]
AGES, ZIPS = [25, 30, 30, 40, 25, 25], [5522, 5521, 5475, 5477, 5120, 5120]
ILLNESSES = ["HIV", "E-coli", "Flu", "Cancer", "Flu", "Cancer"]


def test_three_groups_of_the_literature(database: Database) -> None:
    names = {"job": "VARCHAR", "age": "INTEGER", "zip": "INTEGER", "disease": "VARCHAR"}
    rows = [dict(zip(names, row, strict=True)) for row in zip(JOBS, AGES, ZIPS, ILLNESSES, strict=True)]
    database.table("patients", names, rows)
    roles = dict.fromkeys(names, "quasi_identifier") | {"disease": "sensitive"}
    asked = anatomy(2, columns=roles)
    # Tables 5.c and 5.d as they are printed.
    grouped = [{**row, GROUP: 1 + place // 2, "records": 1} for place, row in enumerate(rows)]
    database.table("released", {**names, GROUP: "BIGINT"}, grouped)
    database.run("ALTER TABLE released DROP COLUMN disease")
    database.table("released_sensitive", {GROUP: "BIGINT", "disease": "VARCHAR", "records": "BIGINT"}, grouped)
    found = check(asked, database.engine, release=Source(table="released"))
    assert found.holds and found.checks[0].classes == 3 and found.checks[0].measured == 2
    for name in ("released", "released_sensitive"):
        database.run(f"DROP TABLE {name}")
    done = published(database, asked)
    assert done.document["groups"]["number"] == 3
    told = database.fetch(
        "SELECT job, age, zip, COUNT(*), MAX(estimate) FROM released_estimates GROUP BY job, age, zip"
    )
    assert sorted(told) == sorted((row["job"], row["age"], row["zip"], 2, 0.5) for row in rows)


def blocks(
    rows: list[dict[str, Any]], least: int, known_by: tuple[str, ...] = ("age", "sex"), *, unknown: bool = False
) -> list[list[int]]:
    """The tags of rows that lie close to one another, block by block, in plain Python."""
    kept = [row for row in rows if row["disease"] is not None or not unknown]
    kept.sort(key=lambda row: [row[name] for name in known_by])
    keys = sorted({tuple(row[name] for name in known_by) for row in kept})
    places = [keys.index(tuple(row[name] for name in known_by)) for row in kept]
    found = blocks_of(places, [str(row["disease"]) for row in kept], least)
    return [[kept[place]["tag"] for place in block] for block in found]


def require_right(
    rows: list[dict[str, Any]],
    found: dict[int, tuple[list[int], list[Any]]],
    least: int,
    known_by: tuple[str, ...] = ("age", "sex"),
    *,
    unknown: bool = False,
) -> None:
    """By the definition, row by row: every group has the values of its rows, all different, and enough of them. Each
    block has as many groups as it can have, of equal sizes but for one row."""
    truth = {row["tag"]: row["disease"] for row in rows}
    assert sorted(tag for tags, _ in found.values() for tag in tags) == sorted(truth)
    for tags, values in found.values():
        assert Counter(truth[tag] for tag in tags) == Counter(values)
        # A NULL that is unknown comes on top of the values.
        assert len(set(values)) == len(values)
        assert least <= len(set(values) - ({None} if unknown else set())) < 2 * least
    known = {tag for tag, disease in truth.items() if disease is not None or not unknown}
    number = 0
    for block in blocks(rows, least, known_by, unknown=unknown):
        own = [set(found[group][0]) & known for group in range(number + 1, number + len(block) // least + 1)]
        assert set().union(*own) == set(block)
        assert max(map(len, own)) - min(map(len, own)) <= 1
        number += len(own)
    assert number == len(found)


@settings(max_examples=examples(15))
@given(
    values=st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f", None]), min_size=1, max_size=30),
    least=st.integers(2, 5),
)
def test_groups_are_right_or_refused(duck: Database, values: list[str | None], least: int) -> None:
    rows = [
        {"id": i, "tag": i, "age": i % 3, "sex": "f", "disease": value, "income": 0} for i, value in enumerate(values)
    ]
    with_patients(duck, rows)
    known = [value for value in values if value is not None]
    most, nulls = max(Counter(known).values(), default=0), len(values) - len(known)
    if nulls and (not known or nulls > len(known) // least):
        with pytest.raises(PolicyError, match="it is NULL, which is no value"):
            published(duck, anatomy(least, sensitive_nulls="unknown"))
        return
    if most * least > len(known):
        with pytest.raises(PolicyError, match="is not eligible") as error:
            published(duck, anatomy(least, sensitive_nulls="unknown"))
        largest = len(known) // most
        assert error.value.hint == (
            f"it allows l up to {largest}" if largest >= 2 else "groups cannot hide it: leave the column out"
        )
        return
    published(duck, anatomy(least, sensitive_nulls="unknown"))
    require_right(rows, groups(duck), least, unknown=True)
    for name in ("released_estimates", "released_sensitive", "released"):
        duck.run(f"DROP {'VIEW' if name.endswith('estimates') else 'TABLE'} {name}")
    duck.run("DROP TABLE sqlanon_releases")


@pytest.mark.full
def test_one_secret_gives_one_release_on_both_engines(duck: Database, postgres: Database) -> None:
    rows = patients(60)
    for database in (duck, postgres):
        with_patients(database, rows)
        published(database, anatomy(3))
        require_right(rows, groups(database), 3)

    def same(database: Database) -> Any:
        return sorted((sorted(tags), sorted(map(str, values))) for tags, values in groups(database).values())

    first = same(duck)
    assert same(postgres) == first
    published(duck, anatomy(3))
    assert same(duck) == first
    published(duck, anatomy(3), OTHER_KEY)
    assert same(duck) != first


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("roles", [{"id": "insensitive"}, {"income": "identifier"}], ids=["none", "two"])
def test_rows_are_told_apart_without_a_unique_column(database: Database, roles: dict[str, str]) -> None:
    """Without an identifier, or with two: and rows may be equal in everything."""
    rows = [{**row, "id": row["id"] // 50, "income": 3} for row in patients(40)]
    with_patients(database, rows)
    columns = json.loads(anatomy(2).model_dump_json())["columns"]
    columns = {name: item["role"] for name, item in columns.items()} | {"income": "insensitive"} | roles
    published(database, anatomy(2, columns=columns))
    require_right(rows, groups(database), 2)


@pytest.mark.full
def test_everybody_is_as_likely_to_be_together(duck: Database) -> None:
    """Six rows of three values in three pairs: the partner of a row is any of the four with another value."""
    rows = [{"id": i, "tag": i, "age": 1, "sex": "f", "disease": "abc"[i // 2], "income": 0} for i in range(6)]
    with_patients(duck, rows)
    partners: Counter[int] = Counter()
    for number in range(48):
        task = prepare_rows(anatomy(2), duck.engine, f"{KEY} {number}", module.SEEDS)
        made = module.part(task, module.Params(l=2))
        found = dict(duck.fetch(f"SELECT tag, {GROUP} FROM ({made.select.sql('duckdb')})"))
        task.close()
        partners.update(tag for tag in range(1, 6) if found[tag] == found[0])
    assert sum(partners.values()) == 48 and not partners[1]
    for tag in range(2, 6):  # 12 each, give or take 3
        assert 1 <= partners[tag] <= 27


def test_who_sees_the_tables_learns_no_more_than_1_in_l(duck: Database) -> None:
    """Of all tables that could be behind a release, in each group every row has every value equally often."""
    rows = patients(9)
    rows = [{**row, "disease": "abcd"[row["tag"] % 4]} for row in rows]
    with_patients(duck, rows)
    published(duck, anatomy(3))
    for tags, values in groups(duck).values():
        possible = list(permutations(values))
        for place in range(len(tags)):
            assert max(Counter(world[place] for world in possible).values()) * 3 <= len(possible)


@pytest.mark.full
def test_a_table_that_is_not_safe_as_written_is_not_shown(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with_patients(database, patients(60))
    apart = {"anatomy": {"l": 3, "close": False}}
    published(database, anatomy(3, algorithm=apart))
    before = groups(database)
    right = module.deal_rows
    monkeypatch.setattr(module, "deal_rows", lambda rows, s, codes, d, n, seed: right(rows, s, codes, d, 3 * n, seed))
    with pytest.raises(PolicyError, match="as written it breaks the policy") as error:
        published(database, anatomy(3, algorithm=apart))
    assert "a group has fewer than 3 sensitive values" in (error.value.detail or "")
    assert groups(database) == before
    assert not [name for name in database.engine.tables() if "staged" in name or "parted" in name]


@pytest.mark.full
def test_what_others_made_is_never_replaced(database: Database) -> None:
    with_patients(database, patients(60))
    database.run("CREATE TABLE released_sensitive (a INTEGER)")
    with pytest.raises(PolicyError, match="'released_sensitive' exists and was not published by sqlanon"):
        published(database, anatomy(3))
    database.run("DROP TABLE released_sensitive")
    database.run("CREATE VIEW released_estimates AS SELECT 1 AS a")
    with pytest.raises(PolicyError, match="'released_estimates' exists and was not published by sqlanon"):
        published(database, anatomy(3))
    assert database.engine.find(["released"]) is None
    assert database.fetch("SELECT a FROM released_estimates") == [(1,)]


@pytest.mark.full_on_postgres
def test_all_that_belongs_together_comes_and_goes_together(database: Database) -> None:
    with_patients(database, patients(60))
    published(database, anatomy(3))
    with_patients(database, patients(80, seed=2))
    published(database, anatomy(3))
    assert database.fetch("SELECT SUM(estimate) FROM released_estimates")[0][0] == pytest.approx(80)
    other = [{"k_anonymity": {"k": 2}}]
    plain = parting.policy("full_domain", other, suppression_limit=1.0)
    published(database, plain)
    names = {name for name in database.engine.tables() if name.startswith("released")}
    assert names == {"released"}
    published(database, anatomy(3))
    assert set(retire(anatomy(3), database.engine)) == {"released"}
    assert not [name for name in database.engine.tables() if name.startswith("released")]
    assert database.engine.find(["released_estimates"]) is None


@pytest.mark.full
def test_who_may_read_a_release_may_read_the_next(postgres: Database) -> None:
    with_patients(postgres, patients(60))
    published(postgres, anatomy(3))
    postgres.run("DROP ROLE IF EXISTS parting_reader")
    postgres.run("CREATE ROLE parting_reader")
    postgres.run("GRANT USAGE ON SCHEMA public TO parting_reader")
    for name in ("released", "released_sensitive", "released_estimates"):
        postgres.run(f"GRANT SELECT ON {name} TO parting_reader")
    published(postgres, anatomy(3))
    postgres.run("SET ROLE parting_reader")
    try:
        for name in ("released", "released_sensitive", "released_estimates"):
            assert postgres.fetch(f"SELECT COUNT(*) FROM {name}")[0][0] > 0
    finally:
        postgres.run("RESET ROLE")
        postgres.run("DROP OWNED BY parting_reader")
        postgres.run("DROP ROLE parting_reader")


@pytest.mark.full
def test_a_release_is_measured_again_from_its_tables(database: Database) -> None:
    with_patients(database, patients(60))
    asked = anatomy(3)
    published(database, asked)
    release = Source(table="released")
    assert check(asked, database.engine, release=release).holds
    changes = {
        "UPDATE released_sensitive SET records = 2": "the tables do not fit together",
        f"DELETE FROM released WHERE {GROUP} = 1": "the tables do not fit together",
        f"UPDATE released_sensitive SET disease = 'flu' WHERE {GROUP} = 1": None,
        "ALTER TABLE released ADD COLUMN disease VARCHAR": "is in the same table as the quasi-identifiers",
        "ALTER TABLE released ADD COLUMN id BIGINT": "the release holds the identifier 'id'",
    }
    for change, said in changes.items():
        published(database, asked)
        database.run("DROP VIEW released_estimates")
        database.run(change)
        found = check(asked, database.engine, release=release)
        assert not found.holds, change
        assert said is None or any(said in breach for breach in found.breaches), change
        database.run("DROP TABLE released")
        database.run("DROP TABLE released_sensitive")
        database.run("DROP TABLE sqlanon_releases")
    with_patients(database, patients(60))
    database.table("released", {"age": "INTEGER"}, [{"age": 1}])
    with pytest.raises(SqlanonError, match=f"has no column '{GROUP}'"):
        check(asked, database.engine, release=release)


@pytest.mark.full
def test_a_dry_run_and_a_plan_write_nothing(database: Database) -> None:
    with_patients(database, patients(60))
    dry = publish(anatomy(3), database.engine, secret=KEY, dry_run=True)
    number = sum(len(block) // 3 for block in blocks(patients(60), 3))
    assert dry.document["groups"]["number"] == number and "release" not in dry.document
    found = plan_refresh(anatomy(3), database.engine, secret=KEY)
    assert found.refused is None and found.document is not None and found.document["holds"]
    assert found.plan == dry.plan
    assert database.engine.tables() == ["patients"]
    with pytest.raises(PolicyError, match="the plan is no longer the same"):
        publish(anatomy(2), database.engine, secret=KEY, plan_hash=dry.plan.hash)
    done = publish(anatomy(3), database.engine, secret=KEY, plan_hash=dry.plan.hash[:12])
    assert done.plan.hash == dry.plan.hash


def test_transformations_come_first(database: Database) -> None:
    rows = patients(60)
    with_patients(database, rows)
    use = [{"sampling": {"share": 0.5}}, {"rounding": {"columns": ["age"], "base": 10}}]
    asked = anatomy(2, transformations=use, columns={**dict.fromkeys(parting.TYPES, "identifier"), "tag": "insensitive",
                                                     "age": "quasi_identifier", "disease": "sensitive"})  # fmt: skip
    done = published(database, asked)
    kept = [tag for tags, _ in groups(database).values() for tag in tags]
    shown = dict(database.fetch("SELECT tag, age FROM released"))  # what is rounded is what rows are sorted by
    rounded = [row | {"age": shown[row["tag"]]} for row in rows if row["tag"] in kept]
    require_right(rounded, groups(database), 2, ("age",))
    assert len(kept) == done.document["records"] < 60
    assert all(age % 10 == 0 for (age,) in database.fetch("SELECT age FROM released"))
    found = check(asked, database.engine, release=Source(table="released"), secret=KEY)
    assert found.holds and found.records == len(kept)


@pytest.mark.full
def test_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SQLANON_KEY", KEY)
    engine = sqlanon.connect("hospital.duckdb", read_only=False)
    with_patients(Database(engine), patients(60))
    engine.close()
    written = json.loads(anatomy(3).model_dump_json(exclude_defaults=True))
    written |= {"source": {"database": "hospital.duckdb", "table": "patients"}, "models": [{"t_closeness": {"t": 0.9}}]}
    written |= {"algorithm": {"anatomy": {"l": 3}}, "columns": {k: v["role"] for k, v in written["columns"].items()}}
    Path("policy.yml").write_text(json.dumps(written), encoding="utf-8")
    done = CliRunner().invoke(main, ["publish", "policy.yml", "--report", "report.html"])
    assert done.exit_code == 0, done.output + done.stderr
    assert "with the table released_sensitive" in done.output
    number = sum(len(block) // 3 for block in blocks(patients(60), 3))
    assert f"{number} groups of 3 rows" in done.output
    assert "deFinetti" in Path("report.html").read_text(encoding="utf-8")
    again = CliRunner().invoke(main, ["check", "hospital.duckdb", "released"])
    assert again.exit_code == 0, again.output + again.stderr
    engine = sqlanon.connect("hospital.duckdb", read_only=False)
    Database(engine).run("UPDATE released_sensitive SET disease = 'flu'")
    engine.close()
    assert CliRunner().invoke(main, ["check", "hospital.duckdb", "released"]).exit_code == 1
    explained = CliRunner().invoke(main, ["explain", "anatomy"])
    assert "Xiao and Tao 2006" in explained.output
    listed = CliRunner().invoke(main, ["releases", "show", "policy.yml", "1"])
    assert listed.exit_code == 0, listed.output + listed.stderr


ROLES = {"id": "identifier", "tag": "insensitive", "age": "quasi_identifier", "sex": "quasi_identifier"}
ROLES |= {"disease": "sensitive", "income": "identifier"}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no class": ({"models": [{"k_anonymity": {"k": 3}}]}, "k_anonymity cannot be asked of its groups"),
    "other classes": ({"models": [{"xy_privacy": {"x": ["age"], "k": 2, "h": 0.5}}]}, "cannot be asked of its groups"),
    "a qid": ({"models": [{"t_closeness": {"t": 0.5, "qid": ["age"]}}]}, "cannot be asked of its groups"),
    "two sensitive columns": ({"columns": ROLES | {"income": "sensitive"}}, "and there are 2"),
    "hierarchies": ({"hierarchies": {"age": {"intervals": {"widths": [5]}}}}, "'hierarchies' cannot be combined"),
    "pseudonyms": ({"columns": ROLES | {"id": {"role": "identifier", "pseudonym": True}}}, "pseudonyms cannot be"),
    "NULLs that match nothing": ({"nulls": "unique"}, "'nulls' cannot be combined"),
    "suppressed rows": ({"suppressed_rows": "keep"}, "'suppressed_rows' cannot be combined"),
    "a view": ({"release": {"view": "released"}}, "anatomy is released into tables or files"),
    "a folder": ({"release": {"path": "released/"}}, "anatomy is released into tables or files"),
    "one in one": ({"algorithm": {"anatomy": {"l": 1}}}, "must be >= 2"),
    "half a value": ({"algorithm": {"anatomy": {"l": 2.5}}}, "l"),
    "no parameter": ({"algorithm": "anatomy"}, "is missing"),
    "a typo": ({"algorithm": {"anatomy": {"k": 2}}}, "unknown"),
    "several rows a person": ({"person": "income"}, "has several rows"),
    "a column without a role": ({"columns": {k: v for k, v in ROLES.items() if k != "sex"}}, "columns without a role"),
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(duck: Database, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with_patients(duck, patients(60))
    changes, said = BAD[name]
    with pytest.raises(SqlanonError) as error:
        published(duck, anatomy(2, **changes))
    assert said in f"{error.value.message} {error.value.detail} {error.value.hint}"
    assert duck.engine.tables() == ["patients"]


def test_what_cannot_be_parted_is_refused(database: Database) -> None:
    with_patients(database, [])
    with pytest.raises(PolicyError, match="the source has no rows"):
        published(database, anatomy(2))
    with_patients(database, patients(60))
    with pytest.raises(PolicyError, match="groups need a key of at least 16 characters"):
        publish(anatomy(2), database.engine, secret="short")
    database.run('ALTER TABLE patients RENAME COLUMN age TO "records"')
    columns = {"records" if name == "age" else name: role for name, role in ROLES.items()}
    with pytest.raises(PolicyError, match="writes a column 'records' of its own"):
        published(database, anatomy(2, columns=columns))
