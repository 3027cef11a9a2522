"""Questions in SQL: what they would cost while they are typed, and their answers with error bars."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

from starlette.responses import JSONResponse, Response

from sqlanon.console.answer_view import AnswerView
from sqlanon.console.visit import Page, Visit
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.server.http_api import Result

LONGEST = 20_000  # characters of a statement
MOST_CELLS = 200_000  # of an answer that is kept until the next one
PARTS = (0.05, 0.1, 0.2, 0.5, 1.0)  # of the most that a statement may spend


async def show_ask(visit: Visit) -> Response:
    kept = visit.who.kept.get("answer")
    if visit.given("answer") and (kept is None or kept.number != visit.given("answer")):
        raise PolicyError("this answer is no longer kept", hint="ask again: what was answered before is free")
    answer = kept if visit.given("answer") else None
    typed = visit.who.kept.get("typed", {})
    return visit.page(
        "ask.html", answer=answer, typed=typed, stops=stops(visit), tables=tables_of(visit), longest=LONGEST
    )


def stops(visit: Visit) -> list[float]:
    """A few epsilons to choose from: what a statement spends by default, and parts of the most that it may."""
    limit = visit.site.serve.gateway.budget.statement
    found = {float(f"{limit.epsilon * part:.3g}") for part in PARTS} | {limit.default}
    return sorted(found)


def tables_of(visit: Visit) -> list[dict[str, Any]]:
    """The tables that a principal may use, with what the policy says of their columns."""
    gateway = visit.site.serve.gateway
    made = []
    for name, table in gateway.tables.items():
        if not gateway.allows(visit.principal, name):
            continue
        kind = "public" if table.public else "released" if table.released else "persons"
        columns = [
            (column, _words(use)) for column, use in table.columns.items()
            if gateway.allows(visit.principal, name, column)
        ]  # fmt: skip
        made.append({"name": name, "kind": kind, "columns": columns})
    return made


def _words(use: Any) -> str:
    if use.hidden:
        return "hidden"
    if use.keys:
        return f"{len(use.keys)} keys"
    return f"{use.low} to {use.high}" if use.low is not None else ""


async def explain(visit: Visit) -> Response:
    """Cost and expected error of what is typed: free, and without data."""
    try:
        sql, epsilon, dry = _asked(visit)
        if sql.lstrip().lower().startswith("explain"):
            raise PolicyError("leave EXPLAIN out: the price is shown anyway")
        found = await visit.site.door.explain(visit.principal, sql, [], epsilon=epsilon, dry_run=dry, door="console")
    except SqlanonError as error:
        return JSONResponse({"problem": error.message, "hint": error.hint})
    return JSONResponse({"lines": [str(row[0]) for row in found.rows]})


async def ask(visit: Visit) -> Response:
    sql, epsilon, dry = _asked(visit)
    visit.who.kept["typed"] = {"sql": sql, "epsilon": epsilon, "dry_run": dry}
    visit.who.kept.pop("answer", None)
    if visit.form.get("what") == "explain":
        found = await visit.site.door.explain(visit.principal, sql, [], epsilon=epsilon, dry_run=dry, door="console")
        for row in found.rows:
            visit.note("plain", str(row[0]))
        return visit.go("/ask")
    found = await _with_bars(visit, sql, epsilon, dry)
    if len(found.rows) * max(len(found.columns), 1) > MOST_CELLS:
        raise PolicyError("the answer is too long for a page", hint="ask with psql, or add a LIMIT")
    answer = AnswerView.of(found, sql, dry or found.summary.kind == "synthetic")
    visit.who.kept["answer"] = answer
    return visit.go(f"/ask?answer={answer.number}")


async def _with_bars(visit: Visit, sql: str, epsilon: float | None, dry: bool) -> Result:
    return await visit.site.door.query(
        visit.principal, sql, [], epsilon=epsilon, dry_run=dry, door="console", intervals=True
    )


def _asked(visit: Visit) -> tuple[str, float | None, bool]:
    sql, text = visit.form.get("sql", ""), visit.form.get("epsilon", "")
    if not sql.strip() or "\0" in sql:
        raise PolicyError("there is no statement")
    if len(sql) > LONGEST:
        raise PolicyError(f"a statement has at most {LONGEST:,} characters here")
    epsilon = None
    if text:
        try:
            epsilon = float(text)
        except ValueError:
            raise PolicyError("epsilon must be a number") from None
        if not (math.isfinite(epsilon) and 0 < epsilon <= 1000):
            raise PolicyError("epsilon must be a number greater than 0")
    return sql, epsilon, visit.form.get("dry_run") == "on"


async def download_answer(visit: Visit) -> Response:
    answer = visit.who.kept.get("answer")
    if answer is None or answer.number != visit.given("answer"):
        raise PolicyError("this answer is no longer kept", hint="ask again: what was answered before is free")
    written = io.StringIO()
    rows = csv.writer(written)
    rows.writerow([_cell(name) for name in answer.columns])
    rows.writerows([_cell(value) for value in row] for row in answer.rows)
    name = "made-up-answer.csv" if answer.made_up else "answer.csv"
    return Response(
        written.getvalue(), media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )  # fmt: skip


def _cell(value: Any) -> Any:
    """A value of a CSV file. A text that a spreadsheet would run as a formula is made a text again.

    >>> _cell("=1+1"), _cell(-5), _cell("plain"), _cell(None)
    ("'=1+1", -5, 'plain', '')
    """
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


PAGES = (
    Page("/ask", show_ask),
    Page("/ask", ask, method="POST", back="/ask"),
    Page("/ask/explain", explain, method="POST", once=False, back="/ask"),
    Page("/ask/answer.csv", download_answer, action="download", about=lambda visit: "answer"),
)
