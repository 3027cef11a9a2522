"""What the draws of a policy depend on: for each column the chain of all that was done to it.

Two releases of the same rows go together only where the chain of one begins that of the other: then one of them is made
of the other by more draws, and both tell no more than the first. Otherwise the same values are drawn for twice, and who
has both releases can average or intersect them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlanon import transformations
from sqlanon.policy import Policy

MARK = 16  # hexadecimal digits


@dataclass(frozen=True)
class ChainLink:
    """One thing that was done to a column, as canonical text; `drawn` if chance had a part in it."""

    text: str
    drawn: bool


Chain = tuple[ChainLink, ...]


def drawn_chains(policy: Policy, groups: str | None = None) -> dict[str, Chain]:
    """The chains of those columns whose values were drawn, up to the last draw: what comes later tells nothing new.

    `groups` tells what an algorithm did that draws groups. It shows the sensitive values of a group, not whose they
    are; groups that were drawn twice have few persons in common, or one.
    """
    chains, _ = _followed(policy)
    shown = policy.sensitive or policy.quasi_identifiers
    last = (ChainLink(groups, drawn=True),) if groups is not None else ()
    found = {name: _up_to_draws((*chains.get(name, ()), *(last if name in shown else ()))) for name in policy.columns}
    return {name: chain for name, chain in found.items() if chain}


def marks(policy: Policy) -> list[dict[str, list[str]]]:
    """For each transformation of a policy the digests that its seeds are derived from: see `Given.marks`."""
    return _followed(policy)[1]


def _followed(policy: Policy) -> tuple[dict[str, Chain], list[dict[str, list[str]]]]:
    chains: dict[str, Chain] = {}
    found: list[dict[str, list[str]]] = []
    samples = 0
    for use in policy.transformations:
        module = transformations.method(use.name)
        params = module.Params.model_validate(use.params)
        keyed = transformations.is_keyed(use.name, params)
        if transformations.shares_draws(use.name):
            samples += 1
            found.append({"": [digest_of([use.name, samples])]})
        elif params.apart():
            own = {name: _links(use.name, params.steps(), keyed, {}) for name in params.changed()}
            found.append({name: _marks(chains.get(name, ()), links) for name, links in own.items()})
            chains |= {name: (*chains.get(name, ()), *links) for name, links in own.items()}
        else:
            together = {name: _text(chains.get(name, ())) for names in params.read().values() for name in names}
            links = _links(use.name, params.steps(), keyed, {"columns": list(params.changed()), "beside": together})
            found.append({"": _marks((), links)})
            chains |= {name: (*chains.get(name, ()), *links) for name in params.changed()}
        if getattr(module, "CHANGES_ROWS", False):  # what is drawn later may depend on which rows are there
            rows = ChainLink(canonical_json([use.name, params.model_dump(mode="json")]), drawn=False)
            chains = {name: (*chains.get(name, ()), rows) for name in policy.columns}
    return chains, found


def _links(method: str, steps: Sequence[Mapping[str, Any]], keyed: bool, more: Mapping[str, Any]) -> Chain:
    return tuple(
        ChainLink(canonical_json([method, {**step, **more}]), keyed and not step.get("undrawn")) for step in steps
    )


def _marks(before: Chain, links: Chain) -> list[str]:
    """A digest for each set of draws, of all that comes before it."""
    return [
        digest_of([item.text for item in (*before, *links[: place + 1])])
        for place, link in enumerate(links)
        if link.drawn
    ]


def _up_to_draws(chain: Chain) -> Chain:
    last = max((place for place, link in enumerate(chain) if link.drawn), default=-1)
    return chain[: last + 1]


def _text(chain: Chain) -> list[str]:
    return [link.text for link in chain]


def digest_of(value: Any) -> str:
    """A short digest of a value that JSON can hold."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:MARK]


def canonical_json(value: Any) -> str:
    """Canonical text of a value that JSON can hold."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
