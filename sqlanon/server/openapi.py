"""The description of the HTTP door for programs (OpenAPI 3.1); `/v1/openapi.json` shows it."""

from __future__ import annotations

from typing import Any

from sqlanon import __version__

STATEMENT = {
    "type": "object",
    "required": ["sql"],
    "additionalProperties": False,
    "properties": {
        "sql": {"type": "string", "description": "One SELECT."},
        "parameters": {"type": "array", "items": {"type": ["string", "number", "boolean", "null"]}},
        "epsilon": {"type": "number", "exclusiveMinimum": 0, "maximum": 1000},
        "error": {"type": ["number", "string"], "description": "An error that is asked for, in place of an epsilon."},
        "dry_run": {"type": "boolean", "description": "Answer from made-up data, free."},
        "intervals": {"type": "boolean", "description": "Add error bars as columns of their own."},
    },
}
ANSWER = {
    "type": "object",
    "properties": {
        "columns": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "type": {"type": "string"}}},
        },
        "rows": {"type": "array", "items": {"type": "array"}},
        "summary": {"type": "object"},
    },
}
ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                name: {"type": ["string", "null"]} for name in ("message", "detail", "hint", "sqlstate")
            } | {"position": {"type": ["integer", "null"]}},
        }
    },
}  # fmt: skip
SUMMARIES = {
    "/v1/query": "Answer a SELECT, and charge it.",
    "/v1/explain": "Cost and expected error of a SELECT: free, and without data.",
    "/v1/budget": "What the principal has spent and has left.",
    "/v1/tables": "The tables and columns that the principal may use.",
    "/v1/audit": "The latest records of the audit log; of everybody for auditors.",
    "/v1/openapi.json": "This description.",
    "/healthz": "Whether the server answers.",
    "/metrics": "Metrics in the format of Prometheus.",
}


def describe_api(routes: dict[str, str]) -> dict[str, Any]:
    """The description of some routes, each with its one method."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "sqlanon", "version": __version__, "description": "Private answers to SQL."},
        "security": [{"token": []}],
        "paths": {path: {method.lower(): _operation(path, method)} for path, method in routes.items()},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Statement": STATEMENT, "Answer": ANSWER, "Error": ERROR},
        },
    }


def _operation(path: str, method: str) -> dict[str, Any]:
    kind = "text/plain" if path == "/metrics" else "application/json"
    answered = _schema("Answer") if path in ("/v1/query", "/v1/explain") else {"type": "object"}
    made: dict[str, Any] = {
        "summary": SUMMARIES[path],
        "operationId": path.strip("/").replace("/", "_").replace(".", "_"),
        "responses": {
            "200": {"description": "The answer.", "content": {kind: {"schema": answered}}},
            "default": {"description": "An error.", "content": {"application/json": {"schema": _schema("Error")}}},
        },
    }
    if method == "POST":
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": _schema("Statement")}}}
    if path == "/v1/audit":
        made["parameters"] = [
            {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 1000}},
            {"name": "principal", "in": "query", "schema": {"type": "string"}},
        ]
    if path == "/healthz":
        made["security"] = []
    return made


def _schema(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
