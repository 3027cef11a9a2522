"""The document of a policy that a statement with its labels stands for, as a YAML file would hold it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlanon.ddl.labels import ColumnLabel, read_column_label
from sqlanon.ddl.names import plain_name
from sqlanon.ddl.source_query import query_for
from sqlanon.ddl.statements import CreateView
from sqlanon.ddl.yaml_values import read_value
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import family
from sqlanon.policy import Policy
from sqlanon.policy.options import SHORTHANDS
from sqlanon.policy.table_names import table_parts

# Keys of a policy whose values are texts, however they look.
TEXTS = (
    "person", "shape", "suppressed_rows", "suppressed_cells", "nulls", "sensitive_nulls", "linked_rows",
    "absent_values", "minimize",
)  # fmt: skip
# Keys whose values are mappings or lists, written as YAML of one line.
VALUES = (
    "qids", "hierarchies", "transformations", "population", "history", "statistics", "protect", "gateway", "serve",
    "marginals",
)  # fmt: skip
SOURCE = ("database", "view", "query", "path", "joins")  # of a source, beside what stands after AS
RELEASE = ("target", "keep", "audience")
TARGETS = ("view", "table", "path", "none")
ORDER = (*Policy.model_fields, "statistics", "protect", "gateway", "serve", "marginals")


def option_names() -> list[str]:
    return sorted(
        {*SHORTHANDS, *TEXTS, *VALUES, *SOURCE, *RELEASE, "suppression_limit", "algorithm", "schedule", "models",
         *family("models")}
    )  # fmt: skip


def document_of(
    statement: CreateView, labels: Mapping[str, str], *, database: str | None = None, dialect: str = "duckdb"
) -> dict[str, Any]:
    """The document of a view, from its options and the labels of its columns."""
    found: dict[str, Any] = {}
    models: list[Any] = []
    source: dict[str, Any] = {} if database is None else {"database": database}
    release: dict[str, Any] = {}
    target = "view"
    given = [*statement.options]
    seen: set[str] = set()
    for name, value in given:
        if name in family("models") or name in SHORTHANDS or name == "models":
            models += _models(name, value)
            continue
        if name in seen:
            raise PolicyError(f"the option sqlanon.{name} is given twice", hint="keep one")
        seen.add(name)
        if name == "target":
            if value not in TARGETS:
                raise PolicyError(f"sqlanon.target cannot be '{value}'", hint=f"it is one of {', '.join(TARGETS)}")
            target = str(value)
        elif name in RELEASE:
            release[name] = value if name == "keep" else str(value)
        elif name in SOURCE:
            source[name] = _structured(name, value) if name == "joins" else str(value)
        elif name in TEXTS:
            found[name] = _text(value)
        elif name in VALUES:
            found[name] = _structured(name, value)
        elif name in ("suppression_limit", "algorithm", "schedule"):
            found[name] = _short(name, value)
        else:
            hint = did_you_mean(name, option_names()) or f"there are {', '.join(option_names()[:12])}, …"
            raise PolicyError(f"there is no option sqlanon.{name[:60]}", hint=hint)
    for key, value in statement.source.items():
        if {"query", "path", "view"} & set(source):
            raise PolicyError("the rows of a view come from one place", hint="keep AS, or the option")
        source[key] = query_for(value, dialect) if key == "query" else value
    found["source"] = {key: source[key] for key in ("database", "table", "view", "query", "path", "joins")
                       if key in source}  # fmt: skip
    if "table" in found["source"]:
        found["source"]["table"] = plain_name(found["source"]["table"])
    _add_labels(found, _columns(labels))
    if models:
        found["models"] = models
    if target != "none":
        name = statement.name if target != "path" else _unquoted(statement.name)
        found["release"] = {target: name, **release}
    return in_order(found)


def in_order(document: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a document in the order of the reference."""
    return {key: document[key] for key in ORDER if key in document}


def _unquoted(name: str) -> str:
    return table_parts(name)[-1]


def _text(value: Any) -> str:
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _structured(name: str, value: Any) -> Any:
    if value is True:
        return {}
    found = read_value(value) if isinstance(value, str) else value
    if not isinstance(found, Mapping | list):
        raise PolicyError(
            f"sqlanon.{name} takes a mapping or a list", hint=f"write it as YAML: sqlanon.{name} = '{{key: value}}'"
        )
    return found


def _short(name: str, value: Any) -> Any:
    """A number, a name, or a mapping: 'mondrian', '{auto: {time_limit: 5}}', '@daily'."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("{"):
        return read_value(value)
    if name == "schedule":
        return {"cron": value}
    return value if name == "algorithm" else read_value(value)


def _models(name: str, value: Any) -> Iterator[Any]:
    if name == "models":
        found = read_value(value) if isinstance(value, str) else value
        if not isinstance(found, list):
            raise PolicyError("sqlanon.models takes a list", hint="sqlanon.models = '[{k_anonymity: {k: 5}}]'")
        yield from found
        return
    if name in SHORTHANDS:
        model, param = SHORTHANDS[name]
        yield {model: {param: value}}
        return
    found = read_value(value) if isinstance(value, str) else value
    if found is True:
        yield {name: {}}
    elif isinstance(found, Mapping) or found is None:
        yield {name: found}
    else:
        required = [param.name for param in family("models")[name].params if param.required]
        if len(required) != 1:
            hint = f"write sqlanon.{name} = '{{{', '.join(f'{param}: …' for param in required)}}}'"
            raise PolicyError(f"sqlanon.{name} takes a mapping of parameters", hint=hint)
        yield {name: {required[0]: found}}


def _add_labels(found: dict[str, Any], labelled: Mapping[str, Any]) -> None:
    """What labels say, beside the options; none of both is lost."""
    for key, value in labelled.items():
        if key == "hierarchies" and isinstance(found.get(key), Mapping):
            twice = sorted(set(found[key]) & set(value))
            if twice:
                raise PolicyError(
                    f"column '{twice[0]}' has a hierarchy in its label and in the options", hint="keep one"
                )
            found[key] = {**found[key], **value}
        elif key in found and found[key] != value:
            raise PolicyError(f"the labels and sqlanon.{key} say different things", hint="keep one")
        else:
            found[key] = value


def _columns(labels: Mapping[str, str]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    hierarchies: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for name, text in labels.items():
        label: ColumnLabel = read_column_label(text)
        if label.column is not None:
            columns[name] = label.column
        if label.hierarchy is not None:
            hierarchies[name] = label.hierarchy
        if label.person:
            if "person" in found:
                raise PolicyError(f"the columns '{found['person']}' and '{name}' are both labelled person")
            found["person"] = name
    return found | ({"columns": columns} if columns else {}) | ({"hierarchies": hierarchies} if hierarchies else {})
