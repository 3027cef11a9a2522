"""The relations of the schema sqlanon: releases, evidence, verdicts, findings, budget, runs, audit.

They are filled from the record of releases, from evidence, ledger and audit log, into a database in memory that holds
nothing else; what an owner writes is admitted part by part, and written anew from its tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from sqlanon.console.read_evidence import answer
from sqlanon.console.release_view import ReleaseView, with_measured
from sqlanon.ddl.policy_store import PolicyStore, is_kept_over_sql
from sqlanon.ddl.statements import LookUp
from sqlanon.errors import Refused, SqlanonError, did_you_mean
from sqlanon.report.sections.findings import findings
from sqlanon.sqlfront.dialects import READ
from sqlanon.sqlfront.limits import nested_too_deeply
from sqlanon.sqlfront.parse_trees import parse_trees

SCHEMA = "sqlanon"
Row = tuple[Any, ...]
# Each relation with its columns and their types, as PostgreSQL and DuckDB both call them.
RELATIONS: Mapping[str, Mapping[str, str]] = {
    "releases": {"release": "text", "version": "bigint", "status": "text", "holds": "boolean", "created": "text",
                 "records": "bigint", "released": "bigint", "suppressed": "bigint", "loss": "double precision",
                 "plan_hash": "text", "next_run": "text", "policy": "text", "kept": "text"},
    "evidence": {"release": "text", "version": "bigint", "model": "text", "attribute": "text",
                 "measured": "double precision", "required": "double precision", "margin": "double precision",
                 "holds": "boolean", "summary": "text"},
    "verdicts": {"release": "text", "version": "bigint", "regulation": "text", "criterion": "text", "state": "text",
                 "measured": "text", "threshold": "text", "cite": "text"},
    "findings": {"release": "text", "version": "bigint", "about": "text", "said": "text", "advice": "text"},
    "budget": {"principal": "text", "epsilon_limit": "double precision", "epsilon_spent": "double precision",
               "epsilon_left": "double precision", "delta_spent": "double precision", "delta_left": "double precision",
               "epsilon_ever": "double precision", "renews": "text", "runs_out": "text"},
    "runs": {"release": "text", "due": "text", "attempt": "bigint", "outcome": "text", "started": "text",
             "ended": "text", "version": "bigint", "message": "text"},
    "audit": {"n": "bigint", "time": "text", "principal": "text", "door": "text", "event": "text", "decision": "text",
              "kind": "text", "shape": "text", "sqlstate": "text", "epsilon": "double precision"},
    "policies": {"policy": "text", "release": "text", "kept": "text", "document": "text"},
}  # fmt: skip
MOST_AUDITED = 10_000
TYPES = {"VARCHAR": "text", "TEXT": "text", "BIGINT": "bigint", "INTEGER": "bigint", "DOUBLE": "double precision",
         "BOOLEAN": "boolean", "HUGEINT": "numeric", "DECIMAL": "numeric"}  # fmt: skip
ADMITTED: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Identifier, exp.Column, exp.Star, exp.Alias, exp.Where,
        exp.Join, exp.And, exp.Or, exp.Not, exp.Paren, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between,
        exp.In, exp.Is, exp.Null, exp.Like, exp.ILike, exp.Literal, exp.Boolean, exp.Neg, exp.Add, exp.Sub, exp.Mul,
        exp.Div, exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Group, exp.Having, exp.Distinct, exp.Count, exp.Sum,
        exp.Min, exp.Max, exp.Avg, exp.Coalesce, exp.Round, exp.Lower, exp.Upper, exp.Tuple,
    }
)  # fmt: skip


@dataclass(frozen=True)
class StatementOutcome:
    """What a statement gives back: its tag, rows if there are any, and what else is said."""

    tag: str
    columns: tuple[tuple[str, str], ...] = ()  # name and type
    rows: Sequence[Row] = ()
    notices: Sequence[str] = field(default_factory=list)


def look_up(asked: LookUp, policies: Sequence[Path], gateway: Path, store: PolicyStore) -> StatementOutcome:
    tree = read_question(asked.text)
    named = {table.name for table in tree.find_all(exp.Table)}
    filled: dict[str, list[Row]] = {name: FILL[name](policies, gateway, store) for name in named}
    import duckdb

    with closing(duckdb.connect(":memory:", config={"enable_external_access": "false"})) as connection:
        for name, rows in filled.items():
            columns = [
                exp.ColumnDef(this=exp.to_identifier(column, quoted=True), kind=exp.DataType.build(kind, "postgres"))
                for column, kind in RELATIONS[name].items()
            ]
            made = exp.Create(this=exp.Schema(this=exp.to_table(name), expressions=columns), kind="TABLE")
            connection.execute(made.sql("duckdb"))
            if rows:
                marks = exp.Tuple(expressions=[exp.Placeholder() for _ in columns])
                into = exp.insert(exp.Values(expressions=[marks]), exp.to_table(name))
                connection.executemany(into.sql("duckdb"), [list(row) for row in rows])
        connection.execute("SET lock_configuration = true")
        try:
            done = connection.execute(tree.sql("duckdb"))
            described = done.description or ()
            names = _names(tree, [str(each[0]) for each in described])
            columns_told = tuple((name, _kind(str(each[1]))) for name, each in zip(names, described, strict=True))
            found = done.fetchall()
        except duckdb.Error as error:  # only names and types of our own relations are in it
            said = str(error).splitlines()[0].partition(": ")[2] or "the statement cannot be answered"
            raise Refused(said, sqlstate="42703") from None
    return StatementOutcome(f"SELECT {len(found)}", columns_told, found)


def _names(tree: exp.Select, found: list[str]) -> list[str]:
    """The names of columns as PostgreSQL gives them: those of functions are `count`, not `count_star()`.

    >>> from sqlglot import parse_one
    >>> _names(parse_one("SELECT count(*), a + 1, b FROM t"), ["count_star()", "(a + 1)", "b"])
    ['count', '?column?', 'b']
    """
    if len(found) != len(tree.expressions):  # * stands for several
        return found
    return [
        name if isinstance(each, exp.Alias | exp.Column | exp.Star) else
        each.sql_name().lower() if isinstance(each, exp.Func) else "?column?"
        for each, name in zip(tree.expressions, found, strict=True)
    ]  # fmt: skip


def _kind(name: str) -> str:
    return TYPES.get(name.partition("(")[0].upper(), "text")


def read_question(text: str) -> exp.Select:
    """A SELECT on the relations of the schema, with no other part than those that are admitted."""
    try:
        trees = parse_trees(text, READ["postgres"])
    except SqlglotError:
        raise Refused("syntax error", sqlstate="42601") from None
    except RecursionError:
        raise nested_too_deeply() from None
    tree = trees[0] if len(trees) == 1 else None
    if type(tree) is not exp.Select:
        raise Refused("one SELECT is answered on these relations", sqlstate="0A000")
    for node in tree.walk():
        if type(node) not in ADMITTED or (isinstance(node, exp.Select) and node is not tree):
            raise Refused(f"{node.key.upper()} is not answered on these relations", sqlstate="0A000")
        if isinstance(node, exp.Table):
            if node.db != SCHEMA or node.catalog or node.name not in RELATIONS:
                hint = did_you_mean(node.name, RELATIONS) or f"there are {', '.join(RELATIONS)}"
                raise Refused(f'relation "{node.db}.{node.name}" does not exist here', hint=hint, sqlstate="42P01")
            # A column may be named with its table: releases.version, or sqlanon.releases.version.
            node.set("db", None)
        if isinstance(node, exp.Column):
            node.set("db", None)
    return tree


# ---- their rows


def _asked(path: Path, question: Mapping[str, Any]) -> Mapping[str, Any]:
    found = answer({**question, "policy": str(path)}, {str(path): path})
    if "error" in found:
        raise SqlanonError(found["error"]["message"], hint=found["error"]["hint"])
    return dict(found["answer"])


def _states(policies: Sequence[Path]) -> list[tuple[Path, Mapping[str, Any]]]:
    return [(path, _asked(path, {"what": "state"})) for path in policies]


def _kept(path: Path) -> str:
    return "sql" if is_kept_over_sql(path) else "file"


def _views(policies: Sequence[Path]) -> list[tuple[Path, ReleaseView]]:
    """Each version of each release with its evidence."""
    found = []
    for path, state in _states(policies):
        for version in state["versions"]:
            document = _asked(path, {"what": "evidence", "version": version["version"]})
            found.append((path, with_measured(ReleaseView(path.stem, state, version, document), path)))
    return found


def _releases(policies: Sequence[Path], gateway: Path, store: PolicyStore) -> list[Row]:
    made: list[Row] = []
    for path, view in _views(policies):
        assert view.version is not None and view.document is not None
        document, version = view.document, view.version
        evidence = view.evidence
        made.append(
            (version["release"], version["version"], version["status"], evidence.verdict if evidence else None,
             version["created"], document.get("records"), document.get("released"), document.get("suppressed"),
             (document.get("plan") or {}).get("loss"), version["plan_hash"], view.state["next"], path.name, _kept(path))
        )  # fmt: skip
    seen = {row[0] for row in made}
    for path, state in _states(policies):
        if state["release"] and state["release"] not in seen:
            made.append((state["release"], *[None] * 9, state["next"], path.name, _kept(path)))
    return made


def _evidence(policies: Sequence[Path], gateway: Path, store: PolicyStore) -> list[Row]:
    return [
        (view.version["release"], view.version["version"], check.model, check.attribute, check.measured, check.required,
         check.margin, check.holds, check.summary)
        for _, view in _views(policies) if view.version is not None and view.evidence is not None
        for check in view.evidence.checks or ()
    ]  # fmt: skip


def _verdicts(policies: Sequence[Path], gateway: Path, store: PolicyStore) -> list[Row]:
    return [
        (view.version["release"], view.version["version"], verdict.get("title"), item.get("title"), item.get("state"),
         item.get("measured"), item.get("threshold"), item.get("cite"))
        for _, view in _views(policies) if view.version is not None and view.document is not None
        for verdict in view.document.get("verdicts") or () for item in verdict.get("criteria") or ()
    ]  # fmt: skip


def _findings(policies: Sequence[Path], gateway: Path, store: PolicyStore) -> list[Row]:
    return [
        (view.version["release"], view.version["version"], item.about, item.said, item.advice)
        for _, view in _views(policies) if view.version is not None and view.evidence is not None
        for item in findings(view.evidence)
    ]  # fmt: skip


def _budget(policies: Sequence[Path], gateway: Path, store: PolicyStore) -> list[Row]:
    from sqlanon.console.budget_view import accounts
    from sqlanon.policy.files import load_gateway

    if not gateway.is_file():
        return []
    found = load_gateway(gateway)
    made: list[Row] = []
    for each in accounts(found, list(found.principals)):
        left = each.standing.left
        made.append(
            (each.principal, each.standing.limit.epsilon, left.spent.epsilon, left.left.epsilon, left.spent.delta,
             left.left.delta, each.ever.epsilon, left.renewal.isoformat() if left.renewal else None,
             each.runs_out.isoformat() if each.runs_out else None)
        )  # fmt: skip
    return made


def _runs(policies: Sequence[Path], gateway: Path, store: PolicyStore) -> list[Row]:
    return [
        (run["release"], run["due"], run["attempt"], run["outcome"], run["started"], run["ended"], run["version"],
         run["message"])
        for _, state in _states(policies) for run in state["runs"]
    ]  # fmt: skip


def _audit(policies: Sequence[Path], gateway: Path, store: PolicyStore) -> list[Row]:
    from sqlanon.policy.files import load_serve
    from sqlanon.server.audit_chain import recent

    if not gateway.is_file():
        return []
    names = RELATIONS["audit"]
    records = recent(load_serve(gateway).located_audit, None, MOST_AUDITED)
    return [tuple(record.get(name) for name in names) for record in records]


def _documents(policies: Sequence[Path], gateway: Path, store: PolicyStore) -> list[Row]:
    from sqlanon.ddl.documents import read_document, release_of
    from sqlanon.ddl.yaml_values import write_document

    made: list[Row] = []
    for path in policies:
        document = read_document(path)
        shown = {key: value for key, value in document.items() if key not in ("gateway", "serve")}
        source = shown.get("source")
        if isinstance(source, Mapping) and "://" in str(source.get("database", "")):
            shown["source"] = {**source, "database": "…"}  # a URL may hold a password
        made.append((path.name, release_of(document), _kept(path), write_document(shown)))
    return made


FILL: Mapping[str, Callable[[Sequence[Path], Path, PolicyStore], list[Row]]] = {
    "releases": _releases, "evidence": _evidence, "verdicts": _verdicts, "findings": _findings, "budget": _budget,
    "runs": _runs, "audit": _audit, "policies": _documents,
}  # fmt: skip
