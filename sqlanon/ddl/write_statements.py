"""A policy as SQL: the labels of its columns, and the statement that creates its view. It reads back as the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlanon.ddl.labels import write_column_label, write_table_label
from sqlanon.ddl.names import join_name, plain_name, quote_name, quote_text, write_name
from sqlanon.ddl.policy_document import TEXTS, VALUES, in_order
from sqlanon.ddl.source_query import query_as_written
from sqlanon.ddl.yaml_values import write_value
from sqlanon.families import family
from sqlanon.policy.options import SHORTHANDS

SOURCE = ("database", "table", "view", "query", "path", "joins")  # as they are written, each part in its order
RELEASE = ("view", "table", "path", "keep", "audience")
UNNAMED = "policy"  # of a policy that releases nothing


def canonical(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document in the one spelling that SQL gives back: short where a short one says the same."""
    made = in_order(document)
    columns = made.get("columns")
    if isinstance(columns, Mapping):
        made["columns"] = {name: _short_column(column) for name, column in columns.items()}
    for part, keys in (("source", ("table", "view")), ("release", ("table", "view"))):
        given = made.get(part)
        if isinstance(given, Mapping):
            made[part] = {key: plain_name(value) if key in keys else value for key, value in given.items()}
    if isinstance(made.get("source"), Mapping):
        made["source"] = {key: made["source"][key] for key in SOURCE if key in made["source"]}
    if isinstance(made.get("release"), Mapping):
        made["release"] = {key: made["release"][key] for key in RELEASE if key in made["release"]}
    return made


def _short_column(column: Any) -> Any:
    return column["role"] if isinstance(column, Mapping) and set(column) == {"role"} else column


def write_policy(document: Mapping[str, Any], *, dialect: str = "duckdb", publish: bool = True) -> str:
    """The statements of a policy that releases rows."""
    document = canonical(document)
    release = document.get("release") or {}
    target = next((kind for kind in ("view", "table", "path") if kind in release), "none")
    name = join_name([release["path"]]) if target == "path" else release.get(target, UNNAMED)
    source = document["source"]
    labelled = source.get("table") or name
    lines = [*_labels(document, labelled)]
    options = [*_options(document, target, dialect)]
    made = f"CREATE MATERIALIZED VIEW {write_name(name)}"
    if options:
        made += " WITH (\n    " + ",\n    ".join(options) + "\n)"
    if "table" in source:
        made += f"\nAS SELECT * FROM {write_name(source['table'])}"
    elif "query" in source and (written := query_as_written(source["query"], dialect)) is not None:
        made += f"\nAS {written}"
    lines.append(made + ("" if publish else "\nWITH NO DATA"))
    return ";\n".join(lines) + ";\n"


def _labels(document: Mapping[str, Any], table: str) -> Iterator[str]:
    person, hierarchies = document.get("person"), document.get("hierarchies") or {}
    columns = document.get("columns") or {}
    names = [*columns, *([person] if person is not None and person not in columns else [])]
    for name in names:
        label = write_column_label(columns.get(name), person=name == person, hierarchy=hierarchies.get(name))
        yield _label(table, name, label)


def _label(table: str, column: str | None, label: str) -> str:
    on = f"TABLE {write_name(table)}" if column is None else f"COLUMN {write_name(table)}.{quote_name(column)}"
    return f"SECURITY LABEL FOR sqlanon ON {on} IS {quote_text(label)}"


def _options(document: Mapping[str, Any], target: str, dialect: str) -> Iterator[str]:
    source, release = document["source"], document.get("release") or {}
    if "database" in source:
        yield _option("database", source["database"])
    for key in ("view", "path"):
        if key in source:
            yield _option(key, source[key])
    if "query" in source and query_as_written(source["query"], dialect) is None:
        yield _option("query", source["query"])
    if "joins" in source:
        yield _option("joins", write_value(source["joins"]))
    yield from _models(document.get("models") or [])
    labelled = {"person"} if "columns" in document else set()
    for key in (*TEXTS, *VALUES, "suppression_limit", "algorithm", "schedule"):
        if key not in document or key in labelled:
            continue
        value = document[key]
        if key == "hierarchies":
            value = {name: use for name, use in value.items() if name not in (document.get("columns") or {})}
            if not value:
                continue
        if key in VALUES or (key in ("algorithm", "schedule") and isinstance(value, Mapping)):
            yield _option(key, write_value(value))
        else:
            yield _option(key, value)
    if target != "view":
        yield _option("target", target)
    for key in ("keep", "audience"):
        if key in release:
            yield _option(key, release[key])


def _models(models: list[Any]) -> Iterator[str]:
    """One option for each model; a list of all where the options would not say the same."""
    made = []
    for item in models:
        name, params = next(iter(item.items())) if isinstance(item, Mapping) and len(item) == 1 else (None, None)
        if name not in family("models"):
            yield _option("models", write_value(models))
            return
        made.append(_model(str(name), params))
    yield from made


def _model(name: str, params: Any) -> str:
    for short, (model, param) in SHORTHANDS.items():
        alone = model == name and isinstance(params, Mapping) and list(params) == [param]
        if alone and type(params[param]) in (int, float):
            return _option(short, params[param])
    return _option(name, write_value(params))


def _option(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"sqlanon.{name} = {'true' if value else 'false'}"
    if isinstance(value, int | float) and write_value(value).lstrip("-")[:1].isdigit():
        return f"sqlanon.{name} = {write_value(value)}"
    return f"sqlanon.{name} = {quote_text(str(value))}"


# ---- a gateway


def write_gateway(gateway: Mapping[str, Any]) -> str:
    """The statements of a gateway: labels of tables and columns, roles, and all else of the database."""
    unit = gateway.get("unit") or {}
    tables = gateway.get("tables") or {}
    lines = []
    for name, table in tables.items():
        own = unit.get("key") if unit.get("table") == name else None
        lines.append(_label(name, None, write_table_label(table, own)))
        for column, use in (table.get("columns") or {}).items():
            lines.append(_label(name, column, write_column_label(gateway=use)))
    for key, value in gateway.items():
        if key in ("unit", "tables", "principals"):
            continue
        written = value if isinstance(value, int | float | str) else write_value(value)
        lines.append(f"ALTER DATABASE warehouse SET {_option(key, written)}")
    for role, known in (gateway.get("principals") or {}).items():
        lines.append(f"CREATE ROLE {quote_name(role)}")
        for key, value in known.items():
            written = value if isinstance(value, bool) else write_value(value)
            lines.append(f"ALTER ROLE {quote_name(role)} SET {_option(key, written)}")
    return ";\n".join(lines) + ";\n"
