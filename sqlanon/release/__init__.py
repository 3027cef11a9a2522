"""Publish: find the best anonymization, write it beside the source, check it as written, and only then show it.

The names below are loaded when they are used: who reads the record of releases does not load the search.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlanon.release.check_release import require_kept as require_kept
    from sqlanon.release.gather_report import report as report
    from sqlanon.release.history import require_history as require_history
    from sqlanon.release.publication import Progress as Progress
    from sqlanon.release.publication import Published as Published
    from sqlanon.release.publish_release import publish as publish

_HOMES = {
    "Progress": "publication",
    "Published": "publication",
    "publish": "publish_release",
    "report": "gather_report",
    "require_history": "history",
    "require_kept": "check_release",
}
__all__ = ["Progress", "Published", "publish", "report", "require_history", "require_kept"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sqlanon.release' has no attribute '{name}'")
    return getattr(import_module(f"sqlanon.release.{_HOMES[name]}"), name)
