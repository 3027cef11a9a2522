"""What a client is told besides rows: errors, and what an answer has cost."""

from __future__ import annotations

from sqlanon.proxy import backend
from sqlanon.proxy.work import Summary, failure_of


def error_bytes(error: Exception, severity: str = "ERROR") -> bytes:
    """An error as the protocol tells it; of what is not ours nothing but that it happened."""
    severity = "FATAL" if getattr(error, "fatal", False) else severity
    failure = failure_of(error)
    return backend.error_response(
        severity, failure.sqlstate, failure.message, failure.detail, failure.hint, failure.position
    )


def notice_of(summary: Summary) -> str | None:
    """What is to be said about an answer."""
    left = f"; {summary.left_epsilon:g} left" if summary.left_epsilon is not None else ""
    if summary.kind == "synthetic":
        return "made-up data: nothing is spent, and nothing is true"
    if summary.kind == "dp" and summary.cached:
        return f"the same answer as before: no epsilon spent{left}"
    if summary.kind == "dp":
        return f"epsilon {summary.epsilon:g} spent{left}"
    if summary.kind == "controlled" and summary.withheld:
        return f"{summary.withheld} groups are withheld"
    return None
