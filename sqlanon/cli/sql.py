"""`sqlanon sql`: policies as SQL, from a file or the standard input."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlanon.errors import PolicyError, SqlanonError

if TYPE_CHECKING:
    from sqlanon.ddl.owner_catalog import StatementOutcome

MOST = 1_000_000  # characters of a script


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--policies", type=click.Path(file_okay=False, path_type=Path), default=Path("policies"), show_default=True,
    metavar="FOLDER", help="Where labels and policies are kept.",
)  # fmt: skip
@click.option("--database", metavar="URL", help="The database of the tables that are labelled and shown.")
@click.option(
    "--gateway", type=click.Path(dir_okay=False, path_type=Path), metavar="POLICY",
    help="The policy with the gateway; gateway.sql.yml in the folder if left out.",
)  # fmt: skip
@click.option("--dump", is_flag=True, help="Print FILE, a policy in YAML, as SQL.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON for each statement.")
@click.option("--restricted", is_flag=True, help="As over a connection: no statement names a file or a database.")
@click.option("--other", "others", multiple=True, type=click.Path(path_type=Path), hidden=True)
def sql(
    file: str, policies: Path, database: str | None, gateway: Path | None, dump: bool, as_json: bool, restricted: bool,
    others: tuple[Path, ...],
) -> None:  # fmt: skip
    """Label columns, create, refresh and drop anonymized views, and look at releases, in SQL.

    FILE is a script, or - for the standard input. What it says becomes policies in a folder; they are published as
    'sqlanon publish' publishes. The statements are those that owners send to 'sqlanon serve':

    \b
      SECURITY LABEL FOR sqlanon ON COLUMN patients.age IS 'quasi_identifier';
      CREATE MATERIALIZED VIEW research.patients WITH (sqlanon.k = 5) AS SELECT * FROM patients;
      SELECT release, version, holds FROM sqlanon.releases;

    The first error ends the script; what was done before it stays done.
    """
    if dump:
        click.echo(_dumped(Path(file)), nl=False)
        return
    from sqlanon.ddl.policy_store import PolicyStore
    from sqlanon.ddl.run_statements import OwnerSession
    from sqlanon.sqlfront.lexer import statements

    text = sys.stdin.read() if file == "-" else _text(Path(file))
    name = None
    if gateway is not None:
        from sqlanon.policy.files import load_serve

        served = load_serve(gateway)
        database, name = database or served.gateway.located_database, served.database_name
    session = OwnerSession(
        PolicyStore(policies), database, gateway, others, restricted, name, os.environ.get("SQLANON_KEY") or None
    )
    for statement in statements(text, most=MOST):
        try:
            found = session.run(statement)
        except SqlanonError as error:
            if not as_json:
                raise
            click.echo(json.dumps({"error": _told(error)}))
            sys.exit(2)
        if as_json:
            click.echo(json.dumps(_as_data(found), default=str))
        else:
            _print(found)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise PolicyError(f"'{path}' is not UTF-8", hint="save it as UTF-8") from None


def _dumped(path: Path) -> str:
    from sqlanon.ddl.documents import read_document
    from sqlanon.ddl.write_statements import write_gateway, write_policy

    document = read_document(path)
    parts = []
    if "gateway" in document:
        parts.append(write_gateway(document["gateway"]))
    if "source" in document:
        dialect = "postgres" if "://" in str(document["source"].get("database", "")) else "duckdb"
        rest = {key: value for key, value in document.items() if key != "gateway"}
        parts.append(write_policy(rest, dialect=dialect))
    if not parts:
        raise PolicyError(f"'{path}' releases nothing and has no gateway", hint="name a policy")
    return "\n".join(parts)


def _told(error: SqlanonError) -> dict[str, Any]:
    position = getattr(error, "position", None)
    return {
        "sqlstate": error.sqlstate, "message": error.message, "detail": error.detail, "hint": error.hint,
        "position": position,
    }  # fmt: skip


def _as_data(found: StatementOutcome) -> dict[str, Any]:
    return {"tag": found.tag, "columns": found.columns, "rows": found.rows, "notices": list(found.notices)}


def _print(found: StatementOutcome) -> None:
    if found.columns == (("QUERY PLAN", "text"),):
        for row in found.rows:
            click.echo(str(row[0]))
        return
    if found.columns:
        from sqlanon.cli.terminal import escape_markup, make_table, open_console

        table = make_table()
        for name, kind in found.columns:
            table.add_column(escape_markup(name), justify="left" if kind == "text" else "right", overflow="fold")
        for row in found.rows:
            table.add_row(*("" if value is None else escape_markup(_shown(value)) for value in row))
        open_console().print(table)
        click.echo(f"({len(found.rows)} {'row' if len(found.rows) == 1 else 'rows'})")
        return
    click.echo(found.tag)
    for notice in found.notices:
        click.echo(f"  {notice}")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


__all__ = ["sql"]
