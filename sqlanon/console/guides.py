"""The guides of `examples/`, as pages. Their text is ours; it is rendered without markup of its own all the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

MOST_FOUND = 40
AROUND = 90  # characters shown around what was found


@dataclass(frozen=True)
class Guide:
    topic: str
    title: str
    text: str


@dataclass(frozen=True)
class Found:
    where: str  # an address
    title: str
    excerpt: str
    count: int


def guides_root() -> Path:
    """The folder with the guides: inside the installed package, or `examples` beside it in a checkout."""
    installed = Path(__file__).parents[1] / "guides"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "examples"


@cache
def guides() -> Mapping[str, Guide]:
    made = {}
    for path in sorted(guides_root().glob("*/README.md")):
        text = path.read_text(encoding="utf-8")
        title = next((line[2:].strip() for line in text.splitlines() if line.startswith("# ")), path.parent.name)
        made[path.parent.name] = Guide(path.parent.name, title, text)
    return made


@cache
def render_guide(topic: str) -> Markup:
    """The page of a guide. Links lead to other guides here, or to nowhere: a page never leads a browser elsewhere."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = reader.parse(guides()[topic].text)
    for token in tokens:
        _turn_links(token.children or ())
    body = reader.renderer.render(_without_title(tokens), reader.options, {})
    return Markup(
        body.replace("<pre>", '<pre tabindex="0">')
        .replace("<table>", '<div class="scroll" tabindex="0"><table>')
        .replace("</table>", "</table></div>")
    )


def _turn_links(parts: Sequence[Any]) -> None:
    """Links to guides lead to their pages here; the text of other links stays without them."""
    inside = False
    for part in parts:
        if part.type == "link_open":
            target = _target(str(part.attrs.get("href", "")))
            inside = target is None
            part.attrs = {} if target is None else {"href": target}
            part.tag = "span" if inside else "a"
        elif part.type == "link_close":
            part.tag = "span" if inside else "a"


def _without_title(tokens: Sequence[Any]) -> list[Any]:
    """The page has its title already."""
    place = next((at for at, token in enumerate(tokens) if token.type == "heading_open" and token.tag == "h1"), None)
    return list(tokens) if place is None else [*tokens[:place], *tokens[place + 3 :]]


def _target(link: str) -> str | None:
    """
    >>> _target("../gateway/README.md"), _target("../gateway"), _target("https://example.org"), _target("#formats")
    ('/guides/gateway', '/guides/gateway', None, None)
    """
    found = re.match(r"\.\./([a-z_]+)(?:/README\.md)?(?:#.*)?$", link)
    return f"/guides/{found[1]}" if found and found[1] in guides() else None


def search(asked: str, pages: Sequence[Mapping[str, Any]]) -> list[Found]:
    """Guides and manual pages that hold every word; those that hold them most often first, names before texts."""
    words = asked.casefold().split()
    found: list[tuple[int, Found]] = []
    for guide in guides().values():
        _add(found, words, f"/guides/{guide.topic}", guide.title, guide.text)
    for page in pages:
        text = " ".join([page["text"], *(f"{name} {what}" for name, _, what in page["params"])])
        _add(found, words, f"/explain/{page['name']}", f"{page['name']}, {page['kind']}", text)
    found.sort(key=lambda pair: (-pair[0], pair[1].title))
    return [each for _, each in found[:MOST_FOUND]]


def _add(found: list[tuple[int, Found]], words: Sequence[str], where: str, title: str, text: str) -> None:
    name, body = title.casefold(), text.casefold()
    if not all(word in name or word in body for word in words):
        return
    times = sum(body.count(word) for word in words)
    place = body.find(words[0]) if words else -1
    start = max(place - AROUND, 0)
    excerpt = " ".join(text[start : place + AROUND].replace("#", " ").split()) if place >= 0 else ""
    score = times + 1000 * sum(word in name for word in words)
    found.append((score, Found(where, title, f"…{excerpt}…" if excerpt else "", times)))
