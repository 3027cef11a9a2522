"""The loss of releases in regions, read off their labels: against plain Python, and against what the search counted."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st

import sqlanon
from sqlanon.cli import main
from sqlanon.errors import NotReleased, PolicyError
from sqlanon.evidence.loss import loss
from sqlanon.policy import Policy, Source
from sqlanon.release import publish

TYPES = {"age": "INTEGER", "job": "TEXT", "zip": "TEXT", "ill": "TEXT"}
JOBS = {"*": {"Art": ["Dancer", "a, b"], "Trade": {"Wood": ['Join"er'], "Metal": ["Smith", "NULL"]}}}
PATHS = {
    "Dancer": ["Art", "Art", "*"],
    "a, b": ["Art", "Art", "*"],
    'Join"er': ["Wood", "Trade", "*"],
    "Smith": ["Metal", "Trade", "*"],
    "NULL": ["Metal", "Trade", "*"],
}
YEARS = [str(year) for year in range(1990, 2002)]  # a lookup of numbers, more than occur
COLUMNS = ("age", "job", "zip", "born")
rows = st.lists(
    st.fixed_dictionaries(
        {
            "age": st.one_of(st.none(), st.integers(1, 12)),
            "job": st.one_of(st.none(), st.sampled_from(list(PATHS))),
            "zip": st.one_of(st.none(), st.sampled_from(["10", "11", "20", "21", "[1"])),
            "born": st.one_of(st.none(), st.sampled_from(YEARS[2:9])),
            "ill": st.sampled_from(["flu", "hiv"]),
        }
    ),
    min_size=4,
    max_size=40,
)
WAYS: list[Any] = [
    "mondrian",
    {"mondrian": {"ranges": False}},
    {"full_domain": {"recode_suppressed": True}},
    "top_down_recoding",
    "bottom_up_recoding",
]


def asked(algorithm: Any, **more: Any) -> Policy:
    written = {
        "source": {"table": "t"},
        "columns": dict.fromkeys(COLUMNS, "quasi_identifier")
        | {"ill": "sensitive", "job": {"role": "quasi_identifier", "weight": 3}},
        "hierarchies": {
            "age": {"intervals": {"widths": [3, 6]}},
            "job": {"tree": {"tree": JOBS}},
            "zip": {"prefix": {"length": 2}},
            "born": {
                "tree": {"tree": {"*": {f"{tens}0s": [y for y in YEARS if y[:3] == tens] for tens in ("199", "200")}}}
            },
        },
        "models": [{"k_anonymity": {"k": 2}}],
        "suppression_limit": 0.3,
        "release": {"table": "r"},
        "algorithm": algorithm,
    }
    return sqlanon.parse(json.dumps(written | more))


# A reading of labels that shares nothing with sqlanon --------------------------------------------------------------


def leaves_of(name: str, table: Sequence[dict[str, Any]]) -> list[str]:
    if name == "job":
        return list(PATHS)
    if name == "born":
        return YEARS
    return [str(value) for value in sorted({row[name] for row in table} - {None})]


def below(name: str, label: str, leaves: list[str]) -> set[str]:
    """The leaves below a node."""
    if label in leaves:
        return {label}
    if label == "*":
        return set(leaves)
    if name == "job":
        return {leaf for leaf, path in PATHS.items() if label in path}
    if name == "age":
        low, high = map(int, label.strip("[)").split(","))
        return {leaf for leaf in leaves if low <= int(leaf) < high}
    if name == "born":
        return {leaf for leaf in leaves if label == f"{leaf[:3]}0s"}
    return {leaf for leaf in leaves if leaf[:1] == label[:1]}


def unquote(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def covered(name: str, label: str | None, leaves: list[str]) -> int:
    """How many leaves a label stands for; NULL is one, but there are no more than all."""
    if label is None:
        return 1
    if label in leaves or not re.fullmatch(r"\[.*\]|\{.*\}", label):
        return len(below(name, label, leaves))
    names = r'"(?:[^"]|"")*"|[^][{},"]+'
    total = 0
    for low, high, node in re.findall(rf"\[({names}), ({names})\]|({names})", label.strip("{}")):
        if node.strip() == "NULL":
            total += 1
        elif node.strip():
            total += len(below(name, unquote(node.strip()), leaves))
        elif not node:
            total += leaves.index(unquote(high)) - leaves.index(unquote(low)) + 1
    return min(total, max(len(leaves), 1))


def expected(table: list[dict[str, Any]], shown: list[dict[str, Any]], weights: dict[str, float]) -> dict[str, Any]:
    n, gone = len(table), len(table) - len(shown)
    ncp, iloss = {}, 0.0
    for name in COLUMNS:
        leaves = leaves_of(name, table)
        size = max(len(leaves), 1)
        open_ = [covered(name, row[name], leaves) - 1 for row in shown]
        ncp[name] = (sum(open_) / (size - 1) if size > 1 else 0.0) / n + gone / n
        iloss += weights[name] * (sum(open_) + gone * (size - 1)) / size
    classes = Counter(tuple(row[name] for name in COLUMNS) for row in shown)
    product = 1.0
    for value in ncp.values():
        product *= 1 + value
    return {
        "by": ncp,
        "ncp": sum(weights[name] * value for name, value in ncp.items()) / sum(weights.values()),
        "ncp_geometric": product ** (1 / len(COLUMNS)) - 1,
        "iloss": iloss,
        "discernibility": sum(size**2 for size in classes.values()) + gone * n,
        "aecs": n / (len(classes) + (gone > 0)),
        "c_avg": len(shown) / len(classes) / 2,
    }


@pytest.mark.full_on_postgres
@pytest.mark.parametrize(
    "way",
    [*WAYS[:2], *(pytest.param(way, marks=pytest.mark.full) for way in WAYS[2:])],
    ids=["ranges", "nodes", "passes", "top_down", "bottom_up"],
)
def test_losses_by_region_agree_with_their_definitions(database: Database, way: Any) -> None:
    @settings(max_examples=examples(10))
    @given(table=rows)
    def agree(table: list[dict[str, Any]]) -> None:
        database.run("DROP TABLE IF EXISTS r")
        database.table("t", TYPES | {"born": "TEXT"}, table)
        policy = asked(way)
        try:
            done = publish(policy, database.engine, workload=False)
        except (PolicyError, NotReleased):
            return  # four rows of two kinds may have no release
        names = ", ".join(COLUMNS)
        shown = [dict(zip(COLUMNS, row, strict=True)) for row in database.fetch(f"SELECT {names} FROM r")]
        weights = dict.fromkeys(COLUMNS, 1.0) | {"job": 3.0}
        wanted = expected(table, [{k: None if v is None else str(v) for k, v in row.items()} for row in shown], weights)
        found = loss(policy, database.engine, Source(table="r"))
        by = wanted.pop("by")
        assert found.by_attribute == pytest.approx(by)
        for name, value in wanted.items():
            assert found.metrics[name] == pytest.approx(value), name
        assert found.metrics["ncp"] == pytest.approx(done.plan.loss)
        assert (found.records, found.suppressed) == (len(table), len(table) - len(shown))
        assert done.document["loss"]["ncp"] == pytest.approx(done.plan.loss)
        if found.by_region and shown:  # of the rows that are released
            gone = len(table) - len(shown)
            released = {name: (share * len(table) - gone) / len(shown) for name, share in by.items()}
            told = {item["name"]: item["loss"] for item in done.document["attributes"]}
            assert told == pytest.approx(released, abs=1e-9)

    agree()


def people(database: Database) -> list[dict[str, Any]]:
    table = [
        {
            "age": 1 + i % 12,
            "job": list(PATHS)[i % 5],
            "zip": ["10", "11", "20"][i % 3],
            "born": YEARS[i % 7],
            "ill": "flu",
        }
        for i in range(60)
    ]
    database.table("t", TYPES | {"born": "TEXT"}, table)
    return table


@pytest.mark.full
def test_levels_are_counted_where_every_label_is_a_node(duck: Database) -> None:
    people(duck)
    ranges, nodes = asked("mondrian"), asked({"mondrian": {"ranges": False}})
    publish(ranges, duck.engine, workload=False)
    found = loss(ranges, duck.engine, Source(table="r"))
    assert found.by_region and "precision" not in found.metrics and "kl_divergence" not in found.metrics
    publish(nodes, duck.engine, workload=False)
    found = loss(nodes, duck.engine, Source(table="r"))
    heights = {"age": 3, "job": 3, "zip": 2, "born": 2}

    def level(name: str, label: str) -> int:
        if label == "*":
            return heights[name]
        if name == "job" and label not in PATHS:
            return 2 if label == "Trade" else 1
        if name == "age" and not label.isdigit():
            low, high = map(int, label.strip("[)").split(","))
            return 1 if high - low == 3 else 2
        return 0 if label in leaves_of(name, people(duck)) else 1

    shown = duck.fetch(f"SELECT {', '.join(COLUMNS)} FROM r")
    levels = [[level(name, str(label)) for name, label in zip(COLUMNS, row, strict=True)] for row in shown]
    assert found.metrics["minimal_distortion"] == sum(map(sum, levels))
    own = [sum(column) / heights[name] / 60 for name, column in zip(COLUMNS, zip(*levels, strict=True), strict=True)]
    assert found.metrics["precision"] == pytest.approx(sum(own) / 4)


@pytest.mark.full
@pytest.mark.full_on_postgres
def test_a_dry_run_shows_the_loss_of_what_would_be_written(database: Database) -> None:
    people(database)
    dry = publish(asked("mondrian"), database.engine, dry_run=True).document
    done = publish(asked("mondrian"), database.engine, workload=False).document
    assert dry["loss"] == pytest.approx(done["loss"])
    # An example of a label is taken from the release alone.
    dry_shares, shares = ({item["name"]: item["loss"] for item in made["attributes"]} for made in (dry, done))
    assert dry_shares == pytest.approx(shares)
    assert all(item["loss"] is not None for item in done["attributes"])


NO_RELEASES = {
    "UPDATE r SET age = '[1, 77]'": "'age' by labels that neither",
    "UPDATE r SET age = '[5, 1]'": "'age' by labels that neither",
    "UPDATE r SET job = '{Art, Nobody}'": "'job' by labels that neither",
    "UPDATE r SET zip = '11'": "more rows of the release have some label of 'zip'",
    "INSERT INTO r SELECT '*', '*', '*', '*', ill FROM r": "the release has 120 rows and the source 60",
}


@pytest.mark.full
def test_what_is_no_release_of_the_source_is_refused(duck: Database) -> None:
    people(duck)
    publish(asked("mondrian"), duck.engine, workload=False)
    duck.run("CREATE TABLE c AS SELECT CAST(age AS TEXT) AS age, job, zip, born, ill FROM r")
    duck.run("DROP TABLE r")
    duck.run("CREATE TABLE r AS FROM c")
    assert loss(asked("mondrian"), duck.engine, Source(table="r")).by_region
    for change, message in NO_RELEASES.items():
        duck.run("CREATE OR REPLACE TABLE r AS FROM c")
        duck.run(change)
        with pytest.raises(PolicyError, match=re.escape(message)):
            loss(asked("mondrian"), duck.engine, Source(table="r"))


@pytest.mark.full
def test_check_shows_the_loss_by_column(tmp_path: Any, duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    table = people(duck)
    lines = [
        ",".join([str(row["age"]), f'"{row["job"]}"'.replace('n"e', 'n""e'), row["zip"], row["born"], row["ill"]])
        for row in table
    ]
    (tmp_path / "t.csv").write_text("\n".join(["age,job,zip,born,ill", *lines]) + "\n", encoding="utf-8")
    written = json.loads(asked("mondrian").model_dump_json(exclude_unset=True))
    written |= {"source": {"path": "t.csv"}, "release": {"path": "r.csv"}, "models": [{"k_anonymity": {"k": 2}}]}
    written["hierarchies"] = {name: {use["kind"]: use["params"]} for name, use in written["hierarchies"].items()}
    written["algorithm"] = "mondrian"
    (tmp_path / "p.yml").write_text(json.dumps(written), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["publish", "p.yml", "--no-workload"])
    assert result.exit_code == 0, result.output
    shown = re.findall(r"^age +by region of 3 +intervals +([\d.]+)", result.output, re.MULTILINE)
    assert shown, result.output
    result = CliRunner().invoke(main, ["check", "p.yml", "--release", "r.csv"])
    assert re.search(rf"ncp of age +{shown[0]} +by region", result.output), result.output
    assert "not measured" not in result.output
