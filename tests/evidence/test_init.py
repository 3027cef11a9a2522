"""`sqlanon init`: the drafted policy always parses and can be checked, guesses on the safe side, and shows no value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlanon import policy
from sqlanon.cli import main
from sqlanon.engines import connect
from sqlanon.errors import PolicyError, SourceError
from sqlanon.evidence import draft_policy as drafts
from sqlanon.evidence.checks import check
from sqlanon.evidence.draft_policy import draft_policy, scalar
from sqlanon.evidence.hierarchies import build_hierarchies, validate_hierarchies
from sqlanon.evidence.suggest_roles import ColumnFacts, suggest, widths
from sqlanon.policy import Policy, yaml_lines
from sqlanon.release import Published, publish


class Home:
    """A database that `init` can open by its URL; between two calls nothing is open."""

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def dialect(self) -> str:
        return "postgres" if "://" in self.url else "duckdb"

    def run(self, act: Callable[[Database], None]) -> None:
        database = Database(connect(self.url, read_only=False))
        try:
            act(database)
        finally:
            database.engine.close()

    def sql(self, *statements: str) -> None:
        def run(database: Database) -> None:
            for statement in statements:
                database.run(statement)

        self.run(run)

    def table(self, name: str, columns: dict[str, str], rows: Sequence[Sequence[Any]]) -> None:
        given = [dict(zip(columns, row, strict=True)) for row in rows]
        self.run(lambda database: database.table(name, columns, given))

    def drafted(self, table: str) -> tuple[str, Policy]:
        """The draft, after it was parsed and checked."""
        text = draft_policy(self.url, table).text
        return text, checked(text)


@pytest.fixture(params=["duckdb", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    if request.param == "duckdb":
        made = Home(str(tmp_path / "home.duckdb"))
        duckdb.connect(made.url).close()
    else:
        made = Home(request.getfixturevalue("postgres_url"))
        made.sql("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    yield made


def checked(text: str) -> Policy:
    read = policy.parse(text)
    engine = connect(read.source.database)
    try:
        check(read, engine, limit=1)
        validate_hierarchies(read, engine, build_hierarchies(read))
    finally:
        engine.close()
    return read


def published(text: str) -> Published:
    """What an unedited `publish` of a draft does."""
    read = policy.parse(text)
    engine = connect(read.source.database, read_only=False)
    try:
        return publish(read, engine, workload=False)
    finally:
        engine.close()


def roles(read: Policy) -> dict[str, str]:
    return {name: column.role for name, column in read.columns.items()}


HOSPITAL = {
    "patient_id": "INTEGER",
    "full_name": "VARCHAR(40)",
    "birth_date": "DATE",
    "sex": "VARCHAR(1)",
    "zip": "VARCHAR(5)",
    "country": "VARCHAR(20)",
    "job": "VARCHAR(20)",
    "weight": "DOUBLE PRECISION",
    "shoe size": "INTEGER",
    "source": "VARCHAR(10)",
    "diagnosis": "VARCHAR(20)",
}
# Sixty persons, two rows for every fourth of them.
HOSPITAL_ROWS = [
    (
        person,
        f"Name {person}",
        f"{1950 + person}-0{person % 9 + 1}-11",
        "fm"[person % 2],
        f"13{person % 7:03}",
        ("PE", "DE", "Kosovo")[person % 3] if person % 10 else None,
        f"job {person % 5}",
        50 + person / 4 if person % 3 else None,
        36 + person % 9,
        "register",
        ("flu", "asthma", "hiv")[(person + visit) % 3],
    )
    for person in range(60)
    for visit in range(1 + (person % 4 == 0))
]
DRAFTED = """\
# Drafted by 'sqlanon init' from 75 rows and 11 columns.
# Roles are guesses: read each line, and correct it. To an attacker, a column is
#   identifier        who it is: not released
#   quasi_identifier  known from elsewhere, such as age and place: made coarser
#   sensitive         what nobody should learn about a person
#   insensitive       none of these
# As it stands, an unedited publish writes the table patients_released: groups of at least 5 persons, 7 columns made coarser, 1 column shown as sensitive, 1 column as it is, 2 columns left out.
# 'sqlanon check' with this file measures the table; 'sqlanon explain k_anonymity' tells what a model means.

source:
  database: DATABASE
  table: patients

columns:
  patient_id: identifier         # by name; 60 distinct values
  full_name: identifier          # by name; 60 distinct values
  birth_date: quasi_identifier   # by name; 60 distinct values, 100 % of rows single out a person
  sex: quasi_identifier          # by name; 2 distinct values
  zip: quasi_identifier          # by name; 7 distinct values, 100 % of rows single out a person together with "shoe size"
  country: quasi_identifier      # by name; 3 distinct values, 12 % NULL, 15 % of rows single out a person together with zip
  job: quasi_identifier          # by name; 5 distinct values, 51 % of rows single out a person together with "shoe size"
  weight: quasi_identifier       # by name; 40 distinct values, 33 % NULL, 67 % of rows single out a person
  "shoe size": quasi_identifier  # unsure: a guess on the safe side; 9 distinct values, 100 % of rows single out a person together with zip
  source: insensitive            # the same in every row
  diagnosis: sensitive           # by name; 3 distinct values
# 100 % of the rows single out a person by birth_date, weight, zip, job, country, sex, "shoe size" together.

# A person has 1.2 rows on average: persons are counted, not rows.
person: patient_id

# How values become coarser, level by level.
hierarchies:
  birth_date: {dates: {levels: [month, year, decade]}}  # months, years, decades
  zip: {prefix: {length: 5}}                            # each level hides one more character
  weight: {intervals: {widths: [1, 2, 4]}}              # wider and wider bands
  "shoe size": {intervals: {widths: [2, 4, 8]}}         # wider and wider bands
  # No computed kind fits country, job: 'sqlanon init' with -o builds a file of groups,
  # 'sqlanon hierarchy' does so too, up to 5,000 values; 'sqlanon explain csv' shows its form.
  # The kind 'country' does not know 1 value of country.

models:
  - k_anonymity: {k: 5}           # each row looks like the rows of at least 4 other persons
  - distinct_l_diversity: {l: 2}  # rows that look alike differ in each sensitive column
  # - t_closeness: {t: 0.3}       # stricter: they differ much as in the whole table

suppression_limit: 0.02  # share of the rows that may be left out
algorithm: auto          # the least loss of several algorithms; 'publish' shows what each would lose

release:
  table: patients_released
"""  # noqa: E501


@pytest.mark.full
def test_the_draft_of_a_hospital_table(home: Home) -> None:
    home.table("patients", HOSPITAL, HOSPITAL_ROWS)
    text, _ = home.drafted("patients")
    assert text.replace(scalar(home.url), "DATABASE") == DRAFTED


@pytest.mark.parametrize(
    ("role", "names"),
    [
        (
            "identifier",
            "id ssn PassportNo email e-mail emailAddress phone_number mobile firstName LAST_NAME full_name Vorname "
            "Nachname prénom apellidos home_address Straße street IBAN account_no creditCardNumber user user_name "
            "patientId customer_id Kundennummer MRN employee_name family_name tax_id notes insurance_number "
            "Hausnr Kreditkarte",
        ),
        (
            "sensitive",
            "disease Diagnosis icd10_code medical_condition treatment drug_name hiv religion politicalParty "
            "union_member salary annualIncome wage debt creditScore crime sexual_orientation pregnant disability "
            "Krankheit Gehalt maladie enfermedad account_balance diagnosis_id "
            "Nettoeinkommen Hauptdiagnose Vorerkrankungen Bruttogehalt Kreditausfall Blutgruppe systolic_bp "
            "cause_of_death credit_amount månadslön gezinsinkomen",
        ),
        (
            "quasi_identifier",
            "age Alter birthDate dob sex gender Geschlecht race ethnicity nationality country_name city zip "
            "postal_code PLZ region state county marital_status education occupation job employer language "
            "ip_address height anything column7 storage message Muttersprache Gewicht geboortedatum fødselsdato",
        ),
    ],
)
def test_roles_by_name(role: str, names: str) -> None:
    wrong = {name: suggest(ColumnFacts(name, "text")).role for name in names.split()}
    assert {name: found for name, found in wrong.items() if found != role} == {}


def test_a_name_that_tells_nothing_is_unsure() -> None:
    assert "unsure" in suggest(ColumnFacts("column7", "text")).reason
    assert "unsure" not in suggest(ColumnFacts("age", "whole")).reason


VALUES = {
    "email": [f"p{i}@example.org" for i in range(30)],
    "phone": [f"+49 30 {123456 + i}" for i in range(30)],
    "iban": [f"DE{10 + i}500105175407324931" for i in range(30)],
    "uuid": [f"123e4567-e89b-12d3-a456-4266554400{i:02}" for i in range(30)],
    "serial": [f"serial {i}" for i in range(30)],
    "ipv4": [f"192.0.2.{i % 9}" for i in range(30)],
    "day": [f"2024-01-{i % 9 + 1:02}" for i in range(30)],
    "moment": [f"2024-01-{i % 9 + 1:02} 10:00:00" for i in range(30)],
    "german": [f"{i % 9 + 1:02}.12.1990" for i in range(30)],
    "postal": [f"{13050 + i % 9}" for i in range(30)],
    "word": [f"word{i % 9}" for i in range(30)],
    "same": ["same"] * 30,
    "gone": [None] * 30,
}


@pytest.mark.full
def test_roles_and_hierarchies_by_values(home: Home) -> None:
    # Names that say nothing.
    names = {kind: f"x{place}" for place, kind in enumerate(VALUES)}
    home.table("t", dict.fromkeys(names.values(), "VARCHAR(60)"), list(zip(*VALUES.values(), strict=True)))
    text, read = home.drafted("t")
    found = {kind: roles(read)[name] for kind, name in names.items()}
    assert {kind for kind, role in found.items() if role == "identifier"} == {
        "email",
        "phone",
        "iban",
        "uuid",
        "serial",
    }
    assert {kind for kind, role in found.items() if role == "insensitive"} == {"same", "gone"}
    kinds = {kind: read.hierarchies[name].kind for kind, name in names.items() if name in read.hierarchies}
    assert kinds == {"ipv4": "ip", "day": "prefix", "postal": "prefix"}
    assert "unsure" in line_of(text, names["word"])
    assert "e-mail addresses" in line_of(text, names["email"])


def line_of(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"  {scalar(name)}: "))


@pytest.mark.full
def test_no_value_is_shown(home: Home) -> None:
    marks = [f"Mark{i}" for i in range(4)]
    home.table(
        "t",
        {"age": "INTEGER", "country": "VARCHAR(9)", "salary": "INTEGER", "weight": "DOUBLE PRECISION", "email": "TEXT"},
        [(31 + i, marks[i % 4], 71234 + i, 61.0625 + i, f"{marks[i % 4]}@example.org") for i in range(40)],
    )
    text, _ = home.drafted("t")
    for secret in (*marks, "example.org", "31", "70", "71234", "71273", "61.0625", "100.0625"):
        assert secret not in text.replace(home.url, ""), secret


def test_persons_with_several_rows(home: Home) -> None:
    rows = [(i % 40, f"doctor {i % 4}", 1900 + i % 40, f"d{i % 3}") for i in range(120)]
    home.table("t", {"patient_id": "INTEGER", "doctor": "TEXT", "birth_year": "INTEGER", "diagnosis": "TEXT"}, rows)
    text, read = home.drafted("t")
    assert read.person == "patient_id"
    assert "# A person has 3.0 rows on average" in text
    # No row is unique by its year, since each person has three; yet each year points to one person.
    assert "100 % of rows single out a person" in line_of(text, "birth_year")


def test_a_unique_key_means_that_rows_are_persons(home: Home) -> None:
    home.table("t", {"user_id": "INTEGER", "age": "INTEGER"}, [(i, i % 50) for i in range(100)])
    text, read = home.drafted("t")
    assert read.person is None
    assert "# user_id differs from row to row: each row is a person." in text


@pytest.mark.full_on_postgres
def test_a_shared_telephone_is_no_person_beside_a_unique_key(home: Home) -> None:
    """Two rows with one number by chance once made a panel of a list of patients."""
    phones = [f"+49 30 {5550000 + (0 if i < 2 else i)}" for i in range(60)]
    home.table(
        "t",
        {"patient_id": "TEXT", "phone": "TEXT", "age": "INTEGER"},
        [(f"P{i}", phone, 20 + i % 9) for i, phone in enumerate(phones)],
    )
    text, read = home.drafted("t")
    assert read.person is None
    assert "# patient_id differs from row to row: each row is a person." in text
    # Without the key nobody knows better: persons are counted.
    home.table("calls", {"phone": "TEXT", "age": "INTEGER"}, [(phone, 20 + i % 9) for i, phone in enumerate(phones)])
    text, read = home.drafted("calls")
    assert read.person == "phone"
    assert "# A person has one row mostly, and some have more: persons are counted, not rows." in text


def test_pairs_and_all_together(home: Home) -> None:
    rows = [(i % 10, i // 10, "m", f"x{i % 2}") for i in range(100)]
    home.table("t", {"age": "INTEGER", "city": "INTEGER", "sex": "TEXT", "diagnosis": "TEXT"}, rows)
    text, _ = home.drafted("t")
    assert "10 distinct values, 100 % of rows unique together with city" in line_of(text, "age")
    assert "# 100 % of the rows are unique by age, city together." in text


@pytest.mark.full
@pytest.mark.parametrize("rows", [3, 100])
def test_models_that_fit_the_roles(home: Home, rows: int) -> None:
    home.table("plain", {"age": "INTEGER"}, [(i,) for i in range(rows)])
    home.table("ill", {"age": "INTEGER", "disease": "TEXT"}, [(i, f"d{i % 2}") for i in range(rows)])
    text, read = home.drafted("plain")
    assert [use.name for use in read.models] == ["k_anonymity"]
    assert "No column looks sensitive" in text
    text, read = home.drafted("ill")
    assert [(use.name, use.params) for use in read.models] == [
        ("k_anonymity", {"k": 5}),
        ("distinct_l_diversity", {"l": 2}),
    ]
    uncommented = text.replace("  # - t_closeness", "  - t_closeness")
    assert [use.name for use in checked(uncommented).models][-1] == "t_closeness"


def test_countries_only_if_all_are_known(home: Home) -> None:
    rows = [(("PE", "DEU", "France", None)[i % 4], ("PE", "Utopia")[i % 2]) for i in range(40)]
    home.table("t", {"country": "TEXT", "nationality": "TEXT"}, rows)
    text, read = home.drafted("t")
    assert read.hierarchies["country"].kind == "country"
    assert "nationality" not in read.hierarchies
    assert "Utopia" not in text


NUMBERS = {
    "SMALLINT": ["-300", "0", "7", "32000", None],
    "INTEGER": ["-5", "0", "1", "2", "3", None],
    "BIGINT": ["-9000000000000000000", "9000000000000000000", "1", "2", None],
    "REAL": ["-0.5", "0.1", "0.3", "NaN", "Infinity", None],
    "DOUBLE PRECISION": ["-1e300", "1e-300", "1e300", "-0.0", "NaN", "-Infinity", None],
    "DECIMAL(10, 2)": ["-99.99", "0.01", "12345678.90", None],
    "DECIMAL(18, 9)": ["0.000000001", "0.000000002", "0.000000003", None],
    "DECIMAL(38, 0)": ["-1", "99999999999999999999999999999999999999", "5", None],
    "DATE": ["1899-12-31", "2024-02-29", "infinity", None],
    "TIMESTAMP": ["1899-12-31 23:59:59.5", "2024-02-29 00:00:00", None],
    "TIMESTAMPTZ": ["1999-12-31 23:59:59+02", "2024-02-29 00:00:00+00", None],
}
OWN_NUMBERS = {
    "duckdb": {
        "HUGEINT": ["-170141183460469231731687303715884105727", "170141183460469231731687303715884105727", "3", None],
        "UBIGINT": ["18446744073709551615", "0", "3", None],
        "TINYINT": ["-128", "127", "3", None],
        "TIMESTAMP_NS": ["2024-02-29 00:00:00.000000001", "2024-02-29 00:00:00", None],
    },
    "postgres": {
        "NUMERIC": ["-1e400", "1e400", "0.00000000000000000001", "NaN", "Infinity", None],
        "INET": ["192.0.2.1", "192.0.2.2", "192.0.2.3", None],
    },
}


@pytest.mark.full
@pytest.mark.parametrize("name", ["x", "age", "zip"])
def test_suggested_hierarchies_cover_their_columns(home: Home, name: str) -> None:
    columns = NUMBERS | OWN_NUMBERS[home.dialect]
    for place, (kind, values) in enumerate(columns.items()):
        literals = ", ".join("(NULL)" if value is None else f"('{value}')" for value in values)
        home.sql(f"CREATE TABLE t{place} AS SELECT CAST(v AS {kind}) AS {name} FROM (VALUES {literals}) AS g(v)")
        # drafted() validates the hierarchies against the data.
        _, read = home.drafted(f"t{place}")
        assert list(read.hierarchies) == [name], kind


@given(
    st.decimals(min_value=0, allow_nan=False, allow_infinity=False, max_value=10**40),
    st.booleans(),
)
def test_widths_are_taken_by_intervals(span: Any, whole: bool) -> None:
    read = policy.parse(
        "source: {table: t}\ncolumns: {x: quasi_identifier}\nmodels: [{k_anonymity: {k: 2}}]\nhierarchies:\n"
        + f"  x: {{intervals: {{widths: [{', '.join(format(width, 'f') for width in widths(span, whole=whole))}]}}}}"
    )
    assert len(read.hierarchies["x"].params["widths"]) == 3


TRAPS = [
    "on", "yes", "null", "2024", "1e3", "~", "<<", "-", "?", ": x", "a: b", "#x", "{", "[", "*x", "&x", "!x", "%x",
    "@x", "`", "'", '"', 'a"b', "a'b", "a\\b", " ", " a ", "a\nb", "a\tb", "order by", "select", "ä ö", "日本", "🙂",
    "a\u00a0b", "\u2028", "\ufeff", "\x7f", "\x85", "source", "records", "value", "kind", "place", "person", "c1",
    "original", "label", "listed", "grouped", "told", "class_id", "measured", "sqlanon_row", "count", "true",
]  # fmt: skip


@pytest.mark.full
def test_names_that_trap_sql_and_yaml(home: Home) -> None:
    rows = [tuple(f"{place} {row % 3}" for place in range(len(TRAPS))) for row in range(12)]
    home.table("group", dict.fromkeys(TRAPS, "TEXT"), rows)
    text, read = home.drafted("group")
    assert list(read.columns) == TRAPS
    assert read.source.table == "group"
    assert text.isprintable() or set("".join(c for c in text if not c.isprintable())) == {"\n"}


@pytest.mark.full
@pytest.mark.parametrize("name", ["on", "null", "2024", "visits 2024", "Straße", "a: b", "#1", "select", "a'b"])
def test_table_names_that_trap(home: Home, name: str) -> None:
    home.table(name, {"age": "INTEGER"}, [(1,), (2,)])
    _, read = home.drafted(name)
    assert read.source.table == name


def test_a_table_of_another_schema(home: Home) -> None:
    home.sql("DROP SCHEMA IF EXISTS raw CASCADE", "CREATE SCHEMA raw", 'CREATE TABLE raw."v 1.5" AS SELECT 1 AS age')
    _, read = home.drafted('raw."v 1.5"')
    assert read.source.table == 'raw."v 1.5"'
    home.sql("DROP SCHEMA raw CASCADE")


names = st.one_of(
    st.sampled_from([*TRAPS, "age", "zip", "user_id", "diagnosis", "birth date", "country", "salary", "email"]),
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=12),
)
types = st.sampled_from(
    ["TEXT", "INTEGER", "DOUBLE PRECISION", "DECIMAL(9, 3)", "DATE", "TIMESTAMP", "BOOLEAN", "UUID"]
)
values = {
    "TEXT": st.sampled_from(["a", "b", "12345", "x@example.org", "192.0.2.1", "2024-01-05", "", "DE"]),
    "INTEGER": st.integers(-(2**31), 2**31 - 1),
    "DOUBLE PRECISION": st.floats(),
    "DECIMAL(9, 3)": st.decimals(-999_999, 999_999, places=3),
    "DATE": st.dates(),
    "TIMESTAMP": st.datetimes(),
    "BOOLEAN": st.booleans(),
    "UUID": st.uuids(),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, str], list[list[Any]]]:
    chosen = draw(st.lists(names, min_size=1, max_size=5, unique_by=str.casefold))
    columns = {name: draw(types) for name in chosen}
    few = {name: draw(st.lists(st.none() | values[kind], min_size=1, max_size=4)) for name, kind in columns.items()}
    size = draw(st.sampled_from([0, 1, 2, 5, 30]))
    return columns, [[draw(st.sampled_from(few[name])) for name in columns] for _ in range(size)]


@pytest.mark.full
@settings(max_examples=examples(30))
@given(tables())
def test_a_draft_always_parses_and_checks(home: Home, table: tuple[dict[str, str], list[list[Any]]]) -> None:
    columns, rows = table
    home.table("t", columns, rows)
    _, read = home.drafted("t")
    assert list(read.columns) == list(columns)


@pytest.mark.full
@settings(max_examples=examples(15))
@given(tables())
def test_a_draft_is_published_as_it_is(home: Home, table: tuple[dict[str, str], list[list[Any]]]) -> None:
    columns, rows = table
    home.table("t", columns, rows)
    home.sql("DROP TABLE IF EXISTS t_released", "DROP TABLE IF EXISTS sqlanon_releases")
    draft = draft_policy(home.url, "t")
    if "refuses" in draft.summary:
        with pytest.raises(PolicyError):
            published(draft.text)
    else:
        assert published(draft.text).document["released"] > 0


@pytest.mark.full_on_postgres
def test_the_hospital_is_published_as_drafted(home: Home) -> None:
    home.table("patients", HOSPITAL, HOSPITAL_ROWS)
    done = published(draft_policy(home.url, "patients").text)
    assert done.document["release"]["name"] == "patients_released"
    assert done.document["released"] == len(HOSPITAL_ROWS)


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_any_text_is_read_back_from_yaml(text: str) -> None:
    assert yaml_lines.read_yaml(f"[{scalar(text)}]").data == [text]
    if text:
        assert yaml_lines.read_yaml(f"{drafts.key(text)} 1").data == {text: 1}


def test_a_name_longer_than_a_key_of_yaml() -> None:
    name = "long " * 400
    assert yaml_lines.read_yaml(f"columns:\n  {drafts.key(name)} identifier").data == {"columns": {name: "identifier"}}


def test_a_key_with_nulls_is_no_person(home: Home) -> None:
    rows: list[list[Any]] = [[1, "a"], [1, "b"], [2, "a"], [None, "b"]]
    home.table("t", {"user_id": "INTEGER", "city": "TEXT"}, rows)
    assert home.drafted("t")[1].person is None
    home.table("t", {"user_id": "INTEGER", "city": "TEXT"}, rows[:3])
    assert home.drafted("t")[1].person == "user_id"


def test_an_empty_table(home: Home) -> None:
    home.table("t", {"age": "INTEGER", "disease": "TEXT", "other": "TEXT"}, [])
    text, read = home.drafted("t")
    assert "# The table has no rows yet" in text
    assert roles(read) == {"age": "quasi_identifier", "disease": "sensitive", "other": "quasi_identifier"}


@pytest.mark.full
@pytest.mark.parametrize("columns", [["id"], ["user_id"], ["salary"], ["email", "salary"]])
@pytest.mark.parametrize("size", [0, 1, 2, 30])
def test_a_table_without_a_quasi_identifier(home: Home, columns: list[str], size: int) -> None:
    home.table("t", dict.fromkeys(columns, "TEXT"), [[f"v{row // 2}" for _ in columns] for row in range(size)])
    text, read = home.drafted("t")
    assert len(read.quasi_identifiers) == 1
    assert "stand-in" in line_of(text, read.quasi_identifiers[0])


def test_a_view(home: Home) -> None:
    home.table("t", {"age": "INTEGER", "name": "TEXT"}, [(1, "a"), (2, "b")])
    home.sql('CREATE VIEW "the view" AS SELECT age FROM t')
    _, read = home.drafted("the view")
    assert list(read.columns) == ["age"]


def test_types_that_only_one_engine_has(home: Home) -> None:
    if home.dialect == "postgres":
        home.sql(
            "CREATE TYPE mood AS ENUM ('glad', 'sad')",
            "CREATE TABLE t AS SELECT 'glad'::mood AS m, '{}'::json AS j, '{}'::jsonb AS b, ARRAY[i] AS l,"
            " point(i, i) AS p, '1 day'::interval AS d, 'x'::bytea AS y, i = 1 AS f, '5'::money AS e,"
            " 'a'::char(3) AS c, time '10:00' AS h FROM generate_series(1, 3) AS g(i)",
        )
    else:
        home.sql(
            "CREATE TYPE mood AS ENUM ('glad', 'sad')",
            "CREATE TABLE t AS SELECT 'glad'::mood AS m, '{}'::json AS j, [i] AS l, {'a': i} AS s, map {'a': i} AS p,"
            " interval 1 day AS d, 'x'::blob AS y, i = 1 AS f, '101'::bit AS b, time '10:00' AS h"
            " FROM range(3) AS g(i)",
        )
    text, read = home.drafted("t")
    assert "glad" not in text
    if home.dialect == "postgres":
        assert {name for name, role in roles(read).items() if role == "identifier"} == {"j", "p"}
        assert "cannot compare" in line_of(text, "j")


def test_what_cannot_be_read_is_told(home: Home, tmp_path: Path) -> None:
    home.table("patients", {"age": "INTEGER"}, [])
    with pytest.raises(SourceError, match="there is no table 'patient'") as missing:
        draft_policy(home.url, "patient")
    assert missing.value.hint == "did you mean 'patients'?"
    with pytest.raises(PolicyError, match="which table of it"):
        draft_policy(home.url, "")
    with pytest.raises(PolicyError, match="which table of it") as which:
        draft_policy(home.url, None)
    assert which.value.detail == "it has patients"
    assert which.value.hint is not None and which.value.hint.endswith(" patients")
    with pytest.raises(SourceError, match="there is no database"):
        draft_policy(str(tmp_path / "none.duckdb"), "patients")
    with pytest.raises(SourceError, match="there is no file"):
        draft_policy(str(tmp_path / "none.csv"), None)
    home.sql("DROP TABLE patients")
    with pytest.raises(PolicyError, match="a database without tables"):
        draft_policy(home.url, None)


@pytest.mark.parametrize("definition", ["()", "(j json)"])
def test_nothing_to_write_about(postgres_url: str, definition: str) -> None:
    home = Home(postgres_url)
    home.sql("DROP SCHEMA public CASCADE", "CREATE SCHEMA public", f"CREATE TABLE t {definition}")
    with pytest.raises(SourceError, match="'t' has no column"):
        draft_policy(home.url, "t")


def test_files_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    made = duckdb.connect()
    made.execute("CREATE TABLE t AS SELECT i AS age, 'd' || (i % 3) AS disease FROM range(50) AS g(i)")
    for path in ("t.parquet", "t.csv", "folder/part 1.parquet", "folder/part 2.parquet"):
        made.execute(f"COPY t TO '{path}'")
    for path, size in (("t.parquet", 50), ("t.csv", 50), ("folder", 100), ("folder/*.parquet", 100)):
        text = draft_policy(path, None).text
        assert f"from {size} rows" in text
        assert checked(text).source.path == path


@pytest.mark.full
def test_a_wide_table(home: Home) -> None:
    columns = ", ".join(f"i % {place % 9 + 2} AS column_{place}" for place in range(300))
    series = "generate_series(1, 50) AS g(i)" if home.dialect == "postgres" else "range(50) AS g(i)"
    home.sql(f"CREATE TABLE t AS SELECT {columns} FROM {series}")
    read = policy.parse(draft_policy(home.url, "t").text)
    assert len(read.columns) == 300


def test_large_tables_have_fewer_pairs_and_say_so(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "VERY_LARGE", 10)
    monkeypatch.setattr("sqlanon.evidence.suggest_roles.LARGE", 10)
    columns = ["age", "city", "job", "race", "region", "zip", "state"]
    home.table("t", dict.fromkeys(columns, "INTEGER"), [[row % (7 + place) for place in range(7)] for row in range(40)])
    text, _ = home.drafted("t")
    assert "# Pairs of these were measured on all rows" in text
    assert len(re.findall("by state, zip, region, race, job together", text)) == 1


def test_the_password_stays_out_of_the_policy() -> None:
    lines = drafts.source_lines("postgresql://ann:secret@host/db", {"table": "t"}, Path("."))
    assert "secret" not in "".join(lines)
    assert any("PGPASSWORD" in line for line in lines)


@pytest.mark.full
def test_the_command(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.table("patients", HOSPITAL, HOSPITAL_ROWS)
    monkeypatch.chdir(tmp_path)
    database = home.url if home.dialect == "postgres" else Path(home.url).name
    shown = CliRunner().invoke(main, ["init", database, "patients"])
    assert shown.exit_code == 0 and shown.output.startswith("# Drafted by")
    (tmp_path / "policies").mkdir()
    target = "policies/draft.yml"
    wrote = CliRunner().invoke(main, ["init", database, "patients", "-o", target])
    assert wrote.output.startswith(f"wrote {target}; an unedited publish writes the table patients_released: ")
    assert wrote.output.endswith(f"read it through, then: sqlanon publish {target}\n")
    # The policy lies in another folder than the database, which it still finds.
    assert CliRunner().invoke(main, ["check", target]).exit_code == 1
    again = CliRunner().invoke(main, ["init", database, "patients", "-o", target])
    assert again.exit_code == 2 and "exists already" in again.output
    assert CliRunner().invoke(main, ["init", database, "patients", "-o", target, "--force"]).exit_code == 0
    asked = CliRunner().invoke(main, ["init", database])
    assert asked.exit_code == 2 and "it has patients" in asked.output
