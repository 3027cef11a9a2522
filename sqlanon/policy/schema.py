"""JSON Schema of a policy file: what an editor needs to complete and check it while it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue

from sqlanon import hierarchies, transformations
from sqlanon.families import Param, Plugin, family

_TYPES = {
    "text": "string",
    "map": "object",
    "list": "array",
    "columns": "array",
    "column": "string",
    "column_map": "object",
}
_BOUNDS = {">=": "minimum", "<=": "maximum", ">": "exclusiveMinimum", "<": "exclusiveMaximum"}

TEXT_OR_TEXTS = {
    "anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}],
}


def of_policy(policy: type[BaseModel]) -> dict[str, Any]:
    schema: dict[str, Any] = _without_null(policy.model_json_schema())
    # A file may hold the gateway and how it is served alone, without anything to publish.
    unpublished = {"required": ["gateway"], "propertyNames": {"enum": ["gateway", "serve", "marginals", "schedule"]}}
    # Or tables of statistics in place of rows.
    tables = {"required": ["statistics"]}
    rows = {"if": tables, "then": {"required": ["source", "statistics"]}, "else": {"required": schema.pop("required")}}
    alone = {"if": unpublished, "else": rows}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, **alone}


def of_model(shared: Mapping[str, Any]) -> JsonSchemaValue:
    """One key: the name of a privacy model, with the parameters of its header."""
    return _one_key({name: _of_plugin(plugin, shared) for name, plugin in family("models").items()})


def of_rule(folder: str) -> JsonSchemaValue:
    """One key: a rule for unsafe cells, with the parameters of its header; or its name alone."""
    return {
        "anyOf": [{"enum": list(family(folder))}, _one_key({n: _of_plugin(p, {}) for n, p in family(folder).items()})]
    }


def of_hierarchy(handler: GetJsonSchemaHandler) -> JsonSchemaValue:
    """One key: a kind of hierarchy, with its parameters."""
    kinds = {name: hierarchies.kind(name).Params for name in hierarchies.names()}
    return _one_key({name: handler(params.__pydantic_core_schema__) for name, params in kinds.items()})


def of_transformation(handler: GetJsonSchemaHandler) -> JsonSchemaValue:
    """One key: a method, with its parameters."""
    methods = {name: transformations.method(name).Params for name in transformations.names()}
    return _one_key({name: handler(params.__pydantic_core_schema__) for name, params in methods.items()})


def _one_key(properties: dict[str, Any]) -> JsonSchemaValue:
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }


def _of_plugin(plugin: Plugin, shared: Mapping[str, Any]) -> JsonSchemaValue:
    return {
        "type": "object",
        "description": plugin.summary,
        "properties": {**{param.name: _of_param(param) for param in plugin.params}, **shared},
        "required": [param.name for param in plugin.params if param.required],
        "additionalProperties": False,
    }


def _of_param(param: Param) -> JsonSchemaValue:
    schema: JsonSchemaValue = {"type": _TYPES.get(param.type, param.type), "description": param.meaning}
    return schema | {_BOUNDS[sign]: edge for sign, edge in param.bounds}


def _without_null(schema: Any) -> Any:
    # "Not given" is None in Python, but an empty value in the file is an error.
    if isinstance(schema, list):
        return [_without_null(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: _without_null(value) for key, value in schema.items() if (key, value) != ("default", None)}
    if isinstance(arms := kept.get("anyOf"), list):
        arms = [arm for arm in arms if arm != {"type": "null"}]
        rest = {key: value for key, value in kept.items() if key != "anyOf"}
        return {**arms[0], **rest} if len(arms) == 1 else {"anyOf": arms, **rest}
    return kept
