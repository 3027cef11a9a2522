"""Rows in, release out: recomputed in pandas, for every form in which rows come, and for bad input."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st

import sqlanon as sa
from sqlanon.dataframes.policy_arguments import with_default_algorithm
from sqlanon.errors import PolicyError, SourceError

QI = ["age", "zip", "sex"]


def patients(rows: int = 150, seed: int = 7) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": draw.integers(18, 90, rows),
            "zip": draw.integers(10000, 10060, rows).astype(str),
            "sex": draw.choice(["f", "m"], rows),
            "disease": draw.choice(["flu", "cold", "asthma"], rows),
        }
    )


def smallest_class(frame: pd.DataFrame, columns: list[str]) -> int:
    """Of code that shares nothing with sqlanon."""
    return int(frame.groupby(columns, dropna=False, observed=True).size().min())


def covers(label: object, value: object) -> bool:
    """Whether a label of Mondrian covers a value: it is the value, or a range around it."""
    text = str(label)
    if not text.startswith("["):
        return text == str(value)
    low, high = text[1:-1].split(", ")
    return type(value)(low) <= value <= type(value)(high)  # type: ignore[operator, call-arg]


# ---- what comes out


def test_the_release_is_k_anonymous_and_l_diverse() -> None:
    source = patients()
    release = sa.anonymize(source, quasi_identifiers=QI, sensitive="disease", k=5, l=2)
    frame = release.to_pandas()
    assert smallest_class(frame, QI) >= 5
    assert frame.groupby(QI)["disease"].nunique().min() >= 2
    assert sorted(frame["disease"]) == sorted(source["disease"]) and len(release) == len(source)
    assert release.suppressed == 0 and 0 < release.loss < 0.5


def test_every_label_covers_the_values_of_its_row() -> None:
    """With a column that tells rows apart and stays as it is, each released row is compared with its own."""
    source = patients()
    source["row"] = range(len(source))
    frame = sa.anonymize(source, quasi_identifiers=QI, insensitive=["row", "disease"], k=4).to_pandas()
    both = frame.merge(source, on="row", suffixes=("", "_of_source"))
    assert len(both) == len(source)
    for name in QI:
        pairs = zip(both[name], both[f"{name}_of_source"], strict=True)
        assert all(covers(label, value) for label, value in pairs), name
    assert list(frame["row"]) != list(source["row"])  # the order tells nothing of the source


FORMS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "arrow": lambda frame, folder: pa.Table.from_pandas(frame),
    "batch": lambda frame, folder: pa.RecordBatch.from_pandas(frame),
    "reader": lambda frame, folder: pa.Table.from_pandas(frame).to_reader(max_chunksize=50),
    "relation": lambda frame, folder: duckdb.connect().from_df(frame),
    "parquet": lambda frame, folder: _written(frame, folder / "rows.parquet"),
    "csv": lambda frame, folder: str(_written(frame, folder / "rows.csv")),
    "polars": lambda frame, folder: pytest.importorskip("polars").from_pandas(frame),
    "lazy": lambda frame, folder: pytest.importorskip("polars").from_pandas(frame).lazy(),
}


def _written(frame: pd.DataFrame, path: Path) -> Path:
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path


ASKED: dict[str, Any] = {"quasi_identifiers": ["age", "sex"], "sensitive": "disease", "identifiers": "zip", "k": 3}


@cache
def release_of_pandas() -> pd.DataFrame:
    return sa.anonymize(patients(120), **ASKED).to_pandas()


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_rows_give_the_same_release(form: str, tmp_path: Path) -> None:
    expected = release_of_pandas()
    release = sa.anonymize(FORMS[form](patients(120), tmp_path), **ASKED)
    names = ["age", "sex", "disease"]
    assert release.columns == names
    found = release.to_pandas()[names].sort_values(names, ignore_index=True)
    assert found.astype(str).equals(expected[names].sort_values(names, ignore_index=True).astype(str))


@pytest.mark.full
def test_a_table_of_a_database(database: Database) -> None:
    """On both engines: the release is made there, and nothing of it stays."""
    source = patients(100)
    database.table(
        "patients", {"age": "INT", "zip": "TEXT", "sex": "TEXT", "disease": "TEXT"}, source.to_dict("records")
    )
    before = database.engine.tables()
    release = sa.anonymize("patients", connection=database.engine, quasi_identifiers=QI, sensitive="disease", k=4)
    assert smallest_class(release.to_pandas(), QI) >= 4 and len(release) == 100
    assert database.engine.tables() == before
    assert database.engine.find(["release_made_by_sqlanon"]) is None


def test_an_open_connection_goes_on_as_it_was() -> None:
    source, connection = patients(100), duckdb.connect()
    connection.register("visits", source)  # temporary: no other connection sees it
    release = sa.anonymize("visits", connection=connection, quasi_identifiers=QI, sensitive="disease", k=4)
    assert smallest_class(release.to_pandas(), QI) >= 4
    assert connection.execute("SELECT current_setting('preserve_insertion_order')").fetchone() == (True,)
    assert [row[2] for row in connection.execute("SHOW ALL TABLES").fetchall()] == ["visits"]


@pytest.mark.full
def test_a_database_file_is_opened_for_reading(tmp_path: Path) -> None:
    file = tmp_path / "clinic.duckdb"
    source = patients(80)
    with duckdb.connect(str(file)) as made:
        made.register("source", source)
        made.execute("CREATE TABLE patients AS FROM source")
    written = file.stat().st_mtime_ns
    asked: dict[str, Any] = {"quasi_identifiers": QI, "sensitive": "disease", "k": 4}
    by_path = sa.anonymize("patients", connection=file, **asked)
    sqlalchemy = pytest.importorskip("sqlalchemy")
    by_url = sa.anonymize("patients", connection=sqlalchemy.URL.create("duckdb", database=str(file)), **asked)
    queried = sa.anonymize("SELECT * FROM patients WHERE age < 60", connection=str(file), **asked)
    assert len(by_path) == len(by_url) == 80 > len(queried)
    assert file.stat().st_mtime_ns == written


def test_sqlalchemy_urls_of_postgresql(postgres: Database) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    source = patients(60)
    columns = {"age": "INT", "zip": "TEXT", "sex": "TEXT", "disease": "TEXT"}
    postgres.table("patients", columns, source.to_dict("records"))
    url = sqlalchemy.make_url(postgres.url).set(drivername="postgresql+psycopg")
    for given_url in (url, url.render_as_string(hide_password=False)):
        release = sa.anonymize("patients", connection=given_url, quasi_identifiers=QI, sensitive="disease", k=3)
        assert smallest_class(release.to_pandas(), QI) >= 3


# ---- types

KEPT: dict[str, Callable[[], Any]] = {
    "int64": lambda: range(40),
    "Int64": lambda: pd.array([2**60 + 1, None] * 20, dtype="Int64"),
    "boolean": lambda: pd.array([True, None] * 20, dtype="boolean"),
    "float": lambda: [0.5, None] * 20,
    "string": lambda: pd.array(["a", None] * 20, dtype="string"),
    "zone": lambda: pd.date_range("2024-03-30", periods=40, freq="h", tz="Europe/Athens"),
    "nanoseconds": lambda: pd.date_range("2024-03-30", periods=40, freq="h", unit="ns") + pd.Timedelta(1, "ns"),
    "date": lambda: [date(2024, 1, day % 28 + 1) for day in range(40)],
    "decimal": lambda: [Decimal(number) / 4 for number in range(40)],
    "category": lambda: pd.Categorical(["a", "b"] * 20, categories=["b", "a"], ordered=True),
    "text with quotes": lambda: ['"it\'s" ‘ü’\n', ""] * 20,
    "bytes": lambda: [b"\x00\xff"] * 40,
}


@pytest.mark.full
@pytest.mark.parametrize("kind", KEPT)
def test_columns_that_stay_as_they_are_keep_type_and_values(kind: str) -> None:
    """pandas in, pandas out."""
    source = pd.DataFrame({"age": range(20, 60), "row": range(40), "kept": KEPT[kind]()})
    release = sa.anonymize(source, quasi_identifiers="age", insensitive=["row", "kept"], k=4)
    found = release.to_pandas().sort_values("row", ignore_index=True)
    pd.testing.assert_series_equal(found["kept"], source["kept"])


@pytest.mark.full
@pytest.mark.parametrize("kind", KEPT)
def test_quasi_identifiers_of_all_types(kind: str) -> None:
    source = pd.DataFrame({"known": KEPT[kind](), "value": ["x", "y"] * 20})
    release = sa.anonymize(source, quasi_identifiers="known", sensitive="value", k=4).to_pandas()
    assert smallest_class(release, ["known"]) >= 4 and len(release) == 40


def test_polars_types_come_back() -> None:
    polars = pytest.importorskip("polars")
    source = polars.DataFrame(
        {"age": range(40), "row": range(40), "kind": polars.Series(["a", "b"] * 20, dtype=polars.Categorical)}
    ).with_columns(at=polars.datetime(2024, 1, 1, time_zone="Europe/Athens"), n=polars.lit(None, dtype=polars.Int8))
    kept = ["row", "kind", "at", "n"]
    found = sa.anonymize(source, quasi_identifiers="age", insensitive=kept, k=4).to_polars().sort("row")
    assert found.select(kept).equals(source.select(kept)) and found.select(kept).schema == source.select(kept).schema


def test_categories_of_suppressed_rows_are_gone() -> None:
    """A category without a row would tell that somebody had it."""
    kinds = pd.Categorical(["flu"] * 20 + ["very rare"], categories=["flu", "very rare", "unused"])
    source = pd.DataFrame({"sex": ["f"] * 20 + ["m"], "disease": kinds})
    release = sa.anonymize(
        source, quasi_identifiers="sex", sensitive="disease", k=5, suppression_limit=0.1, algorithm="full_domain"
    )
    assert release.suppressed == 1
    assert list(release.to_pandas()["disease"].cat.categories) == ["flu"]
    assert b"very rare" not in pickle.dumps(release)


# ---- what is kept of the source


def test_nothing_of_the_source_is_reachable_from_the_release(tmp_path: Path) -> None:
    source = patients()
    source["name"] = [f"person-{number:05}" for number in range(len(source))]
    source.loc[0, ["sex", "disease"]] = ["x", "one of a kind"]
    release = sa.anonymize(
        source, quasi_identifiers=QI, sensitive="disease", identifiers="name", k=5, suppression_limit=0.05,
        algorithm="full_domain",
    )  # fmt: skip
    page = release.report(tmp_path / "report.html").read_text(encoding="utf-8")
    everything = pickle.dumps(release).decode("latin-1") + repr(release) + release._repr_html_() + release.sql + page
    if "one of a kind" not in set(release.to_pandas()["disease"]):
        assert "one of a kind" not in everything
    assert "person-0" not in everything and "person-0" not in str(release.document)
    again = pickle.loads(pickle.dumps(release))
    assert again.to_pandas().equals(release.to_pandas()) and repr(again) == repr(release)


def test_a_rare_value_that_was_suppressed_is_nowhere() -> None:
    source = patients(100)
    source.loc[0, ["age", "sex", "disease"]] = [17, "x", "one of a kind"]
    release = sa.anonymize(
        source, quasi_identifiers=["sex"], sensitive="disease", identifiers=["age", "zip"], k=5,
        suppression_limit=0.05, algorithm="full_domain",
    )  # fmt: skip
    assert release.suppressed == 1
    assert "one of a kind" not in pickle.dumps(release).decode("latin-1") + str(release.document)


def test_a_path_writes_the_release_and_its_evidence(tmp_path: Path) -> None:
    file = tmp_path / "out.parquet"
    release = sa.anonymize(patients(), quasi_identifiers=QI, sensitive="disease", k=5, path=file)
    names = [*QI, "disease"]
    written = pd.read_parquet(file)[names].sort_values(names, ignore_index=True)
    assert written.equals(release.to_pandas()[names].sort_values(names, ignore_index=True))
    assert {path.name for path in tmp_path.iterdir()} == {"out.parquet", "out.parquet.evidence.json"}


def test_a_notebook_escapes_values() -> None:
    source = pd.DataFrame({"age": [1] * 4, "<b>": ["<script>alert(1)</script>"] * 4})
    shown = sa.anonymize(source, quasi_identifiers="age", insensitive="<b>", k=2)._repr_html_()
    assert "<script" not in shown and "&lt;script&gt;" in shown


def test_persons_are_counted_where_a_person_is_named() -> None:
    source = patients(120)
    source["person"] = [number // 2 for number in range(120)]
    release = sa.anonymize(
        source, quasi_identifiers=["age", "sex"], sensitive="disease", identifiers="zip", person="person", k=3
    )
    assert "person" not in release.columns
    # 3 persons have at most 2 rows each: a class of 3 persons has at least 3 rows.
    assert smallest_class(release.to_pandas(), ["age", "sex"]) >= 3


# ---- policies


@pytest.mark.full
def test_policies_as_dict_object_file_and_keywords_ask_for_the_same(tmp_path: Path) -> None:
    source = patients(60)
    as_dict = {
        "columns": dict.fromkeys(QI, "quasi_identifier") | {"disease": "sensitive"},
        "models": [{"k_anonymity": {"k": 5}}],
    }
    file = tmp_path / "policy.yml"
    file.write_text(
        "source: {table: anything}\ncolumns: {age: quasi_identifier, zip: quasi_identifier, sex: quasi_identifier, "
        "disease: sensitive}\nmodels: [{k_anonymity: {k: 5}}]\n"
    )
    as_object = sa.Policy.model_validate({"source": {"table": "elsewhere"}, **as_dict})
    found = [sa.anonymize(source, policy) for policy in (as_dict, as_object, file, str(file), file.read_text())]
    found.append(sa.anonymize(source, quasi_identifiers=QI, sensitive="disease", k=5))
    assert len({release.document["plan_hash"] for release in found}) == 1


def test_the_default_algorithm_depends_on_hierarchies_alone() -> None:
    columns = {"age": "quasi_identifier", "zip": "quasi_identifier"}
    data: dict[str, Any] = {"source": {"table": "t"}, "columns": columns, "models": [{"k_anonymity": {"k": 5}}]}
    none = with_default_algorithm(sa.Policy.model_validate(data))
    assert none.algorithm is not None and none.algorithm.name == "mondrian"
    some = {"age": {"intervals": {"widths": [10]}}}
    assert with_default_algorithm(sa.Policy.model_validate(data | {"hierarchies": some})).algorithm is not None
    both = some | {"zip": {"prefix": {"length": 5}}}
    every = with_default_algorithm(sa.Policy.model_validate(data | {"hierarchies": both}))
    assert every.algorithm is not None and every.algorithm.name == "auto"
    asked = with_default_algorithm(sa.Policy.model_validate(data | {"algorithm": "datafly"}))
    assert asked.algorithm is not None and asked.algorithm.name == "datafly"


# ---- bad input


def refused(data: Any, *args: Any, **asked: Any) -> str:
    with pytest.raises(sa.SqlanonError) as caught:
        sa.anonymize(data, *args, **asked)
    assert isinstance(caught.value, SourceError | PolicyError)
    return str(caught.value)


def frame_of(names: list[Any], *columns: Any) -> pd.DataFrame:
    made = pd.DataFrame(dict(enumerate(columns)))
    made.columns = names
    return made


BAD_FRAMES: dict[str, tuple[Callable[[], Any], str]] = {
    "duplicate columns": (lambda: frame_of(["age", "age"], [1, 2], [3, 4]), "same name: 'age', 'age'"),
    "capitals": (lambda: frame_of(["age", "Age"], [1, 2], [3, 4]), "same name: 'age', 'Age'"),
    "numbers as names": (lambda: frame_of([0, 1], [1, 2], [3, 4]), "names of columns are text"),
    "several levels of names": (
        lambda: frame_of(list(pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])), [1, 2], [3, 4]),
        "names of columns are text",
    ),
    "no name": (lambda: frame_of(["age", ""], [1, 2], [3, 4]), "names of columns are text"),
    "no columns": (lambda: pd.DataFrame(index=range(5)), "no column"),
    "nothing at all": (lambda: pa.table({}), "no column"),
    "no rows": (lambda: pd.DataFrame({"age": pd.Series([], dtype="int64")}), "no rows"),
    "mixed types": (lambda: frame_of(["age"], [1, "secret-value"]), "column 'age' holds values of several types"),
    "objects": (lambda: frame_of(["age"], [object(), object()]), "column 'age' holds values of several types"),
    "too large a number": (lambda: frame_of(["age"], [2**80, 1]), "column 'age' holds values of several types"),
    "complex numbers": (lambda: frame_of(["age"], [1j, 2j]), "column 'age' holds values of several types"),
    "durations": (lambda: frame_of(["age"], pd.to_timedelta([1, 2], unit="h")), "of type duration"),
    "periods": (lambda: frame_of(["age"], pd.period_range("2020", periods=2, freq="M")), "pandas.period"),
    "intervals": (lambda: frame_of(["age"], pd.interval_range(0, 2)), "pandas.interval"),
    "lists": (lambda: frame_of(["age"], [[1], [2]]), "of type list"),
    "structs": (lambda: pa.table({"age": [{"a": 1}, {"a": 2}]}), "of type struct"),
    "half floats": (lambda: frame_of(["age"], np.array([1, 2], dtype="float16")), "of type halffloat"),
    "a dict": (lambda: {"age": [1, 2]}, "rows cannot be read from dict"),
    "a list": (lambda: [{"age": 1}], "rows cannot be read from list"),
    "a number": (lambda: 5, "rows cannot be read from int"),
    "a table without a connection": (lambda: "patients", "the table 'patients' needs a database"),
    "a query without a connection": (lambda: "select 1 AS age", "the query needs a database"),
    "no such file": (lambda: "nowhere.parquet", "there is no file 'nowhere.parquet'"),
    "a connection": (lambda: duckdb.connect(), "a connection holds many tables"),
    "a misspelt column": (lambda: frame_of(["agee"], [1, 2]), "column 'age' is not in the source"),
}


@pytest.mark.parametrize("case", BAD_FRAMES)
def test_bad_rows_are_refused_by_name_and_without_values(case: str) -> None:
    made, said = BAD_FRAMES[case]
    message = refused(made(), quasi_identifiers="age", k=2)
    assert said in message and "secret-value" not in message


def test_columns_without_a_role_are_refused() -> None:
    assert "columns without a role: disease" in refused(patients(), quasi_identifiers=QI, k=5)


@pytest.mark.full
def test_an_index_is_left_out_unless_it_is_named() -> None:
    source = patients(40).set_index(pd.Index([f"p{number}" for number in range(40)], name="patient"))
    release = sa.anonymize(source, quasi_identifiers=QI, sensitive="disease", k=4)
    assert release.columns == [*QI, "disease"] and list(release.to_pandas().index) == list(range(40))
    named = sa.anonymize(source, quasi_identifiers=QI, sensitive="disease", insensitive="patient", k=4)
    assert sorted(named.to_pandas()["patient"]) == sorted(source.index)
    several = source.set_index("age", append=True)
    assert "age" in sa.anonymize(several, quasi_identifiers=QI, sensitive="disease", k=4).columns


def test_what_cannot_be_met_gives_no_release() -> None:
    with pytest.raises(PolicyError):
        sa.anonymize(patients(4), quasi_identifiers=QI, sensitive="disease", k=5)
    one = patients(50).assign(disease="flu")
    with pytest.raises(PolicyError):
        sa.anonymize(one, quasi_identifiers=QI, sensitive="disease", k=5, l=2)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"colunms": {"age": "quasi_identifier"}, "models": [{"k_anonymity": {"k": 2}}]}, "did you mean 'columns'?"),
        ({"columns": {"age": "quasi_identifer"}, "models": [{"k_anonymity": {"k": 2}}]}, "quasi_identifier"),
        (
            {"columns": {"age": "quasi_identifier"}, "models": [{"k_anonimity": {"k": 2}}]},
            "did you mean 'k_anonymity'?",
        ),
        ({"columns": {"age": "quasi_identifier"}, "models": [{"k_anonymity": {"kk": 2}}]}, "kk"),
        ({"columns": {"age": "quasi_identifier"}, "models": [{"k_anonymity": {"k": "two"}}]}, "k"),
        ({"columns": {"age": "quasi_identifier"}, "models": []}, "models"),
        ({}, "columns"),
    ],
)
def test_a_dict_with_typos(data: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError, match=said.replace("?", r"\?")):
        sa.anonymize(patients(), data)


def test_keywords_that_do_not_go_together() -> None:
    frame = patients()
    assert "nothing is required" in refused(frame, quasi_identifiers=QI, sensitive="disease")
    assert "no quasi-identifier" in refused(frame, k=5)
    assert "column 'age' is given twice" in refused(frame, quasi_identifiers=QI, sensitive="age", k=5)
    policy = {"columns": {"age": "quasi_identifier"}, "models": [{"k_anonymity": {"k": 2}}]}
    assert "beside it k" in refused(frame, policy, k=5)
    assert "names of columns" in refused(frame, quasi_identifiers=[1], k=5)
    assert "with a connection" in refused(frame, connection=":memory:", quasi_identifiers=QI, k=5)
    assert "not by int" in refused("patients", connection=5, quasi_identifiers=QI, k=5)
    assert "'mysql://'" in refused("patients", connection="mysql+pymysql://host/db", quasi_identifiers=QI, k=5)
    with pytest.raises(TypeError, match="quasi_identifier"):
        sa.anonymize(frame, quasi_identifier=QI, k=5)  # type: ignore[call-arg]
    with pytest.raises(PolicyError, match=r"^k: "):
        sa.anonymize(frame, quasi_identifiers=QI, sensitive="disease", k=1)
    with pytest.raises(PolicyError, match="writes its rows itself"):
        sa.anonymize(frame, quasi_identifiers=QI, sensitive="disease", l=2, algorithm={"anatomy": {"l": 2}})


def test_a_misspelt_table_is_not_a_variable() -> None:
    """DuckDB would read variables of the program that have the name of a table."""
    rows = patients()  # noqa: F841
    with pytest.raises(SourceError, match="there is no table 'rows'"):
        sa.check(patients(), release=sa.Source(table="rows"), quasi_identifiers=QI, k=5)


# ---- any rows

VALUES: dict[str, Any] = {
    "whole": st.integers(-3, 3) | st.none(),
    "real": st.floats(-2, 2, width=32) | st.just(float("nan")) | st.none(),
    "text": st.sampled_from(["", "a", "b'", 'c"', "ü", "NULL", "*", "[1, 2]"]) | st.none(),
    "flag": st.booleans() | st.none(),
    "day": st.dates(date(2020, 1, 1), date(2020, 1, 9)) | st.none(),
}


@st.composite
def frames(draw: Any) -> pd.DataFrame:
    rows = draw(st.integers(3, 12))
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    columns = {
        f"q{place} {kind}": pd.Series(draw(st.lists(VALUES[kind], min_size=rows, max_size=rows)), dtype=object)
        for place, kind in enumerate(kinds)
    }
    return pd.DataFrame({**columns, "row": range(rows)})


@settings(max_examples=examples(60))
@given(frames(), st.integers(2, 3))
def test_any_rows_come_back_k_anonymous(source: pd.DataFrame, k: int) -> None:
    names = [name for name in source.columns if name != "row"]
    found = sa.anonymize(source, quasi_identifiers=names, insensitive="row", k=k).to_pandas()
    assert sorted(found["row"]) == list(source["row"])
    assert smallest_class(found, names) >= k
