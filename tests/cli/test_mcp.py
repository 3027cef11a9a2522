"""`sqlanon mcp`: the tools of an agent, which stay within its budget and never show a row, whatever it asks."""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from conftest import TESTS
from gateway_attacks import ROWS

from sqlanon.cli import main
from sqlanon.cli.agent_tools import MOST_ROWS, AgentTools
from sqlanon.gateway import open_gateway
from sqlanon.gateway.synthetic import open_synthetic

mcp = pytest.importorskip("mcp", reason="needs the package mcp: pip install 'sqlanon[agents]'")

POLICY = """
gateway:
  database: clinic.duckdb
  unit: {table: users, key: user_id}
  tables:
    users: {columns: {email: hidden, home: {keys: [north, south]}}}
    visits: {unit: user_id, columns: {income: {low: 0, high: 1000}}}
    regions: {public: true}
  rows: 4
  groups: 2
  budget: {statement: {epsilon: 1, delta: 1e-7, default: 0.25}, principal: {epsilon: 3, delta: 1e-5}}
  principals: {agent: {tables: [users, visits, regions]}, colleague: {}}
  answer_time: 0
"""
PERSONS = 400
WHOLE = 3.0  # epsilon of the agent


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as made:
        made.execute("CREATE TABLE users (user_id BIGINT PRIMARY KEY, email TEXT, home TEXT)")
        made.execute(
            f"INSERT INTO users SELECT i, 'mail-' || i || '@clinic.example', "
            f"CASE WHEN i % 3 = 0 THEN 'north' ELSE 'south' END FROM range({PERSONS}) AS t(i)"
        )
        made.execute("CREATE TABLE visits (user_id BIGINT, income DOUBLE, note TEXT)")
        made.execute(f"INSERT INTO visits SELECT i, 91234000 + i, 'note-' || i FROM range({PERSONS}) AS t(i), range(2)")
        made.execute(
            f"CREATE TABLE regions AS SELECT i AS number, 'r' || i AS name FROM range({MOST_ROWS + 5}) AS t(i)"
        )
    path = tmp_path / "policy.yml"
    path.write_text(POLICY, encoding="utf-8")
    assert CliRunner().invoke(main, ["budget", "init", str(path)]).exit_code == 0
    return path


@pytest.fixture
def tools(policy: Path) -> Iterator[AgentTools]:
    from sqlanon.policy.files import load_gateway

    read = load_gateway(str(policy))
    made = AgentTools(open_gateway(read), "agent", lambda: open_synthetic(read))
    yield made
    made.close()


def call(server: Any, *calls: tuple[str, dict[str, Any]]) -> list[tuple[bool, str]]:
    """The answers of a server in this process: whether each is an error, and all that was said."""

    async def ask() -> list[tuple[bool, str]]:
        async with mcp.Client(server) as client:
            found = []
            for name, given in calls:
                answer = await client.call_tool(name, given)
                found.append((bool(answer.is_error), json.dumps(answer.model_dump(mode="json"), ensure_ascii=False)))
            return found

    return asyncio.run(ask())


def served(tools: AgentTools) -> Any:
    from sqlanon.cli.mcp import server_maker

    return server_maker()(tools)


def test_a_session_over_standard_input_and_output(policy: Path) -> None:
    """The command as an agent starts it: look, explain, try, ask twice, and see what is left."""
    count = "SELECT home, count(*) AS persons FROM users GROUP BY home"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("list_tables", {}), ("explain", {"sql": count}), ("dry_run", {"sql": count}), ("ask", {"sql": count}),
        ("ask", {"sql": count}), ("budget", {}),
    ]  # fmt: skip
    command = [sys.executable, "-m", "sqlanon", "mcp", str(policy), "--as", "agent"]

    async def session() -> tuple[list[str], list[dict[str, Any]]]:
        async with mcp.Client(mcp.StdioServerParameters(command=command[0], args=command[1:])) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            return names, [(await client.call_tool(name, given)).structured_content for name, given in calls]

    names, (tables, plan, tried, first, again, left) = asyncio.run(session())
    assert names == ["list_tables", "explain", "dry_run", "ask", "budget"]
    users = next(each for each in tables["tables"] if each["name"] == "users")
    assert (
        users["private"] and users["columns"]["home"]["keys"] == ["north", "south"] and "email" not in users["columns"]
    )
    assert plan["cost"]["epsilon"] == pytest.approx(0.25) and any("95 of 100" in line for line in plan["plan"])
    assert tried["synthetic"] and "nothing was spent" in tried["notice"]
    assert {row["home"] for row in first["rows"]} == {"north", "south"} and not first["synthetic"]
    for row in first["rows"]:
        exact = (PERSONS + 2) // 3 if row["home"] == "north" else PERSONS - (PERSONS + 2) // 3
        assert row["persons_low"] < row["persons"] < row["persons_high"] and abs(row["persons"] - exact) < 200
    assert again["rows"] == first["rows"] and again["cached"] and again["cost"]["epsilon"] == 0
    assert left["left"]["epsilon"] == pytest.approx(WHOLE - 0.25)


@pytest.mark.parametrize("calls", [150, pytest.param(1000, marks=pytest.mark.full)])
def test_hostile_calls_overdraw_nothing_and_show_no_row(tools: AgentTools, calls: int) -> None:
    """An agent that tries everything: rows, files, other principals, other tools, and as much epsilon as there is."""
    draw = random.Random(20)
    refused = (TESTS / "hostile" / "refused.txt").read_text(encoding="utf-8")
    statements = [line for line in (ROWS + refused).splitlines() if line.strip() and not line.startswith("#")]
    shown = ["SELECT * FROM regions", "SELECT email FROM users", "SELECT note, count(*) FROM visits GROUP BY note"]

    def hostile() -> tuple[str, dict[str, Any]]:
        kind = draw.randrange(6)
        sql = draw.choice(statements + shown)
        if kind == 0:
            return draw.choice(["ask", "dry_run", "explain"]), {"sql": sql}
        if kind == 1:  # distinct statements, so that each costs
            bound = draw.randrange(10_000)
            sql = f"SELECT count(*) + {bound}, sum(income) FROM visits WHERE user_id < {draw.randrange(PERSONS)}"
            return "ask", {"sql": sql, "epsilon": draw.choice([None, 0.01, 0.5, 1, 1.0001, 50, -1, 0, 1e308])}
        if kind == 2:
            return "ask", {"sql": sql, "principal": "colleague", "as": "colleague"}
        if kind == 3:
            return draw.choice(["query", "grant", "__init__", "close", "gate"]), {"sql": sql, "epsilon": 5}
        if kind == 4:
            return "ask", {"sql": draw.choice(["", "\0", "x" * 30_000, sql + ";" + sql, sql[:10]])}
        return "ask", {"sql": draw.choice([None, 7, [sql], {"sql": sql}]), "epsilon": "all"}

    said = call(served(tools), *(hostile() for _ in range(calls)))
    text = "\n".join(answer for _, answer in said)
    assert not re.search(r"mail-\d|@clinic|note-\d|91234\d\d\d|Traceback", text)
    assert str(tools.gate.policy.base) not in text
    assert sum(wrong for wrong, _ in said) > 0.6 * calls
    spent = {each.principal: each for each in tools.gate.ledger.history()}
    assert set(spent) == {"agent"}
    charged = sum(event.epsilon for event in tools.gate.ledger.history() if event.kind == "charge")
    assert 1 < charged <= WHOLE + 1e-9
    assert tools.budget()["left"]["epsilon"] == pytest.approx(WHOLE - charged, abs=1e-9)


def test_no_more_rows_than_an_agent_can_read(tools: AgentTools) -> None:
    found = tools.ask("SELECT * FROM regions")
    assert len(found["rows"]) == MOST_ROWS and "only the first" in found["cut"] and found["exact"]
    assert tools.ask("SELECT * FROM regions LIMIT 3").get("cut") is None


@pytest.mark.parametrize(
    ("tool", "sql", "epsilon", "told"),
    [
        ("ask", "SELECT email FROM users", None, "SQLSTATE"),
        ("ask", "SELECT count(*) FROM usrs", None, "users"),
        ("explain", "SELECT count(*) FROM users", 99.0, "outside of what the policy allows"),
        ("dry_run", "", None, "one SELECT"),
    ],
)
def test_an_error_says_what_to_do(tools: AgentTools, tool: str, sql: str, epsilon: float | None, told: str) -> None:
    ((wrong, said),) = call(served(tools), (tool, {"sql": sql, "epsilon": epsilon}))
    assert wrong and told in said


def test_a_failure_tells_nothing(tools: AgentTools, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ValueError("mail-7@clinic.example")

    monkeypatch.setattr(type(tools.gate), "prepare", fail)
    ((wrong, said),) = call(served(tools), ("ask", {"sql": "SELECT count(*) FROM users"}))
    assert wrong and "mail-7" not in said and "could not be answered" in said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nobody.yml"], "nobody.yml"),
        (["policy.yml"], "several principals"),
        (["policy.yml", "--as", "agnt"], "agent"),
    ],
)
def test_a_start_that_goes_wrong(policy: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], told: str) -> None:
    monkeypatch.chdir(policy.parent)
    done = CliRunner().invoke(main, ["mcp", *words])
    assert done.exit_code == 2 and told in done.output
