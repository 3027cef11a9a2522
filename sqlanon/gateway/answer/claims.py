"""What a policy claims of tables that are shown row by row, compared with the database before anything is shown.

`released: true` holds if the record of releases, in the same database, has the table as it is now: its rows have the
fingerprint that was kept when they were published. `public: true` cannot be proven, only disproven. A public table must
not

- be a table that holds rows of persons, or a view that reads one, whatever stands between;
- be a view through a function that users wrote (PostgreSQL): what it reads cannot be seen;
- have a column named like the key of the unit or of a link (`id` alone says nothing), or a foreign key to a private
  table, or all columns of a private table that has at least three;
- be the source of a release that is on record, or a view that reads it.

Both are looked at when a gateway is opened, and on PostgreSQL again once a table may have changed.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import EngineError, PolicyError, Refused, SourceError, SqlanonError
from sqlanon.gateway.bind.catalog import Schema, kind_of
from sqlanon.policy.gateway import Gateway
from sqlanon.relations.source import table_parts, table_tree

ANY_KEY = {"id"}  # names of keys that tables of anything have
AGAIN = 0.2  # seconds before a claim that does not hold is looked at again
FEWEST_COLUMNS = 3  # by which a copy of a private table is known
QUERY = re.compile(r"\s*(\(|(select|with|from|values|table)\s)", re.IGNORECASE)  # how a query begins, unlike a path
Base = tuple[str, ...]


@dataclass
class Claims:
    """The claims of a policy, and for which state of the database they were found to hold."""

    policy: Gateway
    engine: Engine
    schema: Schema
    _held: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def tables(self) -> list[str]:
        """The tables that are shown row by row."""
        return [name for name, table in self.policy.tables.items() if table.public or table.released]

    def verify(self) -> None:
        """Look at every claim; an error for the owner says which one does not hold."""
        for name in self.tables:
            state = self.engine.state(table_parts(name))
            self._verify(name)
            self._held[name] = state

    def require(self, tables: Iterable[str]) -> None:
        """Refuse a statement about tables whose claim does not hold any more. The owner learns what is wrong."""
        for name in sorted(set(tables) & set(self.tables)):
            with self._lock:
                for last in (False, False, False, True):
                    try:
                        state = self.engine.state(table_parts(name))
                        if self._held.get(name) != state:
                            self._held.pop(name, None)
                            self._verify(name)
                            self._held[name] = state
                        break
                    except SqlanonError:
                        # A new version may have come between a look at the record and one at the table.
                        if not last:
                            time.sleep(AGAIN)
                            continue
                        raise Refused(
                            f"table '{name}' was changed, and is not shown until the owner has checked it",
                            hint="the owner sees the reason with 'sqlanon serve POLICY --check'",
                            sqlstate="55000",
                        ) from None

    def _verify(self, name: str) -> None:
        if self.policy.tables[name].released:
            self._verify_released(name)
        else:
            self._verify_public(name)

    def _error(self, name: str, message: str, hint: str) -> PolicyError:
        kind = "released" if self.policy.tables[name].released else "public"
        place = f"{self.policy.name}:{self.policy.line_of('tables', name, kind)}"
        return PolicyError(f"{place}: table '{name}' {message}", hint=hint)

    # ---- released

    def _verify_released(self, name: str) -> None:
        from sqlanon.release.fingerprint import fingerprint  # loads the algorithms
        from sqlanon.release.record import RELEASES, current_tables

        there = self.engine.find(table_parts(name))
        try:
            known = next((item for item in current_tables(self.engine) if item[1] == there), None)
        except (SourceError, EngineError):
            raise self._unreadable(name, RELEASES) from None
        if known is None:
            raise self._error(
                name,
                f"is marked as released, but '{RELEASES}' of this database does not have it",
                "publish it into this database: 'release: {table: …}' and 'sqlanon publish'. Write 'public: true' only "
                "if no row of it belongs to a person",
            )
        version, _, wanted = known
        if wanted is None:
            raise self._error(
                name, "was published by a version that kept no fingerprint of its rows", "publish it again"
            )
        if fingerprint(self.engine, exp.select("*").from_(table_tree(name))) != wanted:
            raise self._error(
                name,
                f"has other rows than version {version.version} of the release '{version.release}'",
                "somebody changed it, or it was written by another version of the database: publish it again",
            )

    def _unreadable(self, name: str, record: str) -> PolicyError:
        hint = f"let the gateway read '{record}'. On PostgreSQL: GRANT SELECT ON {record} TO its role"
        return self._error(name, "cannot be compared with the record of releases", hint)

    # ---- public

    def _verify_public(self, name: str) -> None:
        found = self.engine.reads(table_parts(name))
        if found.functions:
            hint = "put its rows into a table: CREATE TABLE … AS SELECT * FROM the view"
            raise self._error(name, f"reads through the function {found.functions[0]}, whose text is not known", hint)
        mine = found.tables
        for private, bases in self._private():
            if mine & bases:
                raise self._error(
                    name,
                    f"is marked as public, but reads what '{private}' protects",
                    "leave 'public' out and say whose its rows are; counts for everybody are made by 'marginals', "
                    "and tables by 'sqlanon publish'",
                )
        for release, bases in self._sources(name):
            if mine & bases:
                raise self._error(
                    name,
                    f"is marked as public, but the release '{release}' was made of it",
                    f"show the release in its place: '{release}: {{released: true}}'",
                )
        self._verify_columns(name)

    def _verify_columns(self, name: str) -> None:
        columns = {info.name.casefold(): kind_of(info.type) for info in self.schema.columns[name]}
        hint = (
            "say whose its rows are: 'unit: …' or 'link: …'. A column of something else needs another name, in a view"
        )
        for key, kind in self._keys():
            if key in columns and columns[key] == kind:
                raise self._error(name, f"is marked as public, but has the key '{key}' of rows of persons", hint)
        for each in self.schema.keys:
            if each.kind == "foreign" and each.table == name and self._is_private(each.other):
                raise self._error(name, f"is marked as public, but its rows belong to rows of '{each.other}'", hint)
        for private in filter(self._is_private, self.policy.tables):
            theirs = {info.name.casefold() for info in self.schema.columns[private]}
            if len(theirs) >= FEWEST_COLUMNS and theirs <= set(columns):
                said = f"is marked as public, but has all columns of '{private}', as a copy of it has"
                raise self._error(name, said, "release a copy with 'sqlanon publish', or give the columns other names")

    def _is_private(self, name: str) -> bool:
        table = self.policy.tables[name]
        return not (table.public or table.released)

    def _keys(self) -> Iterator[tuple[str, str | None]]:
        """Columns that tell persons apart, or lead to them, with their kinds."""
        for name, table in self.policy.tables.items():
            kinds = {info.name: kind_of(info.type) for info in self.schema.columns[name]}
            for column in [*([table.unit] if table.unit else []), *(table.link.on if table.link else [])]:
                if column.casefold() not in ANY_KEY:
                    yield column.casefold(), kinds.get(column)

    def _private(self) -> Iterator[tuple[str, frozenset[Base]]]:
        """The tables that hold rows of persons, by the private table of the policy that is made of them."""
        for private in filter(self._is_private, self.policy.tables):
            yield private, self._protected(self.engine.reads(table_parts(private)).tables)

    def _sources(self, name: str) -> Iterator[tuple[str, frozenset[Base]]]:
        """The tables that releases on record were made of, by the name of the release."""
        from sqlanon.release.record import RELEASES, current_sources  # loads the algorithms

        try:
            listed = current_sources(self.engine)
        except (SourceError, EngineError):
            raise self._unreadable(name, RELEASES) from None
        for release, source in listed:
            named = _named(source, self.engine.dialect)
            if named is None:
                hint = "publish that release from a table or a view, or retire it: 'sqlanon releases'"
                raise self._error(name, f"cannot be compared with the query that '{release}' was made of", hint)
            # What is joined to the first table may be a list of cities.
            first, *joined = (
                self.engine.reads(parts).tables if self.engine.find(parts) is not None else frozenset[Base]()
                for parts in named or [[]]
            )
            yield release, first | self._protected(first.union(*joined))

    def _protected(self, bases: frozenset[Base]) -> frozenset[Base]:
        """All of them; of several, those that the policy does not show anyway, such as a list of cities in a join."""
        if len(bases) == 1:
            return bases
        shown = (self.engine.find(table_parts(name)) for name in self.tables)
        return bases - {there.full_name for there in shown if there is not None}


def _named(source: str, dialect: str) -> list[list[str]] | None:
    """The tables that the source of a release names: it is one, or a query, whose FROM comes first; no table of a file.
    None where that cannot be known: a query that the parser does not read, or one that calls a function after FROM."""
    if not QUERY.match(source):  # a table, or the path of a file
        try:
            return [table_parts(source)]
        except PolicyError:
            return []
    try:
        tree = sqlglot.parse_one(source, read=dialect)
    except sqlglot.errors.SqlglotError:
        return None
    tables = list(tree.find_all(exp.Table))
    if not all(table.name or _reads_file(table.this) for table in tables):
        return None
    start = tree.find(exp.From)
    found = [*(start.find_all(exp.Table) if start is not None else ()), *tables]
    return [[part.name for part in table.parts] for table in found if table.name]


def _reads_file(called: exp.Expr) -> bool:
    known = isinstance(called, (exp.ReadCSV, exp.ReadParquet))
    return known or (isinstance(called, exp.Anonymous) and called.name.lower().startswith("read_"))
