"""What a client is told besides rows: errors, and what an answer has cost."""

from __future__ import annotations

from sqlanon.pgwire import backend
from sqlanon.server.work_messages import Summary, failure_of


def error_bytes(error: Exception, severity: str = "ERROR") -> bytes:
    """An error as the protocol tells it; of what is not ours nothing but that it happened."""
    severity = "FATAL" if getattr(error, "fatal", False) else severity
    failure = failure_of(error)
    return backend.error_response(
        severity, failure.sqlstate, failure.message, failure.detail, failure.hint, failure.position
    )


def notice_of(summary: Summary) -> bytes | None:
    """What is to be said about an answer."""
    said = _said(summary)
    if said is None:
        return None
    # Otherwise an analyst who sees no row would think that there is none.
    few = f"groups of fewer than about {summary.threshold:g} persons are left out" if summary.threshold else None
    return backend.notice_response("NOTICE", "00000", said, hint=few if summary.kind == "dp" else None)


def _said(summary: Summary) -> str | None:
    left = f"; {summary.left_epsilon:g} left" if summary.left_epsilon is not None else ""
    if summary.kind == "synthetic":
        return "synthetic data: nothing is spent, and the numbers are not real"
    if summary.kind == "dp" and summary.cached:
        return f"the same answer as before: no epsilon spent{left}"
    if summary.kind == "dp":
        return f"epsilon {summary.epsilon:g} spent{left}"
    if summary.kind == "controlled" and summary.withheld:
        return f"{summary.withheld} groups are withheld"
    return None
