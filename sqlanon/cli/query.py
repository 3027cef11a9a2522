"""`sqlanon query`: answer SQL with differential privacy, and print the answer with its error bars."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlanon.cli.gateway_options import POLICY, load_policy, principal_of, require_ledger
from sqlanon.cli.tables import format_cost, format_table, left_text, printable, text_width
from sqlanon.errors import BudgetExhausted, MechanismError, Refused, SqlanonError, number

if TYPE_CHECKING:
    from sqlanon.gateway import Answer, Gate
    from sqlanon.policy.gateway import Gateway


SYNTHETIC = "SYNTHETIC DATA: these rows are made up, and reveal nothing about the real ones"
WIDEST_LINE = 100  # of a statement, around the place of an error
WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
REAL = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]{1,3})?")


@click.command()
@POLICY
@click.argument("sql", required=False)
@click.option(
    "--file", "sql_file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Read the SQL from a file."
)
@click.option("--as", "principal", metavar="PRINCIPAL", help="Who asks; needed if the policy names several principals.")
@click.option("--epsilon", type=float, help="What to spend; the default of the policy if left out.")
@click.option(
    "--error",
    metavar="NUMBER",
    help="The error that you can live with: 50 spends the least epsilon that gives ± 50 in 95 of 100 cases.",
)
@click.option(
    "--dialect",
    type=click.Choice(["duckdb", "postgres"]),
    default="duckdb",
    show_default=True,
    help="The SQL that you write.",
)
@click.option(
    "--param", "params", multiple=True, metavar="VALUE", help="Value of the next ? or of $1, $2, …; repeatable."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="How to print the answer.",
)
@click.option("--no-intervals", is_flag=True, help="Leave out the error bars.")
@click.option("--explain", "explained", is_flag=True, help="Say what it would cost, and its error, as EXPLAIN. Free.")
@click.option("--verbose", is_flag=True, help="With --explain: also what it would run, as EXPLAIN VERBOSE does.")
@click.option("--choose", is_flag=True, help="Print the error and the number of questions left by epsilon. Free.")
@click.option("--dry-run", is_flag=True, help="Answer from made-up data of the same shape. Free, and needs no ledger.")
def query(
    policy_file: str,
    sql: str | None,
    sql_file: Path | None,
    principal: str | None,
    epsilon: float | None,
    error: str | None,
    dialect: str,
    params: tuple[str, ...],
    form: str,
    no_intervals: bool,
    explained: bool,
    verbose: bool,
    choose: bool,
    dry_run: bool,
) -> None:
    """Answer aggregate SQL with differential privacy, under the section 'gateway' of a policy.

    SQL is one SELECT, in quotes; - reads it from standard input. The answer has noise, with error bars that hold the
    exact value in 95 of 100 cases. Exit code 1: the statement is refused, or costs more than is left.

    A --param is a whole number, a number, a date (2025-01-31), a time (2025-01-31 12:30:00) or else text; a number
    that begins with 0, as 01234 does, is text, and so is whatever stands in single quotes: --param "'42'".
    """
    policy = load_policy(policy_file)
    text = _statement(sql, sql_file)
    who = principal_of(policy, principal)
    asked: dict[str, Any] = {"dialect": dialect, "epsilon": epsilon, "error": error}
    parameters = [parse_parameter(value) for value in params]
    try:
        with closing(_gate(policy, policy_file, dry_run)) as gate:
            try:
                if choose:
                    names, rows = gate.choices(text, who, parameters, dialect=dialect)
                    click.echo(format_table(names, [[(cell, True) for cell in row] for row in rows]), nl=False)
                    return
                prepared = gate.prepare(text, who, parameters, **asked)
                plan = explained or bool(prepared.statement.explain)
                if plan:
                    answer = gate.explain(prepared, who, verbose=verbose)
                else:
                    answer = gate.answer(text, who, parameters, intervals=not no_intervals, **asked)
            except SqlanonError as failed:
                click.echo(error_text(failed, text), err=True)
                sys.exit(1 if isinstance(failed, Refused | BudgetExhausted | MechanismError) else 2)
        click.echo(answer_text(answer, form, plan=plan, shown=len(prepared.columns)), nl=False)
        click.echo(notice(answer, who, plan=plan), err=True)
        return
    except KeyboardInterrupt:
        click.echo("sqlanon: interrupted; what was charged by then stays charged", err=True)
    # Out here the error holds no open database any more, of which DuckDB would complain at the end.
    sys.exit(130)


def parse_parameter(text: str) -> int | float | date | datetime | str:
    """A parameter, by how it is written.

    >>> [parse_parameter(text) for text in ("42", "-0.5", "2e3", "01234", "'42'", "O'Neill")]
    [42, -0.5, 2000.0, '01234', '42', "O'Neill"]
    >>> parse_parameter("2025-01-31"), parse_parameter("2025-01-31 12:30:00"), parse_parameter("2025-02-31")
    (datetime.date(2025, 1, 31), datetime.datetime(2025, 1, 31, 12, 30), '2025-02-31')
    """
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1]
    if WHOLE.fullmatch(text):
        return int(text)
    if REAL.fullmatch(text):
        return float(text)
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        with suppress(ValueError):
            return date.fromisoformat(text)
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2})?", text):
        with suppress(ValueError):
            return datetime.fromisoformat(text)
    return text


def _statement(sql: str | None, file: Path | None) -> str:
    if (sql is None) == (file is None):
        raise click.UsageError("give the SQL in quotes, as - for standard input, or with --file")
    if sql is not None and sql != "-":
        return sql
    data = sys.stdin.buffer.read() if file is None else file.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError("the SQL is not UTF-8 text") from None


def _gate(policy: Gateway, policy_file: str, dry_run: bool) -> Gate:
    if dry_run:
        from sqlanon.gateway.synthetic import open_synthetic

        return open_synthetic(policy)
    from sqlanon.gateway import open_gateway

    require_ledger(policy, policy_file)
    return open_gateway(policy)


def answer_text(answer: Answer, form: str, *, plan: bool, shown: int) -> str:
    """An answer in one of the formats; of its columns the first `shown` were asked for, the others are error bars."""
    if form == "csv":
        return _csv(answer)
    if form == "json":
        return _json(answer)
    if plan:
        return "".join(f"{line}\n" for (line,) in answer.rows)
    title = f"{SYNTHETIC}\n" if answer.synthetic else ""
    return title + format_table(answer.columns[:shown], _with_bars(answer, shown))


def notice(answer: Answer, principal: str, *, plan: bool = False) -> str:
    """What an answer cost, and what is left; for standard error."""
    if plan:
        return "nothing was asked of the data, and nothing spent"
    if answer.synthetic:
        real = "would cost nothing" if answer.plain else f"would spend {format_cost(answer.cost)}"
        return f"synthetic data; nothing was spent; asked of the real data this {real}"
    if answer.left is None and not answer.plain:
        groups = "no group was" if not answer.withheld else f"{answer.withheld:,} groups were"
        groups = "1 group was" if answer.withheld == 1 else groups
        return f"exact, without noise; {groups} withheld by the controls"
    if answer.plain or answer.left is None:
        return "no persons in it: answered as it is, at no cost"
    spent = "answered before, so it cost nothing" if answer.cached else f"spent {format_cost(answer.cost)}"
    if answer.reused:
        spent = "it follows from what was paid for before, so it cost nothing"
    told = []
    if answer.threshold is not None:
        told.append(f"groups of fewer than about {answer.threshold:g} persons are left out\n")
    elif not answer.rows:
        told.append("groups of too few persons do not appear: EXPLAIN tells how many it takes\n")
    if answer.bare:
        told.append(f"{', '.join(map(printable, answer.bare))}: with noise, but how much is not known\n")
    return f"{''.join(told)}{spent}; {left_text(answer.left, principal)}"


def error_text(error: SqlanonError, sql: str) -> str:
    """An error as psql shows it, with its SQLSTATE."""
    lines = [f"ERROR:  {printable(error.message)}"]
    position = getattr(error, "position", None)
    if position is not None and 1 <= position <= len(sql) + 1:
        lines += _pointed(sql, position)
    if error.detail:
        lines.append(f"DETAIL:  {printable(error.detail)}")
    if error.hint:
        lines.append(f"HINT:  {printable(error.hint)}")
    return "\n".join([*lines, f"SQLSTATE:  {error.sqlstate}"])


def _pointed(sql: str, position: int) -> list[str]:
    """The line of a statement with a caret below the place, cut on both sides if it is long."""
    start = sql.rfind("\n", 0, position - 1) + 1
    line = sql[start:].split("\n", 1)[0]
    place = min(position - 1 - start, len(line))
    first = max(0, place - WIDEST_LINE // 2)
    last = first + WIDEST_LINE
    before = ("..." if first else "") + printable(line[first:place], tab=" ")
    after = printable(line[place:last], tab=" ") + ("..." if last < len(line) else "")
    label = f"LINE {sql.count(chr(10), 0, start) + 1}: "
    return [f"{label}{before}{after}", " " * text_width(label + before) + "^"]


def _with_bars(answer: Answer, shown: int) -> list[list[tuple[str, bool]]]:
    """The cells of the first `shown` columns, with the error bars of the others as ±."""
    columns = [[row[at] for row in answer.rows] for at in range(len(answer.columns))]
    cells: list[list[tuple[str, bool]]] = []
    for at in range(shown):
        bars = _bars_of(answer.columns, at, shown)
        if bars is None:
            cells.append([_cell(value) for value in columns[at]])
        else:
            triples = zip(columns[at], columns[bars], columns[bars + 1], strict=True)
            cells.append(_aligned([_between(*triple) for triple in triples]))
    return [list(row) for row in zip(*cells, strict=True)]


def _bars_of(names: Sequence[str], at: int, shown: int) -> int | None:
    for place in range(shown, len(names) - 1, 2):
        if names[place] == f"{names[at]}_low":
            return place
    return None


def _between(value: Any, low: Any, high: Any) -> tuple[str, str]:
    """A value and the larger side of its interval, with as many digits as the interval leaves a meaning.

    >>> _between(764, 749.0, 779.0), _between(52.728459, 50.872399, 54.378545), _between(None, None, None)
    (('764', '15'), ('52.7', '1.9'), ('NULL', ''))
    """
    if value is None or low is None or high is None:
        return _cell(value)[0], ""
    half = max(float(high) - float(value), float(value) - float(low))
    if isinstance(value, int) or not math.isfinite(half) or not math.isfinite(value):
        return _cell(value)[0], number(math.ceil(half)).replace(",", "") if math.isfinite(half) else number(half)
    digits = 2 if half <= 0 else min(12, max(0, 1 - math.floor(math.log10(half))))
    return f"{value:.{digits}f}", f"{half:.{digits}f}"


def _aligned(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, bool]]:
    most = max((len(half) for _, half in pairs), default=0)
    return [(f"{value} ± {half:>{most}}" if half else value, True) for value, half in pairs]


def _cell(value: Any) -> tuple[str, bool]:
    if value is None:
        return "NULL", False
    if isinstance(value, bool):
        return str(value).lower(), False
    if isinstance(value, float):
        return f"{value:.10g}", True
    if isinstance(value, int | Decimal):
        return str(value), True
    return printable(str(value)), False


def _csv(answer: Answer) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_distinct(answer.columns))
    for row in answer.rows:
        writer.writerow([str(value).lower() if isinstance(value, bool) else value for value in row])
    return out.getvalue()


def _json(answer: Answer) -> str:
    return json.dumps(answer_document(answer), indent=2, ensure_ascii=False) + "\n"


def answer_document(answer: Answer) -> dict[str, Any]:
    """An answer with its cost as JSON has it."""
    names = _distinct(answer.columns)
    left = answer.left
    return {
        "columns": names,
        "rows": [dict(zip(names, map(_plain, row), strict=True)) for row in answer.rows],
        "cost": {"epsilon": answer.cost.epsilon, "delta": answer.cost.delta},
        "left": {"epsilon": left.left.epsilon, "delta": left.left.delta} if left else None,
        "renewal": left.renewal.isoformat() if left and left.renewal else None,
        "cached": answer.cached,
        "exact": answer.plain,
        "synthetic": answer.synthetic,
        "left_out_below": answer.threshold,
        "without_bars": list(answer.bare),
    }


def _distinct(names: Sequence[str]) -> list[str]:
    """Error bars may be called as a column that was asked for.

    >>> _distinct(["n", "n_low", "n_low"])
    ['n', 'n_low', 'n_low_1']
    """
    made: list[str] = []
    for name in names:
        free, count = name, 1
        while free in made:
            free, count = f"{name}_{count}", count + 1
        made.append(free)
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
