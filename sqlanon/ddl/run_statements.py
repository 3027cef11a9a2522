"""Statements of owners, run: labels and policies are written into their folder, and releases are published, refreshed
and retired as the commands of `sqlanon` do it. No statement reaches a database: what runs there is made from the
policy."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlglot import exp

from sqlanon import schedule
from sqlanon.ddl.documents import read_document, release_of
from sqlanon.ddl.labels import read_column_label, read_table_label
from sqlanon.ddl.named_places import require_same_paths
from sqlanon.ddl.names import join_name, plain_name, write_name
from sqlanon.ddl.owner_catalog import StatementOutcome, look_up
from sqlanon.ddl.policy_document import document_of, in_order
from sqlanon.ddl.policy_store import GATEWAY, PolicyStore, is_kept_over_sql
from sqlanon.ddl.read_statement import read_statement
from sqlanon.ddl.source_query import rename_tables, tables_of
from sqlanon.ddl.statements import (
    ChangeGateway,
    ChangeRole,
    CreateSchema,
    CreateView,
    DropView,
    Label,
    LookUp,
    OwnerStatement,
    RefreshView,
    SetOption,
)
from sqlanon.ddl.yaml_values import read_value, write_document
from sqlanon.engines import Engine, connect
from sqlanon.engines.open_writable import open_writable
from sqlanon.errors import PolicyError, Refused, SqlanonError, did_you_mean, number
from sqlanon.policy import Policy, parse
from sqlanon.policy.files import parse_serve
from sqlanon.policy.gateway import Gateway
from sqlanon.policy.table_names import table_parts
from sqlanon.sqlfront.lexer import Statement
from sqlanon.sqltree.tree import column

READ_ONLY = "25006"
BUDGET = re.compile(
    r"(?P<epsilon>[0-9.]+)(?:\s+and\s+delta\s+(?P<delta>[0-9.eE-]+))?(?:\s+(?:per|a)\s+(?P<period>[a-z]+))?"
)
FLAGS = ("controls", "auditor", "owner")


@dataclass
class OwnerSession:
    """What statements work on. `restricted` is a connection from elsewhere: there no statement names a file, a database
    or SQL that is not made here."""

    store: PolicyStore
    database: str | None = None  # as `connect` takes it, from the working directory
    gateway: Path | None = None  # the policy that is served; one in the folder if None
    others: tuple[Path, ...] = ()  # policies that are kept in files elsewhere
    restricted: bool = False
    database_name: str | None = None  # as clients call the database: the first of three parts of a name
    secret: str | None = field(default=None, repr=False)
    options: dict[str, Any] = field(default_factory=dict)  # of the views that are created, where they say nothing else

    def run(self, statement: Statement) -> StatementOutcome:
        """Read one statement and do what it says."""
        made = self._with_own_names(read_statement(statement))
        if isinstance(made, SetOption):
            _put(self.options, made.name, made.value)
            return StatementOutcome(made.tag)
        if isinstance(made, LookUp):
            return look_up(made, self._policies(), self._gateway_file(), self.store)
        with self.store.alone():
            return self._do(made)

    def _with_own_names(self, made: OwnerStatement) -> OwnerStatement:
        """Names as the database knows them: clients put the name of the database and the schema public before."""
        match made:
            case Label():
                return replace(made, table=self._own_name(made.table))
            case CreateView():
                source = dict(made.source)
                if "table" in source:
                    source["table"] = self._own_name(source["table"])
                if "query" in source:
                    source["query"] = rename_tables(source["query"], self._own_name)
                named = {name for name, _ in made.options}
                given = tuple((name, value) for name, value in self.options.items() if name not in named)
                return replace(made, name=self._own_name(made.name), source=source, options=(*given, *made.options))
            case RefreshView() | DropView():
                return replace(made, name=self._own_name(made.name))
        return made

    def _own_name(self, name: str) -> str:
        parts = table_parts(name)
        if self.database_name is None:
            return join_name(parts)
        if len(parts) == 3:
            if parts[0] != self.database_name:
                raise Refused("cross-database references are not implemented", sqlstate="0A000")
            parts = parts[1:]
        in_duckdb = "://" not in (self.database or "")
        return join_name(parts[1:] if len(parts) == 2 and parts[0] == "public" and in_duckdb else parts)

    def _do(self, made: OwnerStatement) -> StatementOutcome:
        match made:
            case Label():
                return self._label(made)
            case CreateView():
                return self._create(made)
            case RefreshView():
                return self._refresh(made)
            case DropView():
                return self._drop(made)
            case ChangeRole():
                return self._change_role(made)
            case ChangeGateway():
                return self._change_gateway(made)
            case CreateSchema():
                return StatementOutcome(
                    made.tag, notices=["a schema is made when the first release in it is published"]
                )
        raise Refused("this statement is not answered", sqlstate="0A000")

    # ---- labels

    def _label(self, made: Label) -> StatementOutcome:
        table = plain_name(made.table)
        labels = self.store.labels()
        known = labels.setdefault(table, {})
        if made.column is None:
            if made.text is not None:
                read_table_label(made.text)
            self._label_gateway_table(table, made.text)
            _put(known, "label", made.text)
        else:
            columns = known.setdefault("columns", {})
            before = columns.get(made.column)
            new, old = (read_column_label(text).gateway if text is not None else None for text in (made.text, before))
            if new != old:
                self._label_gateway_column(table, made.column, new)
            _put(columns, made.column, made.text)
            if not columns:
                del known["columns"]
        if not known:
            del labels[table]
        self.store.write_labels(labels)
        return StatementOutcome(made.tag)

    def _label_gateway_table(self, table: str, text: str | None) -> None:
        document = self._gateway_document()
        gateway = document["gateway"]
        tables = dict(gateway.get("tables") or {})
        unit = gateway.get("unit") or {}
        if unit.get("table") == table:
            gateway.pop("unit")
        if text is None:
            tables.pop(table, None)
        else:
            label = read_table_label(text)
            columns = (tables.get(table) or {}).get("columns")
            tables[table] = {**label.table, **({"columns": columns} if columns else {})}
            if label.persons_by is not None:
                gateway["unit"] = {"table": table, "key": label.persons_by}
        gateway["tables"] = tables
        self._write_gateway(document)

    def _label_gateway_column(self, table: str, name: str, use: Any) -> None:
        document = self._gateway_document()
        tables = dict(document["gateway"].get("tables") or {})
        if table not in tables:
            raise PolicyError(
                f"the gateway has no table '{table}', whose columns may have bounds or keys",
                hint=f"label it first: SECURITY LABEL FOR sqlanon ON TABLE {write_name(table)} IS 'unit person'",
            )
        columns = dict(tables[table].get("columns") or {})
        _put(columns, name, use)
        rest = {key: value for key, value in tables[table].items() if key != "columns"}
        tables[table] = {**rest, **({"columns": columns} if columns else {})}
        document["gateway"]["tables"] = tables
        self._write_gateway(document)

    # ---- views

    def _labels_for(self, made: CreateView) -> dict[str, str]:
        """Labels of the columns: those of the view itself before those of the one table that it shows."""
        known = self.store.labels()
        tables = [plain_name(made.source["table"])] if "table" in made.source else []
        if "query" in made.source:
            named = tables_of(made.source["query"])
            tables = named if len(named) == 1 else []
        found: dict[str, str] = {}
        for name in tables:
            found |= known.get(name, {}).get("columns", {})
        if made.columns is not None:
            found = {name: text for name, text in found.items() if name in made.columns}
        found |= known.get(plain_name(made.name), {}).get("columns", {})
        return found | {label.column: label.text for label in made.labels if label.column and label.text is not None}

    def _document(self, made: CreateView) -> dict[str, Any]:
        located = self._seen_from_folder(self.database)
        dialect = "postgres" if "://" in (self.database or "") else "duckdb"
        document = document_of(made, self._labels_for(made), database=located, dialect=dialect)
        if self.restricted:
            allowed: dict[tuple[str | int, ...], Any] = {("source", "database"): located}
            if "query" in made.source:
                allowed["source", "query"] = document["source"]["query"]
            require_same_paths(document, None, allowed)
        return document

    def _create(self, made: CreateView) -> StatementOutcome:
        release = plain_name(made.name)
        path = self.store.path_of(release)
        document = self._document(made)
        text = write_document(document)
        policy = parse(text, path.name, self.store.folder)  # raises with all that is wrong
        if made.explain:
            return self._explain(policy, text)
        there = self.store.find(release, self._others())
        if there is not None and not is_kept_over_sql(there):
            raise self._kept_in_file(there)
        if there is not None and made.if_missing:
            return StatementOutcome(made.tag, notices=[f'materialized view "{release}" already exists, skipping'])
        if there is not None and not made.replace:
            hint = "CREATE OR REPLACE MATERIALIZED VIEW changes its policy; REFRESH publishes it anew"
            raise Refused(f'materialized view "{release}" already exists', hint=hint, sqlstate="42P07")
        self._require_tables(policy, document)
        before = path.read_text(encoding="utf-8") if path.is_file() else None
        self.store.write(path, document)
        if not made.publish:
            return StatementOutcome(made.tag, notices=["the policy is kept; REFRESH MATERIALIZED VIEW publishes it"])
        try:
            said = self._publish(path, policy)
        except BaseException:  # what was not published has no policy: the statement did nothing
            if before is None:
                path.unlink(missing_ok=True)
            else:
                self.store.write_text(path, before)
            raise
        return StatementOutcome(made.tag, notices=[said])

    def _explain(self, policy: Policy, text: str) -> StatementOutcome:
        """The policy that a statement stands for, and what publishing it would do: nothing is written."""
        from sqlanon.release import publish

        self._require_tables(policy, {})
        located = policy.located()
        with closing(_opened(located)) as engine:
            done = publish(located, engine, dry_run=True, secret=self.secret, workload=False, advice=False)
        lines = [*text.splitlines(), *_plan_lines(done.document)]
        return StatementOutcome("EXPLAIN", (("QUERY PLAN", "text"),), [(line,) for line in lines])

    def _publish(self, path: Path, policy: Policy) -> str:
        release = policy.release
        if release is not None and not release.path and len(parts := table_parts(release.name)) > 1:
            self._require_schema(policy, parts[:-1])
        done = schedule.refresh(schedule.Job(path), secret=self.secret)
        if done.error is not None:
            raise done.error
        if done.published is None:
            raise SqlanonError("another process refreshes it", hint="try again when it is done")
        document = done.published.document
        rows, gone = document.get("released"), document.get("suppressed")
        return f"published {rows:,} rows, {gone:,} suppressed; plan {done.published.plan.hash[:12]}"

    def _require_schema(self, policy: Policy, parts: list[str]) -> None:
        """The schema of a release is made when there is none."""
        located = policy.located()
        url = policy.locate(policy.source.database) if policy.source.database else None
        if url is None or policy.source.path is not None:
            return
        name = exp.Table(
            **dict(
                zip(("db", "catalog"), (exp.to_identifier(part, quoted=True) for part in reversed(parts)), strict=False)
            )
        )
        assert located is not None
        with open_writable(url, new=False) as engine:
            if not _has_schema(engine, parts[-1]):
                engine.execute(exp.Create(this=name, kind="SCHEMA", exists=True))

    def _refresh(self, made: RefreshView) -> StatementOutcome:
        path = self._known(made.name)
        if is_kept_over_sql(path):
            self._require_labels_kept(path, plain_name(made.name))
        policy = parse(path.read_text(encoding="utf-8"), path.name, path.parent)
        return StatementOutcome(made.tag, notices=[self._publish(path, policy)])

    def _require_labels_kept(self, path: Path, release: str) -> None:
        """A column that has another label now must not be published under the old one."""
        document = read_document(path)
        source = document.get("source") or {}
        known = self.store.labels()
        shown = {
            **known.get(source.get("table") or "", {}).get("columns", {}),
            **known.get(release, {}).get("columns", {}),
        }
        columns = document.get("columns") or {}
        changed = [
            name
            for name, text in shown.items()
            if name in columns and (role := read_column_label(text).column) is not None and role != columns[name]
        ]
        gone = [name for name in columns if shown and name not in shown and source.get("table") in known]
        if changed or gone:
            named = ", ".join(repr(name) for name in (changed + gone)[:5])
            raise PolicyError(
                f"the labels of {named} changed since the view was made",
                hint="CREATE OR REPLACE MATERIALIZED VIEW takes the new labels",
            )

    def _drop(self, made: DropView) -> StatementOutcome:
        release = plain_name(made.name)
        there = self.store.find(release, self._others())
        if there is None and made.if_exists:
            return StatementOutcome(made.tag, notices=[f'materialized view "{release}" does not exist, skipping'])
        path = self._known(made.name)
        if not is_kept_over_sql(path):
            raise self._kept_in_file(path)
        notices = []
        try:
            notices = [f"retired {name}" for name in schedule.retire(schedule.Job(path))]
        except PolicyError as error:
            if not error.message.startswith("there is no release"):
                raise  # nothing was published yet: there is only the policy
        self.store.keep(path)
        path.unlink()
        return StatementOutcome(made.tag, notices=notices)

    def _known(self, name: str) -> Path:
        release = plain_name(name)
        found = self.store.find(release, self._others())
        if found is None:
            names = [known for path in self._policies() if (known := release_of(read_document(path)))]
            raise Refused(
                f'materialized view "{release}" does not exist', hint=did_you_mean(release, names), sqlstate="42P01"
            )
        return found

    def _require_tables(self, policy: Policy, document: Mapping[str, Any]) -> None:
        """Over a connection a view reads tables that are there: engines take some names for those of files."""
        if not self.restricted:
            return
        names = [join.table for join in policy.source.joins]
        for source in (policy.source, policy.population):
            if source is not None:
                names += [name for name in (source.table, source.view) if name]
        if policy.source.query is not None:
            names += tables_of(policy.source.query)
        names += _tables_below(policy.model_dump(include={"hierarchies", "transformations", "models"}))
        with closing(_opened(policy.located())) as engine:
            for name in names:
                if engine.find(table_parts(name)) is None or table_parts(name)[-1].lower().startswith("sqlanon_"):
                    raise Refused(f'relation "{name}" does not exist', sqlstate="42P01")

    # ---- the gateway

    def _gateway_file(self) -> Path:
        return self.gateway or self.store.folder / GATEWAY

    def _gateway_document(self) -> dict[str, Any]:
        path = self._gateway_file()
        if not path.is_file():
            if self.restricted:
                raise PolicyError("there is no gateway")
            if self.database is None:
                raise PolicyError("a gateway needs a database", hint="give --database")
            return {"gateway": {"database": self._seen_from_folder(self.database)}}
        if not is_kept_over_sql(path):
            raise self._kept_in_file(path)
        document = read_document(path)
        document["gateway"] = dict(document.get("gateway") or {})
        return document

    def _write_gateway(self, document: Mapping[str, Any]) -> list[str]:
        """What is missing until a gateway is complete is a notice here, and an error where the gateway is served."""
        path = self._gateway_file()
        gateway = {key: document["gateway"][key] for key in Gateway.model_fields if key in document["gateway"]}
        made = in_order({**document, "gateway": gateway})
        if self.restricted:
            require_same_paths(made, read_document(path), {})
        said: list[str] = []
        try:
            parse_serve(write_document(made), path.name, path.parent)
        except PolicyError as error:
            if self.restricted or "is missing" not in str(error):
                raise
            said = ["the gateway is not complete yet"]
        self.store.write(path, made)
        return said

    def _change_role(self, made: ChangeRole) -> StatementOutcome:
        document = self._gateway_document()
        gateway = document["gateway"]
        roles = dict(gateway.get("principals") or {})
        if made.verb == "create":
            if made.role in roles:
                raise Refused(f'role "{made.role}" already exists', sqlstate="42710")
            roles[str(made.role)] = {}
        elif made.role is None:
            self._change_all(gateway, made)
        elif made.role not in roles:
            hint = did_you_mean(made.role, roles) or f"CREATE ROLE {write_name(made.role)}"
            raise Refused(f'role "{made.role}" does not exist', hint=hint, sqlstate="42704")
        elif made.verb == "drop":
            del roles[made.role]
        else:
            roles[made.role] = self._with_setting(gateway, dict(roles[made.role] or {}), made)
        if roles:
            gateway["principals"] = roles
        return StatementOutcome(made.tag, notices=self._write_gateway(document))

    def _with_setting(self, gateway: Mapping[str, Any], role: dict[str, Any], made: ChangeRole) -> dict[str, Any]:
        if made.setting == "budget":
            if made.value is None:
                return {key: value for key, value in role.items() if key not in ("epsilon", "delta")}
            found = read_budget(made.value)
            period = (gateway.get("budget") or {}).get("principal", {}).get("period")
            if found.get("period", period) != period:
                raise PolicyError(
                    f"budgets are renewed {'each ' + period if period else 'never'}, for all roles",
                    hint="ALTER ROLE ALL SET sqlanon.budget = '5 per month' changes it for all",
                )
            return role | {key: value for key, value in found.items() if key != "period"}
        if made.setting in FLAGS:
            if made.value is not None and not isinstance(made.value, bool):
                raise PolicyError(f"sqlanon.{made.setting} is true or false")
        elif made.setting not in ("tables", "epsilon", "delta"):
            hint = (
                did_you_mean(made.setting, ["budget", "tables", *FLAGS]) or "budget, tables, owner, auditor, controls"
            )
            raise PolicyError(f"a role has no setting sqlanon.{made.setting[:60]}", hint=hint)
        value = read_value(made.value) if isinstance(made.value, str) else made.value
        _put(role, made.setting, value)
        return role

    def _change_all(self, gateway: dict[str, Any], made: ChangeRole) -> None:
        if made.verb != "alter" or made.setting != "budget" or made.value is None:
            raise PolicyError(
                "of all roles, only the budget is set", hint="ALTER ROLE ALL SET sqlanon.budget = '5 per month'"
            )
        budget = dict(gateway.get("budget") or {})
        budget["principal"] = {**budget.get("principal", {}), **read_budget(made.value)}
        gateway["budget"] = budget

    def _change_gateway(self, made: ChangeGateway) -> StatementOutcome:
        known = [key for key in Gateway.model_fields if key not in ("tables", "unit", "principals")]
        if made.setting not in known:
            hint = did_you_mean(made.setting, known) or f"there are {', '.join(known)}"
            raise PolicyError(f"a gateway has no setting sqlanon.{made.setting[:60]}", hint=hint)
        document = self._gateway_document()
        value = read_value(made.value) if isinstance(made.value, str) else made.value
        _put(document["gateway"], made.setting, value)
        return StatementOutcome(made.tag, notices=self._write_gateway(document))

    # ---- files

    def _others(self) -> tuple[Path, ...]:
        served = (self.gateway,) if self.gateway is not None and self.gateway.is_file() else ()
        return (*self.others, *(path for path in served if path not in self.others))

    def _policies(self) -> list[Path]:
        found = self.store.policies() if self.store.folder.is_dir() else []
        return [*found, *(path for path in self._others() if path not in found)]

    def _seen_from_folder(self, database: str | None) -> str | None:
        if database is None or "://" in database or database == ":memory:":
            return database
        return os.path.relpath(database, self.store.folder)

    def _kept_in_file(self, path: Path) -> Refused:
        return Refused(
            f"this policy is kept in the file '{path.name}': SQL does not change it", sqlstate=READ_ONLY,
            hint=f"change the file; policies in files that end in {'.sql.yml'} are kept over SQL",
        )  # fmt: skip


def read_budget(value: Any) -> dict[str, Any]:
    """
    >>> read_budget("5 per month"), read_budget("0.5 and delta 1e-6"), read_budget(3)
    ({'epsilon': 5, 'period': 'month'}, {'epsilon': 0.5, 'delta': 1e-06}, {'epsilon': 3})
    """
    found = BUDGET.fullmatch(str(value).strip().lower())
    amounts = {} if found is None else {key: read_value(text) for key, text in found.groupdict().items() if text}
    if not amounts or any(isinstance(amounts[key], str) for key in ("epsilon", "delta") if key in amounts):
        raise PolicyError("a budget is an epsilon, and how often it is renewed", hint="write '5 per month'")
    return amounts


def _put(found: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        found.pop(key, None)
    else:
        found[key] = value


def _tables_below(value: Any) -> list[str]:
    found: list[str] = []
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key in ("table", "view") and isinstance(item, str):
                found.append(item)
            found += _tables_below(item)
    elif isinstance(value, list | tuple):
        for item in value:
            found += _tables_below(item)
    return found


def _opened(policy: Policy) -> Engine:
    return connect(policy.locate(policy.source.database) if policy.source.database else None)


def _has_schema(engine: Engine, name: str) -> bool:
    schemata = exp.Table(this=exp.to_identifier("schemata"), db=exp.to_identifier("information_schema"))
    found = engine.query(exp.select(column("schema_name")).from_(schemata))
    return any(str(row[0]).lower() == name.lower() for row in found)


def _plan_lines(document: Mapping[str, Any]) -> list[str]:
    """What publishing would do, from the evidence of a dry run."""
    rows, gone = document["released"], document["suppressed"]
    share = gone / document["records"] if document["records"] else 0
    lines = [f"-- {rows:,} of {document['records']:,} rows, {gone:,} suppressed ({share:.2%})"]
    for check in document.get("checks", ()):
        of = f" of {check['attribute']}" if check.get("attribute") else ""
        state = "holds" if check["holds"] else "BROKEN"
        lines.append(
            f"-- {state}: {check['model']}{of}, {number(check['measured'])}, required {number(check['required'])}"
        )
    plan = document.get("plan", {})
    if plan.get("loss") is not None:
        lines.append(f"-- {document.get('minimize', 'loss')} {number(plan['loss'])}; {plan.get('why', '')}")
    lines.append(f"-- plan {document['plan_hash']}; nothing was written")
    return lines
