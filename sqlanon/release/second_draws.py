"""Refuse to draw a second time for rows that were published already.

Draws of one value that were made with other parameters, or under another key, are a second look at it: noise can be
averaged, groups and intervals can be intersected. So a policy that draws is compared with all that the record of
releases, and the evidence of files beside its own file, say of the same rows. It goes on where its draws are the same,
or more of the same: the chain of what was done to a column begins that of the other release, or the other way round.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlglot import exp

from sqlanon.algorithms._parting import described_groups
from sqlanon.compiler.draws import drawn_chains
from sqlanon.compiler.source import query_tree, relation, table_parts
from sqlanon.compiler.transformed import key_columns
from sqlanon.compiler.tree import column, literal, nested, select, table, text
from sqlanon.engines import Engine
from sqlanon.engines.companion_files import evidence_file
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.evidence.transformed import needs_secret, require_secret
from sqlanon.policy import Policy, Source, parse
from sqlanon.release import folder
from sqlanon.release.asked import is_parted
from sqlanon.release.record import RETIRED, of_file, of_version, versions

ROUNDS = 100_000  # of the hash of a key: to try keys must not be cheap
CHECK = 8  # hexadecimal digits of it
Chains = dict[str, list[str]]


@dataclass(frozen=True)
class Earlier:
    """A release that was published: `chains` is None where an older sqlanon drew, in another way."""

    name: str
    policy: Policy
    key: str | None
    chains: Chains | None


def require_same_draws(policy: Policy, engine: Engine, secret: str | None) -> None:
    """Refuse a policy whose draws are other ones than those of a release of the same rows."""
    own = _chains(policy)
    if not own:
        return
    if needs_secret(policy):
        require_secret(secret, "random transformations")
    elif is_parted(policy):
        require_secret(secret, "groups")
    key = _key_check(secret)
    for other in _earlier(policy, engine):
        theirs = other.chains if other.chains is not None else _chains(other.policy)
        known = {name.lower(): chain for name, chain in theirs.items()}
        for name, chain in own.items():
            before = known.get(name.lower())
            if before is None or (other.chains is not None and other.key == key and _goes_on(chain, before)):
                continue
            if not _same_rows(engine, policy, other.policy):
                break
            raise _refusal(policy, other, name, chain, before, key)


def described_draws(policy: Policy, secret: str | None) -> dict[str, Any]:
    """What the evidence keeps of draws: a check of the key, and what was done to each column that was drawn."""
    chains = _chains(policy)
    if not chains:
        return {}
    given = policy.release
    if given is not None and given.path is not None and not given.is_folder:
        earlier = of_file(given.path)  # of which nothing else is left once it is replaced
        for name, before in ((earlier or {}).get("draws") or {}).get("columns", {}).items():
            chains[name] = max(chains.get(name, []), before, key=len)
    return {"draws": {"key": _key_check(secret), "columns": chains}}


def _chains(policy: Policy) -> Chains:
    found = drawn_chains(policy, described_groups(policy))
    hidden = set(policy.identifiers)
    return {name: [link.text for link in chain] for name, chain in found.items() if name not in hidden}


def _key_check(secret: str | None) -> str:
    if not secret:
        return ""
    return hashlib.pbkdf2_hmac("sha256", secret.encode(), b"sqlanon draws", ROUNDS).hex()[:CHECK]


def _goes_on(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether one chain begins the other."""
    shorter = min(len(one), len(other))
    return list(one[:shorter]) == list(other[:shorter])


def _refusal(
    policy: Policy, other: Earlier, name: str, chain: Sequence[str], before: Sequence[str], key: str
) -> PolicyError:
    if other.chains is None:
        what, how = "by an older sqlanon, which drew otherwise", ""
    elif _goes_on(chain, before) and other.key != key:
        what, how = "under another key", "set SQLANON_KEY to the key of that release, "
    else:
        what, how = "with other parameters", f"take the parameters of that release{_ladder(chain, before)}, "
    place = "transformations" if policy.transformations else "algorithm"
    return policy.error(
        f"'{name}' was drawn {what} in the release '{other.name}' of the same rows: "
        "both together would tell more than each of them",
        place,
        hint=f"{how}{'or ' if how else ''}retire that release first; nobody can take back copies of it",
    )


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
    given = policy.release
    seen = set()
    retired: dict[str, int] = {}
    if engine.find(["sqlanon_releases"]) is not None:
        listed = versions(engine)
        for item in listed:
            if item.status == RETIRED:
                retired[item.release] = max(item.version, retired.get(item.release, 0))
        for item in listed:
            if item.version <= retired.get(item.release, 0) or (item.release, item.policy_hash) in seen:
                continue
            seen.add((item.release, item.policy_hash))
            yield from _read(item.release, of_version(engine, item.release, item.version))
    if given is not None and given.path is not None:
        yield from _beside(Path(given.path))


def _beside(path: Path) -> Iterator[Earlier]:
    """What was published into the folder that the release lies in."""
    for found in sorted(path.parent.glob("*.evidence.json")):
        name = str(found).removesuffix(evidence_file("").name)
        yield from _read(name, of_file(name))
    for inner in sorted(item for item in path.parent.iterdir() if item.is_dir()):
        listed = folder.listed(inner)
        last = max((item.version for item in listed if item.status == RETIRED), default=0)
        for item in listed:
            if item.version > last:
                yield from _read(str(inner), folder.evidence(inner, item.version))


def _read(name: str, document: Mapping[str, Any] | None) -> Iterator[Earlier]:
    written = (document or {}).get("policy", {}).get("text")
    if document is None or written is None or "source" not in json.loads(written):  # marginals, which have a budget
        return
    policy = parse(written)
    draws = document.get("draws")
    if draws is None and not _chains(policy):
        return
    yield Earlier(name, policy, (draws or {}).get("key"), None if draws is None else draws["columns"])


def _same_rows(engine: Engine, one: Policy, other: Policy) -> bool:
    """Whether two policies read rows of the same tables, with an identity in common. Where that cannot be known, they
    do."""
    if not _tables(engine, one.source) & _tables(engine, other.source):
        return False
    named = key_columns(one)
    if not named or named != key_columns(other):
        return True
    trees = []
    try:
        for policy in (one, other):
            rows = relation(engine.resolve(policy.source), engine.dialect)
            trees.append(select(*(column(name) for name in named), source=nested(rows, "source")))
        same = [text(column(name, "a")).eq(text(column(name, "b"))) for name in named]
        tree = select(literal(1), source=nested(trees[0], "a")).join(nested(trees[1], "b"), on=exp.and_(*same))
        return bool(engine.query(tree.limit(1)))
    except SqlanonError:
        return True


def _tables(engine: Engine, source: Source) -> set[tuple[str, ...]]:
    """The tables and files that a source reads, through views too."""
    if source.path is not None:
        return {_file(source.path)}
    found: set[tuple[str, ...]] = set()
    waiting = [table_parts(source.text)] if source.query is None else []
    if source.query is not None:
        tree = query_tree(source.query, engine.dialect)
        waiting += _named(tree)
        functions = [item.this for item in tree.find_all(exp.Table) if not item.name and item.this is not None]
        found |= {_file(item.name) for made in functions for item in made.find_all(exp.Literal) if item.is_string}
    waiting += [table_parts(join.table) for join in source.joins]
    while waiting:
        parts = waiting.pop()
        there = engine.find(parts)
        own = there.full_name if there is not None else _file(".".join(parts))
        if own in found:
            continue
        found.add(own)
        if there is not None and there.kind == "view":
            waiting += _named_by_view(engine, there.full_name)
    return found


def _file(path: str) -> tuple[str, ...]:
    return ("file", str(Path(path).resolve()))


def _named(tree: exp.Expr) -> list[list[str]]:
    return [[part.name for part in item.parts] for item in tree.find_all(exp.Table) if item.name]


def _named_by_view(engine: Engine, full_name: tuple[str, ...]) -> list[list[str]]:
    *_, schema, name = full_name
    if engine.dialect == "duckdb":
        views: exp.Expr = exp.Table(this=exp.Anonymous(this="duckdb_views"))
        lower = [exp.Lower(this=exp.column(item)) for item in ("schema_name", "view_name")]
        tree = select("sql", source=views, where=exp.and_(lower[0].eq(schema), lower[1].eq(name)))
    else:
        mine = exp.and_(exp.column("schemaname").eq(literal(schema)), exp.column("viewname").eq(literal(name)))
        tree = select("definition", source=table("pg_views"), where=mine)
    found: list[list[str]] = []
    for (sql,) in engine.query(tree):
        try:
            parsed = exp.maybe_parse(sql, dialect=engine.dialect)
        except Exception:  # a view that only its engine can read
            continue
        made = parsed.expression if isinstance(parsed, exp.Create) and parsed.expression is not None else parsed
        found += _named(made)
    return found
