"""Statistical disclosure control: trusted principals get exact answers, or none, under the policy's `controls`.

- query_set_size m: every query set holds at least m persons, and leaves out at least m of those that it could hold
  (persons with a row in every private table that the statement reads): also a total over all of them is withheld.
- dominance and p_percent: few persons must not make up most of a SUM or AVG, nor of a COUNT where a person may have
  several rows.
- overlap r: a query set shares at most r persons with each query set that this principal was answered before, and with
  the others of its own statement, group by group. Free of this are the same rows (another aggregate over the same
  relation and filter), and the very same statement, which is served from the cache, whatever became of the data since.
  Earlier query sets are read again from today's data; persons who have left since cannot be seen.
  With an overlap above 0 there is no answer that together with earlier ones determines what belongs to one person, or
  gives back a withheld group, by any sum or difference of them (the audit, asked before each answer).

Without overlap every withheld group comes back as a margin less the groups that were answered: a policy file must say
`overlap`, and less than query_set_size, or a margin could hold a group as a whole.

GROUP BY ROLLUP, CUBE and GROUPING SETS are margins of the same groups: instead of the overlap between them, a linear
program over all that is shown decides which groups are hidden with those that break a rule (`margins`). All other
answers are compared with them as with any.

A group that breaks one of the first three is left out of the answer, and `withheld` counts such groups. Without keys,
and where query sets overlap, the statement is withheld: one message for all reasons. What is asked is charged, at no
cost, before data is read, so that of two statements at a time the later one sees the earlier one.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlglot
from sqlglot import exp

from sqlanon.errors import Refused, SqlanonError, Withheld
from sqlanon.gateway.answer.answer_cache import as_text, from_text
from sqlanon.gateway.answer.post_processing import PostDatabase
from sqlanon.gateway.answer.private_reads import PrivateReads
from sqlanon.gateway.answer.read_data import Data, read_failure
from sqlanon.gateway.answer.release_time import ReleaseTime
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.core import Core
from sqlanon.gateway.bind.exact_aggregates import Exact
from sqlanon.gateway.bind.fanout import require_few
from sqlanon.gateway.bind.read_statement import ParsedStatement
from sqlanon.gateway.bind.row_copies import refuse_copies
from sqlanon.gateway.bind.values import UNIT, number
from sqlanon.gateway.controls.audit import audit_principal
from sqlanon.gateway.controls.margins import (
    JudgedGrouping,
    hide_groups,
    read_groups,
    require_additive,
    require_solver,
)
from sqlanon.gateway.controls.query_sets import EXACT, QuerySet, earlier_sets, family_of, query_sets, record_sets
from sqlanon.gateway.price.judged_groups import JUDGED, Judge, people
from sqlanon.gateway.price.mask_names import mask_names
from sqlanon.gateway.price.prepared_statement import Answer, PricedStatement
from sqlanon.ledger.limits import Left
from sqlanon.mechanisms import Cost
from sqlanon.policy.gateway import Controls

AT_ONCE = 20  # earlier query sets in one statement
SETS_A_READING = 100  # earlier query sets that are compared with in the time of one reading


def judges(catalog: Catalog, cores: Sequence[Core], exact: Exact, statement: ParsedStatement) -> tuple[Judge, ...]:
    """What judges each core of a statement."""
    if statement.options:
        raise Refused("an exact answer takes no options of differential privacy", hint="leave WITH … OPTIONS(…) out")
    controls = catalog.policy.controls
    assert controls is not None
    made = []
    if any(core.family for core in cores):
        require_solver()
    for core in cores:
        refuse_copies(catalog, core)
        least = controls.query_set_size
        if core.mode == "private":
            least = max(least, catalog.policy.minimum_group)
        made.append(Judge(core, exact.of(core), controls, people(catalog, core), least))
    require_additive([judge for judge in made if judge.core.family])
    return tuple(made)


def controlled_answer(
    reads: PrivateReads, post: PostDatabase, prepared: PricedStatement, principal: str, timeout: float | None
) -> Answer:
    """The exact answer to a statement, if the controls let it out."""
    controls = reads.policy.controls
    assert controls is not None
    version, asked = reads.data_version(), [judge.answer() for judge in prepared.judges]
    identity = {
        "principal": principal, "policy": reads.policy.fingerprint,
        # A second answer from newer data would tell who has come: under overlap control the first one stays.
        "data": version if controls.overlap is None else "",
        "sql": [each.sql(reads.engine.dialect) for each in asked],
    }  # fmt: skip
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    kept = reads.ledger.cached(key)
    if kept is None:
        with reads.lock:
            tables, withheld = _asked(reads, prepared.judges, asked, principal, version, timeout)
            kept = json.dumps([withheld, [as_text(rows) for rows in tables]])
            reads.ledger.remember(key, principal, kept)
        cached = False
    else:
        cached = True
    withheld, texts = json.loads(kept)
    cores = [judge.core for judge in prepared.judges]
    held = {core.table: (core, from_text(text)) for core, text in zip(cores, texts, strict=True)}
    rows = post.run(held, prepared.noisy_sql)
    return Answer(prepared.columns, tuple(rows), Cost(), types=prepared.types, cached=cached, withheld=withheld)


def _asked(
    reads: PrivateReads,
    judges: Sequence[Judge],
    asked: Sequence[exp.Select],
    principal: str,
    version: str,
    timeout: float | None,
) -> tuple[list[list[tuple[Any, ...]]], int]:
    families = _families(judges)
    own = _own_sets(judges, families, reads.engine.dialect, version)
    reads.require_keys([judge.core for judge in judges])
    for judge in judges:
        require_few(judge.core, reads.public_number)
    seconds = reads.require_time(len(asked) + _comparisons(reads, own, principal), timeout)
    with reads.shield(seconds):
        release = ReleaseTime(seconds, reads.policy.timeout, reads.pause)
        # Charge first: what is asked at the same time sees it, and a crash cannot make it unasked.
        charge = _charge(reads, judges, own, principal, version)
        data = replace(reads.data, release=release)
        failure: SqlanonError | None = None
        tables: list[list[tuple[Any, ...]]] = []
        withheld = 0
        try:
            try:
                _refuse_overlap(reads, data, judges, own, principal, charge.event)
                groupings: dict[int, JudgedGrouping] = {}
                if families:
                    groupings = _decide_groupings(reads, data, judges, families, own, principal, charge.event)
                    own = _with_hidden(judges, own, groupings)
                    # Until now all groups that break no rule counted as answered. The new charge says which ones are.
                    asked_first, charge = charge, _charge(reads, judges, own, principal, version)
                    reads.note_failure(asked_first)
                _refuse_recovery(reads, data, principal, charge.event)
                for judge, statement in zip(judges, asked, strict=True):
                    if (grouping := groupings.get(judge.core.number)) is not None:
                        tables.append(grouping.table())
                        withheld += len(grouping.hidden) if grouping.shown else 0
                        continue
                    found = data.guarded(lambda statement=statement: reads.engine.query(statement))
                    rows, left_out = _table(judge, found)
                    if not judge.keys and not rows:
                        raise withheld_by(judge.controls)
                    tables.append(rows)
                    withheld += left_out
            except Exception as error:
                failure = error if isinstance(error, Withheld) else read_failure(charged=True)
            if not release.wait():
                failure = read_failure(charged=True)
        except BaseException:
            reads.note_failure(charge)
            raise
        if failure is not None:
            reads.note_failure(charge)
            raise failure
        reads.ledger.settle(charge, "answered")
    return tables, withheld


def _charge(
    reads: PrivateReads, judges: Sequence[Judge], own: Sequence[Sequence[QuerySet]], principal: str, version: str
) -> Left:
    labels = sorted({f"{measure.kind}" for judge in judges for measure in judge.asked.measures}) or ["keys"]
    text = record_sets([each for sets in own for each in sets], reads.engine.dialect, version)
    return reads.ledger.reserve(
        principal,
        Cost(),
        replace(reads.limits(principal), total_epsilon=None, total_delta=None),
        shape=EXACT + ", ".join(labels),
        fingerprint=reads.ledger.keep_query(text),
        policy=reads.policy.fingerprint,
    )


# ---- several groupings at once


def _families(judges: Sequence[Judge]) -> dict[int, list[Judge]]:
    found: dict[int, list[Judge]] = {}
    for judge in judges:
        if judge.core.family:
            found.setdefault(judge.core.family, []).append(judge)
    return found


def _own_sets(
    judges: Sequence[Judge], families: Mapping[int, Sequence[Judge]], dialect: str, version: str
) -> list[list[QuerySet]]:
    """The query sets of each judge; of a grouping that is not shown, there are none."""
    names = {number: family_of(listed, dialect) for number, listed in families.items()}
    return [
        [replace(each, family=names.get(judge.core.family, "")) for each in query_sets(judge, dialect, version)]
        if judge.core.shown
        else []
        for judge in judges
    ]


def _decide_groupings(
    reads: PrivateReads,
    data: Data,
    judges: Sequence[Judge],
    families: Mapping[int, Sequence[Judge]],
    own: Sequence[Sequence[QuerySet]],
    principal: str,
    event: int,
) -> dict[int, JudgedGrouping]:
    """What each grouping hides, by the number of its core."""
    before: dict[tuple[str, str], set[int]] = {}  # places that were hidden, by family and relation
    for each in earlier_sets(reads.ledger, principal, event):
        if each.family:
            before.setdefault((each.family, each.relation), set()).update(each.hidden)
    names = {judge.core.number: sets[0].family for judge, sets in zip(judges, own, strict=True) if sets}
    found: dict[int, JudgedGrouping] = {}
    for listed in families.values():
        groupings = []
        for judge in listed:
            statement = judge.listing()
            rows = data.guarded(lambda statement=statement: reads.engine.query(statement))
            groupings.append(read_groups(judge, rows))
        family = next(names[judge.core.number] for judge in listed if judge.core.number in names)
        texts = [judge.relation().sql(reads.engine.dialect) for judge in listed]
        earlier = {at: grouping.keys_at(before.get((family, texts[at]), set()))
                   for at, grouping in enumerate(groupings)}  # fmt: skip
        release = data.release
        left = release.to_work if release is not None else reads.policy.timeout
        if not hide_groups(groupings, earlier, left):
            assert reads.policy.controls is not None
            raise withheld_by(reads.policy.controls)
        for at, grouping in enumerate(groupings):
            before.setdefault((family, texts[at]), set()).update(grouping.hidden_places(0))
            found[grouping.judge.core.number] = grouping
    return found


def _with_hidden(
    judges: Sequence[Judge], own: Sequence[Sequence[QuerySet]], groupings: Mapping[int, JudgedGrouping]
) -> list[list[QuerySet]]:
    made = []
    for judge, sets in zip(judges, own, strict=True):
        grouping = groupings.get(judge.core.number)
        made.append(
            [
                each if grouping is None else replace(each, hidden=grouping.hidden_places(place))
                for place, each in enumerate(sets)
            ]
        )
    return made


def _table(judge: Judge, found: Sequence[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], int]:
    """The rows for the tables that the rest of the statement reads: keys, and each measure with an error of 0."""
    width, rows, withheld = len(judge.keys), [], 0
    for row in found:
        if not row[width]:
            withheld += int(row[width + 1])
            continue
        numbers = [cell for value in row[width + 2 :] for cell in (int(value), 0.0)]
        rows.append((*row[:width], *numbers))
    return rows, withheld


def withheld_by(controls: Controls) -> Withheld:
    rules = [f"at least {controls.query_set_size} persons, and as many left out"]
    if controls.overlap is not None:
        rules.append(f"at most {controls.overlap} of them in an earlier answer")
    if controls.dominance is not None:
        rules.append(f"sums of which {controls.dominance.n} hold less than {controls.dominance.k:g}")
    if controls.p_percent is not None:
        rules.append(f"no value known to within {controls.p_percent:g} %")
    return Withheld("the controls withhold this answer", hint=f"they ask for {'; '.join(rules)}")


# ---- overlap


def _refuse_overlap(
    reads: PrivateReads,
    data: Data,
    judges: Sequence[Judge],
    own: Sequence[Sequence[QuerySet]],
    principal: str,
    event: int,
) -> None:
    controls = reads.policy.controls
    if controls is None or controls.overlap is None:
        return
    known = list(dict.fromkeys(replace(each, event=0) for each in earlier_sets(reads.ledger, principal, event)))
    for judge, sets in zip(judges, own, strict=True):
        for place, mine in enumerate(sets):
            others = [each for each in known if not _same_rows(each, mine) and not _same_family(each, mine)]
            alike = [each for each in others if (each.relation, each.version) == (mine.relation, mine.version)]
            rest = [each for each in others if each not in alike]
            statements = [_shared_rows(judge, place, alike, controls.overlap)] if alike else []
            for start in range(0, len(rest), AT_ONCE):
                statements.append(_shared(judge, place, rest[start : start + AT_ONCE], controls.overlap, mine.version))
            for statement in statements:
                if data.guarded(lambda statement=statement: reads.engine.query(statement)) != [(0,)]:
                    raise withheld_by(controls)
            known.append(mine)


def _refuse_recovery(reads: PrivateReads, data: Data, principal: str, event: int) -> None:
    """Refuse what, put together with earlier answers, gives back one person or a withheld group.

    Query sets that share nobody add up to nothing but themselves; others are put together as an audit does.
    """
    controls = reads.policy.controls
    if controls is None or not controls.overlap:
        return
    found: list[tuple[Any, ...]] = data.guarded(
        lambda: [(each.events,) for each in audit_principal(reads.engine, reads.ledger, principal).exposures]
    )
    if any(event in events for (events,) in found):
        raise withheld_by(controls)


def _comparisons(reads: PrivateReads, own: Sequence[Sequence[QuerySet]], principal: str) -> int:
    """How many readings of the data the comparisons with what was asked before take, at most."""
    if reads.policy.controls is None or reads.policy.controls.overlap is None:
        return 0
    known = sum(1 for _ in earlier_sets(reads.ledger, principal)) + sum(map(len, own))
    return 1 + math.ceil(known / SETS_A_READING)


def _same_rows(one: QuerySet, other: QuerySet) -> bool:
    return (one.relation, one.present, one.version) == (other.relation, other.present, other.version)


def _same_family(one: QuerySet, other: QuerySet) -> bool:
    """Groupings of the same rows: what they hide is decided together, so that they may overlap."""
    return bool(one.family) and (one.family, one.version) == (other.family, other.version)


def _shared_rows(judge: Judge, place: int, others: Sequence[QuerySet], most: int) -> exp.Select:
    """How many groups, of the same relation, have a query set that shares persons and is not the same rows."""
    mine = judge.asked.sets[place]
    added: dict[str, exp.Expr] = {}
    tests: list[exp.Expr] = []
    for at, other in enumerate(others):
        holds = sqlglot.parse_one(other.present, read=other.dialect)
        added[f"q{at}"] = _flag(holds.copy())
        added[f"d{at}"] = _flag(exp.NEQ(this=_flag(mine.copy()), expression=_flag(holds.copy())))
        both = exp.and_(exp.GT(this=exp.column(f"n{place}"), expression=number(0)), f"q{at} > 0")
        differ = exp.GT(this=exp.Sum(this=exp.column(f"d{at}")), expression=number(0))
        tests.append(exp.and_(differ, exp.GT(this=exp.Sum(this=_flag(both)), expression=number(most))))
    groups = exp.Select().select(exp.alias_(number(1), "found")).from_(JUDGED).where("ok = 1")
    groups = groups.group_by(*judge.keys) if judge.keys else groups
    return judge.ending(_counted([groups.having(exp.or_(*tests))]), added)


def _shared(judge: Judge, place: int, others: Sequence[QuerySet], most: int, version: str) -> exp.Select:
    """How many pairs of a group and an earlier group share more persons than they may."""
    if judge.keys:
        mine = exp.Select().select(UNIT, *judge.keys).from_(JUDGED).where(f"ok = 1 AND n{place} > 0")
    else:
        mine = _persons(judge.relation(), judge.asked.sets[place])
    branches: list[exp.Query] = []
    for other in others:
        texts = (other.held,) if other.keys else (other.relation, other.present)
        theirs, *present = (sqlglot.parse_one(text, read=other.dialect) for text in texts)
        assert isinstance(theirs, exp.Select)
        theirs = _persons(theirs, present[0]) if present else theirs
        # Of other data it is not known any more which groups were let out: all of them count.
        judged = other.keys and other.version == version
        let_out = f"m.{UNIT} = t.{UNIT}" + (" AND t.ok = 1" if judged else "")
        branch = exp.Select().select(exp.alias_(number(1), "found")).from_("sqlanon_mine AS m")
        branch = branch.join(_aliased(theirs, "t"), on=let_out)
        by = [*(f"m.{key}" for key in judge.keys), *(f"t.k{at}" for at in range(other.keys))]
        branch = branch.group_by(*by) if by else branch
        branches.append(branch.having(exp.GT(this=exp.Count(this=exp.Star()), expression=number(most))))
    final = _counted(branches)
    final = judge.ending(final) if judge.keys else final
    return final.with_("sqlanon_mine", as_=mine, copy=False)


def _persons(relation: exp.Select, present: exp.Expr) -> exp.Select:
    """The persons of a query set without keys: it was answered, or it is withheld as a whole. Nothing to judge."""
    return relation.copy().where(present.copy(), copy=False).distinct(copy=False)


def _counted(branches: Sequence[exp.Query]) -> exp.Select:
    found: exp.Query = branches[0]
    for branch in branches[1:]:
        found = exp.Union(this=found, expression=branch, distinct=False)
    return exp.Select().select(exp.Count(this=exp.Star())).from_(_aliased(found, "found"))


def _aliased(query: exp.Query, name: str) -> exp.Expr:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(name)))


def _flag(test: exp.Expr) -> exp.Expr:
    return exp.Case().when(test, number(1), copy=False).else_(number(0), copy=False)


def plan(prepared: PricedStatement, principal: str, catalog: Catalog, dialect: str, *, verbose: bool) -> list[str]:
    """What EXPLAIN tells, and EXPLAIN VERBOSE."""
    controls = catalog.policy.controls
    assert controls is not None
    lines = ["Exact, at no cost, under the controls:", f"  {withheld_by(controls).hint}"]
    for judge in prepared.judges if verbose else ():
        text = mask_names(judge.answer(), catalog, principal).sql(dialect, pretty=True)
        lines += ["", f"{judge.core.table} reads:", *(f"    {line}" for line in text.splitlines())]
    return lines
