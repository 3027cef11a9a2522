"""Ask rows in memory with differential privacy: the gateway over a DataFrame, an Arrow table, a relation or a file."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sqlanon.dataframes.arrow_tables import load_pyarrow, pandas_of, polars_of
from sqlanon.dataframes.open_data import open_data
from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, did_you_mean, number
from sqlanon.gateway import Answer, Gate
from sqlanon.gateway.answer.arrow_rows import batch_of
from sqlanon.gateway.answer.claims import Claims
from sqlanon.gateway.answer.linked_keys import require_linked_keys
from sqlanon.gateway.answer.post_processing import PostDatabase
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.schema import schema_of
from sqlanon.ledger import Ledger
from sqlanon.ledger.limits import Left
from sqlanon.policy.gateway import Gateway
from sqlanon.policy.sections import build
from sqlanon.policy.serve import GatewayFile
from sqlanon.policy.yaml_lines import KeyPath, Origin
from sqlanon.relations.source import relation, table_tree
from sqlanon.release.fingerprint import fingerprint
from sqlanon.report.markup import element, together
from sqlanon.sqltree.tree import alias, column, count_all, select

if TYPE_CHECKING:
    import pyarrow

ANALYST = "analyst"
PERSONS = "persons_of_sqlanon"  # the table with one row a person, which no statement may name
STATEMENTS = 10  # how many statements a budget lasts for, where nothing else is said


@dataclass(frozen=True)
class PrivateAnswer:
    """An answer with noise, what it cost, and what is left."""

    answer: Answer

    def to_arrow(self) -> pyarrow.Table:
        """The rows as a pyarrow.Table."""
        made = batch_of(self.answer.rows, self.answer.columns, self.answer.types)
        return load_pyarrow().Table.from_batches([made])

    def to_pandas(self) -> Any:
        """The rows as a DataFrame of pandas."""
        return pandas_of(self.to_arrow(), {})

    def to_polars(self) -> Any:
        """The rows as a DataFrame of Polars."""
        return polars_of(self.to_arrow())

    @property
    def rows(self) -> tuple[tuple[Any, ...], ...]:
        return self.answer.rows

    @property
    def columns(self) -> tuple[str, ...]:
        return self.answer.columns

    @property
    def epsilon(self) -> float:
        """What the answer cost; 0 where the same was asked before."""
        return float(self.answer.cost.epsilon)

    def __repr__(self) -> str:
        return f"<answer of {len(self.rows):,} rows, epsilon {number(self.epsilon)}>"

    def _repr_html_(self) -> str:
        head = element("tr", *(element("th", name) for name in self.columns))
        rows = [element("tr", *(element("td", "" if cell is None else str(cell)) for cell in row)) for row in self.rows]
        table = element("table", element("thead", head), element("tbody", *rows))
        return together(table, element("p", f"epsilon {number(self.epsilon)}"))


@dataclass
class RowsGate(Gate):
    """A gate over rows that do not change: their version is theirs, and not that of a file."""

    version: str = field(default="", kw_only=True)

    def data_version(self) -> str:
        return self.version


class TableGateway:
    """Answers statements about one table with differential privacy, until its budget is spent. Close it when done."""

    def __init__(self, gate: Gate, resources: ExitStack) -> None:
        self._gate = gate
        self._finish = weakref.finalize(self, resources.close)

    def sql(
        self,
        statement: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        epsilon: float | None = None,
        error: float | None = None,
        intervals: bool = False,
    ) -> PrivateAnswer:
        """Answer a statement, or refuse it. It is charged before the rows are read, and nothing gives that back; the
        same statement again gets the same answer, and costs nothing. In place of `epsilon` an `error` may be asked
        for: 50 takes the least epsilon for which every number is expected within ± 50, with 95 % certainty. With
        `intervals` the bounds within which the exact numbers lie, with 95 % certainty, are columns of their own."""
        found = self._gate.answer(statement, ANALYST, parameters, epsilon=epsilon, error=error, intervals=intervals)
        return PrivateAnswer(found)

    def explain(
        self,
        statement: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        epsilon: float | None = None,
        error: float | None = None,
        verbose: bool = False,
    ) -> PrivateAnswer:
        """What a statement would cost, how far off each number would be, and how many such statements are left; with
        `verbose` also what would run. Nothing is read, and nothing is spent."""
        prepared = self._gate.prepare(statement, ANALYST, parameters, epsilon=epsilon, error=error)
        return PrivateAnswer(self._gate.explain(prepared, ANALYST, verbose=verbose))

    @property
    def left(self) -> Left:
        """What is spent, and what may still be."""
        return self._gate.left(ANALYST)

    @property
    def policy(self) -> Gateway:
        return self._gate.policy

    def close(self) -> None:
        """Forget the rows, and the budget if it was in memory."""
        self._finish()

    def __enter__(self) -> TableGateway:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<gateway to {', '.join(name for name in self.policy.tables if name != PERSONS)}>"


def gateway(
    data: Any,
    *,
    unit: str,
    bounds: Mapping[str, tuple[Any, Any]],
    epsilon: float,
    delta: float = 1e-5,
    per_statement: float | None = None,
    rows: int | None = None,
    groups: int | None = None,
    keys: Mapping[str, Iterable[Any]] | None = None,
    hidden: Iterable[str] = (),
    minimum_group: int = 5,
    name: str = "df",
    ledger: str | Path | None = None,
    answer_time: float = 2.0,
) -> TableGateway:
    """Answer SQL about rows with differential privacy: `gateway(df, unit="customer_id", bounds={"amount": (0, 200)},
    epsilon=5).sql("SELECT city, count(*) FROM df GROUP BY city")`.

    `data` is a DataFrame of pandas or Polars, an Arrow table, a DuckDB relation or a file; statements call it `name`.
    `unit` is the column that tells apart the persons who are protected. `bounds` are the lowest and the highest value
    of the columns that are added up or averaged; values outside count as the nearer bound. Choose them without looking
    at the data, as well as `keys`, the groups of a column that are public: all others appear only if enough persons
    are in them. `hidden` columns may not be used at all.

    Without `rows` each person has one row, which is checked. Otherwise `rows` is the most rows of one person that
    count in an answer, and `groups` the most groups.

    `epsilon` and `delta` are for all statements together, `per_statement` is the epsilon of one that does not say, a
    tenth of all if left out. The budget lives as long as the object; `ledger` is a file that keeps it for good.
    An answer leaves `answer_time` seconds after its charge, so that its time tells nothing of the rows. These are read
    where they are: leave them unchanged as long as the gateway is open.
    """
    with ExitStack() as resources:
        index = [unit, *bounds, *(keys or {})]
        opened = resources.enter_context(open_data(data, name=name, index=index))
        if opened.rows is None:
            opened.engine.create_temporary(name, relation(opened.engine.resolve(opened.source), opened.engine.dialect))
        _require_unit(opened.engine, name, unit, rows)
        columns = {key: _bounds_of(key, value) for key, value in bounds.items()}
        for key, values in (keys or {}).items():
            columns.setdefault(key, {})["keys"] = list(values)
        columns |= {key: {"hidden": True} for key in hidden}
        limits = {
            "statement": {
                "epsilon": epsilon, "delta": delta / STATEMENTS,
                "default": epsilon / STATEMENTS if per_statement is None else per_statement,
            },
            "principal": {"epsilon": epsilon, "delta": delta},
            "total": {"epsilon": epsilon, "delta": delta},
        }  # fmt: skip
        asked: dict[str, Any] = {
            "database": ":memory:", "unit": {"table": name, "key": unit}, "tables": {name: {"columns": columns}},
            "rows": 1 if rows is None else rows, "groups": groups, "minimum_group": minimum_group, "budget": limits,
            "principals": {ANALYST: {"tables": [name]}}, "answer_time": answer_time,
        }  # fmt: skip
        if rows is not None:
            _number_persons(opened.engine, name, unit)
            asked["unit"] = {"table": PERSONS, "key": unit}
            asked["tables"] = {PERSONS: {}, name: {"unit": unit, "columns": columns}}
        policy = build({"gateway": {key: item for key, item in asked.items() if item is not None}}, _origin(), (),
                       GatewayFile).gateway  # fmt: skip
        book = _open_ledger(resources, ledger)
        resources.callback(book.close)
        catalog = Catalog(policy, schema_of(opened.engine, policy))
        require_linked_keys(opened.engine, catalog)
        claims = Claims(policy, opened.engine, catalog.schema)
        claims.verify()
        # Answers that a lasting ledger keeps are those of these rows alone.
        version = fingerprint(opened.engine, select(exp.Star(), source=table_tree(name))) if ledger else "in memory"
        post = PostDatabase(policy.timeout)
        resources.callback(post.close)
        gate = RowsGate(policy, opened.engine, book, catalog, post=post, claims=claims, version=version)
        return TableGateway(gate, resources.pop_all())


def _origin() -> Origin:
    places: dict[KeyPath, int | str] = {
        ("gateway", "unit"): "unit", ("gateway", "tables"): "bounds", ("gateway", "rows"): "rows",
        ("gateway", "budget"): "epsilon", ("gateway", "groups"): "groups", ("gateway", "answer_time"): "answer_time",
    }  # fmt: skip
    return Origin("the arguments", places=places)


def _bounds_of(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise PolicyError(f"bounds of '{name}' are the lowest and the highest value", hint="for example (0, 200)")
    return {"low": value[0], "high": value[1]}


def _require_unit(engine: Engine, name: str, unit: str, rows: int | None) -> None:
    """Refuse rows of nobody; and where nothing is said, that a person has several."""
    table = select(exp.Star(), source=table_tree(name))
    known = [item.name for item in engine.columns(table)]
    if unit not in known:
        raise PolicyError(
            f"the unit '{unit}' is no column", hint=did_you_mean(unit, known) or f"there are {', '.join(known[:20])}"
        )
    persons = exp.Count(this=exp.Distinct(expressions=[column(unit)]))
    given = exp.Count(this=column(unit))
    chosen = [alias(count_all(), "rows"), alias(given, "given"), alias(persons, "persons")]
    every, with_person, different = engine.query(select(*chosen, source=table_tree(name)))[0]
    if every != with_person:
        raise PolicyError(
            f"the unit '{unit}' is NULL in some rows", hint="every row belongs to a person: fill it, or drop such rows"
        )
    if rows is None and different != every:
        raise PolicyError(
            f"some persons of '{unit}' have several rows",
            hint="say how many of them count at most in an answer, for example rows=10",
        )


def _number_persons(engine: Engine, name: str, unit: str) -> None:
    """One row a person, in a table that statements cannot name."""
    engine.create_temporary(PERSONS, exp.select(column(unit)).distinct().from_(table_tree(name)))


def _open_ledger(resources: ExitStack, path: str | Path | None) -> Ledger:
    """The ledger of a file, which is made where there is none; or one for as long as the gateway is open."""
    if path is not None:
        return Ledger.open(path) if Path(path).exists() else Ledger.create(path)
    folder = tempfile.mkdtemp(prefix="sqlanon-")
    resources.callback(shutil.rmtree, folder, ignore_errors=True)
    return Ledger.create(Path(folder) / "budget.ledger")
