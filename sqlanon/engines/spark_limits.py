"""What does not run on Spark: one table, each line with its reason. The tests keep it true in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlanon.errors import PolicyError
from sqlanon.policy import Policy, Source
from sqlanon.policy.person_shapes import ROWS


@dataclass(frozen=True)
class SparkLimit:
    """What a policy may ask for and Spark does not do; `publishes` where that is said of releases alone."""

    what: str
    why: str
    instead: str
    asked: Callable[[Policy], bool]
    publishes: bool = False


def _sources(policy: Policy) -> Iterator[Source]:
    yield policy.source
    if policy.population is not None:
        yield policy.population


def _other_files(policy: Policy) -> bool:
    paths = [source.path for source in _sources(policy) if source.path is not None]
    return any(path.lower().endswith((".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".xlsx")) for path in paths)


def _to_table(policy: Policy) -> bool:
    return policy.release is not None and policy.release.table is not None


def _to_file(policy: Policy) -> bool:
    return policy.release is not None and policy.release.path is not None


LIMITS: tuple[SparkLimit, ...] = (
    SparkLimit(
        "release as a table",
        "Spark cannot replace a table in one step that readers do not notice",
        "write 'release: {view: name}': a view over a table for each version",
        _to_table,
        publishes=True,
    ),
    SparkLimit(
        "release as a file or folder",
        "Spark writes folders of files, in several steps",
        "write 'release: {view: name}', and export it from there",
        _to_file,
        publishes=True,
    ),
    SparkLimit(
        "history",
        "what earlier releases told is kept in tables that are changed in place, which Spark's Parquet tables are not",
        "publish with DuckDB or PostgreSQL, or leave 'history' out",
        lambda policy: policy.history is not None,
    ),
    SparkLimit(
        "shape of persons as sets, journeys or entities",
        "their sets and signatures are built up in tables that are changed in place",
        "publish with DuckDB or PostgreSQL",
        lambda policy: policy.shape != ROWS,
    ),
    SparkLimit(
        "algorithm that writes groups of rows or adds rows of nobody, such as anatomy",
        "their rows are dealt to groups in tables that are changed in place",
        "take an algorithm of levels or regions, such as mondrian, or publish with DuckDB or PostgreSQL",
        lambda policy: policy.algorithm_traits.writes_rows or policy.algorithm_traits.counterfeits,
    ),
    SparkLimit(
        "transformation",
        "that its draws are those of DuckDB and PostgreSQL, bit for bit, is not shown there yet",
        "transform with DuckDB or PostgreSQL, or leave 'transformations' out",
        lambda policy: bool(policy.transformations),
    ),
    SparkLimit(
        "join of child tables",
        "a join is made anew by every statement, and Spark gives no transaction that would hold its tables still",
        "join them in a view or a table, and name that",
        lambda policy: bool(policy.source.joins),
    ),
    SparkLimit(
        "reading of files other than Parquet",
        "Spark guesses the types of their columns in another way than DuckDB does",
        "write them as Parquet, or read them with DuckDB",
        _other_files,
    ),
)


def require_on_spark(policy: Policy, *, publishes: bool = False) -> None:
    """Refuse what is in the table."""
    for limit in LIMITS:
        if (publishes or not limit.publishes) and limit.asked(policy):
            raise PolicyError(f"on Spark there is no {limit.what}: {limit.why}", hint=limit.instead)
