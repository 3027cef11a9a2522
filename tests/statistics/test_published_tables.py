"""Tables as they are published, refreshed, checked and attacked; an attacker of another make looks at what is shown."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import brute_statistics
import pytest
from click.testing import CliRunner
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlanon.cli import main
from sqlanon.engines import connect
from sqlanon.errors import NotReleased, PolicyError, SourceError
from sqlanon.policy.files import parse_statistics
from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.release import publish_statistics as publishing
from sqlanon.release.publish_statistics import publish_statistics
from sqlanon.statistics.check_tables import attack_statistics, check_statistics, measure_statistics

PATHS: dict[str, Callable[[Any], Sequence[str]]] = {
    "region": lambda value: (value, value[0] + "*", "*"),
    "branch": lambda value: (value, "Total"),
    "size": lambda value: (value, "Total"),
}
TYPES = {"firm": "INTEGER", "holding": "TEXT", "region": "TEXT", "branch": "TEXT", "size": "TEXT", "amount": "BIGINT"}
RULES = [{"minimum_frequency": {"n": 3}}, {"p_percent": {"p": 25}}]
BY_BRANCH = {"by": ["region", "branch"], "of": "amount", "contributor": "holding", "rules": RULES}
BY_SIZE = {"by": ["region", "size"], "of": "amount", "contributor": "holding", "rules": RULES}
COUNTS = {"by": ["branch", "size"], "contributor": "holding", "rules": [{"minimum_frequency": {"n": 3}}]}


def firms(count: int = 48, seed: int = 7) -> list[dict[str, Any]]:
    """Firms of very different sizes; some belong to the same holding."""
    rows, state = [], seed
    for firm in range(count):
        draws = []
        for _ in range(4):
            state = (state * 1103515245 + 12345) % 2**31
            draws.append(state / 2**31)
        amount = int(100 / (1 - draws[3] * 0.999) ** 1.4)
        rows.append({
            "firm": firm, "holding": f"h{firm // 2 if firm < 20 else firm}",
            "region": ["N1", "N2", "S1", "S2"][int(draws[0] * 4)], "branch": "abc"[int(draws[1] * 3)],
            "size": "sl"[int(draws[2] * 2)], "amount": amount,
        })  # fmt: skip
    return rows


def tables_policy(statistics: Mapping[str, Any], **also: Any) -> StatisticsPolicy:
    regions = {"hierarchies": {"region": {"prefix": {"length": 2}}}}
    needed = regions if any("region" in item["by"] for item in statistics.values()) else {}
    data = {"source": {"table": "firms"}, "release": {"table": "released"}, **needed, "statistics": statistics, **also}
    found = parse_statistics(json.dumps(data))
    assert found is not None
    return found


def released(database: Database, name: str = "released") -> dict[tuple[str, ...], float | None]:
    """Cells by (table, label of each dimension)."""
    return {
        tuple(row[:-1]): None if row[-1] is None else float(row[-1]) for row in database.fetch(f"SELECT * FROM {name}")
    }


def require_protected(
    database: Database, policy: StatisticsPolicy, rows: Sequence[Mapping[str, Any]],
    shown: Mapping[tuple[str, ...], float | None] | None = None, *, insiders: bool = True,
) -> int:  # fmt: skip
    """Compute every unsafe cell from what is shown, by another solver, from the rows up, as everybody and as each
    attacker who knows more; how many there were."""
    shown = released(database) if shown is None else shown
    dimensions = list(policy.dimensions)
    found = 0
    for measure in {item.of for item in policy.statistics.values()}:
        cells: dict[tuple[str, ...], int] = {}
        value: list[float] = []
        hidden: list[bool] = []
        equations: set[tuple[int, tuple[int, ...]]] = set()
        levels: dict[int, float] = {}
        parts: dict[str, dict[int, float]] = {}  # of each holding, in every cell
        attackers: set[str] = set()
        mine = {name: item for name, item in policy.statistics.items() if item.of == measure}
        for name, item in mine.items():
            whole = brute_statistics.cells(rows, item.by, PATHS)
            nodes = {column: dict.fromkeys(n for row in rows for n in PATHS[column](row[column])) for column in item.by}
            parents = {column: {p[i]: p[i + 1] for row in rows for p in [tuple(PATHS[column](row[column]))]
                                for i in range(len(p) - 1)} for column in item.by}  # fmt: skip
            listed = list(itertools.product(*nodes.values()))
            for labels in listed:
                key = tuple(dict(zip(item.by, labels, strict=True)).get(d, PATHS[d]("x")[-1]) for d in dimensions)
                members = whole.get(labels, [])
                if key not in cells:
                    cells[key] = len(value)
                    value.append(float(sum(row["amount"] for row in members) if measure else len(members)))
                    hidden.append(True)
                if (value_shown := shown.get((name, *key))) is not None:
                    assert value_shown == value[cells[key]]
                    hidden[cells[key]] = False
                ranked = brute_statistics.contributors(members, "amount", "holding")
                amounts = [a for _, a in ranked]
                for holding, amount in ranked:
                    count = sum(row["holding"] == holding for row in members)
                    parts.setdefault(holding, {})[cells[key]] = float(amount if measure else count)
                if len(ranked) == 1:
                    attackers.add(ranked[0][0])
                for rule in item.rules:
                    if getattr(brute_statistics, rule.name)(amounts, **rule.params):
                        level = 1.0 if measure is None else value[cells[key]] / 10
                        if rule.name == "p_percent":
                            level = float(amounts[0]) / 4 - float(sum(amounts[2:]))
                        levels[cells[key]] = max(level, levels.get(cells[key], 0.0))
                        if measure:  # whoever has most of an unsafe cell knows most of what is hidden there
                            attackers.add(next(h for h, a in sorted(ranked) if a == amounts[0]))
            for labels in listed:
                for place, column in enumerate(item.by):
                    below = [node for node, parent in parents[column].items() if parent == labels[place]]
                    if below:
                        keys = [(*labels[:place], node, *labels[place + 1 :]) for node in [labels[place], *below]]
                        ids = [cells[tuple(dict(zip(item.by, own, strict=True)).get(d, PATHS[d]("x")[-1])
                                           for d in dimensions)] for own in keys]  # fmt: skip
                        equations.add((ids[0], tuple(ids[1:])))
        asked = [(cell, min(level, value[cell]), level) for cell, level in levels.items()]
        assert all(hidden[cell] for cell, _, _ in asked)
        high = [math.inf if amount else 0.0 for amount in value]
        assert brute_statistics.is_safe(value, sorted(equations), hidden, asked, [0.0] * len(value), high)
        for who in sorted(attackers) if insiders and policy.protect.knowledge.singletons == "protect" else ():
            low = [parts[who].get(cell, 0.0) for cell in range(len(value))]
            most = [known if known == value[cell] else high[cell] for cell, known in enumerate(low)]
            others = [(cell, min(lower, value[cell] - low[cell]), upper) for cell, lower, upper in asked
                      if low[cell] < value[cell]]  # fmt: skip
            assert brute_statistics.is_safe(value, sorted(equations), hidden, others, low, most), who
        found += len(asked)
    return found


def test_linked_tables_cannot_be_computed_back(database: Database) -> None:
    rows = firms()
    database.table("firms", TYPES, rows)
    policy = tables_policy({"by_branch": BY_BRANCH, "by_size": BY_SIZE, "firms": COUNTS})
    done = publish_statistics(policy, database.engine)
    assert require_protected(database, policy, rows) > 5
    document = done.document
    assert document["holds"] and document["statistics"]["gap"] == 0
    assert (
        document["cells"] == len(released(database)) == sum(item["cells"] for item in document["statistics"]["tables"])
    )
    assert document["suppressed"] == sum(value is None for value in released(database).values()) > 5
    assert check_statistics(policy, database.engine).holds
    # What two tables share is hidden in both or in none.
    shown = released(database)
    for region in ("N1", "N2", "N*", "S1", "S2", "S*", "*"):
        key = (region, "Total", "Total")
        assert (shown["by_branch", *key] is None) == (shown["by_size", *key] is None)


def test_three_cells_that_follow_by_subtraction_alone_do_not(database: Database) -> None:
    """Hiding 1000, 1020 and 100 alone tells all three: each is what a total lacks."""
    cells = {("N1", "a"): [1000], ("S1", "b"): [1020], ("S2", "c"): [100]}
    rows = []
    for region, branch in itertools.product(["N1", "N2", "S1", "S2"], "abc"):
        for amount in cells.get((region, branch), [30, 28, 27, 26]):
            rows.append({"firm": len(rows), "holding": f"h{len(rows)}", "region": region, "branch": branch, "size": "s",
                         "amount": amount})  # fmt: skip
    database.table("firms", TYPES, rows)
    policy = tables_policy({"t": {**BY_BRANCH, "rules": [{"minimum_frequency": {"n": 3}}]}})
    publish_statistics(policy, database.engine)
    shown = released(database)
    assert all(shown["t", region, branch] is None for region, branch in cells)
    assert require_protected(database, policy, rows) == 3
    # Each of the three follows from what is shown, if they alone are hidden.
    database.run("CREATE TABLE alone AS SELECT * FROM released")
    for key, value in shown.items():
        if value is None and key[1:] not in cells:
            own = sum(row["amount"] for row in rows if key[1] in PATHS["region"](row["region"])
                      and key[2] in PATHS["branch"](row["branch"]))  # fmt: skip
            database.run(f"UPDATE alone SET value = {own} WHERE region = '{key[1]}' AND branch = '{key[2]}'")
    attacked = attack_statistics(policy, database.engine, release="alone", names=["outsider"])
    assert (attacked.attacks[0].broken, attacked.attacks[0].exact, attacked.attacks[0].narrowest) == (3, 3, 0.0)
    broken = check_statistics(policy, database.engine, release="alone")
    assert broken.problems[0] == "3 unsafe cells can be computed too closely by everybody"


@settings(max_examples=examples(25))
@given(st.integers(0, 10_000), st.integers(5, 40), st.sampled_from(["exact", "heuristic"]))
def test_every_release_is_safe_or_refused(seed: int, count: int, search: str) -> None:
    rows = firms(count, seed)
    database = Database(connect(":memory:", read_only=False))
    try:
        database.table("firms", TYPES, rows)
        suppression = {"suppression": {"search": search, "seconds": 3}}
        policy = tables_policy({"by_branch": BY_BRANCH, "by_size": BY_SIZE}, protect=suppression)
        try:
            publish_statistics(policy, database.engine)
        except NotReleased:
            assert database.engine.find(["released"]) is None
            return
        require_protected(database, policy, rows, insiders=seed % 3 == 0)  # many attackers, many programs
        found = attack_statistics(policy, database.engine)
        assert [item.broken for item in found.attacks] == [0, 0, 0]
    finally:
        database.engine.close()


def test_totals_that_are_not_published_protect_and_are_protected(duck: Database) -> None:
    duck.table("firms", TYPES, firms())
    policy = tables_policy({"t": {**BY_BRANCH, "margins": [["branch"], []]}})
    publish_statistics(policy, duck.engine)
    shown = released(duck)
    assert all(region == "*" or branch != "Total" for _, region, branch in shown)
    assert ("t", "*", "Total") in shown and ("t", "*", "a") in shown and ("t", "N1", "a") in shown
    assert check_statistics(policy, duck.engine).holds


def test_a_table_by_columns_of_odd_names(database: Database) -> None:
    rows = [{'re"gion é': place, "order": who, "sum": 5 * who} for place in ("a'", 'b"') for who in range(4)]
    database.table("odd", {'re"gion é': "TEXT", "order": "INTEGER", "sum": "INTEGER"}, rows)
    found = parse_statistics(json.dumps({
        "source": {"table": "odd"}, "release": {"table": 'rel"ü'.replace('"', "")},
        "statistics": {"t'1": {"by": ['re"gion é'], "of": "sum", "contributor": "order",
                               "rules": [{"minimum_frequency": {"n": 2}}]}},
    }))  # fmt: skip
    assert found is not None
    publish_statistics(found, database.engine)
    assert database.fetch('SELECT * FROM "relü" ORDER BY 2') == [
        ("t'1", "Total", 60), ("t'1", "a'", 30), ("t'1", 'b"', 30)
    ]  # fmt: skip


# ---- the previous release stays


@pytest.mark.full_on_postgres
def test_what_cannot_be_protected_leaves_the_previous_release(database: Database) -> None:
    database.table("firms", TYPES, firms())
    publish_statistics(tables_policy({"t": BY_BRANCH}), database.engine)
    before = released(database)
    database.run("DELETE FROM firms WHERE firm > 1")
    alone = tables_policy({"t": BY_BRANCH}, protect={"suppression": {"known_within": 0.01}})
    with pytest.raises(NotReleased, match="an unsafe cell cannot be protected by hiding others"):
        publish_statistics(alone, database.engine)
    assert released(database) == before


def test_a_table_that_was_written_wrong_is_not_shown(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit looks at the table as written: here somebody shows one of the hidden cells."""
    database.table("firms", TYPES, firms())
    policy = tables_policy({"t": BY_BRANCH})
    publish_statistics(policy, database.engine)
    before = released(database)
    database.run("UPDATE firms SET amount = amount + 1")
    right = publishing.select_release

    def wrong(tables: Any, read: Any, hidden: Any, workspace: Any, changed: Any = None) -> Any:
        shown = hidden.copy()
        shown[read.task.system.place[read.task.primaries.cell[0]]] = False
        return right(tables, read, shown, workspace, changed)

    monkeypatch.setattr(publishing, "select_release", wrong)
    with pytest.raises(NotReleased, match=r"does not protect its cells\n  \d+ unsafe cells"):
        publish_statistics(policy, database.engine)
    assert released(database) == before


def test_the_solver_is_missing(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    duck.table("firms", TYPES, firms())
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(SourceError, match="HiGHS, which is not installed"):
        publish_statistics(tables_policy({"t": BY_BRANCH}), duck.engine)
    assert duck.engine.find(["released"]) is None


def test_a_table_of_somebody_else_is_not_replaced(database: Database) -> None:
    database.table("firms", TYPES, firms())
    database.run("CREATE TABLE released (a INTEGER)")
    with pytest.raises(PolicyError, match="'released' exists and was not published by sqlanon"):
        publish_statistics(tables_policy({"t": BY_BRANCH}), database.engine)


# ---- refresh: two patterns for the same records are one larger table


def test_what_was_hidden_stays_hidden_while_the_records_are_the_same(duck: Database) -> None:
    rows = firms()
    duck.table("firms", TYPES, rows)
    first = publish_statistics(tables_policy({"t": BY_BRANCH}), duck.engine)
    before = released(duck)
    again = publish_statistics(tables_policy({"t": BY_BRANCH}), duck.engine)
    assert released(duck) == before and again.plan.hash == first.plan.hash
    assert again.document["statistics"]["search"] == "earlier pattern"
    # A weaker rule, other weights: what was hidden is not shown, and nothing else is hidden.
    weaker = {**BY_BRANCH, "rules": [{"minimum_frequency": {"n": 2}}]}
    publish_statistics(tables_policy({"t": weaker}, protect={"suppression": {"weight": "cells"}}), duck.engine)
    assert released(duck) == before
    # A stricter one comes too late for what was shown, and says so.
    stricter = {**BY_BRANCH, "rules": [*RULES, {"minimum_frequency": {"n": 9, "level": 1}}]}
    fewer = {"suppression": {"singletons": "alone"}}
    late = publish_statistics(tables_policy({"t": stricter}, protect=fewer), duck.engine)
    assert released(duck) == before and late.document["statistics"]["shown_earlier"] > 0
    assert any("were shown by an earlier release" in line for line in late.document["not_protected"])
    wider = {**BY_BRANCH, "rules": [{"minimum_frequency": {"n": 3, "level": 10**9}}]}
    with pytest.raises(NotReleased, match="an earlier release of the same records shows too much"):
        publish_statistics(tables_policy({"t": wider}), duck.engine)
    assert released(duck) == before
    # Other records, another pattern.
    duck.run("DELETE FROM firms WHERE firm > 40")
    fresh = publish_statistics(tables_policy({"t": BY_BRANCH}), duck.engine)
    assert fresh.document["statistics"]["search"] == "exact" and released(duck) != before
    # The first records again: also what an earlier version but the last one showed counts.
    duck.table("firms", TYPES, rows)
    publish_statistics(tables_policy({"t": weaker}), duck.engine)
    assert released(duck) == before


def test_a_table_that_is_added_must_do_with_what_was_shown(database: Database) -> None:
    rows = firms()
    database.table("firms", TYPES, rows)
    publish_statistics(tables_policy({"by_branch": BY_BRANCH}), database.engine)
    before = released(database)
    both = tables_policy({"by_branch": BY_BRANCH, "by_size": BY_SIZE})
    try:
        publish_statistics(both, database.engine)
    except NotReleased:  # the totals that were shown are known: nothing may be left to hide
        assert released(database) == before
        return
    now = released(database)
    assert {key: now["by_branch", *key[1:], "Total"] for key in before} == before
    require_protected(database, both, rows)


def test_records_under_another_key_are_not_compared(duck: Database) -> None:
    duck.table("firms", TYPES, firms())
    publish_statistics(tables_policy({"t": BY_BRANCH}), duck.engine, secret="k" * 20)
    with pytest.raises(NotReleased, match="that one was made with a key"):
        publish_statistics(tables_policy({"t": BY_BRANCH}), duck.engine)


def test_two_patterns_are_attacked_together(duck: Database) -> None:
    duck.table("firms", TYPES, firms())
    policy = tables_policy({"t": {**BY_BRANCH, "rules": [{"minimum_frequency": {"n": 4}}]}})
    publish_statistics(policy, duck.engine)
    shown = released(duck)
    duck.run("CREATE TABLE other AS SELECT * FROM released")
    alone = attack_statistics(policy, duck.engine, other="other")
    assert [item.broken for item in alone.attacks] == [0, 0, 0, 0]
    # The other one shows all that this one hides beside unsafe cells, so that these are left alone.
    unsafe = int(measure_statistics(policy, duck.engine)[0].unsafe)
    helping = 0
    for (_, region, branch), value in shown.items():
        members = [row for row in firms() if region in PATHS["region"](row["region"])
                   and branch in PATHS["branch"](row["branch"])]  # fmt: skip
        if value is None and len({row["holding"] for row in members}) >= 4:
            own = sum(row["amount"] for row in members)
            duck.run(f"UPDATE other SET value = {own} WHERE region = '{region}' AND branch = '{branch}'")
            helping += 1
    assert helping > 0
    found = {item.name: item for item in attack_statistics(policy, duck.engine, other="other").attacks}
    assert found["outsider"].broken == found["holding"].broken == 0
    assert 0 < found["differencing"].exact <= found["differencing"].broken <= unsafe
    with pytest.raises(PolicyError, match="did you mean 'outsider'"):
        attack_statistics(policy, duck.engine, names=["outsidr"])


def test_who_has_most_of_an_unsafe_cell_is_an_attacker(database: Database) -> None:
    """North: two firms in a, a giant with four crumbs beside it in b, five middling ones in c. To everybody a and b
    could share their sum in many ways. The giant knows b but for the crumbs, and so a, where nothing else is hidden."""
    amounts = {("N1", "a"): [60, 40], ("N1", "b"): [1_000_000, 1, 1, 1, 1], ("N1", "c"): [300, 280, 270, 260, 250],
               ("N2", "a"): [70, 60, 50, 45], ("N2", "b"): [500_000, 450_000, 430_000, 400_000],
               ("N2", "c"): [220, 210, 200, 190]}  # fmt: skip
    rows = [
        {"firm": 0, "holding": f"{region}{branch}{place}", "region": region, "branch": branch, "size": "s",
         "amount": amount}
        for (region, branch), listed in amounts.items() for place, amount in enumerate(listed)
    ]  # fmt: skip
    database.table("firms", TYPES, rows)
    statistics = {"t": {**BY_BRANCH, "rules": [{"minimum_frequency": {"n": 3}}, {"p_percent": {"p": 10}}]}}
    few = tables_policy(statistics, protect={"suppression": {"search": "exact", "singletons": "alone"}})
    found = publish_statistics(few, database.engine)
    assert any("have most of an unsafe cell" in line for line in found.document["not_protected"])
    require_protected(database, few, rows)
    with pytest.raises(AssertionError, match="N1b0"):
        require_protected(database, tables_policy(statistics), rows)
    assert check_statistics(few, database.engine).holds
    checked = check_statistics(tables_policy(statistics), database.engine)
    assert checked.problems == ("1 unsafe cells can be computed too closely by contributors who know their own amount",)
    broken = {item.name: item.broken for item in attack_statistics(few, database.engine).attacks}
    assert (broken["outsider"], broken["singleton"], broken["holding"]) == (0, 0, 1)
    database.run("DROP TABLE released")
    database.run("DROP TABLE sqlanon_releases")
    whole = publish_statistics(tables_policy(statistics), database.engine)
    assert require_protected(database, tables_policy(statistics), rows) > 0
    assert whole.document["statistics"]["cost"] > found.document["statistics"]["cost"]
    assert whole.document["statistics"]["attackers"] > 0 == found.document["statistics"]["attackers"]


def test_contributors_are_attackers_unless_the_policy_says_otherwise(duck: Database) -> None:
    rows = [(7, "N1", "a"), (5, "N1", "b"), (20, "N1", "c"), (9, "N2", "a"), (30, "N2", "b"), (12, "N2", "c"),
            (6, "S1", "a"), (11, "S1", "b"), (14, "S1", "c")]  # fmt: skip
    listed = []
    for amount, region, branch in rows:
        parts = [amount] if amount in (5, 7) else [amount / 4] * 4
        for part in parts:
            listed.append({"firm": len(listed), "holding": f"h{len(listed)}", "region": region, "branch": branch,
                           "size": "s", "amount": part})  # fmt: skip
    duck.table("firms", {**TYPES, "amount": "DOUBLE PRECISION"}, listed)
    statistic = {**BY_BRANCH, "rules": [{"minimum_frequency": {"n": 3}}]}
    counts = {}
    for mode in ("ignore", "protect"):
        duck.run("DROP TABLE IF EXISTS released")
        duck.run("DROP TABLE IF EXISTS sqlanon_releases")
        policy = tables_policy({"t": statistic}, protect={"suppression": {"singletons": mode}})
        counts[mode] = publish_statistics(policy, duck.engine).document["suppressed"]
        found = {item.name: item.broken for item in attack_statistics(policy, duck.engine).attacks}
        assert found["outsider"] == 0
        assert (found["singleton"] > 0) == (mode == "ignore")
        assert check_statistics(policy, duck.engine).holds
    assert counts["protect"] > counts["ignore"]


# ---- commands


@pytest.fixture
def business(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    engine = connect("business.duckdb", read_only=False)
    Database(engine).table("firms", TYPES, firms())
    engine.close()
    policy = {"source": {"database": "business.duckdb", "table": "firms"}, "release": {"table": "released"},
              "hierarchies": {"region": {"prefix": {"length": 2}}}, "statistics": {"t": BY_BRANCH}}  # fmt: skip
    Path("policy.yml").write_text(json.dumps(policy), encoding="utf-8")
    return tmp_path


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.full
def test_the_commands(business: Path) -> None:
    dry = run("publish", "policy.yml", "--dry-run")
    assert dry.exit_code == 0 and "nothing was written" in dry.output, dry.output
    published = run("publish", "policy.yml")
    assert published.exit_code == 0 and "no unsafe cell can be computed" in published.output, published.output
    assert dry.output.splitlines()[1:-1] == published.output.splitlines()[1:-1]
    checked = run("check", "policy.yml")
    assert checked.exit_code == 0, checked.output
    assert json.loads(run("check", "policy.yml", "--json").output)["holds"] is True
    risk = json.loads(run("risk", "policy.yml", "--json").output)
    assert [item["rule"] for item in risk] == ["minimum_frequency", "p_percent"] and risk[0]["unsafe"] > 0
    assert "unsafe cells" in run("risk", "policy.yml").output
    attacked = json.loads(run("attack", "policy.yml", "--json").output)
    assert [(item["name"], item["broken"]) for item in attacked["attacks"]] == [
        ("outsider", 0), ("singleton", 0), ("holding", 0)
    ]  # fmt: skip
    assert "0 of" in run("attack", "policy.yml").output
    refreshed = run("refresh", "policy.yml")
    assert refreshed.exit_code == 0 and "cells" in refreshed.output, refreshed.output
    listed = run("releases", "list", "policy.yml")
    assert listed.output.count("plan") == 2 and "superseded" in listed.output
    assert json.loads(run("releases", "show", "policy.yml", "1").output)["statistics"]["unsafe"] > 0
    assert "done" in run("status", "policy.yml").output
    retired = run("releases", "retire", "policy.yml", "--yes")
    assert retired.output == "'released' is retired\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("publish", "policy.yml", "--explain"), "--explain is not for tables of statistics"),
        (("check", "policy.yml", "--k", "5"), "--k is not for tables of statistics"),
        (("risk", "policy.yml", "--suda"), "--suda is not for tables of statistics"),
        (("attack", "policy.yml", "--rounds", "3"), "--rounds is not for tables of statistics"),
        (("plan", "policy.yml"), "whose plan is not compared with an earlier one"),
        (("compare", "policy.yml", "policy.yml"), "this command works on policies that release rows"),
        (("releases", "rollback", "policy.yml", "1"), "do not go back to an earlier version"),
        (("check", "policy.yml", "--cells", "region"), "--cells is not for tables of statistics"),
    ],
)
def test_what_a_command_does_not_do(business: Path, arguments: tuple[str, ...], said: str) -> None:
    found = run(*arguments)
    assert found.exit_code == 2 and said in found.output, found.output


def test_a_table_of_somebody_else_is_audited(business: Path) -> None:
    engine = connect("business.duckdb", read_only=False)
    database = Database(engine)
    cells = [("a", "x", 20), ("a", "y", 50), ("a", "z", 10), ("b", "x", None), ("b", "y", 19), ("b", "z", None),
             ("c", "x", None), ("c", "y", 32), ("c", "z", None)]  # fmt: skip
    cells += [("Total", "x", 45), ("Total", "y", 101), ("Total", "z", 44), ("a", "Total", 80), ("b", "Total", 49),
              ("c", "Total", 61), ("Total", "Total", 190)]  # fmt: skip
    rows = [{"region": region, "branch": branch, "turnover": value} for region, branch, value in cells]
    kinds = {"region": "TEXT", "branch": "TEXT", "turnover": "DOUBLE PRECISION"}
    database.table("theirs", kinds, rows)
    database.table("open", kinds, [{**row, "turnover": 12} if (row["region"], row["branch"]) == ("c", "z") else row
                                   for row in rows])  # fmt: skip
    database.table("wrong", kinds, [{**row, "turnover": 200} if row["region"] == row["branch"] == "Total" else row
                                    for row in rows])  # fmt: skip
    engine.close()
    options = ("--cells", "region,branch", "--value", "turnover")
    safe = run("check", "business.duckdb", "theirs", *options)
    assert safe.exit_code == 0 and "16 cells, 4 hidden\n0 hidden cells can be computed exactly" in safe.output
    opened = json.loads(run("check", "business.duckdb", "open", *options, "--json").output)
    assert (opened["holds"], opened["hidden"], opened["exact"]) == (False, 3, 3)
    wrong = run("check", "business.duckdb", "wrong", *options)
    assert wrong.exit_code == 1 and "totals are not the sum of their parts" in wrong.output
    renamed = run("check", "business.duckdb", "theirs", *options, "--total", "Sum")
    assert renamed.exit_code == 2 and "totals are called 'Sum'" in renamed.output
    missing = run("check", "business.duckdb", "theirs", "--cells", "region,brnch", "--value", "turnover")
    assert missing.exit_code == 2 and "did you mean 'branch'?" in missing.output
    assert "needs its database" in run("check", "business.duckdb", "--cells", "region").output


def test_a_table_of_somebody_else_with_a_hierarchy(business: Path) -> None:
    """Regions in two parts of a country: 22 lies between 5 and 30, as in the worked example, and after one more cell is
    shown it can be computed. Without the hierarchy the sums are wrong."""
    leaves = {"a": (20, 50, 10), "b": (8, 19, 22), "c": (17, 32, 12)}
    above = {"a": "up", "b": "up", "c": "down", "up": "land", "down": "land"}
    values = {(row, branch): amounts["xyz".index(branch)] for row, amounts in leaves.items() for branch in "xyz"}
    for row, branch in list(values):
        for upper in (above[row], "land"):
            values[upper, branch] = values.get((upper, branch), 0) + values[row, branch]
    for row, _ in list(values):
        values[row, "Total"] = sum(values[row, branch] for branch in "xyz")
    hidden = {("b", "x"), ("b", "z"), ("a", "x"), ("a", "z")}
    kinds = {"region": "TEXT", "branch": "TEXT", "turnover": "DOUBLE PRECISION"}
    engine = connect("business.duckdb", read_only=False)
    for name, gone in (("theirs", hidden), ("open", hidden - {("a", "z")})):
        Database(engine).table(
            name,
            kinds,
            [{"region": row, "branch": branch, "turnover": None if (row, branch) in gone else float(value)}
             for (row, branch), value in values.items()],
        )  # fmt: skip
    engine.close()
    Path("regions.csv").write_text("a;up;land\nb;up;land\nc;down;land\n")
    Path("regions.hrc").write_text("up\n@a\n@b\ndown\n@c\n")
    Path("crossed.csv").write_text("a;up;land\nb;down;land\nc;down;up\n")
    options = ("--cells", "region,branch", "--value", "turnover")
    known = (*options, "--hierarchy", "region=regions.csv")
    safe = run("check", "business.duckdb", "theirs", *known)
    assert safe.exit_code == 0 and "24 cells, 4 hidden\n0 hidden cells can be computed exactly" in safe.output
    opened = json.loads(run("check", "business.duckdb", "open", *known, "--json").output)
    assert (opened["holds"], opened["hidden"], opened["exact"]) == (False, 3, 3)
    flat = run("check", "business.duckdb", "theirs", *options, "--total", "land")
    assert flat.exit_code == 2 or "totals are not the sum of their parts" in flat.output
    for wrong, said in (
        ("regon=regions.csv", "no cell is made by 'regon'"),
        ("region", "names a column and its file"),
        ("region=nowhere.csv", "cannot be read"),
        ("region=regions.hrc", "have a label that is not in the hierarchy"),
        ("region=crossed.csv", "crossed.csv"),
    ):
        found = run("check", "business.duckdb", "theirs", *options, "--hierarchy", wrong)
        assert found.exit_code == 2 and said in found.output, found.output
    # The code list calls the root Total, as the table does where it is told so.
    engine = connect("business.duckdb", read_only=False)
    Database(engine).run("UPDATE theirs SET region = 'Total' WHERE region = 'land'")
    engine.close()
    listed = run("check", "business.duckdb", "theirs", *options, "--hierarchy", "region=regions.hrc")
    assert listed.exit_code == 0 and "0 hidden cells can be computed exactly" in listed.output
    assert "--hierarchy is not for" in run("check", "policy.yml", "--hierarchy", "region=regions.csv").output


@pytest.mark.full_on_postgres
def test_a_view_over_tables_of_statistics(database: Database) -> None:
    database.table("firms", TYPES, firms())
    policy = tables_policy({"t": {key: BY_BRANCH[key] for key in ("by", "of", "rules")}}, person="holding",
                           release={"view": "released", "keep": 1})  # fmt: skip
    first = publish_statistics(policy, database.engine)
    before = released(database)
    database.run("UPDATE firms SET amount = amount + 1 WHERE firm < 30")
    publish_statistics(policy, database.engine)
    assert released(database) != before and check_statistics(policy, database.engine).holds
    assert first.document["release"]["kind"] == "view"
    other = tables_policy({"t": BY_BRANCH}, release={"view": "released", "keep": 1})
    assert [item.unsafe for item in measure_statistics(policy, database.engine)] == [
        item.unsafe for item in measure_statistics(other, database.engine)
    ]
