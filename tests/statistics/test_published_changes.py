"""Tables whose values were changed, as they are published, refreshed, checked and attacked."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import brute_statistics
import pytest
from click.testing import CliRunner
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_published_tables import BY_BRANCH, BY_SIZE, COUNTS, PATHS, TYPES, firms, released, tables_policy

from sqlanon.cli import main
from sqlanon.engines import connect
from sqlanon.errors import NotReleased, PolicyError, SourceError
from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.release import publish_statistics as publishing
from sqlanon.release.publish_statistics import publish_statistics
from sqlanon.statistics import flow_program
from sqlanon.statistics.check_tables import attack_statistics, check_statistics, measure_statistics

SECRET = "a secret for the tests"
COUNTED = {**COUNTS, "by": ["region", "branch"]}
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rounding": ({"rounding": {"base": 5, "seconds": 2}}, {"t": COUNTED, "u": COUNTS}),
    "random_rounding": ({"random_rounding": {"base": 3}}, {"t": COUNTED, "u": COUNTS}),
    "adjustment": ({"adjustment": {"seconds": 2}}, {"t": BY_BRANCH, "u": BY_SIZE}),
    "cell_key": ({"cell_key": {"d": 5, "v": 3, "js": 2}}, {"t": COUNTED, "u": COUNTS}),
}


def method_policy(name: str, **also: Any) -> StatisticsPolicy:
    protect, statistics = METHODS[name]
    return tables_policy(also.pop("statistics", statistics), **{"protect": protect, **also})


def true_values(policy: StatisticsPolicy, rows: list[dict[str, Any]]) -> dict[tuple[str, ...], float]:
    """By table and labels, from the rows up."""
    found: dict[tuple[str, ...], float] = {}
    for name, item in policy.statistics.items():
        for labels, members in brute_statistics.cells(rows, item.by, PATHS).items():
            at = dict(zip(item.by, labels, strict=True))
            key = (name, *(at.get(own, PATHS[own]("x")[-1]) for own in policy.dimensions))
            found[key] = float(sum(row["amount"] for row in members) if item.of else len(members))
    return found


def require_shape(
    name: str, shown: Mapping[tuple[str, ...], float | None], true: Mapping[tuple[str, ...], float]
) -> None:
    """What the method promises of single cells, and that what two tables share is the same in both."""
    both: dict[tuple[str, ...], float] = {}
    for key, value in shown.items():
        own = true.get(key, 0.0)
        assert value is not None and value >= 0 and (own or value == 0)
        if name in ("rounding", "random_rounding"):
            base = 5 if name == "rounding" else 3
            assert value % base == 0 and abs(value - own) < 2 * base
            assert name == "rounding" or abs(value - own) < base
        if name == "cell_key":
            assert abs(value - own) <= 5 and value not in (1, 2)
        assert both.setdefault(key[1:], value) == value


def require_sums(policy: StatisticsPolicy, shown: Mapping[tuple[str, ...], float | None]) -> int:
    looked = 0
    for (name, *labels), value in shown.items():
        for place, column in enumerate(policy.dimensions):
            if column not in policy.statistics[name].by:
                continue
            below = [own for (other, *theirs), own in shown.items() if other == name and all(
                theirs[i] == labels[i] or i == place for i in range(len(labels)))
                and is_below(column, theirs[place], labels[place])]  # fmt: skip
            if below:
                assert value is not None and abs(value - sum(own or 0.0 for own in below)) < 1e-6
                looked += 1
    return looked


def is_below(column: str, label: str, parent: str) -> bool:
    leaves = {"region": ["N1", "N2", "S1", "S2"], "branch": ["a", "b", "c"], "size": ["s", "l"]}[column]
    paths = [list(PATHS[column](leaf)) for leaf in leaves]
    return any(label in path[:-1] and path[path.index(label) + 1] == parent for path in paths)


@pytest.mark.parametrize("name", METHODS)
def test_linked_tables_are_published_checked_and_attacked(database: Database, name: str) -> None:
    rows = firms(30)
    database.table("firms", TYPES, rows)
    policy = method_policy(name, person="holding")
    done = publish_statistics(policy, database.engine, secret=SECRET)
    shown, true = released(database), true_values(policy, rows)
    require_shape(name, shown, true)
    assert any(value != true.get(key, 0.0) for key, value in shown.items())
    if name in ("rounding", "adjustment"):
        assert require_sums(policy, shown) > 10
    document = done.document
    assert document["holds"] and document["cells"] == len(shown) and document["suppressed"] == 0
    changes = document["statistics"]["changes"]
    moved = {key[1:]: abs((value or 0.0) - true.get(key, 0.0)) for key, value in shown.items()}
    listed = [abs((value or 0.0) - true.get(key, 0.0)) for key, value in shown.items()]
    assert changes["greatest"] == pytest.approx(max(listed)) and changes["distance"] == pytest.approx(
        sum(moved.values())
    )
    assert (changes["additivity_gap"] == 0) == (name in ("rounding", "adjustment"))
    assert 0 < changes["mean_relative"] < 1 and all(0 < own < 1 for own in changes["hellinger"].values())
    checked = check_statistics(policy, database.engine, secret=SECRET)
    assert checked.holds and checked.changed > 0 and checked.hidden == 0, checked.problems
    attacks = attack_statistics(policy, database.engine)
    assert attacks.attacks and attacks.unsafe == checked.unsafe
    bounds = {"rounding": "rounding_bounds", "random_rounding": "rounding_bounds", "cell_key": "constraints"}
    if name in bounds:
        found = next(item for item in attacks.attacks if item.name == bounds[name])
        assert (found.broken, found.exact) == (0, 0)
    assert sum(item.unsafe for item in measure_statistics(policy, database.engine)) > 0
    # Again: the same values, and none of another method.
    again = publish_statistics(policy, database.engine, secret=SECRET)
    assert released(database) == shown and again.plan.hash == done.plan.hash
    with pytest.raises(NotReleased, match=f"was protected by {name}"):
        publish_statistics(tables_policy(METHODS[name][1], person="holding"), database.engine, secret=SECRET)
    # Another source: what is there is no longer its release.
    database.run("DELETE FROM firms WHERE firm < 15")
    if name == "adjustment":  # any table of sums that is far enough from the true one
        return
    stale = check_statistics(policy, database.engine, secret=SECRET)
    assert not stale.holds
    with pytest.raises(PolicyError, match="is not the release of these records"):
        attack_statistics(policy, database.engine)


def test_random_rounding_is_that_of_plain_python(database: Database) -> None:
    """Up as often as the value is above the multiple below: by a hash of the sum of record keys."""
    rows = firms(30)
    database.table("firms", TYPES, rows)
    policy = method_policy("random_rounding", statistics={"t": COUNTS}, person="holding")
    publish_statistics(policy, database.engine, secret=SECRET)
    shown = released(database)

    def hashed(label: str, text: str, length: int) -> int:
        seed = hmac.new(SECRET.encode(), label.encode(), hashlib.sha256).hexdigest()[:32] + ":"
        return int.from_bytes(hashlib.md5((seed + text).encode()).digest()[:length], "little")

    for labels, members in brute_statistics.cells(rows, ["branch", "size"], PATHS).items():
        people = {row["holding"] for row in members}
        key = sum(hashed("record keys", f"{len(who)} {who}", 4) for who in people) % 2**32
        draw = (hashed("random_rounding 3 ", str(key), 6) + 0.5) / 2**48
        over = len(members) % 3
        assert shown["t", *labels] == len(members) - over + (3 if draw * 3 < over else 0)


def test_random_rounding_is_right_on_average(duck: Database) -> None:
    """A value of 1 goes to 3 in a third of many cells; standard error 0.5 %."""
    count = 6_000
    duck.run(f"CREATE TABLE many AS SELECT i AS person, 'c' || i AS cell FROM range({count}) AS t (i)")
    data = {"source": {"table": "many"}, "release": {"table": "released"}, "person": "person",
            "statistics": {"t": {"by": ["cell"], "rules": [{"minimum_frequency": {"n": 2, "level": 0.5}}]}},
            "protect": {"random_rounding": {"base": 3}}}  # fmt: skip
    from sqlanon.policy.files import parse_statistics
    from sqlanon.statistics.cell_tables import Workspace, make_cells
    from sqlanon.statistics.keyed_values import rounded_cells

    policy = parse_statistics(json.dumps(data))
    assert policy is not None
    workspace = Workspace(duck.engine)
    try:
        tables = make_cells(policy, duck.engine, workspace)
        made = rounded_cells(tables, 3, SECRET)["t"]
        up = duck.fetch(f"SELECT COUNT(*) FILTER (WHERE value = 3), COUNT(*) FILTER (WHERE value = 0) FROM {made}")[0]
    finally:
        workspace.drop()
    assert sum(up) >= count and abs(up[0] / count - 1 / 3) < 0.02


@pytest.mark.full
@pytest.mark.parametrize("name", METHODS)
def test_a_value_that_was_written_wrong_is_not_shown(
    duck: Database, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = firms(30)
    duck.table("firms", TYPES, rows)
    policy = method_policy(name, person="holding")
    publish_statistics(policy, duck.engine, secret=SECRET)
    before = released(duck)
    duck.run("DELETE FROM firms WHERE firm > 15")
    right = publishing.select_release

    def wrong(tables: Any, read: Any, hidden: Any, workspace: Any, changed: Any = None) -> Any:
        return right(tables, read, hidden, workspace, None)  # the true values

    monkeypatch.setattr(publishing, "select_release", wrong)
    with pytest.raises(NotReleased, match="as written it does not protect its cells"):
        publish_statistics(policy, duck.engine, secret=SECRET)
    assert released(duck) == before


@pytest.mark.full
@pytest.mark.full_on_postgres
@pytest.mark.parametrize("name", ["rounding", "adjustment"])
def test_a_solver_that_times_out_or_is_missing_leaves_the_previous_release(
    database: Database, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    database.table("firms", TYPES, firms(30))
    policy = method_policy(name, person="holding")
    publish_statistics(policy, database.engine)
    before = released(database)
    database.run("DELETE FROM firms WHERE firm > 15")
    with monkeypatch.context() as patch:
        patch.setattr(flow_program.SolverClock, "is_over", property(lambda self: self._until is not None))
        with pytest.raises(NotReleased, match=r"the solver found no \w+ table within 2 seconds"):
            publish_statistics(policy, database.engine)
    assert released(database) == before
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "highspy", None)
        with pytest.raises(SourceError, match="HiGHS, which is not installed"):
            publish_statistics(policy, database.engine)
    assert released(database) == before
    publish_statistics(policy, database.engine)
    assert released(database) != before


@pytest.mark.full
def test_a_table_that_is_added_keeps_what_was_shown(duck: Database) -> None:
    duck.table("firms", TYPES, firms(30))
    for name in ("rounding", "adjustment"):
        first = dict(list(METHODS[name][1].items())[:1])
        target = {"table": f"of_{name}"}
        publish_statistics(method_policy(name, statistics=first, release=target), duck.engine)
        before = released(duck, f"of_{name}")
        publish_statistics(method_policy(name, release=target), duck.engine)
        now = released(duck, f"of_{name}")
        dimensions = {key: [label for label in key if label not in ("*", "Total")] for key in now}
        shared = {key: value for key, value in now.items() if key[0] == "t"}
        assert sorted(before.values()) == sorted(shared.values()) and dimensions


@pytest.mark.parametrize("name", ["rounding", "random_rounding"])
def test_amounts_with_decimals_are_not_rounded(duck: Database, name: str) -> None:
    duck.table("firms", {**TYPES, "amount": "DOUBLE PRECISION"}, firms(40))
    policy = method_policy(name, statistics={"t": BY_BRANCH}, person="holding")
    with pytest.raises(PolicyError, match="for counts and whole amounts, and 'amount' has decimals"):
        publish_statistics(policy, duck.engine, secret=SECRET)


def test_amounts_are_adjusted_to_the_level_of_their_rule(duck: Database) -> None:
    duck.table(
        "firms", {**TYPES, "amount": "DOUBLE PRECISION"}, [{**row, "amount": row["amount"] / 4} for row in firms(30)]
    )
    policy = method_policy("adjustment", protect={"adjustment": {"search": "heuristic", "weight": "share"}})
    done = publish_statistics(policy, duck.engine)
    assert done.document["statistics"]["bound"] is None and check_statistics(policy, duck.engine).holds


def test_two_releases_of_other_bases_are_attacked_together(duck: Database) -> None:
    duck.table("firms", TYPES, firms(30))
    policy = method_policy("rounding")
    publish_statistics(policy, duck.engine)
    alone = attack_statistics(policy, duck.engine)
    assert alone.not_judged["differencing"].startswith("needs --other")
    duck.run("CREATE TABLE other AS SELECT * FROM released")
    both = {item.name: item for item in attack_statistics(policy, duck.engine, other="other").attacks}
    assert both["differencing"].broken == both["holding"].broken
    duck.run("UPDATE other SET value = value + 1")
    with pytest.raises(PolicyError, match="'other' is not the release of these records"):
        attack_statistics(policy, duck.engine, other="other")


def test_a_policy_whose_tables_have_other_contributors(duck: Database) -> None:
    other = {**COUNTS, "contributor": "firm"}
    with pytest.raises(PolicyError, match="another table of the same amount has another contributor"):
        method_policy("cell_key", statistics={"t": COUNTED, "u": other})


@pytest.mark.full
@settings(max_examples=examples(20))
@given(st.integers(0, 10_000), st.integers(5, 60), st.sampled_from(sorted(METHODS)))
def test_every_release_passes_its_audit_or_is_refused(seed: int, count: int, name: str) -> None:
    rows = firms(count, seed)
    database = Database(connect(":memory:", read_only=False))
    try:
        database.table("firms", TYPES, rows)
        policy = method_policy(name, person="holding")
        try:
            publish_statistics(policy, database.engine, secret=SECRET)
        except NotReleased:
            assert database.engine.find(["released"]) is None
            return
        require_shape(name, released(database), true_values(policy, rows))
        found = check_statistics(policy, database.engine, secret=SECRET)
        assert found.holds, found.problems
    finally:
        database.engine.close()


# ---- commands


@pytest.mark.full
@pytest.mark.parametrize("name", METHODS)
def test_the_commands(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SQLANON_KEY", SECRET)
    engine = connect("business.duckdb", read_only=False)
    Database(engine).table("firms", TYPES, firms(30))
    engine.close()
    protect, statistics = METHODS[name]
    policy = {"source": {"database": "business.duckdb", "table": "firms"}, "release": {"table": "released"},
              "person": "holding", "hierarchies": {"region": {"prefix": {"length": 2}}}, "statistics": statistics,
              "protect": protect}  # fmt: skip
    Path("policy.yml").write_text(json.dumps(policy), encoding="utf-8")

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, list(arguments))

    published = run("publish", "policy.yml")
    assert published.exit_code == 0 and " changed (" in published.output, published.output
    assert f"{name}: changes of" in published.output and "published: " in published.output
    checked = run("check", "policy.yml")
    assert checked.exit_code == 0 and " changed, " in checked.output, checked.output
    attacked = run("attack", "policy.yml")
    assert attacked.exit_code == 0 and "unsafe cells" in attacked.output, attacked.output
    refreshed = run("refresh", "policy.yml")
    assert refreshed.exit_code == 0 and " changed" in refreshed.output, refreshed.output
    monkeypatch.delenv("SQLANON_KEY")
    assert run("check", "policy.yml").exit_code == 0
    late = run("publish", "policy.yml")
    assert late.exit_code == 2 and "made with a key" in late.output, late.output
    explained = run("explain", name)
    assert explained.exit_code == 0 and "What it does not protect" in explained.output, explained.output
