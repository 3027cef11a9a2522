"""Apache Spark: statements that read rows run there, and what is made of their groups in a DuckDB beside it.

A statement of a hundred rows costs Spark as much as one of a million, and a search asks hundreds of them. So each
statement is taken apart: the innermost groupings that read rows run on Spark, and what they return is fetched once,
up to a limit, as Arrow. All else runs in an embedded DuckDB. What is as long as the source itself stays on Spark.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import duckdb
from sqlglot import exp

from sqlanon.engines.duckdb import DuckDB, take_share
from sqlanon.engines.engine import ColumnInfo, ExistingRelation, Reads, WorkPlace, table_name
from sqlanon.engines.manifest import current_file
from sqlanon.engines.memory_share import share_of_memory
from sqlanon.engines.spark_limits import require_on_spark
from sqlanon.engines.spark_statements import (
    hash_of,
    inline_ctes,
    is_summary,
    parts_beside,
    reads_rows,
    rename_tables,
    replace_query,
    summaries,
    tables_of,
    to_spark,
    unordered_windows,
    without_shuffle,
)
from sqlanon.errors import EngineError, PolicyError, SourceError, SqlanonError, did_you_mean
from sqlanon.policy import Policy, Source
from sqlanon.policy.file_formats import ending_of
from sqlanon.relations.source import query_tree, table_parts
from sqlanon.sqltree.tree import column, literal

FETCHED_ROWS = 5_000_000  # groups: a search takes about half a gigabyte of memory a million of them
FETCHED_BYTES = 2 << 30
SHOWN_ROWS = 1_000_000  # of an answer that is read as it is
SMALL = 64 << 20  # bytes of a table that is sent to every executor
RECORD = "sqlanon_releases"
# What Spark calls types, in the words that DuckDB has for them.
TYPES = {
    "string": "VARCHAR", "boolean": "BOOLEAN", "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER",
    "bigint": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "date": "DATE", "timestamp_ntz": "TIMESTAMP",
    "timestamp": "TIMESTAMP WITH TIME ZONE", "binary": "BLOB", "void": "VARCHAR",
}  # fmt: skip
NUMERIC = {"tinyint", "smallint", "int", "bigint", "float", "double"}
TEMPORAL = {"date", "timestamp", "timestamp_ntz"}
OPTIONS = {"cores", "memory", "warehouse", "fetch_rows"}


class TooLarge(Exception):
    """More groups than may be fetched: the statement stays on Spark."""

    def __init__(self, query: exp.Select, rows: int, size: int) -> None:
        super().__init__()
        self.query, self.rows, self.size = query, rows, size


class Spark:
    product = "spark"
    dialect = "duckdb"  # of what is asked; what reads rows is put into Spark's words here
    rows_dialect = "spark"

    def __init__(
        self,
        session: Any,
        *,
        read_only: bool = False,
        stops: bool = False,
        memory_limit: str | None = None,
        fetched_rows: int = FETCHED_ROWS,
        fetched_bytes: int = FETCHED_BYTES,
    ) -> None:
        self._session = session
        self._stops = stops
        self._read_only = read_only
        self._fetched_rows, self._fetched_bytes = fetched_rows, fetched_bytes
        self._token = secrets.token_hex(4)
        self._numbers = 0
        self._beside: set[str] = set()  # tables of the embedded DuckDB
        self._there: dict[str, str] = {}  # temporary tables on Spark, and the views that show them
        self._frames: dict[str, Any] = {}  # what is cached on Spark for them
        self._sent: dict[str, str] = {}  # tables beside the rows, and the views that show them on Spark
        self._paths: dict[str, str] = {}  # files and queries, and the views that show them
        self._opened: dict[str, Callable[[], Any]] = {}  # the same, opened anew
        self._stays = False
        self._passing: list[str] = []  # views that the statement of now reads
        self.fetched: list[tuple[int, int]] = []  # rows and bytes of what was fetched
        self._tag = f"sqlanon-{self._token}"
        require_pyspark()
        _require_settings(session)
        self._connection = duckdb.connect(":memory:")
        self._connection.execute("SET TimeZone = ?", [_conf(session, "spark.sql.session.timeZone") or "UTC"])
        self._local = DuckDB.over(self._connection)
        take_share(self._connection)
        if memory_limit is not None:
            try:
                self._connection.execute("SET memory_limit = ?", [memory_limit])
            except duckdb.Error:
                raise EngineError(
                    f"'{memory_limit}' is not an amount of memory", hint="write for example 1GB or 500MB"
                ) from None
        with suppress(AttributeError):
            session.addTag(self._tag)

    @property
    def read_only(self) -> bool:
        return self._read_only

    @property
    def session(self) -> Any:
        return self._session

    # Where a statement runs -------------------------------------------------------------------------------------

    def admit(self, policy: Policy, *, publishes: bool = False) -> None:
        require_on_spark(policy, publishes=publishes)
        if publishes and type(self._session).__module__.startswith("pyspark.sql.connect"):
            raise PolicyError(
                "over Spark Connect nothing is published: what a lost connection leaves behind there was not tried",
                hint="check there, and publish with spark:local, spark://… or the session of a driver",
            )

    def place(self, tree: exp.Expr) -> WorkPlace:
        return WorkPlace.ROWS if reads_rows(inline_ctes(tree.copy()), self._beside) else WorkPlace.SUMMARY

    def query(self, tree: exp.Expr) -> list[tuple[Any, ...]]:
        whole = inline_ctes(tree.copy())
        if not reads_rows(whole, self._beside) and not self._stays:
            return self._local.query(whole)
        if isinstance(whole, exp.Select) and whole.args.get("order") is None and not self._stays:
            parts = summaries(whole, self._beside)
            if parts is not None and parts != [whole]:
                with suppress(TooLarge), self._settled(whole.copy()) as settled:
                    return self._local.query(settled)
        return _tuples(self._arrow(whole, SHOWN_ROWS))

    @contextmanager
    def at_rows(self) -> Iterator[None]:
        before, self._stays = self._stays, True
        try:
            yield
        finally:
            self._stays = before

    @contextmanager
    def _settled(self, tree: exp.Expr) -> Iterator[exp.Expr]:
        """The statement over what was fetched for it."""
        parts = summaries(tree, self._beside)
        assert parts is not None
        made: list[str] = []
        try:
            for part in parts:
                name = self._fetch(part)
                made.append(name)
                tree = replace_query(tree, part, name)
            yield tree
        finally:
            self._beside -= set(made)
            self._local.drop_temporary(made)

    def _fetch(self, part: exp.Select) -> str:
        """The groups of a query as a table beside."""
        query = part.copy()
        rows = self._frame(query).limit(self._fetched_rows + 1)
        with _clear_errors(self):
            found = rows.toArrow()
        self._forget()
        self.fetched.append((found.num_rows, found.nbytes))
        if found.num_rows > self._fetched_rows or found.nbytes > self._fetched_bytes:
            raise TooLarge(part, found.num_rows, found.nbytes)
        name = f"sqlanon_fetched_{self._next()}"
        self._bring(name, found)
        return name

    def _beside_rows(self, query: Any) -> Any:
        return self._local.arrow_table(query.copy())

    def _bring(self, name: str, rows: Any) -> None:
        shown = f"{name}_arrow"
        self._local.register_arrow(shown, rows)
        self._local.create_temporary(name, exp.select("*").from_(exp.to_identifier(shown)))
        self._connection.unregister(shown)
        self._beside.add(name)
        self._sent.pop(name, None)

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    # What runs on Spark -----------------------------------------------------------------------------------------

    def _frame(self, tree: exp.Expr) -> Any:
        """A statement that reads rows, in Spark's words; what it reads beside is sent there."""
        whole = inline_ctes(tree.copy())
        holder = exp.Subquery(this=whole)
        for part in parts_beside(whole, self._beside):
            self._send(part)
        whole = holder.this
        whole, _ = without_shuffle(whole)
        rename_tables(whole, self._spark_name)
        for number in unordered_windows(whole):
            self._order(number)
        text = to_spark(whole).sql("spark", comments=False)
        with _clear_errors(self):
            return self._session.sql(text)

    def _spark_name(self, found: exp.Table) -> str | None:
        if found.args.get("db"):
            return None
        return self._there.get(found.name.lower())

    def _send(self, part: exp.Expr) -> None:
        """Put a view on Spark in place of a part that reads only what is beside."""
        if isinstance(part, exp.Table):
            name = part.name.lower()
            if name not in self._sent:
                self._sent[name] = self._view(self._local.arrow_table(exp.select("*").from_(part.this.copy())))
            if not part.alias:
                part.set("alias", exp.TableAlias(this=exp.to_identifier(part.name)))
            part.set("this", exp.to_identifier(self._sent[name]))
            return
        query = part.this if isinstance(part, exp.Subquery) else part
        made_now = self._view(self._beside_rows(query))
        self._passing.append(made_now)
        shown = exp.to_identifier(made_now)
        if isinstance(part, exp.Subquery) and part.alias:
            made = exp.Table(this=shown, alias=part.args["alias"].copy())
            for key in ("joins", "pivots"):
                if part.args.get(key):
                    made.set(key, part.args[key])
            part.replace(made)
        elif isinstance(part, exp.Subquery):
            part.set("this", exp.select("*").from_(exp.Table(this=shown)))
        else:
            part.replace(exp.select("*").from_(exp.Table(this=shown)))

    def _forget(self) -> None:
        """Drop the views that one statement needed."""
        for name in self._passing:
            with suppress(Exception):
                self._session.catalog.dropTempView(name)
        self._passing.clear()

    def _view(self, rows: Any) -> str:
        name = f"sqlanon_{self._token}_{self._next()}"
        with _clear_errors(self):
            frame = self._session.createDataFrame(_plain(rows))
            if rows.nbytes <= SMALL:
                frame = frame.hint("broadcast")
            frame.createOrReplaceTempView(name)
        return name

    def _order(self, number: exp.Window) -> None:
        """An order for rows that were to be numbered in any: a total one, or the same rows would change places."""
        query = number.find_ancestor(exp.Select)
        origin = query.args["from_"].this if query is not None and query.args.get("from_") else None
        grouped = isinstance(origin, exp.Subquery) and is_summary(origin.this)
        if not number.args.get("partition_by") and not grouped:
            # Any numbers will do, as long as no two are the same.
            anyhow = exp.Anonymous(this="monotonically_increasing_id")
            number.replace(exp.paren(exp.Add(this=anyhow, expression=literal(1))))
            return
        assert origin is not None
        read = exp.select("*").from_(origin.copy()).sql("spark", comments=False)
        with _clear_errors(self):
            names = self._session.sql(read).columns
        own = origin.alias_or_name or None
        ordered = [exp.Ordered(this=column(name, own), desc=False, nulls_first=True) for name in names]
        number.set("order", exp.Order(expressions=ordered))

    def _arrow(self, tree: exp.Expr, limit: int) -> Any:
        with _clear_errors(self):
            found = self._frame(tree).limit(limit + 1).toArrow()
        self._forget()
        if found.num_rows > limit:
            raise EngineError(
                f"a statement returned more than {limit:,} rows, which are not fetched from Spark",
                hint="take quasi-identifiers with fewer values, or leave this measure out",
            )
        return found

    # The protocol -----------------------------------------------------------------------------------------------

    def batches(self, tree: exp.Query, rows: int) -> Generator[Any, None, None]:
        found = self.arrow_table(tree)
        yield from found.to_batches(max_chunksize=rows)

    def arrow_table(self, tree: exp.Query) -> Any:
        whole = inline_ctes(tree.copy())
        if not reads_rows(whole, self._beside):
            return self._beside_rows(whole)
        return self._arrow(whole, self._fetched_rows)

    def prepared(self, tree: exp.Expr) -> Callable[[Sequence[int | float]], list[tuple[Any, ...]]]:
        if not reads_rows(inline_ctes(tree.copy()), self._beside):
            return self._local.prepared(tree)

        def ask(numbers: Sequence[int | float]) -> list[tuple[Any, ...]]:
            asked = tree.copy()
            for found in list(asked.find_all(exp.Parameter)):
                found.replace(literal(numbers[int(found.name) - 1]))
            return self.query(asked)

        return ask

    def execute(self, tree: exp.Expr) -> None:
        named = {found.name.lower() for found in tables_of(tree) if not found.args.get("db")}
        if reads_rows(inline_ctes(tree.copy()), self._beside) or RECORD in named:
            raise EngineError(
                "this would change a table on Spark in place, which is not done there",
                hint="'sqlanon publish' writes a new version beside the old one; see the table of what Spark refuses",
            )
        self._local.execute(tree)
        for name in named:
            self._sent.pop(name, None)

    def create_temporary(self, name: str, query: exp.Query) -> None:
        whole = inline_ctes(query.copy())
        self.drop_temporary([name])
        if self._stays:
            self._keep(name, whole)
            return
        if not reads_rows(whole, self._beside):
            self._local.create_temporary(name, whole)  # type: ignore[arg-type]
            self._beside.add(name.lower())
            return
        if summaries(whole, self._beside) is not None:
            try:
                with self._settled(whole.copy()) as settled:
                    self._local.create_temporary(name, settled)  # type: ignore[arg-type]
                self._beside.add(name.lower())
                return
            except TooLarge:
                pass  # above the limit it stays where the rows are, and so does what reads it
        self._keep(name, whole)

    def _keep(self, name: str, query: exp.Expr) -> None:
        """A temporary table on Spark: written down there once, so that it does not change and is not worked out
        anew."""
        from pyspark.storagelevel import StorageLevel

        shown = f"sqlanon_{self._token}_{self._next()}"
        with _clear_errors(self):
            frame = self._frame(query).persist(StorageLevel.DISK_ONLY)
            self._frames[name.lower()] = frame
            frame.count()
            frame.createOrReplaceTempView(shown)
        self._there[name.lower()] = shown
        self._forget()

    def bring_summary(self, names: Sequence[str]) -> None:
        for name in names:
            shown = self._there.get(name.lower())
            if shown is None:
                continue
            with _clear_errors(self):
                rows = self._session.table(shown).count()
                found = self._session.table(shown).toArrow() if rows <= self._fetched_rows else None
            if found is None:
                raise EngineError(
                    f"the source has {rows:,} combinations of values; at most {self._fetched_rows:,} are searched",
                    hint=f"{self._widest(shown)} has most values: give it fewer with a query or a transformation, or "
                    "leave it out; or raise the limit with fetch_rows=…, at half a gigabyte of memory a million",
                )
            self.drop_temporary([name])
            self.fetched.append((found.num_rows, found.nbytes))
            self._bring(name.lower(), found)

    def _widest(self, shown: str) -> str:
        from pyspark.sql import functions as F

        names = [name for name in self._session.table(shown).columns if re.fullmatch("c[0-9]+", name)]
        counted = self._session.table(shown).agg(*(F.approx_count_distinct(name) for name in names)).toArrow()
        values = [counted.column(place)[0].as_py() for place in range(len(names))]
        place = max(range(len(values)), key=lambda item: values[item])
        return f"quasi-identifier {place + 1} of the policy"

    def load_temporary(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.drop_temporary([name])
        self._local.load_temporary(name, columns, rows)
        self._beside.add(name.lower())

    def drop_temporary(self, names: Sequence[str]) -> None:
        mine = [name for name in names if name.lower() in self._beside]
        if mine:
            self._local.drop_temporary(mine)
        for name in (name.lower() for name in names):
            self._beside.discard(name)
            for views in (self._sent, self._there):
                if (shown := views.pop(name, None)) is not None:
                    with suppress(Exception):
                        self._session.catalog.dropTempView(shown)
            if (frame := self._frames.pop(name, None)) is not None:
                with suppress(Exception):
                    frame.unpersist()

    def columns(self, rows: exp.Select) -> list[ColumnInfo]:
        whole = inline_ctes(rows.copy())
        if not reads_rows(whole, self._beside):
            return self._local.columns(whole)  # type: ignore[arg-type]
        with _clear_errors(self):
            fields = self._frame(whole).schema.fields
        self._forget()
        return [_column(item.name, item.dataType.simpleString()) for item in fields]

    def resolve(self, source: Source) -> Source:
        if source.query is not None:
            return self._shown(source, self._query_view(source))
        if source.path is None:
            return source
        return self._shown(source, self._path_view(source.path))

    @staticmethod
    def _shown(source: Source, name: str) -> Source:
        return source.model_copy(update={"path": None, "query": None, "view": None, "table": name})

    def _query_view(self, source: Source) -> str:
        assert source.query is not None
        tree = query_tree(source.query, "spark", source.due)
        made = sorted(name for name in {found.name.lower() for found in tables_of(tree)} if name in self._there)
        key = "\n".join([tree.sql("spark", comments=False), *(self._there[name] for name in made)])
        if key not in self._paths:
            name = f"source_{self._token}_{self._next()}"
            self._opened[key] = lambda: self._frame(tree)
            with _clear_errors(self):
                self._opened[key]().createOrReplaceTempView(name)
            self._paths[key] = name
        return self._paths[key]

    def _path_view(self, path: str) -> str:
        if path not in self._paths:
            real = path
            if "://" not in path and Path(path).is_dir() and (shown := current_file(Path(path))) is not None:
                real = str(shown)
            ending = "parquet" if "://" not in path and Path(real).is_dir() else ending_of(real).lstrip(".")
            if ending != "parquet":
                raise PolicyError(
                    f"Spark does not read '{path}'", hint="give Parquet files or a folder of them, or a table"
                )
            if "://" not in real and not any(sign in real for sign in "*?[") and not Path(real).exists():
                raise SourceError(f"there is no file '{path}'")
            name = f"source_{self._token}_{self._next()}"
            where = str(Path(real).resolve()) if "://" not in real else real
            self._opened[path] = lambda: self._session.read.parquet(where)
            with _clear_errors(self):
                self._opened[path]().createOrReplaceTempView(name)
            self._paths[path] = name
        return self._paths[path]

    def show_frame(self, frame: Any, name: str) -> None:
        """Let statements read a DataFrame of this session under a name."""
        with _clear_errors(self):
            shown = f"sqlanon_{self._token}_{self._next()}"
            frame.createOrReplaceTempView(shown)
        self._there[name.lower()] = shown

    @contextmanager
    def transaction(self) -> Iterator[None]:
        yield  # Spark has none: the swap of a view is the last step, and the only one that others see

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        with self._local.one_thread():
            yield

    def write_file(self, query: exp.Query, path: str) -> None:
        raise PolicyError(
            "Spark writes folders of files, and not the file of a release",
            hint="release a view: 'release: {view: name}'; or export it from there",
        )

    def tables(self) -> list[str]:
        with _clear_errors(self):
            found = self._session.sql("SHOW TABLES").toArrow().to_pylist()
        listed = [str(item["tableName"]) for item in found if not item["isTemporary"]]
        return sorted(table_name(name) for name in listed if not name.startswith("sqlanon_"))

    def interrupt(self) -> None:
        self._local.interrupt()
        with suppress(Exception):
            self._session.interruptTag(self._tag)

    def find(self, parts: Sequence[str]) -> ExistingRelation | None:
        if len(parts) == 1 and parts[0].lower() == RECORD:
            return self._record()
        if len(parts) == 1 and parts[0].lower() in self._beside:
            return self._local.find(parts)
        named = _quoted(parts)
        with _clear_errors(self):
            if not self._session.catalog.tableExists(named):
                return None
            item = self._session.catalog.getTable(named)
        space = item.namespace or []
        kind = "view" if str(item.tableType).upper() in ("VIEW", "TEMPORARY") else "table"
        return ExistingRelation(kind, (*(part.lower() for part in space), str(item.name).lower()))

    def reads(self, parts: Sequence[str]) -> Reads:
        there = self.find(parts)
        known = there is not None and there.kind == "table"  # what a view reads, its text alone tells
        return Reads(frozenset([there.full_name] if there is not None else []), () if known else ("a view of Spark",))

    def state(self, parts: Sequence[str]) -> str:
        """The files that a table is made of, as they are now: Spark writes new ones, and never changes one; others
        may."""
        name = parts[0].lower() if len(parts) == 1 else ""
        made = next((given for given, shown in self._paths.items() if shown == name), None)
        with _clear_errors(self):
            if made is not None:
                frame = self._opened[made]()
            else:
                if name not in self._there:
                    self._session.catalog.refreshTable(_quoted(parts))
                frame = self._session.table(self._there.get(name) or _quoted(parts))
            files = frame.inputFiles()
        return "\n".join(sorted(f"{file} {_age(file)}" for file in files))

    def copy_grants(self, parts: Sequence[str], to: Sequence[str]) -> None:
        return None  # the session catalogue knows no users; a view that is altered keeps those of other catalogues

    def close(self) -> None:
        self.drop_temporary([*self._there, *self._sent])
        for name in self._paths.values():
            with suppress(Exception):
                self._session.catalog.dropTempView(name)
        self._connection.close()
        with suppress(Exception):
            self._session.removeTag(self._tag)
        if self._stops:
            self._session.stop()

    # Releases ---------------------------------------------------------------------------------------------------

    def write_table(self, name: str, query: exp.Query) -> None:
        """CREATE TABLE of Parquet."""
        ordered = self._mixed(query)
        with _clear_errors(self):
            ordered.write.format("parquet").mode("error").saveAsTable(_quoted(table_parts(name)))
        self._forget()

    def frame_of(self, query: exp.Query) -> Any:
        """The rows as a DataFrame that is written down, and that nothing makes anew."""
        with _clear_errors(self):
            made = self._mixed(query).localCheckpoint(eager=True)
        self._forget()
        return made

    def _mixed(self, query: exp.Query) -> Any:
        """Rows in an order that only the values that are shown decide: they go to parts, and into their places there,
        by a hash of them. So the order tells nothing, and the same rows make the same files."""
        from pyspark.sql import functions as F

        frame = self._frame(query)
        spot = "\u2205 spot"
        mixed = F.expr(hash_of([column(item) for item in frame.columns]).sql("spark"))
        parts = int(_conf(self._session, "spark.sql.shuffle.partitions") or 8)
        placed = frame.withColumn(spot, mixed).repartition(parts, F.col(f"`{spot}`"))
        return placed.sortWithinPartitions(F.col(f"`{spot}`")).drop(spot)

    def run(self, text: str) -> list[tuple[Any, ...]]:
        """A statement of sqlanon's own about tables and views, written for Spark."""
        with _clear_errors(self):
            return _tuples(self._session.sql(text).toArrow())

    def append(self, name: str, columns: Mapping[str, str], row: Sequence[Any]) -> None:
        """Add a row to a table that is only ever added to."""
        fields = ", ".join(f"{key} {'BIGINT' if kind == 'bigint' else 'STRING'}" for key, kind in columns.items())
        import pyarrow

        with _clear_errors(self):
            if not self._session.catalog.tableExists(name):
                self._session.sql(f"CREATE TABLE IF NOT EXISTS {name} ({fields}) USING parquet")
            kinds = [pyarrow.int64() if kind == "bigint" else pyarrow.string() for kind in columns.values()]
            listed = [pyarrow.array([value], kind) for value, kind in zip(row, kinds, strict=True)]
            frame = self._session.createDataFrame(pyarrow.Table.from_arrays(listed, names=list(columns)))
            frame.coalesce(1).write.insertInto(name)
        self._beside.discard(RECORD)

    def keep_temporary(self, name: str, query: exp.Query) -> None:
        """A temporary table on Spark, however short it is, and cut off from what it was made of: if it is lost, reading
        it fails, and nothing is worked out anew from rows that may have changed since they were checked."""
        self.drop_temporary([name])
        shown = f"sqlanon_{self._token}_{self._next()}"
        with _clear_errors(self):
            frame = self._frame(query).localCheckpoint(eager=True)
            self._frames[name.lower()] = frame  # Spark Connect forgets what nobody holds
            frame.createOrReplaceTempView(shown)
        self._there[name.lower()] = shown
        self._forget()

    def tables_in(self, space: Sequence[str]) -> list[str]:
        """The names of all tables in a schema."""
        with _clear_errors(self):
            found = self._session.sql(f"SHOW TABLES IN {_quoted(space)}").toArrow().to_pylist()
        return [str(item["tableName"]) for item in found if not item["isTemporary"]]

    def show_table(self, view: str, table: str) -> None:
        """Let a view show a table: the one step that others see. CREATE OR REPLACE VIEW would not be one: on the Hive
        catalogue readers find no view meanwhile, and none is left if it fails."""
        name, rows = _quoted(table_parts(view)), f"SELECT * FROM {_quoted(table_parts(table))}"
        there = self.find(table_parts(view)) is not None
        self.run(f"ALTER VIEW {name} AS {rows}" if there else f"CREATE VIEW {name} AS {rows}")
        self._beside.discard(RECORD)

    def drop_table(self, name: str) -> None:
        self.run(f"DROP TABLE IF EXISTS {_quoted(table_parts(name))}")

    def view_text(self, name: str) -> str | None:
        """The query of a view."""
        found = self.run(f"DESCRIBE TABLE EXTENDED {name}")
        return next((str(value) for key, value, *_ in found if key == "View Text"), None)

    def _record(self) -> ExistingRelation | None:
        """The record of releases, as a table beside: which version is current, the views themselves tell."""
        import pyarrow

        if RECORD in self._beside:
            return self._local.find([RECORD])
        with _clear_errors(self):
            if not self._session.catalog.tableExists(RECORD):
                return None
            rows = self._session.sql(f"SELECT * FROM {RECORD}").toArrow()
        listed = rows.to_pylist()
        shown = {name: self.table_behind(name) for name in {item["release"] for item in listed}}
        newest = {
            item["release"]: item["version"]
            for item in listed
            if item["behind"] and item["behind"] == shown[item["release"]]
        }
        kept = []
        for item in listed:
            current = newest.get(item["release"])
            if current is None or item["version"] > current:
                continue  # it was written, and never shown
            there = item["behind"] is not None and self.find(table_parts(item["behind"])) is not None
            status = "current" if item["version"] == current else "superseded"
            kept.append({**item, "status": status, "behind": item["behind"] if there else None})
        self._bring(RECORD, pyarrow.Table.from_pylist(kept, schema=rows.schema))
        return self._local.find([RECORD])

    def table_behind(self, view: str) -> str | None:
        """The table that a view of a release shows."""
        if self.find(table_parts(view)) is None:
            return None
        text = self.view_text(_quoted(table_parts(view))) or ""
        found = re.fullmatch(r"SELECT \* FROM ((?:`(?:[^`]|``)+`\.?)+)", text.strip())
        if found is None:
            return None
        parts = [part.replace("``", "`") for part in re.findall(r"`((?:[^`]|``)+)`", found[1])]
        return table_name(*parts)


def require_pyspark() -> None:
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise SourceError("Spark needs the package pyspark", hint="pip install 'sqlanon[spark]'; and Java 17")


def open_session(url: str) -> tuple[Any, bool, dict[str, str]]:
    """The session that a URL names, whether it was begun here, and the options of sqlanon's own in the URL."""
    require_pyspark()
    from pyspark.sql import SparkSession

    base, _, asked = url.partition("?")
    options = dict(parse_qsl(asked))
    own = {name: options.pop(name) for name in list(options) if name in OPTIONS}
    if base.startswith("sc://"):
        try:
            return SparkSession.builder.remote(base).create(), True, own
        except Exception as error:  # of grpc, whose text may hold the token of the URL
            raise SourceError(
                f"cannot connect to Spark ({type(error).__name__})", hint="is the Spark Connect server running there?"
            ) from None
    if options:
        raise SourceError(
            f"unknown option '{next(iter(options))}' of Spark", hint=f"there are {', '.join(sorted(OPTIONS))}"
        )
    if SparkSession.getActiveSession() is not None:
        return SparkSession.getActiveSession(), False, own
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1") if base == "spark:local" else None
    cores = own.get("cores", "*")
    builder = SparkSession.builder.master(f"local[{cores}]" if base == "spark:local" else base).appName("sqlanon")
    settings = {
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true", "spark.driver.memory": own.get("memory", f"{share_of_memory() >> 20}m"),
        "spark.log.level": "OFF",  # the log of a task that failed holds values
    }  # fmt: skip
    if base == "spark:local":
        settings["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 4))
    if "warehouse" in own:
        where = Path(own["warehouse"]).resolve()
        settings["spark.sql.warehouse.dir"] = str(where)
        store = f"jdbc:derby:;databaseName={where / 'metastore_db'};create=true"
        settings["spark.hadoop.javax.jdo.option.ConnectionURL"] = store
        builder = builder.enableHiveSupport()
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate(), True, own
    except Exception as error:
        raise SourceError(
            f"Spark cannot be started ({type(error).__name__})",
            hint="is Java 17 or newer installed, and JAVA_HOME set?",
        ) from None


def _require_settings(session: Any) -> None:
    if (_conf(session, "spark.sql.ansi.enabled") or "").lower() != "true":  # also where it cannot be read
        raise SourceError(
            "the session of Spark is not known to have spark.sql.ansi.enabled=true: sums that overflow and values "
            "that cannot be cast would go unnoticed",
            hint="spark.conf.set('spark.sql.ansi.enabled', 'true')",
        )


def _conf(session: Any, name: str) -> str | None:
    try:
        found = session.conf.get(name)  # what is in force: with a default, Spark would leave out its own
    except Exception:
        return None
    return None if found is None else str(found)


def _column(name: str, kind: str) -> ColumnInfo:
    base = kind.partition("(")[0]
    words = kind.upper().replace(" ", "") if base == "decimal" else TYPES.get(base, kind.upper())
    return ColumnInfo(name, words, numeric=base in NUMERIC or base == "decimal", temporal=base in TEMPORAL)


def _age(file: str) -> str:
    """When a local file was written, and its size."""
    path = Path(unquote(re.sub("^file:/+", "/", file)))
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_mtime_ns} {found.st_size}"


def _quoted(parts: Sequence[str]) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def _tuples(rows: Any) -> list[tuple[Any, ...]]:
    columns = [rows.column(place).to_pylist() for place in range(rows.num_columns)]
    return list(zip(*columns, strict=True)) if columns else [()] * rows.num_rows


def _plain(rows: Any) -> Any:
    """An Arrow table with types that Spark reads: no dictionaries, no unsigned integers, no huge ones."""
    import pyarrow

    kinds = pyarrow.types
    for place, item in enumerate(rows.schema):
        kind = item.type
        if kinds.is_dictionary(kind):
            kind = kind.value_type
        elif kinds.is_unsigned_integer(kind):
            kind = pyarrow.int64()
        elif kinds.is_null(kind):
            kind = pyarrow.string()
        if kind != item.type:
            rows = rows.set_column(place, pyarrow.field(item.name, kind), rows.column(place).cast(kind))
    return rows


class _clear_errors:
    """Turn Spark's errors into ours: plans and values are in their text, which is not shown."""

    def __init__(self, engine: Spark) -> None:
        self.engine = engine
        self.log = logging.getLogger("SQLQueryContextLogger")  # where pyspark writes them down, with plans and values
        self.silent = self.log.disabled

    def __enter__(self) -> None:
        self.log.disabled = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.log.disabled = self.silent
        if error is None or isinstance(error, SqlanonError | TooLarge) or not isinstance(error, Exception):
            return
        raise translate(error, self.engine) from None


def translate(error: Exception, engine: Spark) -> SqlanonError:
    if not any(base.__name__ == "PySparkException" for base in type(error).__mro__):
        lost = type(error).__name__ in ("Py4JNetworkError", "ConnectionRefusedError", "Py4JError", "Py4JJavaError")
        if lost or isinstance(error, OSError) or "grpc" in type(error).__module__ or "RpcError" in type(error).__name__:
            if "OutOfMemoryError" in str(error):
                return EngineError("Spark ran out of memory", hint="give its executors or its driver more")
            return EngineError("the connection to Spark broke off", hint="is its session still running?")
        return EngineError(f"Spark refused a statement ({type(error).__name__})")
    told_by: Any = error
    condition = told_by.getCondition() or ""
    try:
        told: Mapping[str, str] = told_by.getMessageParameters() or {}
    except Exception:
        told = {}
    state = _state(error)
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        name = told.get("relationName", "").replace("`", "")
        known: list[str] = []
        with suppress(Exception):
            known = engine.tables()
        listed = f"the catalogue has {', '.join(known[:8])}" if known else "the catalogue has no table here"
        return SourceError(f"there is no table '{name}'", hint=did_you_mean(name.split(".")[-1], known) or listed)
    if condition.startswith("UNRESOLVED_COLUMN"):
        return SourceError(
            f"there is no column {told.get('objectName', '').replace('`', chr(39))}",
            hint="compare the policy with the columns of the table",
        )
    if condition.startswith("TABLE_OR_VIEW_ALREADY_EXISTS") or condition == "LOCATION_ALREADY_EXISTS":
        return EngineError(
            "another publication writes the same version, or left it behind",
            hint="wait until it is done, and try again",
        )
    text = str(error)
    if "OutOfMemoryError" in text:
        return EngineError("Spark ran out of memory", hint="give its executors or its driver more")
    if "AccessControlException" in text or "Permission denied" in text or "PERMISSION" in condition:
        return SourceError("Spark may not read or write there", hint="ask the owner of the catalogue for the right")
    if condition.startswith(("FAILED_READ_FILE", "FILE_NOT_EXIST", "PATH_NOT_FOUND")) or "FileNotFound" in text:
        return EngineError(
            "files of the source were removed or replaced while they were read", hint="start again, on a table at rest"
        )
    if condition.startswith(("SESSION_CLOSED", "INVALID_HANDLE", "NO_ACTIVE_SESSION", "SESSION_CHANGED")):
        return EngineError("the session of Spark is gone", hint="begin a new one, and try again")
    if condition.startswith(("OPERATION_CANCELED", "OPERATION_CANCELLED")) or "CANCELLED" in condition:
        return EngineError("Spark cancelled the statement")
    shown = ", ".join(part for part in (condition, f"SQLSTATE {state}" if state else "") if part)
    return EngineError(f"Spark refused a statement ({shown or type(error).__name__})")


def _state(error: Any) -> str:
    try:
        return error.getSqlState() or ""
    except Exception:
        return ""
