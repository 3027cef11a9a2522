"""What Spark finds is what DuckDB finds: every model, loss, risk, attack, algorithm and transformation."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import test_models_by_hierarchy as by_hierarchy
import test_publish_algorithms as algorithms_of
from conftest import Database
from spark_world import SparkDatabase, require_spark, running_spark
from test_transformations import USES
from transforming import KEY, TYPES, people

from sqlanon.engines import connect
from sqlanon.errors import SqlanonError
from sqlanon.evidence.attacks import attack
from sqlanon.evidence.checks import check
from sqlanon.evidence.loss import loss
from sqlanon.evidence.risk import risk
from sqlanon.policy import Policy, Source, parse
from sqlanon.release import publish

require_spark()
pytestmark = pytest.mark.filterwarnings("ignore")  # of pyspark, about pandas


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with running_spark(tmp_path_factory.mktemp("warehouse")) as made:
        yield made


@pytest.fixture
def spark(session: Any, tmp_path: Path) -> Iterator[SparkDatabase]:
    folder = tmp_path / "rows"
    folder.mkdir()
    made = SparkDatabase(session, folder)
    made.clear()
    with closing(made.engine):
        yield made


@pytest.fixture
def duck() -> Iterator[Database]:
    with closing(connect(":memory:")) as engine:
        yield Database(engine)


def on_spark(policy: Policy) -> Policy:
    """The same policy, with its release as a view."""
    assert policy.release is not None
    return policy.model_copy(update={"release": policy.release.model_copy(update={"table": None, "view": "r"})})


def same(left: Any, right: Any, where: str = "") -> None:
    """Equal, but for the last bits of sums of floats, which depend on the order of the rows."""
    if is_dataclass(left) and type(left) is type(right):
        for item in fields(left):
            same(getattr(left, item.name), getattr(right, item.name), f"{where}.{item.name}")
    elif isinstance(left, dict):
        assert left.keys() == right.keys(), where
        for key in left:
            same(left[key], right[key], f"{where}.{key}")
    elif isinstance(left, list | tuple):
        assert len(left) == len(right), where
        for place, pair in enumerate(zip(left, right, strict=True)):
            same(*pair, f"{where}[{place}]")
    elif isinstance(left, float) and isinstance(right, float):
        assert left == right or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12), (where, left, right)
    else:
        assert left == right, (where, left, right)


def filled(spark: SparkDatabase, duck: Database, kind: str) -> None:
    by_hierarchy.filled(duck, kind, by_hierarchy.rows(kind))
    spark.copy(duck, ["t", "everybody", "cities", "census"])


SMALL = {"age": "TEXT", "zip code": "TEXT", "s": "TEXT", "n": "INTEGER", "x": "DOUBLE", "d": "DATE", "who": "BIGINT"}


def small(count: int = 80) -> list[dict[str, Any]]:
    """NULLs, quotes, backslashes, line breaks and words of other scripts."""
    words = ["flu", "it's", 'say "x"', "a\\b", "new\nline", "Grüße", None]
    return [
        {
            "age": None if i % 19 == 5 else f"a{i * i % 3}",
            "zip code": ["1\\1", "2'2", "`3`"][i // 3 % 3],
            "s": words[(i * 5 + i // 7) % 7],
            "n": None if i % 13 == 1 else i * 7 % 11,
            "x": i / 8,
            "d": f"2024-0{1 + i % 3}-11",
            "who": i // 2,
        }
        for i in range(count)
    ]


ROLES = {
    "age": "quasi_identifier", "zip code": "quasi_identifier", "s": "sensitive", "n": "sensitive",
    "x": "insensitive", "d": "insensitive", "who": "identifier",
}  # fmt: skip


def rule(**more: Any) -> Policy:
    written = {
        "source": {"table": "t"}, "columns": ROLES, "suppression_limit": 0.3, "release": {"view": "r"},
        "models": [{"k_anonymity": {"k": 4}}, {"distinct_l_diversity": {"l": 2}}, {"t_closeness": {"t": 0.5}}],
    }  # fmt: skip
    return parse(json.dumps(written | more))


def test_a_check_and_a_release_are_those_of_duckdb(spark: SparkDatabase, duck: Database) -> None:
    duck.table("t", SMALL, small())
    spark.copy(duck, ["t"])
    same(check(rule(), spark.engine), check(rule(), duck.engine))
    for persons in ({}, {"person": "who"}):
        asked = rule(models=[{"k_anonymity": {"k": 3}}], algorithm="full_domain", **persons)
        there, here = (publish(asked, each.engine, workload=False, secret=KEY) for each in (spark, duck))
        assert there.plan == here.plan
        assert sorted(map(repr, spark.fetch("SELECT * FROM r"))) == sorted(map(repr, duck.fetch("SELECT * FROM r")))
        assert there.document["holds"]


@pytest.mark.full
@pytest.mark.parametrize("kind", ["tree", "dates", "table", "intervals"])
def test_every_model(spark: SparkDatabase, duck: Database, kind: str, tmp_path: Path) -> None:
    filled(spark, duck, kind)
    for name, params in by_hierarchy.MODELS.items():
        more = {"population": {"table": "everybody"}} if name in by_hierarchy.OF_POPULATION else {}
        asked = by_hierarchy.policy(kind, [{name: params}], tmp_path, **more)
        same(check(asked, spark.engine), check(asked, duck.engine), name)


@pytest.mark.full
def test_every_model_where_nothing_is_fetched(session: Any, spark: SparkDatabase, duck: Database, tmp_path: Path) -> None:
    from sqlanon.engines.spark import Spark

    filled(spark, duck, "tree")
    with closing(Spark(session, fetched_rows=3)) as engine:
        for name, params in by_hierarchy.MODELS.items():
            more = {"population": {"table": "everybody"}} if name in by_hierarchy.OF_POPULATION else {}
            asked = by_hierarchy.policy("tree", [{name: params}], tmp_path, **more)
            same(check(asked, engine), check(asked, duck.engine), name)


@pytest.mark.full
def test_every_model_is_published_for(spark: SparkDatabase, duck: Database, tmp_path: Path) -> None:
    filled(spark, duck, "tree")
    for name, params in by_hierarchy.MODELS.items():
        more = {"population": {"table": "everybody"}} if name in by_hierarchy.OF_POPULATION else {}
        asked = by_hierarchy.policy("tree", [{name: params}], tmp_path, **more)
        there = publish(on_spark(asked), spark.engine, workload=False)
        here = publish(asked, duck.engine, workload=False)
        assert (there.plan.passes, there.plan.loss) == (here.plan.passes, here.plan.loss), name
        assert sorted(map(repr, spark.fetch("SELECT * FROM r"))) == sorted(map(repr, duck.fetch("SELECT * FROM r"))), name


@pytest.mark.full
@pytest.mark.parametrize("kind", [kind for kind in by_hierarchy.KINDS])
def test_every_hierarchy_is_published_with(spark: SparkDatabase, duck: Database, kind: str, tmp_path: Path) -> None:
    filled(spark, duck, kind)
    asked = by_hierarchy.policy(kind, [{"k_anonymity": {"k": 3}}], tmp_path)
    there = publish(on_spark(asked), spark.engine, workload=False)
    here = publish(asked, duck.engine, workload=False)
    assert there.plan.passes == here.plan.passes
    assert sorted(map(repr, spark.fetch("SELECT * FROM r"))) == sorted(map(repr, duck.fetch("SELECT * FROM r")))


@pytest.mark.full
@pytest.mark.parametrize("name", algorithms_of.CASES)
def test_every_algorithm_of_lattices_and_regions(spark: SparkDatabase, duck: Database, name: str) -> None:
    duck.table("t", algorithms_of.TYPES, algorithms_of.some_rows(60))
    spark.copy(duck, ["t"])
    asked = algorithms_of.policy(*algorithms_of.CASES[name])
    there, here = (
        publish(policy, each.engine, workload=False, secret=KEY)
        for policy, each in ((on_spark(asked), spark), (asked, duck))
    )
    assert there.plan.loss == here.plan.loss
    found, expected = (sorted(map(repr, each.fetch("SELECT * FROM r"))) for each in (spark, duck))
    if "relaxed" in name:  # rows that are alike may go to either side
        assert len(found) == len(expected)
    else:
        assert found == expected
    same(
        loss(on_spark(asked), spark.engine, Source(table="r")), loss(asked, duck.engine, Source(table="r")), name
    ) if "relaxed" not in name else None


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    ["auto", "exhaustive", "samarati", "incognito", "datafly", "heuristic", {"fixed_levels": {"levels": {"q": 1, "sex": 1}}}],
    ids=str,
)
def test_every_search(spark: SparkDatabase, duck: Database, name: Any, tmp_path: Path) -> None:
    filled(spark, duck, "tree")
    short = {"heuristic": {"seconds": 1.0}} if name == "heuristic" else name
    asked = by_hierarchy.policy("tree", [{"k_anonymity": {"k": 3}}], tmp_path, algorithm=short)
    there = publish(on_spark(asked), spark.engine, workload=True)
    here = publish(asked, duck.engine, workload=True)
    assert (there.plan.passes, there.plan.loss) == (here.plan.passes, here.plan.loss)
    same(there.document["workload"], here.document["workload"])


@pytest.mark.full
@pytest.mark.parametrize("minimize", ["ncp", "ncp_geometric", "discernibility", "c_avg", "aecs", "kl_divergence",
                                      "non_uniform_entropy", "height", "precision", "iloss", "minimal_distortion"])  # fmt: skip
def test_every_metric(spark: SparkDatabase, duck: Database, minimize: str, tmp_path: Path) -> None:
    filled(spark, duck, "tree")
    asked = by_hierarchy.policy("tree", [{"k_anonymity": {"k": 3}}], tmp_path, minimize=minimize)
    there = publish(on_spark(asked), spark.engine, workload=False)
    here = publish(asked, duck.engine, workload=False)
    assert there.plan.passes == here.plan.passes
    assert math.isclose(there.plan.loss, here.plan.loss, rel_tol=1e-9)
    same(loss(on_spark(asked), spark.engine, Source(table="r")), loss(asked, duck.engine, Source(table="r")))


@pytest.mark.full
def test_every_risk(spark: SparkDatabase, duck: Database) -> None:
    duck.table("t", SMALL, small(200))
    spark.copy(duck, ["t"])
    asked = rule(models=[{"k_anonymity": {"k": 3}}], algorithm="full_domain")
    for each in (spark, duck):
        publish(asked, each.engine, workload=False)
    more = {"sampling_fraction": 0.1, "household": "who", "subsets": True, "suda": True}
    for release in (None, Source(table="r")):
        given = more if release is None else {}
        same(risk(asked, spark.engine, release=release, **given), risk(asked, duck.engine, release=release, **given))


@pytest.mark.full
def test_every_attack(spark: SparkDatabase, duck: Database) -> None:
    duck.table("t", SMALL, small(200))
    duck.run("CREATE TABLE others AS SELECT * FROM t WHERE who % 3 > 0")
    spark.copy(duck, ["t", "others"])
    asked = rule(models=[{"k_anonymity": {"k": 3}}], algorithm="mondrian")
    for each in (spark, duck):
        publish(asked, each.engine, workload=False)
    for given in ({}, {"external": Source(table="others")}, {"control": Source(table="others")}):
        there, here = (attack(asked, each.engine, release=Source(table="r"), **given) for each in (spark, duck))
        same(there, here, str(given))


@pytest.mark.full
@pytest.mark.parametrize("name", USES)
def test_every_transformation_draws_the_same(spark: SparkDatabase, duck: Database, name: str) -> None:
    rows = people(150)
    duck.table("people", TYPES, rows)
    spark.copy(duck, ["people"])
    roles = dict.fromkeys(TYPES, "insensitive") | {"id": "identifier", "age": "quasi_identifier"}
    written = {
        "source": {"table": "people"}, "columns": roles, "models": [{"k_anonymity": {"k": 2}}],
        "suppression_limit": 0.9, "transformations": [USES[name]], "release": {"view": "r"},
        "algorithm": "mondrian",
    }  # fmt: skip
    asked = parse(json.dumps(written))
    try:
        here = publish(asked, duck.engine, workload=False, secret=KEY)
    except SqlanonError as error:  # what DuckDB refuses, Spark refuses
        with pytest.raises(type(error)) as caught:
            publish(asked, spark.engine, workload=False, secret=KEY)
        assert caught.value.message == error.message
        return
    there = publish(asked, spark.engine, workload=False, secret=KEY)
    assert there.plan.loss == here.plan.loss
    assert sorted(map(repr, spark.fetch("SELECT * FROM r"))) == sorted(map(repr, duck.fetch("SELECT * FROM r")))
