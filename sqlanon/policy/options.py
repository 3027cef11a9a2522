"""Command line options, put in the form in which a policy file says the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from sqlanon.errors import PolicyError
from sqlanon.families import family
from sqlanon.policy import yaml_lines
from sqlanon.policy.database_names import is_spark_url
from sqlanon.policy.file_formats import SOURCES, describe_other_format, ending_of, is_other_format
from sqlanon.policy.yaml_lines import KeyPath, PolicyProblem

# Short forms for the models that are asked for most: --k 5 is --model k_anonymity k=5.
SHORTHANDS = {"k": ("k_anonymity", "k"), "l": ("distinct_l_diversity", "l"), "t": ("t_closeness", "t")}
_OPTION = {"quasi_identifier": "--qi", "sensitive": "--sensitive"}


def as_written(
    source: str | Mapping[str, Any],
    roles: Mapping[str, Sequence[str]],
    models: Sequence[tuple[str, Mapping[str, Any]]],
    settings: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[KeyPath, int | str], list[PolicyProblem]]:
    """The data of a policy, the option that each part came from, and what is wrong already."""
    data: dict[str, Any] = {"source": source_of(source) if isinstance(source, str) else dict(source)}
    places: dict[KeyPath, int | str] = {("source",): "--source", ("columns",): "--qi", ("models",): "--model"}
    problems: list[PolicyProblem] = []
    columns: dict[str, str] = {}
    for role, names in roles.items():
        option = _OPTION.get(role, f"--{role}")
        for name in names:
            path: KeyPath = ("columns", name)
            if name in columns:
                problems.append(
                    PolicyProblem(f"column '{name}' is given twice, in {places[path]} and {option}", "keep one", path)
                )
                continue
            columns[name] = role
            places[path] = option
    data["columns"] = columns
    data["models"] = [{name: _params(name, given)} for name, given in models]
    for key, value in settings.items():
        if value is not None:
            data[key] = value
            places[(key,)] = f"--{key.replace('_', '-')}"
    return data, places, problems


def source_of(text: str) -> dict[str, str]:
    """A query, a path or a table, told apart by how it looks.

    >>> source_of("select * from t"), source_of("data/*.csv"), source_of("patients"), source_of("a.patients")
    ({'query': 'select * from t'}, {'path': 'data/*.csv'}, {'table': 'patients'}, {'table': 'a.patients'})
    """
    if re.match(r"\s*(select|with|from|values)\s", text, re.IGNORECASE) or re.match(r"\s*\(", text):
        return {"query": text}
    if re.search(r"[/\\*]", text) or ending_of(text) in SOURCES:
        return {"path": text}
    return {"table": text}


def split_target(target: str, table: str | None) -> tuple[str | None, dict[str, str]]:
    """A database with a table in it, or files: (URL, source)."""
    if table is not None:
        require_database(target, table)
        return target, {"table": table}
    if holds_rows(target):
        return None, {"path": target}
    if is_other_format(target):
        message, hint = describe_other_format(target)
        raise PolicyError(message, hint=hint)
    raise PolicyError(
        f"'{without_password(target)}' is a database: which table of it?",
        hint=f"give the table after it; a file of rows ends in {', '.join(SOURCES)}",
    )


def require_database(target: str, table: str) -> None:
    """A file of rows has no tables in it."""
    if is_other_format(target):
        message, hint = describe_other_format(target)
        raise PolicyError(message, hint=hint)
    if holds_rows(target):
        raise PolicyError(
            f"'{target}' holds rows itself, it has no table '{table}' in it",
            hint="leave the table out, or name the database that it is in",
        )


def holds_rows(target: str) -> bool:
    """Whether a target is itself a table: a file of rows, a folder of such files, or a pattern."""
    if target.startswith(("postgresql://", "postgres://")) or is_spark_url(target):
        return False
    return ending_of(target) in SOURCES or Path(target).is_dir() or "*" in target


def without_password(url: str) -> str:
    """A URL that may be shown and written down.

    >>> without_password("postgresql://ann:secret@db.example.org:5432/clinic?sslmode=require&password=secret")
    'postgresql://ann@db.example.org:5432/clinic?sslmode=require'
    >>> without_password("sc://spark.example.org:443/;use_ssl=true;token=secret")
    'sc://spark.example.org:443/'
    """
    if url.startswith("sc://"):  # after the semicolon there may be a token
        return url.partition(";")[0]
    if not url.startswith(("postgresql://", "postgres://")):
        return url
    parts = urlsplit(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    kept = [(name, value) for name, value in given if name not in ("password", "sslpassword")]
    if not parts.password and kept == given:
        return url
    login, at, host = parts.netloc.rpartition("@")
    query = urlencode(kept, safe="/", quote_via=quote)
    # Put together by hand: urlunsplit leaves out the slashes of an empty host.
    return f"{parts.scheme}://{login.split(':', 1)[0]}{at}{host}{parts.path}{'?' if query else ''}{query}"


def _params(model: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that came as text are read as YAML would read them, lists of columns split at commas."""
    plugin = family("models").get(model)
    read: dict[str, Any] = {}
    for key, value in given.items():
        param = plugin.param(key) if plugin else None
        kind = param.type if param else None
        if not isinstance(value, str) or kind in ("text", "column", None):
            read[key] = value
        elif kind == "columns":
            read[key] = [name.strip() for name in value.split(",")]
        else:
            data = yaml_lines.read_yaml(value)
            read[key] = value if data.problems else data.data
    return read
