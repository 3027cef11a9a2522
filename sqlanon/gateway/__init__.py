"""The gateway: aggregate SQL answered with differential privacy.

`open_gateway(policy)` gives a Gate; `gate.answer(sql, principal)` binds the statement, charges its cost, reads exact
aggregates of bounded relations, adds noise once, and computes the rest from the noisy tables alone.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from sqlanon.gateway.gate import Gate, open_gateway
from sqlanon.gateway.price.prepared_statement import Answer, Description, PricedCore, PricedStatement

__all__ = ["Answer", "Description", "Gate", "PricedCore", "PricedStatement", "open_gateway"]


class _CallablePackage(ModuleType):
    """`sqlanon.gateway(df, …)`: this package takes the name of the function once it is loaded, and so passes it on."""

    def __call__(self, *args: Any, **asked: Any) -> Any:
        return import_module("sqlanon.dataframes.answer_sql").gateway(*args, **asked)


sys.modules[__name__].__class__ = _CallablePackage
