"""Policies: their text with what is wrong by line, a dry run, their history; other k, l, t and levels; and new ones.

Over a browser a policy may change in all but one thing: the parts that name files, databases and addresses stay as they
are in its file, since they would be opened with the rights of the server. A policy that somebody keeps as a file is not
written at all: its change is a diff to download.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.responses import Response

from sqlanon.console.other_choices import ALGORITHMS
from sqlanon.console.release_view import look, section_bodies
from sqlanon.console.roles import OWNER, READERS
from sqlanon.console.visit import Page, Visit
from sqlanon.ddl.policy_store import PolicyStore, is_kept_over_sql
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.server.owner_process import run_process

LONGEST = 200_000  # characters of a policy
MOST_KEPT = 20  # earlier texts that are listed
PASSWORD = re.compile(r"(://[^\s/@:]*:)[^\s/@]+@")
SHOWN = ("columns", "suppressed", "losses", "candidates")  # sections of a dry run
SECTIONS_OF_MAP = ("map", "tradeoff", "choice", "candidates")


def _path(visit: Visit) -> Path:
    name = visit.given("policy")
    found = visit.site.policies.get(name)
    if found is None:
        raise PolicyError("there is no such policy here", hint="the overview lists them")
    return found


def shown_text(path: Path) -> str:
    """The text of a policy; passwords in addresses are not shown."""
    return PASSWORD.sub(r"\1…@", path.read_text(encoding="utf-8"))


async def _given_text(visit: Visit, path: Path) -> str:
    text = visit.form.get("text", "")
    if not text.strip():
        raise PolicyError("there is no text")
    if len(text) > LONGEST:
        raise PolicyError(f"a policy has at most {LONGEST:,} characters here", hint="change its file")
    if PASSWORD.search(await asyncio.to_thread(path.read_text, "utf-8")):
        raise PolicyError("this policy holds a password, and is not changed here", hint="change its file")
    if not text.endswith("\n"):
        text += "\n"
    await visit.site.reader.require_same_places(path, text)
    return text


async def show_policy(visit: Visit) -> Response:
    path = _path(visit)
    current = await asyncio.to_thread(shown_text, path)
    kept = visit.who.kept.get("policy", {})
    typed = kept.get("text") if kept.get("path") == str(path) else None
    text = typed if typed is not None and visit.role == "owner" else current
    problems = (await visit.site.reader.check(path, text))["problems"]
    difference = list(difflib.unified_diff(current.splitlines(), text.splitlines(), "now", "as typed", lineterm=""))
    tried = kept.get("tried") if kept.get("path") == str(path) and kept.get("tried_text") == text else None
    number = visit.given("earlier")
    history = await asyncio.to_thread(PolicyStore(path.parent).history, path)
    earlier = None
    if number.isascii() and number.isdigit() and int(number) < len(history[:MOST_KEPT]):
        before = await asyncio.to_thread(shown_text, history[int(number)][1])
        earlier = list(difflib.unified_diff(before.splitlines(), current.splitlines(), "then", "now", lineterm=""))
    return visit.page(
        "policy.html", name=visit.given("policy"), file=path.name, text=text, problems=problems, earlier=earlier,
        difference=difference, history=[moment for moment, _ in history[:MOST_KEPT]], kept=is_kept_over_sql(path),
        tried=_tried_sections(tried),
        longest=LONGEST, keys=await _keys(visit),
    )  # fmt: skip


async def _keys(visit: Visit) -> list[str]:
    """What a policy can name, for completion."""
    pages = (await visit.site.reader.plugins())["pages"]
    return sorted({str(page["name"]) for page in pages})


def _tried_sections(tried: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if tried is None:
        return None
    found = [item for item in section_bodies_of(tried) if item[0] in SHOWN]
    plan = tried.get("plan") or {}
    return {
        "sections": found, "loss": plan.get("loss"), "minimize": tried.get("minimize"), "records": tried.get("records"),
        "released": tried.get("released"), "suppressed": tried.get("suppressed"), "hash": tried.get("plan_hash"),
        "why": plan.get("why"),
    }  # fmt: skip


def section_bodies_of(document: Mapping[str, Any]) -> Any:
    from sqlanon.console.release_view import bodies_of

    return bodies_of(document)


async def change_policy(visit: Visit) -> Response:
    """Check, try or keep what was typed; only the last of these writes something, and asks for the password."""
    path, back = _path(visit), f"/releases/{visit.given('policy')}/policy"
    text = await _given_text(visit, path)
    visit.who.kept["policy"] = {"path": str(path), "text": text}
    problems = (await visit.site.reader.check(path, text))["problems"]
    if problems:
        visit.note("bad", "This is no policy yet: see what is wrong with it below. Nothing was changed.")
        return visit.go(back)
    if visit.form.get("what") == "try":
        document = await try_policy(path, text)
        visit.who.kept["policy"] |= {"tried": document, "tried_text": text}
        return visit.go(f"{back}#tried")
    return visit.go(back)


async def download_difference(visit: Visit) -> Response:
    """What was typed as a change of the file, for whoever keeps it: `patch < FILE.diff` takes it over."""
    path = _path(visit)
    text = await _given_text(visit, path)
    before = await asyncio.to_thread(path.read_text, "utf-8")
    lines = difflib.unified_diff(before.splitlines(keepends=True), text.splitlines(keepends=True), path.name, path.name)
    name = f"{visit.given('policy')}.diff"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response("".join(lines), media_type="text/x-diff", headers=headers)


async def adopt_policy(visit: Visit) -> Response:
    path, name = _path(visit), visit.given("policy")
    if not is_kept_over_sql(path):
        raise PolicyError(
            f"'{path.name}' is kept as a file, and is not written here", hint="download the change, and take it over"
        )
    text = await _given_text(visit, path)
    problems = (await visit.site.reader.check(path, text))["problems"]
    if problems:
        visit.who.kept["policy"] = {"path": str(path), "text": text}
        raise PolicyError("this is no policy: nothing was changed", hint="see what is wrong with it below")

    def write() -> None:
        store = PolicyStore(path.parent)
        with store.alone():
            store.write_text(path, text)

    await asyncio.to_thread(write)
    visit.who.kept.pop("policy", None)
    visit.note("good", "The policy was changed. Publish the release anew to apply it.")
    return visit.go(f"/releases/{name}")


async def try_policy(path: Path, text: str) -> dict[str, Any]:
    """The evidence of a dry run of a text that would take the place of a policy: nothing is written but the text."""

    def put() -> str:
        made, name = tempfile.mkstemp(suffix=".yml", prefix=".try-", dir=path.parent)
        with open(made, "w", encoding="utf-8") as opened:
            opened.write(text)
        return name

    name = await asyncio.to_thread(put)
    try:
        code, printed, complaint = await run_process(
            "publish", "--dry-run", "--json", "--no-workload", "--no-advice", "--time-limit", "20", name
        )
    finally:
        os.unlink(name)
    if code != 0:
        said = complaint.strip().removeprefix("sqlanon: ").replace(Path(name).name, path.name)
        message, _, hint = said.partition("\n  hint: ")
        raise SqlanonError(message or "the dry run failed", hint=hint or None)
    found = json.loads(printed)
    assert isinstance(found, dict)
    return found


# ---- explore


async def show_explore(visit: Visit) -> Response:
    path = _path(visit)
    view = await look(visit.site, visit.given("policy"))
    kept = visit.who.kept.get("policy", {})
    tried = kept.get("tried") if kept.get("path") == str(path) and kept.get("explored") else None
    asked = kept.get("explored") if tried is not None else None
    current = (await visit.site.reader.choices(path))["choices"]
    evidence = view.evidence
    attributes = [
        {"name": item.name, "height": item.height, "level": item.level}
        for item in (evidence.attributes if evidence is not None else None) or () if item.height is not None
    ]  # fmt: skip
    sections = [item for item in section_bodies(view) if item[0] in SECTIONS_OF_MAP]
    return visit.page(
        "explore.html", name=visit.given("policy"), view=view, current=current, chosen=asked or current,
        attributes=attributes, sections=sections, tried=_tried_sections(tried), algorithms=ALGORITHMS,
        changed=kept.get("difference") if tried is not None else None,
    )  # fmt: skip


async def explore(visit: Visit) -> Response:
    path, name = _path(visit), visit.given("policy")
    levels = {key.removeprefix("level:"): text for key, text in visit.form.items() if key.startswith("level:") and text}
    given = {key: visit.form.get(key, "") for key in ("k", "l", "t", "suppression_limit", "algorithm")}
    made = await visit.site.reader.choices(path, given, levels)
    text = made["text"]
    visit.form = {**visit.form, "text": text}
    text = await _given_text(visit, path)
    problems = (await visit.site.reader.check(path, text))["problems"]
    if problems:
        raise PolicyError("; ".join(problem.partition(": ")[2] or problem for problem in problems[:3]))
    visit.who.kept["policy"] = {
        "path": str(path), "text": text, "tried": await try_policy(path, text), "tried_text": text,
        "explored": given, "difference": made["difference"],
    }  # fmt: skip
    return visit.go(f"/releases/{name}/explore#tried")


# ---- new ones


async def show_new(visit: Visit) -> Response:
    folder = visit.site.serve.located_policies
    tables: list[str] = []
    if folder is not None:
        tables = (await visit.site.reader.tables(visit.site.door.path))["tables"]
    return visit.page("new.html", tables=tables, folder=folder)


async def draft_new(visit: Visit) -> Response:
    folder = visit.site.serve.located_policies
    if folder is None:
        raise PolicyError("there is no folder for policies", hint="add 'policies: FOLDER' to the section serve")
    table = visit.form.get("table", "")
    name = table.rpartition(".")[2]
    path = PolicyStore(folder).path_of(f"{name}_released")
    found = await _child(str(visit.site.door.path), table, str(path))
    added = next((key for key, known in visit.site.policies.items() if known == path), None)
    if added is None:
        raise PolicyError("the draft cannot be found")
    visit.note("good", f"Drafted: {found['summary']}. Read what it says of each column before you publish.")
    return visit.go(f"/releases/{added}/policy")


async def _child(*words: str) -> dict[str, Any]:
    _, printed, _ = await run_process(*words, module="sqlanon.console.draft_release", umask=0o077)
    try:
        found = json.loads(printed.splitlines()[-1])
    except (IndexError, ValueError):
        raise SqlanonError("the tables cannot be read now", hint="try again") from None
    if "error" in found:
        raise PolicyError(found["error"]["message"], hint=found["error"]["hint"])
    return dict(found["answer"])


def _about(visit: Visit) -> str:
    return visit.given("policy")[:100]


def _about_table(visit: Visit) -> str:
    return visit.form.get("table", "")[:100]


BACK = "/releases/{policy}/policy"
PAGES = (
    Page("/new", show_new, OWNER),
    Page("/new", draft_new, OWNER, "POST", "draft_policy", _about_table, password=True, back="/new"),
    Page("/releases/{policy}/policy", show_policy, READERS),
    Page("/releases/{policy}/policy", change_policy, OWNER, "POST", "try_policy", _about, back=BACK),
    Page(
        "/releases/{policy}/policy.diff", download_difference, OWNER, "POST", "download", _about, once=False, back=BACK
    ),
    Page("/releases/{policy}/adopt", adopt_policy, OWNER, "POST", "change_policy", _about, password=True, back=BACK),
    Page("/releases/{policy}/explore", show_explore, OWNER),
    Page("/releases/{policy}/explore", explore, OWNER, "POST", "explore", _about, back="/releases/{policy}/explore"),
)
