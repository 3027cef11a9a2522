"""Refuse to draw a second time for rows that were published already.

Draws of one value that were made with other parameters, under another key, at another scale or for another identity of
its row are a second look at it: noise can be averaged, groups and intervals can be intersected. So a policy that draws
is compared with all that the record of releases, and the evidence of files beside its own file, say of the same rows.
It goes on where its draws are the same, or more of the same: the chain of what was done to a column begins that of the
other release, or the other way round.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlanon import transformations
from sqlanon.buckets.bucketize import described_groups
from sqlanon.engines import Engine
from sqlanon.engines.identities import find_identities
from sqlanon.errors import PolicyError
from sqlanon.evidence.apply_transformations import needs_secret, require_secret
from sqlanon.policy import Policy, missing_columns, parse
from sqlanon.relations.draw_chains import canonical_json, drawn_chains
from sqlanon.relations.source import relation
from sqlanon.relations.transformation_tables import PREFIX, SMALL_INTEGERS, key_columns
from sqlanon.release.algorithm_kind import is_parted
from sqlanon.release.find_published import find_published
from sqlanon.release.record import of_file
from sqlanon.release.same_persons import Doubt, SamePersons
from sqlanon.sqltree.draws import FLOATS, TEXTS

ROUNDS = 100_000  # of the hash of a key: to try keys must not be cheap
CHECK = 8  # hexadecimal digits of it
Chains = dict[str, list[str]]


Scales = dict[str, list[list[int]]]


@dataclass(frozen=True)
class Earlier:
    """A release that was published: `chains` is None where an older sqlanon drew, in another way."""

    name: str
    policy: Policy
    key: str | None
    chains: Chains | None
    identity: Any = None  # what tells rows apart: draws are made of it
    rows: Sequence[str] = ()  # the samples that were drawn
    scales: Scales = field(default_factory=dict)


def require_same_draws(policy: Policy, engine: Engine, secret: str | None) -> None:
    """Refuse a policy whose draws are other ones than those of a release of the same rows."""
    own, sampled = _chains(policy), _samples(policy)
    if not own and not sampled:
        return
    if needs_secret(policy):
        require_secret(secret, "random transformations")
    elif is_parted(policy):
        require_secret(secret, "groups")
    key = _key_check(secret)
    identity: Any = None
    for other in _earlier(policy, engine):
        identity = identity or describe_identity(policy, engine)
        alike = other.chains is not None and other.key == key and other.identity == identity
        theirs = other.chains if other.chains is not None else _chains(other.policy)
        pair = SamePersons(engine, policy, other.policy)
        if sampled and other.rows and not (alike and _goes_on(sampled, other.rows)) and pair.share_rows():
            raise _refusal(policy, other, "the sample", sampled, other.rows, key, identity, doubt=pair.doubt)
        suspects = [
            (name, before)
            for name, chain in own.items()
            for before in theirs
            if not (name == before and alike and _goes_on(chain, theirs[before]))
        ]
        for name, before in pair.share_values(suspects):
            what = f"'{name}'" if name == before else f"'{name}', which holds the values of '{before}',"
            renamed = name != before
            doubt = None if renamed else pair.doubt
            raise _refusal(policy, other, what, own[name], theirs[before], key, identity, renamed=renamed, doubt=doubt)


def require_same_scales(policy: Policy, engine: Engine) -> None:
    """Refuse noise at another scale than that of a release of the same rows with the same parameters: the scale follows
    the rows, and at another one each of them has another draw. Its tables must have been made."""
    own = _scales(policy, engine)
    if not own:
        return
    for other in _earlier(policy, engine):
        found = [name for name, scale in own.items() if not _goes_on(scale, other.scales.get(name, []))]
        pair = SamePersons(engine, policy, other.policy)
        for name, _ in pair.share_values([(name, name) for name in found]):
            before = other.scales[name]
            plain = len(own[name]) == len(before) == 1 and len(own[name][0]) == len(before[0]) == 2
            spread = f"{transformations.method('additive_noise').spread_at(before[0][0]):.6g}"
            how = f"write 'spread: {{{name}: {spread}}}' to keep that scale, or " if plain else ""
            if pair.doubt is not None:
                how = f"{pair.doubt.hint}, {how or 'or '}"
            raise policy.error(
                f"'{name}' spreads more or less than in the release '{other.name}' {_whose_rows(pair.doubt)}, and its "
                "noise would be drawn anew: both together would tell more than each of them",
                "transformations",
                hint=f"{how}retire that release first; nobody can take back copies of it",
            )


def described_draws(policy: Policy, engine: Engine, secret: str | None) -> dict[str, Any] | None:
    """What the evidence keeps of draws: a check of the key, what tells rows apart, and what was done to each column
    that was drawn."""
    chains, samples = _chains(policy), _samples(policy)
    if not chains and not samples:
        return None
    scales = _scales(policy, engine)
    given = policy.release
    if given is not None and given.path is not None and not given.is_folder:
        earlier = (of_file(given.path) or {}).get("draws") or {}  # of which nothing else is left once it is replaced
        for name, before in earlier.get("columns", {}).items():
            chains[name] = max(chains.get(name, []), before, key=len)
        for name, scale in earlier.get("scales", {}).items():
            scales[name] = max(scales.get(name, []), scale, key=len)
        samples = max(samples, earlier.get("rows", []), key=len)
    found = {"key": _key_check(secret), "identity": describe_identity(policy, engine), "columns": chains}
    return found | ({"rows": samples} if samples else {}) | ({"scales": scales} if scales else {})


def describe_identity(policy: Policy, engine: Engine) -> dict[str, Any]:
    """What the identity of a row is made of: other columns, another order or another type make another draw. Rows that
    share it are told apart by all their columns."""
    rows = relation(engine.resolve(policy.source), engine.dialect)
    kinds = {item.name: item.type for item in engine.columns(rows)}
    missing_columns(policy, list(kinds))
    types = {name: exp.DataType.build(kind, dialect=engine.dialect) for name, kind in kinds.items()}
    found: dict[str, Any] = {"by": [[name, _written_as(types[name])] for name in key_columns(policy)]}
    if find_identities(engine, policy, rows, types) is None:
        found["beside"] = [[name, _written_as(kind)] for name, kind in types.items()]
    return found


def _written_as(kind: exp.DataType) -> str:
    """Types whose values have the same text have the same draws."""
    if kind.this in TEXTS:
        return "text"
    if kind.this in FLOATS:
        return "float"
    return "integer" if kind.this in SMALL_INTEGERS else kind.sql().lower()


def _chains(policy: Policy) -> Chains:
    found = drawn_chains(policy, described_groups(policy))
    hidden = set(policy.identifiers)
    return {name: [link.text for link in chain] for name, chain in found.items() if name not in hidden}


def _samples(policy: Policy) -> list[str]:
    """What samples are drawn of. A smaller one is a part of a larger one, so that shares do not matter."""
    shared = (use for use in policy.transformations if transformations.shares_draws(use.name))
    return [canonical_json([use.name, {"person": policy.person}]) for use in shared]


def _scales(policy: Policy, engine: Engine) -> Scales:
    """The scale of the noise of each column, in steps; for columns with covariances those of all of them."""
    found: Scales = {}
    for place, use in enumerate(policy.transformations):
        cells = getattr(transformations.method(use.name), "read_scales", None)
        if cells is not None:
            params = transformations.method(use.name).Params.model_validate(use.params)
            for name, scale in cells(params, engine.query, f"{PREFIX}_{place + 1}").items():
                found.setdefault(name, []).append(scale)
    return found


def _key_check(secret: str | None) -> str:
    if not secret:
        return ""
    return hashlib.pbkdf2_hmac("sha256", secret.encode(), b"sqlanon draws", ROUNDS).hex()[:CHECK]


def _goes_on(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether one chain begins the other."""
    shorter = min(len(one), len(other))
    return list(one[:shorter]) == list(other[:shorter])


def _refusal(
    policy: Policy,
    other: Earlier,
    what: str,
    chain: Sequence[str],
    before: Sequence[str],
    key: str,
    identity: Any,
    renamed: bool = False,
    doubt: Doubt | None = None,
) -> PolicyError:
    if other.chains is None:
        drawn, how = "by an older sqlanon, which drew otherwise", ""
    elif renamed:
        drawn, how = "under another name", "take the name and the parameters of that release, "
    elif not _goes_on(chain, before):
        drawn, how = "with other parameters", f"take the parameters of that release{_ladder(chain, before)}, "
    elif other.key != key:
        drawn, how = "under another key", "set SQLANON_KEY to the key of that release, "
    else:
        drawn = "by another identity"
        how = f"identify rows by {_said(other.identity)}, as that release does, and not by {_said(identity)}, "
    place = "transformations" if policy.transformations else "algorithm"
    if doubt is not None:
        how = f"{doubt.hint}, {how}"
    return policy.error(
        f"{what} was drawn {drawn} in the release '{other.name}' {_whose_rows(doubt)}: "
        "both together would tell more than each of them",
        place,
        hint=f"{how}{'or ' if how else ''}retire that release first; nobody can take back copies of it",
    )


def _whose_rows(doubt: Doubt | None) -> str:
    return "of the same rows" if doubt is None else f"of what may be the same rows ({doubt.reason})"


def _said(identity: Mapping[str, Any]) -> str:
    listed = [f"{name} ({kind})" for name, kind in (*identity["by"], *identity.get("beside", ()))]
    return ", ".join(dict.fromkeys(listed))


def _ladder(chain: Sequence[str], before: Sequence[str]) -> str:
    """What a ladder would have to be, where noise above that of the other release can be put on top of it."""
    rungs = [_rungs(chain), _rungs(before)]
    if None in rungs or not rungs[0] or not rungs[1]:
        return ""
    new, old = rungs[0][-1], rungs[1]
    if new <= old[-1]:
        return ", or a larger alpha with its ladder"
    return f", or declare 'ladder: [{', '.join(f'{level:g}' for level in (*old, new))}]'"


def _rungs(chain: Sequence[str]) -> list[float] | None:
    """The levels of a column to which nothing was done but to add noise."""
    found = [json.loads(link) for link in chain]
    if any(item[0] != "additive_noise" for item in found):
        return None
    return [float(item[1]["to"]) for item in found if "to" in item[1]]


def _earlier(policy: Policy, engine: Engine) -> Iterator[Earlier]:
    """What was published and not retired: of the record, one version for each policy."""
    for name, document in find_published(policy, engine, once_a_policy=True):
        yield from _read(name, document)


def _read(name: str, document: Mapping[str, Any] | None) -> Iterator[Earlier]:
    text = (document or {}).get("policy", {}).get("text")
    if document is None or text is None or "source" not in json.loads(text):  # marginals, which have a budget
        return
    policy = parse(text)
    draws = document.get("draws")
    if draws is None and not _chains(policy) and not _samples(policy):
        return
    if draws is None or "identity" not in draws:
        yield Earlier(name, policy, None, None, rows=_samples(policy))
        return
    yield Earlier(
        name, policy, draws["key"], draws["columns"], draws["identity"], draws.get("rows", []), draws.get("scales", {})
    )
