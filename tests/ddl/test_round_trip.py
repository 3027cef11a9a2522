"""YAML -> SQL -> YAML is the identity, for policies and gateways that are drawn at random."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest
from conftest import ROOT, examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sqlanon import policy
from sqlanon.ddl.documents import read_document
from sqlanon.ddl.labels import read_column_label, read_table_label
from sqlanon.ddl.policy_document import document_of
from sqlanon.ddl.read_statement import read_statement
from sqlanon.ddl.statements import ChangeGateway, ChangeRole, CreateView, Label
from sqlanon.ddl.write_statements import canonical, write_gateway, write_policy
from sqlanon.ddl.yaml_values import read_value, write_document, write_value
from sqlanon.errors import PolicyError
from sqlanon.policy.files import parse_gateway
from sqlanon.policy.read_policy import is_date, is_text
from sqlanon.policy.yaml_lines import read_yaml
from sqlanon.sqlfront.lexer import statements

MOST = 1_000_000
WORDS = ["true", "null", "no", "007", "2024-01-31", "1e3", "select", "it's", 'dou"ble', "a;b", "a: b", "# no", "Ünï ☃",
         "-", "{", "[x]", "*", "&a", "!t", "%", "@", "`", "\\", "a\nb", " lead", "trail ", "\t", "🎈", "x\u2028y", "'",
         "''", "$$", "$a$", "--", "/*", "between 1 and 2", "0x1F", ".5", "~", "null ", "yes", "=", "<<"]  # fmt: skip
TEXT = st.sampled_from(WORDS) | st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1, max_size=8
)
# Names of columns and tables; a name with three dots is no table, and one with a quote alone is none either.
NAME = TEXT
TABLE = st.lists(st.text(st.sampled_from("abAB_ 1é'$;"), min_size=1, max_size=6), min_size=1, max_size=3).map(".".join)
NUMBER = st.integers(-(10**6), 10**6) | st.floats(allow_nan=False, allow_infinity=False)
VALUE = st.recursive(
    TEXT | NUMBER | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=examples(500))
@given(VALUE)
def test_a_value_on_one_line_reads_back(value: Any) -> None:
    assert read_value(write_value(value)) == value
    assert type(read_value(write_value(value))) is type(value)
    assert "\n" not in write_value(value)


@settings(deadline=None, max_examples=examples(300))
@given(st.dictionaries(TEXT, VALUE, min_size=1, max_size=4))
def test_a_document_reads_back(document: dict[str, Any]) -> None:
    assert read_yaml(write_document(document, "a note")).data == document


# ---- policies

ROLE = st.sampled_from(["identifier", "quasi_identifier", "sensitive", "insensitive"])


@st.composite
def policies(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(NAME, min_size=2, max_size=5, unique=True))
    columns: dict[str, Any] = {}
    for place, name in enumerate(names):
        role = "quasi_identifier" if place == 0 else "sensitive" if place == 1 else draw(ROLE)
        long: dict[str, Any] = {"role": role}
        if draw(st.booleans()):
            long["weight"] = draw(st.floats(0.01, 100) | st.integers(1, 9))
        if role == "identifier" and draw(st.booleans()):
            long["pseudonym"] = True
        columns[name] = role if len(long) == 1 and draw(st.booleans()) else long
    roles = {name: column["role"] if isinstance(column, dict) else column for name, column in columns.items()}
    qi = [name for name, role in roles.items() if role == "quasi_identifier"]
    made: dict[str, Any] = {"source": draw(sources()), "columns": columns}
    identifiers = [name for name, role in roles.items() if role == "identifier"]
    if draw(st.booleans()):
        made["person"] = draw(st.sampled_from(identifiers)) if identifiers else draw(TEXT)
        assume(roles.get(made["person"], "identifier") == "identifier")
    made["models"] = draw(models([name for name, role in roles.items() if role == "sensitive"], qi))
    hierarchies = {name: draw(hierarchy()) for name in qi if draw(st.booleans())}
    if hierarchies:
        made["hierarchies"] = hierarchies
    optional = {
        "suppression_limit": st.floats(0, 1) | st.sampled_from([0, 1, 0.02]),
        "suppressed_rows": st.sampled_from(["drop", "keep"]),
        "sensitive_nulls": st.sampled_from(["unknown", "value"]),
        "nulls": st.sampled_from(["value", "unique"]),
        "linked_rows": st.sampled_from(["refuse", "accept"]),
        "absent_values": st.sampled_from(["refuse", "allow"]),
        "minimize": st.sampled_from(["ncp", "discernibility"]),
        "algorithm": st.sampled_from(["mondrian", "full_domain", "auto"]) | st.just({"auto": {"time_limit": 5.0}}),
        "schedule": st.just({"cron": "0 3 * * *"}) | st.just({"cron": "@daily", "tz": "Europe/Athens", "retries": 2}),
        "population": st.just({"table": "people"}),
    }
    for key, values in optional.items():
        if draw(st.integers(0, 3)) == 0:
            made[key] = draw(values)
    made["release"] = draw(releases())
    return made


@st.composite
def sources(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["table", "view", "query", "path"]))
    value: Any = draw(TABLE) if kind in ("table", "view") else draw(TEXT)
    if kind == "query":
        value = draw(st.sampled_from([
            "SELECT a, b FROM t", "SELECT * FROM raw.t WHERE day < :due", "select  1 as x from t",
            "SELECT a FROM 'f.csv'",
            'SELECT "Ä" AS "x y" FROM t JOIN u ON t.id = u.id WHERE (a > 1 OR b IN (\'x\', \'it\'\'s\'))',
            "WITH x AS (SELECT 1) SELECT * FROM x",
        ]))  # fmt: skip
    made = {kind: value}
    if draw(st.booleans()):
        made = {"database": draw(st.sampled_from(["w.duckdb", "../it's here/w.duckdb"])), **made}
    if kind == "table" and draw(st.integers(0, 4)) == 0:
        made["joins"] = [{"table": draw(TABLE), "on": draw(st.just("id") | st.just({"id": "person id"}))}]
    return made


@st.composite
def releases(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["view", "table", "path"]))
    value = "released_" + draw(TABLE) if kind != "path" else draw(st.sampled_from(["out/x.parquet", "it's.csv", "v/"]))
    made: dict[str, Any] = {kind: value}
    if kind == "view" and draw(st.booleans()):
        made["keep"] = draw(st.integers(0, 9))
    if draw(st.booleans()):
        made["audience"] = draw(TEXT)
    return made


@st.composite
def models(draw: st.DrawFn, sensitive: list[str], qi: list[str]) -> list[Any]:
    made: list[Any] = [{"k_anonymity": {"k": draw(st.integers(2, 99))}}]
    if draw(st.booleans()):
        made.append({"distinct_l_diversity": {"l": draw(st.integers(2, 5))}})
    if draw(st.booleans()):
        made.append({"t_closeness": {"t": draw(st.floats(0.01, 1)), "attribute": sensitive[0]}})
    if draw(st.booleans()):
        made.append({"confidence_bounding": {"value": draw(TEXT), "h": 0.5, "attribute": sensitive[0]}})
    if draw(st.booleans()):
        made.append({"k_anonymity": {"k": 3, "qid": qi[:1]}})
    if draw(st.booleans()):
        made.append({"entropy_l_diversity": {"l": draw(st.floats(1.1, 3))}})
    return list(draw(st.permutations(made)))


@st.composite
def hierarchy(draw: st.DrawFn) -> dict[str, Any]:
    leaves = draw(st.lists(TEXT, min_size=2, max_size=5, unique_by=str))
    return draw(st.sampled_from([
        {"age": {}}, {"prefix": {"length": 5}}, {"intervals": {"widths": [5, 10]}}, {"csv": {"path": "it's.csv"}},
        {"tree": {"tree": {"all of them": leaves}}}, {"dates": {}},
    ]))  # fmt: skip


def read_back(sql: str) -> dict[str, Any]:
    """The document of a script, by the labels and the one view in it."""
    found = [read_statement(each) for each in statements(sql, most=MOST)]
    *labels, view = found
    assert isinstance(view, CreateView)
    tables = {label.table for label in labels if isinstance(label, Label)}
    assert len(tables) <= 1
    texts = {label.column: label.text for label in labels if isinstance(label, Label)}
    return document_of(view, {str(name): str(text) for name, text in texts.items()})


def is_the_identity(document: dict[str, Any]) -> None:
    wanted = canonical(document)
    sql = write_policy(document)
    found = read_back(sql)
    assert found == wanted
    assert list(found["columns"]) == list(wanted["columns"])
    # As files: the same policy, and the same document once more.
    text = write_document(document)
    assert read_yaml(text, is_text, is_date).data == document
    try:
        before = policy.parse(text)
    except PolicyError as error:
        with pytest.raises(PolicyError):  # what no policy may say is not made into one on the way
            policy.parse(write_document(found))
        assert str(error)
        return
    after = policy.parse(write_document(found))
    assert after == before
    assert after.model_dump_json() == before.model_dump_json() or _plainer(after) == _plainer(before)
    assert read_back(write_policy(found)) == found


def _plainer(given: policy.Policy) -> Any:
    """Tables without the quotes that they do not need."""
    document = read_yaml(given.model_dump_json()).data
    for part, key in (("source", "table"), ("source", "view"), ("release", "table"), ("release", "view")):
        if (document.get(part) or {}).get(key):
            document[part][key] = canonical({part: {key: document[part][key]}})[part][key]
    return document


COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}


@settings(max_examples=examples(500), **COMMON)
@given(policies())
def test_a_policy_is_the_same_after_sql(document: dict[str, Any]) -> None:
    is_the_identity(document)


@pytest.mark.long
@settings(max_examples=10_000, **COMMON)
@given(policies())
def test_ten_thousand_policies_are_the_same_after_sql(document: dict[str, Any]) -> None:
    is_the_identity(document)


@pytest.mark.parametrize(
    "path", sorted(path for path in ROOT.glob("examples/**/*.yml") if "source:" in path.read_text(encoding="utf-8")),
    ids=lambda path: str(path.relative_to(ROOT / "examples")),
)  # fmt: skip
def test_the_policies_of_the_guides_are_the_same_after_sql(path: Any) -> None:
    document = read_document(path)
    if "source" not in document or "statistics" in document:
        pytest.skip("this file releases no rows")
    rest = {key: value for key, value in document.items() if key not in ("gateway", "serve")}
    assert read_back(write_policy(rest)) == canonical(rest)


# ---- gateways

BOUND = st.tuples(st.integers(-9, 9), st.integers(10, 99)) | st.just((date(2020, 1, 1), date(2024, 12, 31))) | st.just(
    (datetime(2020, 1, 1, 12, 30), datetime(2024, 1, 1, 0, 0))
)  # fmt: skip


@st.composite
def gateway_columns(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(["hidden", "bounds", "keys", "length", "both"]))
    if kind == "hidden":
        return "hidden"
    low, high = draw(BOUND)
    keys = draw(st.lists(TEXT, min_size=1, max_size=3, unique=True) | st.just([date(2024, 1, 31)]) | st.just([1, 2]))
    return {"bounds": {"low": low, "high": high}, "keys": {"keys": keys}, "length": {"max_length": 40},
            "both": {"keys": keys, "max_length": 7}}[kind]  # fmt: skip


@st.composite
def gateways(draw: st.DrawFn) -> dict[str, Any]:
    columns = st.dictionaries(NAME, gateway_columns(), min_size=1, max_size=3)

    def table(kind: dict[str, Any]) -> dict[str, Any]:
        return {**kind, "columns": draw(columns)} if draw(st.booleans()) else kind

    tables = {"people": table({}), "visits": table({"unit": draw(st.just("person") | NAME)}), "towns": {"public": True},
              "lines": table({"link": {"table": "visits", "on": "visit"}}), "out": {"released": True}}  # fmt: skip
    principals = {name: draw(st.sampled_from([{}, {"owner": True}, {"epsilon": 0.6, "tables": ["towns"]},
                                              {"auditor": True, "delta": 1e-9}]))
                  for name in draw(st.lists(NAME, min_size=1, max_size=3, unique=True))}  # fmt: skip
    return {
        "database": "shop.duckdb", "unit": {"table": "people", "key": "person"}, "tables": tables,
        "rows": draw(st.integers(1, 9)), "principals": principals,
        "budget": {"statement": {"epsilon": 1, "delta": 1e-6, "default": 0.5},
                   "principal": {"epsilon": draw(st.floats(0.1, 9)), "delta": 1e-3, "period": "month"}},
        **({"mechanism": "gaussian"} if draw(st.booleans()) else {}),
        **({"functions": ["count", "sum"]} if draw(st.booleans()) else {}),
    }  # fmt: skip


def read_gateway(sql: str) -> dict[str, Any]:
    """What a script says of a gateway, put together by hand: the session's own code is not asked."""
    made: dict[str, Any] = {"tables": {}, "principals": {}}
    for statement in map(read_statement, statements(sql, most=MOST)):
        match statement:
            case Label(table=table, column=None, text=str(text)):
                label = read_table_label(text)
                made["tables"][table] = dict(label.table)
                if label.persons_by is not None:
                    made["unit"] = {"table": table, "key": label.persons_by}
            case Label(table=table, column=str(name), text=str(text)):
                made["tables"][table].setdefault("columns", {})[name] = read_column_label(text).gateway
            case ChangeRole(verb="create", role=role):
                made["principals"][role] = {}
            case ChangeRole(verb="alter", role=role, setting=key, value=value):
                made["principals"][role][key] = read_value(value) if isinstance(value, str) else value
            case ChangeGateway(setting=key, value=value):
                made[key] = read_value(value) if isinstance(value, str) else value
    return made


@settings(max_examples=examples(200), **COMMON)
@given(gateways())
def test_a_gateway_is_the_same_after_sql(gateway: dict[str, Any]) -> None:
    found = read_gateway(write_gateway(gateway))
    assert found == gateway
    before, after = (write_document({"gateway": each}) for each in (gateway, found))
    try:
        wanted = parse_gateway(before)
    except PolicyError:
        with pytest.raises(PolicyError):
            parse_gateway(after)
        return
    assert parse_gateway(after).fingerprint == wanted.fingerprint
