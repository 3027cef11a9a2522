"""Anonymize rows and hand them back: the same search, checks and refusals as a release that is published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlanon.dataframes.arrow_tables import pandas_of, pandas_types, polars_of, with_source_types
from sqlanon.dataframes.open_data import OpenedData, add_rows, open_data
from sqlanon.dataframes.policy_arguments import Models, Names, PolicyArguments, policy_for, policy_of
from sqlanon.dataframes.policy_arguments import with_default_algorithm as with_algorithm
from sqlanon.errors import PolicyError, number
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.policy import Policy, Release, Source
from sqlanon.relations.source import relation
from sqlanon.release.algorithm_kind import is_parted
from sqlanon.release.evidence_document import without_originals
from sqlanon.release.measure_resistance import resistance
from sqlanon.release.publication import Published
from sqlanon.release.publish_release import publish
from sqlanon.release.targets.memory_target import MemoryTarget
from sqlanon.report import render
from sqlanon.report.markup import Html, element, together

if TYPE_CHECKING:
    import pyarrow

SHOWN_ROWS = 10  # in a notebook
RELEASED = "released"  # what the release is called where its source has no name of its own


@dataclass(frozen=True, repr=False)
class AnonymizedTable:
    """A release: rows that meet the policy, and the evidence for it. Nothing of the source is kept in it, so that it
    can be stored, sent and shown like the release itself."""

    policy: Policy
    document: Mapping[str, Any]  # the evidence, without what it tells of the source alone
    _rows: pyarrow.Table | None = field(compare=False)  # none for what stays on Spark
    _types: Mapping[str, Any] = field(default_factory=dict, compare=False)  # of pandas, by column
    _frame: Any = field(default=None, compare=False)  # on Spark

    def to_arrow(self) -> pyarrow.Table:
        """The rows as a pyarrow.Table. Of a release on Spark, they are fetched."""
        return self._frame.toArrow() if self._rows is None else self._rows

    def to_pandas(self) -> Any:
        """The rows as a DataFrame of pandas. Columns that are shown as they are have the types that they had."""
        return pandas_of(self.to_arrow(), self._types)

    def to_polars(self) -> Any:
        """The rows as a DataFrame of Polars."""
        return polars_of(self.to_arrow())

    def to_spark(self, session: Any = None) -> Any:
        """The rows as a DataFrame of Spark: where they are, if they were made there, or else in the session given."""
        if self._frame is not None and session in (None, self._frame.sparkSession):
            return self._frame
        if session is None:
            raise PolicyError("the rows were not made on Spark", hint="name a session: release.to_spark(spark)")
        return session.createDataFrame(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Whatever reads Arrow reads a release: pyarrow.table(release), polars.DataFrame(release)."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self._frame.count()) if self._rows is None else len(self._rows)

    @property
    def columns(self) -> list[str]:
        return list(self._frame.columns if self._rows is None else self._rows.column_names)

    @property
    def sql(self) -> str:
        """The statements that made the release, with the temporary tables that they read."""
        return str(self.document["sql"])

    @property
    def loss(self) -> float:
        """The information that is lost, by the metric of the policy: 0 is none of it, 1 is all."""
        return float(self.document["plan"]["loss"])

    @property
    def suppressed(self) -> int:
        """How many rows of the source are not in the release."""
        return int(self.document["suppressed"])

    def report(self, path: str | Path, data: Any = None) -> Path:
        """Write the evidence as an HTML page. With the original `data` risks are measured and attacks are tried on
        both; that takes a while."""
        document = self.document
        if data is not None:
            with open_data(
                data, index=[*self.policy.columns, *([self.policy.person] if self.policy.person else [])]
            ) as opened:
                made = self._frame if opened.engine.product == "spark" and self._frame is not None else self.to_arrow()
                add_rows(opened.engine, made, RELEASED)
                asked = self.policy.model_copy(update={"source": opened.source, "release": Release(table=RELEASED)})
                document = {**document, **resistance(asked, opened.engine, ReleaseEvidence.from_json(document))}
        file = Path(path)
        file.write_text(render(document), encoding="utf-8")
        return file

    def __repr__(self) -> str:
        return f"<{self._said()}>"

    def _first_rows(self) -> pyarrow.Table:
        return self._frame.limit(SHOWN_ROWS).toArrow() if self._rows is None else self._rows.slice(0, SHOWN_ROWS)

    def _said(self) -> str:
        gone, plan = self.suppressed, self.document["plan"]
        models = ", ".join(_requirement(item) for item in self.document["checks"])
        rows = f"{len(self):,} rows, {len(self.columns)} columns" + (f", {gone:,} suppressed" if gone else "")
        return f"release of {rows}; {models}; {self.document['minimize']} {number(plan['loss'])} by {plan['algorithm']}"

    def _repr_html_(self) -> str:
        """The first rows of the release, and what holds, for a notebook."""
        names = self.columns
        head = element("tr", *(element("th", name) for name in names))
        rows = [
            element("tr", *(element("td", "" if row[name] is None else str(row[name])) for name in names))
            for row in self._first_rows().to_pylist()
        ]
        more = len(self) - len(rows)
        table = element("table", element("thead", head), element("tbody", *rows))
        below = element("p", f"and {more:,} more rows") if more > 0 else Html("")
        return together(element("p", self._said()), table, below)


def _requirement(check: Mapping[str, Any]) -> str:
    params = ", ".join(f"{key} = {value}" for key, value in check["params"].items())
    return f"{check['model']} ({params})" if params else str(check["model"])


def anonymize(
    data: Any,
    policy: Any = None,
    *,
    connection: Any = None,
    quasi_identifiers: Names = (),
    sensitive: Names = (),
    identifiers: Names = (),
    insensitive: Names = (),
    person: str | None = None,
    k: int | None = None,
    l: int | None = None,  # noqa: E741 - as in the literature
    t: float | None = None,
    models: Models = (),
    hierarchies: Mapping[str, Any] | None = None,
    suppression_limit: float | None = None,
    algorithm: str | Mapping[str, Any] | None = None,
    minimize: str | None = None,
    path: str | Path | None = None,
    secret: str | None = None,
    time_limit: float | None = None,
    workload: bool = False,
) -> AnonymizedTable:
    """Anonymize rows: find the release with the least loss that meets the requirements, check it, and return it.

    `data` is a DataFrame of pandas, Polars or Spark, an Arrow table or reader, a DuckDB relation, a file, or the name
    of a table with its `connection`: an open DuckDB connection, a database file, or a URL.

    Every column needs a role: `quasi_identifiers` are what others may know and are generalized, `sensitive` is what
    nobody shall learn of a person, `identifiers` are left out, `insensitive` columns stay as they are. `person` is the
    column that tells persons apart, where a person may have several rows.

    `k`, `l` and `t` ask for k-anonymity, distinct l-diversity and t-closeness; `models` for any others, such as
    `{"entropy_l_diversity": {"l": 2}}`. `hierarchies`, `suppression_limit`, `algorithm` and `minimize` are as in a
    policy file. In place of all these, `policy` is a dict, a file or a `Policy`; its source is not looked at.

    Without an `algorithm`, columns without a hierarchy are released as ranges (Mondrian); if all have one, as levels of
    them. `path` also writes a Parquet or CSV file, with its evidence beside it; otherwise nothing is written anywhere.
    `secret` is the key of pseudonyms and draws, `time_limit` the seconds for the search, `workload` asks for the error
    of random counts. If the requirements cannot be met, an error says so, and there is no release.
    """
    given = PolicyArguments(
        quasi_identifiers, sensitive, identifiers, insensitive, person, k, l, t, models, hierarchies or {},
        suppression_limit, algorithm, minimize,
    )  # fmt: skip
    known = policy_of(policy, Source(table="df")) if policy is not None else None
    index = given.names() if known is None else [*known.columns, *([known.person] if known.person else [])]
    with open_data(data, connection, index=index) as opened:
        asked = with_algorithm(policy_for(opened.source, known, given))
        _require_one_table(asked)
        if opened.engine.product == "spark":
            return _anonymize_on_spark(asked, opened, path, secret=secret, time_limit=time_limit, workload=workload)
        if path is None:
            asked = asked.model_copy(update={"release": None})
            target = MemoryTarget(opened.engine, RELEASED)
            done = publish(asked, opened.engine, secret=secret, time_limit=time_limit, workload=workload, target=target)
            rows = target.rows
        else:
            asked = asked.model_copy(update={"release": Release(path=str(path))})
            done = publish(asked, opened.engine, secret=secret, time_limit=time_limit, workload=workload)
            written = relation(opened.engine.resolve(Source(path=str(path))), opened.engine.dialect)
            rows = opened.engine.arrow_table(written)
        return _released(asked, done, rows, opened, data)


def _anonymize_on_spark(policy: Policy, opened: OpenedData, path: Any, **how: Any) -> AnonymizedTable:
    """The same where the rows are on Spark: so is the release."""
    from sqlanon.release.targets.spark_target import FrameTarget

    if path is not None:
        raise PolicyError(
            "Spark writes folders of files, and not the file of a release",
            hint="anonymize(df, …).to_spark().write.parquet(…), or publish a view",
        )
    asked = policy.model_copy(update={"release": None})
    target = FrameTarget(opened.engine, RELEASED)
    done = publish(asked, opened.engine, target=target, **how)
    evidence = without_originals(ReleaseEvidence.from_json(done.document))
    return AnonymizedTable(asked, evidence.to_json(), None, {}, target.frame)


def _released(policy: Policy, done: Published, rows: pyarrow.Table, opened: OpenedData, data: Any) -> AnonymizedTable:
    """The release without anything of its source."""
    shown = [
        name
        for name, column in policy.columns.items()
        if column.role in ("sensitive", "insensitive") and name in rows.column_names
    ]
    if opened.rows is not None:
        rows = with_source_types(rows, opened.rows, shown)
    evidence = without_originals(ReleaseEvidence.from_json(done.document))
    return AnonymizedTable(policy, evidence.to_json(), rows, pandas_types(data, shown))


def _require_one_table(policy: Policy) -> None:
    if is_parted(policy) and policy.algorithm is not None:
        raise PolicyError(
            f"{policy.algorithm.name} writes its rows itself, and may write several tables",
            hint="publish into a database: sqlanon.publish(policy, connection)",
        )
    if policy.history is not None:
        raise PolicyError(
            "a history needs a database that keeps earlier releases",
            hint="publish into one: sqlanon.publish(policy, connection); or leave 'history' out",
        )
