"""The gateway: aggregate SQL answered with differential privacy.

`open_gateway(policy)` gives a Gate; `gate.answer(sql, principal)` binds the statement, charges its cost, reads exact
aggregates of bounded relations, adds noise once, and computes the rest from the noisy tables alone.

The names below are loaded when they are used: who reads limits or names does not load what answers.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlanon.gateway.gate import Gate as Gate
    from sqlanon.gateway.gate import open_gateway as open_gateway
    from sqlanon.gateway.price.prepared_statement import Answer as Answer
    from sqlanon.gateway.price.prepared_statement import Description as Description
    from sqlanon.gateway.price.prepared_statement import PricedCore as PricedCore
    from sqlanon.gateway.price.prepared_statement import PricedStatement as PricedStatement

_HOMES = {
    "Answer": "price.prepared_statement",
    "Description": "price.prepared_statement",
    "Gate": "gate",
    "PricedCore": "price.prepared_statement",
    "PricedStatement": "price.prepared_statement",
    "open_gateway": "gate",
}
__all__ = ["Answer", "Description", "Gate", "PricedCore", "PricedStatement", "open_gateway"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sqlanon.gateway' has no attribute '{name}'")
    return getattr(import_module(f"sqlanon.gateway.{_HOMES[name]}"), name)


class _CallablePackage(ModuleType):
    """`sqlanon.gateway(df, …)`: this package takes the name of the function once it is loaded, and so passes it on."""

    def __call__(self, *args: Any, **asked: Any) -> Any:
        return import_module("sqlanon.dataframes.answer_sql").gateway(*args, **asked)


sys.modules[__name__].__class__ = _CallablePackage
