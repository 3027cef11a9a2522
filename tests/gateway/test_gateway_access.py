"""Rules of access: for whom a table or column is not, it is as if it did not exist.

The oracle is a second database without it, under a policy that does not know of it: whatever is asked, both say the
same, word for word.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import examples
from gateway_world import COLUMNS, EXACT, World, people, policy, world
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.gateway import open_gateway
from sqlanon.gateway.synthetic import synthetic_gate
from sqlanon.ledger import Ledger
from sqlanon.policy.files import parse_gateway
from sqlanon.policy.gateway import MINIMAL, Gateway

DIALECTS = ["duckdb", "postgres"]
RULES: list[dict[str, Any]] = [
    {"tables": ["visits"], "columns": ["note", "income"], "to": ["all"], "except": ["intern"]},
    {"tables": ["orders"], "columns": ["amount"], "to": ["chief"]},
    {"tables": ["staff", "published"], "to": ["chief"]},
    {"tables": ["published"], "to": ["analyst"]},
    {"tables": ["regions"], "columns": ["size"], "to": ["all"], "except": ["intern", "trusted"]},
]
PRINCIPALS: dict[str, Any] = {"chief": {}, "analyst": {}, "intern": {}, "guest": {"tables": ["visits", "staff"]}}
GONE = {"visits": {"note", "income"}, "orders": {"amount"}, "regions": {"size"}}


def ruled(**changed: Any) -> Gateway:
    # Nobody has more rows than are counted: which of them are would differ between two ledgers.
    return policy(**({"principals": PRINCIPALS, "access": RULES, "rows": 99, "groups": 99} | changed))


def reduced() -> tuple[Gateway, dict[str, dict[str, str]]]:
    """The policy and the columns of a database that has only what the intern may know of."""
    whole = policy(principals={"intern": {}}, rows=99, groups=99).model_dump(exclude_defaults=True)
    tables = {name: table for name, table in whole["tables"].items() if name not in ("staff", "published")}
    for name, gone in GONE.items():
        kept = {column: one for column, one in tables[name].get("columns", {}).items() if column not in gone}
        tables[name] = tables[name] | {"columns": kept}
    columns = {
        name: {column: kind for column, kind in each.items() if column not in GONE.get(name, ())}
        for name, each in COLUMNS.items()
        if name in tables
    }
    return Gateway.model_validate(whole | {"tables": tables}), columns


@pytest.fixture(scope="module")
def ruled_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = world(tmp_path_factory.mktemp("ruled"), given=ruled(), mechanisms=EXACT)
    yield made
    made.close()


@pytest.fixture(scope="module")
def small_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    given, columns = reduced()
    made = world(tmp_path_factory.mktemp("small"), people(), given=given, mechanisms=EXACT, columns=columns)
    yield made
    made.close()


def outcome(made: World, sql: str, principal: str = "intern", dialect: str = "duckdb") -> Any:
    """All that a client gets to see, but not what is left of the budget."""
    try:
        answer = made.gate.answer(sql, principal, dialect=dialect)
    except SqlanonError as error:
        return type(error).__name__, str(error), error.sqlstate, getattr(error, "position", None)
    rows = [row for row in answer.rows if not str(row[0]).startswith("Left to ")]
    return answer.columns, rows if answer.plain else sorted(map(str, rows)), answer.plain


ATTACKS = [
    "SELECT COUNT(note) FROM visits",
    "SELECT COUNT(*) FROM visits WHERE note = 'n0'",
    "SELECT COUNT(*) FROM visits v WHERE v.note IS NOT NULL",
    'SELECT COUNT("NOTE") FROM visits',
    "SELECT COUNT(*) FROM visits WHERE \"Note\" LIKE 'n%'",
    "SELECT COUNT(*) FROM visits WHERE visits.note = ''",
    "SELECT COUNT(*) FROM visits WHERE main.visits.note = ''",
    "SELECT COUNT(*) FROM visits WHERE public.visits.note = ''",
    "SELECT note, COUNT(*) FROM visits GROUP BY note",
    "SELECT COUNT(*) FROM visits GROUP BY note",
    "SELECT region FROM visits GROUP BY region ORDER BY MAX(note)",
    "SELECT COUNT(*) FROM visits HAVING COUNT(note) > 1",
    "SELECT SUM(income) FROM visits",
    "SELECT SUM(incom) FROM visits",
    "SELECT SUM(not) FROM visits",
    "SELECT SUM(amout) FROM orders",
    "SELECT AVG(amount) FROM orders",
    "SELECT MEDIAN(v.income) FROM visits AS v",
    "SELECT COUNT(*) FROM (SELECT * FROM visits) t WHERE note = 'n0'",
    "SELECT COUNT(*) FROM (SELECT v.* FROM visits v) t WHERE t.note = 'n0'",
    "SELECT COUNT(*) FROM (SELECT note AS n FROM visits) t",
    "SELECT COUNT(*) FROM (SELECT user_id, MAX(note) m FROM visits GROUP BY user_id) t",
    "WITH t AS (SELECT * FROM visits) SELECT COUNT(note) FROM t",
    "WITH staff AS (SELECT user_id FROM visits) SELECT COUNT(*) FROM staff",
    "WITH note AS (SELECT * FROM visits) SELECT COUNT(*) FROM note",
    "SELECT COUNT(*) FROM visits a JOIN visits b USING (user_id, note)",
    "SELECT COUNT(*) FROM visits a JOIN visits b USING (note)",
    "SELECT COUNT(*) FROM visits a JOIN orders b USING (amount)",
    "SELECT COUNT(*) FROM visits a NATURAL JOIN visits b",
    "SELECT COUNT(*) FROM visits NATURAL JOIN regions",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.user_id = b.user_id AND a.note = b.note",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.note = b.note",
    "SELECT COUNT(*) FROM visits a JOIN orders b ON a.user_id = b.user_id WHERE amount > 3",
    "SELECT COUNT(*) FROM visits JOIN staff USING (user_id)",
    "SELECT COUNT(*) FROM visits, staff",
    "SELECT COUNT(*) FROM staff",
    "SELECT COUNT(*) FROM STAFF",
    'SELECT COUNT(*) FROM "staff"',
    "SELECT COUNT(*) FROM main.staff",
    "SELECT COUNT(*) FROM public.staff",
    "SELECT COUNT(*) FROM staf",
    "SELECT grade FROM staff",
    "SELECT * FROM staff",
    "SELECT * FROM published",
    "SELECT * FROM publishd",
    "SELECT persons FROM published",
    "SELECT * FROM regions",
    "SELECT regions.* FROM regions",
    "SELECT r.size FROM regions r",
    "SELECT siz FROM regions",
    "SELECT * FROM regions ORDER BY size",
    "SELECT * FROM regions WHERE size = 1",
    "SELECT region FROM regions GROUP BY region HAVING SUM(size) > 1",
    "SELECT 1 AS size FROM regions ORDER BY size",
    "SELECT country AS size, region FROM regions ORDER BY size, region",
    "SELECT COUNT(*) AS note FROM visits ORDER BY note",
    "SELECT region AS note, COUNT(*) FROM visits GROUP BY note ORDER BY 1",
    "SELECT COUNT(*) FROM (SELECT age AS note, user_id FROM visits) t WHERE note > 3",
    "SELECT * FROM regions UNION ALL SELECT * FROM regions",
    "SELECT region, country, 1 FROM regions UNION ALL SELECT * FROM regions",
    "SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM staff)",
    "SELECT COUNT(*) FROM visits WHERE user_id IN (SELECT user_id FROM staff)",
    "SELECT (SELECT COUNT(*) FROM published)",
    "SELECT COUNT(*) FILTER (WHERE note = 'x') FROM visits",
    "SELECT SUM(CASE WHEN note = 'x' THEN 1 ELSE 0 END) FROM visits",
    "SELECT COUNT(DISTINCT note) FROM visits",
    "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY note) r FROM visits) t WHERE r = 1",
    "SELECT COUNT(*) FROM visits v JOIN regions r ON v.region = r.region AND r.size > 1",
    "SELECT r.country, COUNT(*) FROM visits v JOIN regions r USING (region) GROUP BY r.country ORDER BY 1",
    "SELECT COUNT(*) FROM items i JOIN orders o USING (order_id) WHERE o.amount > 5",
    "SELECT COUNT(*), AVG(age) FROM visits",
    "SELECT COUNT(*) FROM users",
    "EXPLAIN VERBOSE SELECT COUNT(*) FROM visits",
    "EXPLAIN VERBOSE SELECT COUNT(note) FROM visits",
    "EXPLAIN VERBOSE SELECT * FROM regions",
    "EXPLAIN VERBOSE SELECT COUNT(*) FROM items i JOIN orders o USING (order_id)",
    "EXPLAIN VERBOSE SELECT COUNT(*) FROM staff",
]


@pytest.mark.full
@pytest.mark.parametrize("sql", ATTACKS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_not_there_does_not_exist(ruled_world: World, small_world: World, sql: str, dialect: str) -> None:
    assert outcome(ruled_world, sql, dialect=dialect) == outcome(small_world, sql, dialect=dialect)


NAMES = [
    "note", "income", "amount", "size", "staff", "published", "grade", "persons", "region", "age", "user_id", "visits",
    "regions", "orders", "v", "nte", "Staff", "*", "v.*", "v.note", "visits.note", "country",
]  # fmt: skip
PIECES = st.sampled_from(NAMES)


@settings(max_examples=examples(300))
@given(
    st.lists(PIECES, min_size=1, max_size=3), PIECES, st.none() | st.tuples(PIECES, PIECES), st.none() | PIECES,
    st.none() | PIECES, st.sampled_from(DIALECTS), st.booleans(),
)  # fmt: skip
def test_no_statement_tells_what_is_there_for_others(
    ruled_world: World, small_world: World, items: list[str], table: str, join: tuple[str, str] | None,
    where: str | None, group: str | None, dialect: str, counted: bool,
) -> None:  # fmt: skip
    sql = f"SELECT {', '.join(items)}{', COUNT(*)' if counted else ''} FROM {table} AS v"
    sql += f" JOIN {join[0]} AS w USING ({join[1]})" if join else ""
    sql += f" WHERE {where} IS NOT NULL" if where else ""
    sql += f" GROUP BY {group}" if group else ""
    assert outcome(ruled_world, sql, dialect=dialect) == outcome(small_world, sql, dialect=dialect)


# Who has it


@pytest.mark.parametrize(
    ("sql", "who"),
    [
        ("SELECT COUNT(note) FROM visits", {"chief", "analyst", "guest"}),
        ("SELECT COUNT(amount) FROM orders", {"chief"}),
        ("SELECT COUNT(*) FROM orders", {"chief", "analyst", "intern"}),
        ("SELECT COUNT(*) FROM staff", {"chief"}),  # `tables` of the guest has it too, and both must allow
        ("SELECT COUNT(*) FROM published", {"chief", "analyst"}),  # two rules, either gives
        ("SELECT size FROM regions", {"chief", "analyst"}),
        ("SELECT region FROM regions", {"chief", "analyst", "intern"}),
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_who_has_what(ruled_world: World, sql: str, who: set[str], dialect: str) -> None:
    found = {name for name in PRINCIPALS if ruled_world.refusal(sql, name, dialect=dialect) is None}
    assert found == who
    for name in set(PRINCIPALS) - who:
        told = ruled_world.refusal(sql, name, dialect=dialect)
        assert told is not None and "does not exist" in told[1] and "permission" not in told[1]


def test_a_star_shows_what_is_there(ruled_world: World) -> None:
    assert ruled_world.gate.answer("SELECT * FROM regions", "intern").columns == ("region", "country")
    assert ruled_world.gate.answer("SELECT * FROM regions", "chief").columns == ("region", "country", "size")


def test_the_policy_tells_what_is_there(ruled_world: World) -> None:
    """For whoever shows catalogues."""
    given = ruled_world.gate.policy
    assert ruled_world.gate.catalog.names("intern") == ["users", "visits", "orders", "items", "regions"]
    assert [name for name in COLUMNS["visits"] if not given.allows("intern", "visits", name)] == ["income", "note"]
    assert not given.allows("guest", "regions", "region") and not given.allows("guest", "staff")
    assert given.allows("chief", "staff", "grade") and not given.allows("intern", "staff", "grade")


def test_hidden_is_something_else(tmp_path: Path) -> None:
    """A hidden column is known to those for whom it is there, and to nobody else."""
    rule = {"tables": ["users"], "columns": ["secret"], "to": ["chief"]}
    made = world(tmp_path, given=ruled(access=[rule]))
    sql = "SELECT COUNT(secret) FROM users"
    assert "permission denied" in str(made.refusal(sql, "chief"))
    assert 'column "secret" does not exist' in str(made.refusal(sql, "intern"))
    made.close()


# Keys and links that are not there


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[World]:
    """The intern sees items alone, and visits without the column of the unit."""
    rules = [
        {"tables": ["orders", "users"], "to": ["chief"]},
        {"tables": ["items"], "columns": ["order_id"], "to": ["chief"]},
        {"tables": ["visits", "staff"], "columns": ["user_id"], "to": ["chief"]},
    ]
    principals = {"chief": {}, "intern": {}, "trusted": {"controls": True}}
    made = world(
        tmp_path, given=ruled(principals=principals, access=rules, controls={"query_set_size": 2}), mechanisms=EXACT
    )
    yield made
    made.close()


FORBIDDEN = ("user_id", "order_id", "orders", "users", "email")


@pytest.mark.full
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM items",
        "EXPLAIN VERBOSE SELECT COUNT(*) FROM items",
        "EXPLAIN VERBOSE SELECT SUM(price) FROM items",
        "EXPLAIN VERBOSE SELECT sku, COUNT(*) FROM items GROUP BY sku",
        "EXPLAIN VERBOSE SELECT COUNT(*) FROM visits",
        "EXPLAIN VERBOSE SELECT ward, AVG(age) FROM visits GROUP BY ward",
        "SELECT COUNT(*) FROM visits a JOIN visits b ON a.age = b.age",
        "SELECT COUNT(*) FROM visits a JOIN staff b ON TRUE",
        "SELECT COUNT(*) FROM items a, items b",
        "SELECT user FROM visits",
        "SELECT sku FROM items",
        "SELECT * FROM visits",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column=age) COUNT(*) FROM visits",
        "SELECT COUNT(*) FROM order",
        "SELECT ROW_NUMBER() OVER (ORDER BY age) FROM visits",
    ],
)
@pytest.mark.parametrize("principal", ["intern", "trusted"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_text_names_what_is_not_there(linked: World, sql: str, principal: str, dialect: str) -> None:
    told = str(outcome(linked, sql, principal, dialect))
    assert not [name for name in FORBIDDEN if name in told], told


def test_the_name_of_the_unit_cannot_be_guessed(linked: World) -> None:
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column={}) COUNT(*) FROM visits"
    right, wrong = outcome(linked, sql.format("user_id")), outcome(linked, sql.format("patient"))
    assert right == wrong and right[0] == "Refused"
    assert outcome(linked, sql.format("user_id"), "chief")[0] != "Refused"


def test_what_is_linked_is_still_counted_by_persons(linked: World) -> None:
    assert linked.gate.answer("SELECT COUNT(*) FROM items", "intern").rows == ((60,),)
    sql = "SELECT COUNT(*) FROM visits WHERE age < 40"
    assert list(linked.gate.answer(sql, "trusted").rows) == linked.raw(sql)
    (part,) = linked.gate.prepare("SELECT COUNT(*) FROM items", "intern").parts
    assert "orders" in part.statements[0].sql()  # what runs is not what is shown


def test_a_table_without_columns_can_be_counted(tmp_path: Path) -> None:
    rules = [{"tables": ["regions"], "columns": ["region", "country", "size"], "to": ["chief"]}]
    made = world(tmp_path, given=ruled(access=rules))
    assert made.gate.answer("SELECT COUNT(*) FROM regions", "intern").rows == ((4,),)
    told = made.refusal("SELECT * FROM regions", "intern")
    assert told is not None and told[0] == "Refused"
    made.close()


# Answers that were kept


def test_a_kept_answer_does_not_cross_a_rule(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) FROM visits"
    before = world(tmp_path, given=ruled(access=[]))
    keys = {name: before.gate.prepare(sql, name).parts[0].cache_key for name in ("chief", "intern")}
    before.close()
    after = world(tmp_path, given=ruled(), name="other.ledger")
    changed = {name: after.gate.prepare(sql, name).parts[0].cache_key for name in ("chief", "intern")}
    after.close()
    assert len({*keys.values(), *changed.values()}) == 4


@pytest.mark.full
def test_made_up_data_follows_the_rules_too(ruled_world: World) -> None:
    gate = synthetic_gate(ruled_world.gate.policy, ruled_world.gate.catalog.schema)
    try:
        assert gate.answer("SELECT * FROM regions", "intern").columns == ("region", "country")
        with pytest.raises(SqlanonError, match='relation "staff" does not exist'):
            gate.answer("SELECT COUNT(*) FROM staff", "intern")
    finally:
        gate.close()


# What a rule may say


def test_a_column_that_is_not_there_is_an_error_with_its_line(tmp_path: Path) -> None:
    text = MINIMAL + "\n"
    file = tmp_path / "policy.yml"
    with duckdb.connect(str(tmp_path / "warehouse.duckdb")) as connection:
        connection.execute("CREATE TABLE users (user_id BIGINT, home TEXT)")
    Ledger.create(tmp_path / "policy.ledger").close()
    text = text.replace(
        "rows: 20",
        "rows: 20,\n  access: [{tables: [users], to: [all]},\n  {tables: [users], columns:\n  [home, hom], to: [all]}]",
    )
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PolicyError) as caught:
        open_gateway(file)
    assert str(caught.value) == "policy.yml:4: table 'users' has no column 'hom'\n  hint: did you mean 'home'?"
    file.write_text(text.replace("hom]", "user_id]"), encoding="utf-8")
    open_gateway(file).close()


def test_nobody_but_everybody_is_no_rule() -> None:
    text = MINIMAL.replace("rows: 20", "rows: 20, access: [{tables: [users], to: [all], except: [all]}]")
    with pytest.raises(PolicyError, match="the rule names the principal 'all'"):
        parse_gateway(text)


def test_an_exception_counts_for_its_own_rule_only() -> None:
    rules = "[{tables: [users], to: [all], except: [analyst]}, {tables: [users], to: [analyst]}]"
    read = parse_gateway(MINIMAL.replace("rows: 20", f"rows: 20, access: {rules}"))
    assert read.allows("analyst", "users")
