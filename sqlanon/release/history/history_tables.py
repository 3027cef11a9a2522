"""The tables in which the history of a release is kept, beside it in its database."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.policy import Policy
from sqlanon.release.history import sealed_tables
from sqlanon.release.record import newest, spelling
from sqlanon.sqltree.tree import count_all, literal, select, table, union_all

SHORTEST_KEY = 16
COLUMNS: dict[str, dict[str, str]] = {
    "versions": {"version": "bigint", "plan_hash": "text", "held_back": "bigint", "key_check": "text"},
    "persons": {"person": "uuid", "group_id": "bigint"},
    "past": {"group_id": "bigint", "version": "bigint", "class_id": "bigint"},
    "past_classes": {"version": "bigint", "class_id": "bigint", "records": "bigint"},
    "past_labels": {"version": "bigint", "class_id": "bigint", "attribute": "text", "label": "text"},
    "past_paths": {
        "version": "bigint", "attribute": "text", "label": "text", "own": "bigint", "level": "bigint", "node": "text",
    },
    "past_values": {
        "version": "bigint", "attribute": "text", "class_id": "bigint", "value": "text", "records": "bigint",
    },
    "cuts": {
        "round": "bigint", "region": "bigint", "attribute": "text", "cut": "text", "right_region": "bigint",
    },
    "candidates": {"attribute": "text", "group_id": "bigint", "value": "text"},
    "group_values": {"attribute": "text", "group_id": "bigint", "value": "text", "records": "bigint"},
}  # fmt: skip


class HistoryTables:
    """The history of one release; empty tables before its first version.

    Where the policy asks for it, tables of persons and groups are stored encrypted. They are read through temporary
    tables, which last as long as the transaction, and are written in place of the old ones."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._prefix = prefix_of(engine, name)
        self._check = ""
        self._opened: dict[str, str] = {}
        self._seals = False
        for short, columns in COLUMNS.items():  # a history of an older sqlanon lacks some
            stored = (self.table(short), self._sealed(short))
            if all(engine.find([name]) is None for name in stored):
                self._create(self.table(short), columns)
        if engine.dialect == "postgres":  # another refresh waits here, and then sees what this one did
            lock = f"TABLE {self.table('versions')} IN EXCLUSIVE MODE"
            engine.execute(exp.Command(this="LOCK", expression=lock))
        self.version, self._known = self._last()
        said = newest(engine, name)
        expected = int(said["history"]["version"]) if said is not None and "history" in said else 0
        if self.version != expected:
            raise PolicyError(
                f"the history of '{name}' is at version {self.version}, but its record is at version {expected}",
                hint="tables of sqlanon were dropped or put back: restore them, or release to other people only, under "
                "another name",
            )

    def table(self, short: str) -> str:
        """What is kept, to be read."""
        return self._opened.get(short, f"{self._prefix}_{short}")

    def _sealed(self, short: str) -> str:
        return f"{self._prefix}_{short}_sealed"

    def _create(self, name: str, columns: dict[str, str]) -> None:
        declared = [
            exp.ColumnDef(this=exp.to_identifier(item), kind=exp.DataType.build(kind)) for item, kind in columns.items()
        ]
        schema = exp.Schema(this=table(name), expressions=declared)
        self._engine.execute(exp.Create(this=schema, kind="TABLE"))

    def _last(self) -> tuple[int, str]:
        rows = self._engine.query(select("version", "key_check", source=table(self.table("versions"))))
        version, check = max(((int(version), str(check)) for version, check in rows), default=(0, ""))
        return version, check

    def require_key(self, secret: str, policy: Policy, kind: str) -> None:
        """With another key, or another person column or type of it, everybody would pass for a newcomer."""
        if len(secret) < SHORTEST_KEY:
            raise PolicyError(
                f"history needs a key of at least {SHORTEST_KEY} characters",
                hint="set the environment variable SQLANON_KEY to a long secret, the same for every release",
            )
        assert policy.person is not None
        known = policy.columns.get(policy.person)
        hashed = known is not None and known.pseudonym
        said = f"sqlanon history: {policy.person} {kind} {'pseudonym' if hashed else 'plain'}"
        self._check = hmac.new(secret.encode(), said.encode(), hashlib.sha256).hexdigest()
        if self._known and not hmac.compare_digest(self._known, self._check):
            raise PolicyError(
                "the key, the person column or its type is not that of the earlier releases: no person would be found",
                hint="set SQLANON_KEY to the key of the earlier releases, or release under another name",
            )
        self._unseal(secret, policy)

    def _unseal(self, secret: str, policy: Policy) -> None:
        """Read what is encrypted, and from now on write it so if the policy asks for it."""
        assert policy.history is not None
        self._seals = policy.history.encrypt
        stored = [short for short in sealed_tables.SEALED if self._engine.find([self._sealed(short)]) is not None]
        if stored and not self._seals:
            raise policy.error(
                "what is kept of this release is encrypted, and the policy does not ask for it any more",
                "history",
                hint="add 'encrypt: true' to 'history'",
            )
        if not self._seals:
            return
        sealed_tables.load_key(self._engine, secret)
        values = self.table("past_values")
        for short in stored:
            made = f"{sealed_tables.OPENED}_{short}"
            rows = sealed_tables.unseal_rows(
                self._engine.dialect, short, COLUMNS[short], self._sealed(short), values, self.version
            )
            self._engine.create_temporary(made, rows)
            counts = {
                self._engine.query(select(count_all(), source=table(name)))[0][0]
                for name in (made, self._sealed(short))
            }
            if len(counts) != 1:
                raise PolicyError(
                    "what is kept of earlier releases cannot be decrypted as a whole",
                    hint="tables of sqlanon were changed: restore them, or release under another name",
                )
            self._opened[short] = made

    def last_group(self) -> int:
        greatest = exp.Max(this=exp.column("group_id"))
        return int(self._engine.query(select(greatest, source=table(self.table("persons"))))[0][0] or 0)

    def append(self, short: str, rows: exp.Query) -> None:
        chosen = select(*COLUMNS[short], source=rows.subquery(alias="added"))
        self._engine.execute(exp.insert(chosen, table(self.table(short)), columns=list(COLUMNS[short])))

    def replace(self, short: str, parts: Sequence[exp.Query]) -> None:
        """Written anew, and put in the place of the old one: most rows change with each release."""
        seals = self._seals and short in sealed_tables.SEALED
        plain, new = f"{self._prefix}_{short}", f"{self._prefix}_{short}_next"
        own = self._sealed(short) if seals else plain
        names = [exp.column(name) for name in COLUMNS[short]]
        listed: list[exp.Query] = [
            select(*(name.copy() for name in names), source=part.subquery(alias="n")) for part in parts
        ]
        rows = union_all(listed)
        if seals:
            rows = sealed_tables.seal_rows(self._engine.dialect, short, COLUMNS[short], rows, self.version + 1)
        self._engine.execute(exp.Create(this=table(new), kind="TABLE", expression=rows))
        for old in {own, plain}:
            self._engine.execute(exp.Drop(tables=[table(old)], kind="TABLE", exists=True))
        action = exp.AlterRename(this=exp.Table(this=exp.to_identifier(own)))
        self._engine.execute(exp.Alter(this=table(new), kind="TABLE", actions=[action]))

    def close_version(self, version: int, plan_hash: str, held_back: int) -> None:
        row = (version, plan_hash, held_back, self._check)
        values = exp.values([tuple(literal(item) for item in row)])
        self._engine.execute(exp.insert(values, self.table("versions")))
        self.close()

    def close(self) -> None:
        """Leave nothing decrypted behind."""
        self._engine.drop_temporary([*self._opened.values(), *([sealed_tables.KEY] if self._seals else [])])
        self._opened.clear()


def prefix_of(engine: Engine, name: str) -> str:
    return f"sqlanon_past_{hashlib.sha256(chr(0).join(spelling(engine)(name)).encode()).hexdigest()[:12]}"


def kept_versions(engine: Engine, name: str) -> bool:
    """Whether a history of this name is kept."""
    made = f"{prefix_of(engine, name)}_versions"
    return engine.find([made]) is not None and bool(engine.query(select("version", source=table(made)).limit(1)))
