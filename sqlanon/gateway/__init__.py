"""The gateway: aggregate SQL answered with differential privacy.

`open_gateway(policy)` gives a Gate; `gate.answer(sql, principal)` binds the statement, charges its cost, reads exact
aggregates of bounded relations, adds noise once, and computes the rest from the noisy tables alone.
"""

from __future__ import annotations

from sqlanon.gateway.gate import Gate, open_gateway
from sqlanon.gateway.price.prepared_statement import Answer, Description, PricedCore, PricedStatement

__all__ = ["Answer", "Description", "Gate", "PricedCore", "PricedStatement", "open_gateway"]
