"""Markup that cannot be forgotten to be escaped: only `element` makes it, and everything else is text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

VOID = {"meta", "br", "hr", "col"}
# Invisible characters can make a text read as something else (a line of SQL printed backwards): they are shown instead.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


class Html(str):
    """Text that is markup already. Joining it with a plain string gives a plain string, which is escaped again."""

    __slots__ = ()


Content = Html | str | int | None | Iterable["Content"]
Attribute = str | int | float | bool | None


def visible(text: str) -> str:
    """The text with control and direction-changing characters spelled out.

    >>> visible("a\\u202eb\\tc")
    'a⟨U+202E⟩b\\tc'
    """
    return _INVISIBLE.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text.replace("\r\n", "\n"))


def escape_html(text: str) -> str:
    """
    >>> escape_html('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return html.escape(visible(text), quote=True)


def _flat(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, Html):
        return str(content)
    if isinstance(content, str):
        return escape_html(content)
    if isinstance(content, int):
        return str(content)
    return "".join(_flat(item) for item in content)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    spelled = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {spelled}"
    shown = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {spelled}="{escape_html(shown)}"'


def element(tag: str, /, *content: Content, **attributes: Attribute) -> Html:
    """One element of HTML or SVG. `class_` stands for class, `stroke_width` for stroke-width.

    >>> element("p", "1 < 2, ", element("b", "sure"), class_="note", hidden=False)
    '<p class="note">1 &lt; 2, <b>sure</b></p>'
    """
    start = f"<{tag}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Html(start if tag in VOID else f"{start}{_flat(content)}</{tag}>")


def together(*content: Content) -> Html:
    """Several pieces as one."""
    return Html(_flat(content))
