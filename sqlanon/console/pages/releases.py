"""A release: its versions, what was measured, its files; and refresh, measure, roll back and retire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.responses import Response

from sqlanon.console.release_view import ReleaseView, look, measured_file, section_bodies
from sqlanon.console.roles import OWNER, READERS
from sqlanon.console.visit import Page, Visit
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.evidence.version_difference import compare_documents
from sqlanon.server.owner_process import run_command

EXPLORED = "10"  # seconds for the map of other k and limits
WAIT = 20.0  # seconds until a browser is answered, while the work goes on


async def show_release(visit: Visit) -> Response:
    view = await look(visit.site, _known(visit), _number(visit, "version"))
    return visit.page(
        "release.html", view=view, sections=section_bodies(view), working=_is_working(visit),
        difference=await _difference(visit, view), compared=_number(visit, "compare"),
    )  # fmt: skip


async def _difference(visit: Visit, view: ReleaseView) -> list[str] | None:
    """The lines that changed from the version that was asked for to the one that is looked at."""
    other = _number(visit, "compare")
    if other is None or view.version is None:
        return None
    path = visit.site.policies[view.name]
    earlier = next((item for item in view.state["versions"] if item["version"] == other), None)
    if earlier is None:
        raise PolicyError(f"there is no version {other}")
    documents = [
        (f"version {item['version']}", await visit.site.reader.evidence(path, item)) for item in (earlier, view.version)
    ]
    return compare_documents(*documents)


async def download_evidence(visit: Visit) -> Response:
    view = await _view_with_document(visit)
    return _file(json.dumps(view.document, indent=2, ensure_ascii=False), "application/json", f"{_stem(view)}.json")


async def download_sql(visit: Visit) -> Response:
    view = await _view_with_document(visit)
    assert view.document is not None
    return _file(str(view.document.get("sql", "")), "application/sql", f"{_stem(view)}.sql")


async def _view_with_document(visit: Visit) -> ReleaseView:
    view = await look(visit.site, _known(visit), _number(visit, "version"))
    if view.document is None:
        raise PolicyError("there is no such version of this release")
    return view


def _stem(view: ReleaseView) -> str:
    assert view.version is not None
    return f"{view.name}-{int(view.version['version'])}"


def _file(text: str, kind: str, name: str) -> Response:
    return Response(text, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


# ---- what changes something


async def refresh(visit: Visit) -> Response:
    return await _work(visit, "The release was published anew", lambda path: run_command("refresh", path))


async def measure(visit: Visit) -> Response:
    name = _known(visit)
    target = str(measured_file(visit.site.policies[name]))

    def run(path: str) -> Coroutine[Any, Any, str]:
        return run_command("report", path, "--explore", EXPLORED, "--json", "-o", target, umask=0o077)

    return await _work(visit, "Attacks and verdicts were measured", run)


async def roll_back(visit: Visit) -> Response:
    version = _number(visit, "version", of=visit.form)
    if version is None:
        raise PolicyError("no version was chosen")
    return await _work(
        visit, f"Version {version} is shown again", lambda path: run_command("releases", "rollback", path, str(version))
    )


async def retire(visit: Visit) -> Response:
    return await _work(visit, "The release is retired", lambda path: run_command("releases", "retire", path, "--yes"))


async def _work(visit: Visit, done: str, run: Callable[[str], Coroutine[Any, Any, str]]) -> Response:
    """Start a command for a policy; whoever asked sees its end if that is soon, and else that it runs."""
    name = _known(visit)
    if _is_working(visit):
        raise PolicyError("something is done with this release already", hint="wait until it has ended")
    path = str(visit.site.policies[name])
    task = asyncio.ensure_future(run(path))
    visit.site.working[path] = task
    who = (visit.principal, visit.who.name)
    told = False

    async def watch() -> None:
        await asyncio.wait({task})
        visit.site.working.pop(path, None)
        error = None if task.cancelled() else task.exception()
        if told:
            return
        if isinstance(error, SqlanonError):  # the browser was answered before: its next page says what became of it
            visit.note("bad", str(error))
            await visit.site.write_down(*who, "background", f"{name}: {error.message}"[:500], "failed", error.sqlstate)
        elif error is None:
            visit.note("good", f"{done}.")

    watching = asyncio.ensure_future(watch())
    visit.site.watching.add(watching)
    watching.add_done_callback(visit.site.watching.discard)
    finished, _ = await asyncio.wait({task}, timeout=WAIT)
    if not finished:
        visit.note("good", "It takes a while, and goes on: the next page that you open after its end says so.")
        return visit.go(f"/releases/{name}")
    told = True
    task.result()  # raises what went wrong
    visit.note("good", f"{done}.")
    return visit.go(f"/releases/{name}")


def _is_working(visit: Visit) -> bool:
    return str(visit.site.policies[_known(visit)]) in visit.site.working


def _known(visit: Visit) -> str:
    """The name of a policy of this console; nothing else is ever opened."""
    name = visit.given("policy")
    if name not in visit.site.policies:
        raise PolicyError("there is no such release here", hint="the overview lists them")
    return name


def _number(visit: Visit, key: str, of: Any = None) -> int | None:
    text = (of or {}).get(key, "") if of is not None else visit.given(key)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 10):
        raise PolicyError("a version is a number")
    return int(text)


def _about(visit: Visit) -> str:
    version = visit.form.get("version", "") or visit.given("version")
    return f"{visit.given('policy')[:100]}{f' version {version[:9]}' if version else ''}"


BACK = "/releases/{policy}"
PAGES = (
    Page("/releases/{policy}", show_release, READERS),
    Page("/releases/{policy}/{version}/evidence.json", download_evidence, READERS, action="download", about=_about),
    Page("/releases/{policy}/{version}/release.sql", download_sql, READERS, action="download", about=_about),
    Page("/releases/{policy}/refresh", refresh, OWNER, "POST", "refresh", _about, password=True, back=BACK),
    Page("/releases/{policy}/measure", measure, OWNER, "POST", "measure", _about, back=BACK),
    Page("/releases/{policy}/roll-back", roll_back, OWNER, "POST", "roll_back", _about, password=True, back=BACK),
    Page("/releases/{policy}/retire", retire, OWNER, "POST", "retire", _about, password=True, back=BACK),
)
