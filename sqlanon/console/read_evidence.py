"""The child of the console: answers what `evidence_reader` asks, one line of JSON each, about its own policies alone.

It reads policies, the record of releases and the record of runs; no statement of it names a table of persons.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlanon import schedule
from sqlanon.console.manual_pages import list_pages
from sqlanon.console.other_choices import choices_of, with_choices
from sqlanon.ddl.documents import parse_document, read_document
from sqlanon.ddl.named_places import require_same_paths
from sqlanon.ddl.yaml_values import write_document
from sqlanon.engines import Engine, connect
from sqlanon.errors import PolicyError, SourceError, SqlanonError
from sqlanon.policy import parse
from sqlanon.policy.files import has_section, load_gateway, parse_gateway, parse_statistics
from sqlanon.policy.marginals import Marginals
from sqlanon.policy.yaml_lines import read_yaml
from sqlanon.release import versions
from sqlanon.release.record import CURRENT, of_file

MOST_RUNS = 50


def answer(question: Mapping[str, Any], policies: Mapping[str, Path]) -> dict[str, Any]:
    """One answer, or an error as data."""
    try:
        what = QUESTIONS[question["what"]]
        path = policies[question["policy"]] if "policy" in question else None
        return {"answer": what(path, question)}
    except SqlanonError as error:
        return {"error": {"message": error.message, "hint": error.hint}}
    except OSError as error:
        return {"error": {"message": f"a file cannot be read: {error.strerror}", "hint": None}}


def _state(path: Path | None, _: Mapping[str, Any]) -> dict[str, Any]:
    assert path is not None
    told: dict[str, Any] = {"file": path.name, "release": None, "kind": None, "versions": [], "runs": [], "next": None}
    told |= {"cron": None, "gateway": has_section(path, "gateway"), "problem": None, "keep": None}
    if told["gateway"] and not any(has_section(path, name) for name in ("source", "marginals", "statistics")):
        return told
    job = schedule.Job(path)
    policy = job.policy()
    told["kind"] = type(policy).__name__
    if not isinstance(policy, Marginals) and policy.release is None:
        return told
    told["release"] = schedule.release_name(policy)
    if policy.schedule is not None:
        told["next"] = next(policy.schedule.times(schedule.clock())).isoformat()
        told["cron"] = f"{policy.schedule.cron}, {policy.schedule.tz}"
    if job.path.with_suffix(".runs").exists():
        told["runs"] = [_plain(asdict(run)) for run in job.runs.listed(told["release"], MOST_RUNS)]
    try:
        told["versions"] = _versions(policy)
    except SqlanonError as error:  # the database is away, or another process writes to it
        told["problem"] = str(error)
    return told


def _versions(policy: schedule.AnyPolicy) -> list[dict[str, Any]]:
    if _is_one_file(policy):
        assert not isinstance(policy, Marginals) and policy.release is not None
        found = of_file(policy.release.path or "")
        if found is None:
            return []
        only = {"release": policy.release.path, "version": 1, "status": CURRENT, "kept": True, "audience": None}
        return [only | {"created": found.get("created", ""), "plan_hash": found.get("plan_hash", "")}]
    with closing(_opened(policy)) as engine:
        listed = versions.versions(policy, engine)
    return [
        {
            "release": item.release,
            "version": item.version,
            "status": item.status,
            "created": item.created,
            "plan_hash": item.plan_hash,
            "audience": item.shown.audience,
            "kept": item.shown.behind is not None or item.status == CURRENT,
        }
        for item in listed
    ]


def _evidence(path: Path | None, question: Mapping[str, Any]) -> dict[str, Any]:
    assert path is not None
    policy = schedule.Job(path).policy()
    if _is_one_file(policy):
        assert not isinstance(policy, Marginals) and policy.release is not None
        found = of_file(policy.release.path or "")
    else:
        with closing(_opened(policy)) as engine:
            found = versions.evidence(policy, engine, int(question["version"]))
    if found is None:
        raise SourceError(f"there is no version {int(question['version'])} of this release")
    return found


def _is_one_file(policy: schedule.AnyPolicy) -> bool:
    given = None if isinstance(policy, Marginals) else policy.release
    return given is not None and given.path is not None and not given.is_folder


def _opened(policy: schedule.AnyPolicy) -> Engine:
    if isinstance(policy, Marginals):
        return connect(policy.gateway.located_database)
    url = policy.locate(policy.source.database) if policy.source.database else None
    return connect(url)


def _check(path: Path | None, question: Mapping[str, Any]) -> dict[str, Any]:
    """The problems of a text that would take the place of a policy's file."""
    assert path is not None
    text = str(question["text"])
    try:
        data = read_yaml(text, lambda _: False, lambda _: False).data
        sections = set(data) if isinstance(data, Mapping) else set()
        if "gateway" in sections:
            parse_gateway(text, path.name, path.parent)
        if "statistics" in sections:
            parse_statistics(text, path.name, path.parent)
        elif "gateway" not in sections or "source" in sections:
            parse(text, path.name, path.parent)
    except PolicyError as error:
        return {"problems": str(error).splitlines()}
    return {"problems": []}


def _tables(path: Path | None, _: Mapping[str, Any]) -> dict[str, Any]:
    """Names alone; sqlanon's own tables are none."""
    assert path is not None
    with closing(connect(load_gateway(path).located_database)) as engine:
        names = engine.tables()
    return {"tables": [name for name in names if not name.rpartition(".")[2].startswith("sqlanon_")]}


def _places(path: Path | None, question: Mapping[str, Any]) -> dict[str, Any]:
    assert path is not None
    require_same_paths(parse_document(str(question["text"])), read_document(path), {})
    return {}


def _choices(path: Path | None, question: Mapping[str, Any]) -> dict[str, Any]:
    assert path is not None
    document = read_document(path)
    if question["given"] is None:
        return {"choices": choices_of(document)}
    before = write_document(document)
    text = write_document(with_choices(document, question["given"], question["levels"] or {}))
    lines = difflib.unified_diff(before.splitlines(), text.splitlines(), "now", "explored", lineterm="", n=1)
    return {"text": text, "difference": list(lines)}


def _plugins(_: Path | None, __: Mapping[str, Any]) -> dict[str, Any]:
    return {"pages": list_pages()}


QUESTIONS: Mapping[str, Callable[[Path | None, Mapping[str, Any]], dict[str, Any]]] = {
    "state": _state,
    "evidence": _evidence,
    "check": _check,
    "plugins": _plugins,
    "tables": _tables,
    "places": _places,
    "choices": _choices,
}


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in values.items()}


def run(paths: list[str]) -> None:
    policies = {path: Path(path) for path in paths}
    for line in sys.stdin:
        try:
            made = json.dumps(answer(json.loads(line), policies), default=str)
        except Exception as error:  # a mistake of our own: its text may hold data, and stays here
            made = json.dumps({"error": {"message": f"it cannot be read ({type(error).__name__})", "hint": None}})
        sys.stdout.write(made + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    run(sys.argv[1:])
