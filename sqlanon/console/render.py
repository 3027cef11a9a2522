"""Templates: everything that is put into one is escaped, and only what `report.markup` made counts as markup."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

import sqlanon.report
from sqlanon import __version__
from sqlanon.errors import number
from sqlanon.report.markup import Html, visible
from sqlanon.report.sections.parts import name
from sqlanon.report.wording import count, measure, model_title, moment, share

HERE = Path(__file__).parent
STYLES = (Path(sqlanon.report.__file__).with_name("style.css"), HERE / "static" / "console.css")


def markup(made: Html) -> Markup:
    """Markup of the report, as it is. Anything else is a mistake of ours, and must not reach a browser."""
    if type(made) is not Html:
        raise TypeError("only what report.markup made is markup")
    return Markup(made)


def _shown(value: Any) -> Any:
    # Letters that cannot be seen may make a text read as another one.
    return visible(value) if type(value) is str else value


def age(text: str) -> str:
    """How long ago a time was, in words.

    >>> age("yesterday")
    'yesterday'
    """
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        return text
    seconds = (datetime.now(UTC) - (then if then.tzinfo else then.replace(tzinfo=UTC))).total_seconds()
    words = span_words(abs(seconds))
    return f"{words} ago" if seconds >= 0 else f"in {words}"


def span_words(seconds: float) -> str:
    """
    >>> span_words(30), span_words(3700), span_words(90000), span_words(86400 * 40)
    ('less than a minute', '1 hour', '1 day', '40 days')
    """
    for size, word in ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        if seconds >= size:
            whole = int(seconds // size)
            return f"{whole} {word}" + ("s" if whole > 1 else "")
    return "less than a minute"


@cache
def style() -> tuple[bytes, str]:
    """The style sheet of the report and what the console adds, and a name that changes with it."""
    text = b"\n".join(path.read_bytes() for path in STYLES)
    return text, hashlib.sha256(text).hexdigest()[:16]


@cache
def script() -> tuple[bytes, str]:
    text = (HERE / "static" / "console.js").read_bytes()
    return text, hashlib.sha256(text).hexdigest()[:16]


@cache
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, finalize=_shown,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {
        "markup": markup, "count": count, "measure": measure, "share": share, "moment": moment, "age": age,
        "model_title": model_title, "amount": number, "label": lambda text: markup(name(text)),
    }  # fmt: skip
    made.globals |= {"version": __version__, "style_name": style()[1], "script_name": script()[1]}
    return made


def render(template: str, **values: Any) -> str:
    return environment().get_template(template).render(**values)
