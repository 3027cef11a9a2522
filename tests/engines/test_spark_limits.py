"""The table of what does not run on Spark: each line is refused with its reason, and nothing else of its kind is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sqlanon import algorithms
from sqlanon.engines import spark
from sqlanon.engines.spark_limits import LIMITS, require_on_spark
from sqlanon.errors import PolicyError, SourceError
from sqlanon.families import algorithm_traits
from sqlanon.policy import Policy, parse

ROOT = Path(__file__).parents[2]
PLAIN = {
    "source": {"table": "t"}, "columns": {"q": "quasi_identifier", "s": "sensitive", "who": "identifier"},
    "models": [{"k_anonymity": {"k": 3}}], "release": {"view": "r"},
}  # fmt: skip


def asked(**more: Any) -> Policy:
    return parse(json.dumps(PLAIN | more))


# One policy for each line of the table, in its order.
REFUSED: list[dict[str, Any]] = [
    {"release": {"table": "r"}},
    {"release": {"path": "r.parquet"}},
    {"history": {"models": [{"m_invariance": {"m": 2}}]}, "person": "who"},
    {"shape": "set", "person": "who", "columns": {"who": "identifier", "item": "item"},
     "models": [{"km_anonymity": {"k": 2, "m": 1}}]},
    {"algorithm": {"anatomy": {"l": 2}}, "models": [{"distinct_l_diversity": {"l": 2}}]},
    {"transformations": [{"sampling": {"share": 0.5}}]},
    {"source": {"table": "t", "joins": [{"table": "u", "on": "who"}]}},
    {"source": {"path": "t.csv"}},
]  # fmt: skip


def test_there_is_a_policy_for_each_line() -> None:
    assert len(REFUSED) == len(LIMITS)


@pytest.mark.parametrize("place", range(len(LIMITS)), ids=[limit.what for limit in LIMITS])
def test_each_line_is_refused_with_its_reason(place: int) -> None:
    limit = LIMITS[place]
    with pytest.raises(PolicyError) as caught:
        require_on_spark(asked(**REFUSED[place]), publishes=True)
    assert caught.value.message == f"on Spark there is no {limit.what}: {limit.why}"
    assert caught.value.hint == limit.instead
    others = [other.what for other in LIMITS if other is not limit and other.asked(asked(**REFUSED[place]))]
    assert others == []


def test_a_plain_policy_is_not_refused() -> None:
    require_on_spark(asked(), publishes=True)
    require_on_spark(asked(release={"table": "r"}))  # a check of it runs


def test_every_algorithm_is_refused_or_runs_in_the_test_of_equality() -> None:
    told = (ROOT / "tests/engines/test_spark_equality.py").read_text(encoding="utf-8")
    told += (ROOT / "tests/release/test_publish_algorithms.py").read_text(encoding="utf-8").split("def policy")[0]
    for name in algorithms.names():
        traits = algorithm_traits(name)
        refused = traits.writes_rows or traits.counterfeits or "rows" not in traits.shapes
        assert refused or f'"{name}"' in told, name


def test_the_guide_has_the_table() -> None:
    guide = (ROOT / "examples/spark/README.md").read_text(encoding="utf-8")
    for limit in LIMITS:
        assert f"| {limit.what} | {limit.why} | {limit.instead} |" in guide


@pytest.mark.parametrize("told", ["false", None])
def test_a_session_that_is_not_known_to_be_strict_is_refused(told: str | None) -> None:
    class Settings:
        def get(self, name: str) -> str:
            if told is None:
                raise KeyError(name)  # as of a server that tells nobody
            return told

    class Session:
        conf = Settings()

    with pytest.raises(SourceError, match=r"not known to have spark\.sql\.ansi\.enabled=true"):
        spark._require_settings(Session())
