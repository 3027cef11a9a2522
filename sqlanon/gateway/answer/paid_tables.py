"""Paid once: noisy tables that a principal was given answer later questions that follow from them, at no cost.

Nothing here reads data: what is found is a function of noisy tables of the same principal, policy and version of the
data, which the ledger keeps, so that it costs nothing (it is post-processing). What is not accurate enough is bought,
only so far as it is missing, and brought together with what is there by inverse variances.

A number that was shown is shown again, however it is asked for. Of each question the ledger keeps what was shown, with
the accuracy for which it was; the first that is as accurate as asked is the answer. Where none is, the first tables
that are as accurate together decide, in the order in which they were paid for. A statement that asks for no accuracy
takes what was shown, and single groups of tables that were shown; sums of groups only where they are as accurate as
it would be by itself.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from sqlanon.errors import EngineError
from sqlanon.gateway.answer.answer_cache import as_text, from_text
from sqlanon.gateway.answer.post_processing import RANGED, TYPES, PostDatabase
from sqlanon.gateway.answer.prepared_tables import tables_for
from sqlanon.gateway.answer.private_reads import PrivateReads
from sqlanon.gateway.bind.core import Core, same_key
from sqlanon.gateway.price.match_tables import (
    AskedAtom,
    AskedTable,
    Derivation,
    GroupNames,
    KnownAtom,
    KnownTable,
    asked_table,
    derive,
    digest,
    known_table,
    mark,
)
from sqlanon.gateway.price.noise import (
    Key,
    Mechanisms,
    Noise,
    NoiseOf,
    amount_of,
    cost_of,
    key_width,
    mechanism_for,
    sensitivity,
)
from sqlanon.gateway.price.noise_sums import NoisySum, half_width_of, missing_share, value_of, variance_of
from sqlanon.gateway.price.prepared_statement import PricedCore, PricedStatement, statements_of
from sqlanon.gateway.price.statement_budget import LEAST
from sqlanon.gateway.price.value_range import RangedSum
from sqlanon.mechanisms import Cost, KeySelection, Mechanism

Cells = dict[Key, tuple[Any, ...]]  # of one atom: the columns of a noisy table, by key
ADDED = ("laplace", "gaussian")  # noise of integers, which can be added up
LEAST_SHARE, STEP = (
    0.01,
    1.02,
)  # of the inverse variance of an atom, what is bought at least, and how it is searched for
EQUAL = 1 + 1e-9
LONGEST_FREE = 20_000  # characters of what is filed at no cost; beyond, the order of the tables alone decides


@dataclass(frozen=True)
class Group:
    """Groups of a noisy table that are one group of a question."""

    count: int
    total: int
    columns: tuple[Any, ...]  # of one of them

    def summed(self, known: KnownAtom) -> NoisySum:
        return NoisySum(known.noise, known.scale, self.count, self.total)


Added = dict[Key, Group]


@dataclass(frozen=True)
class PaidNoise(Mechanism):
    """Stands for noise that was paid for: it draws nothing and costs nothing."""

    width: float = 0.0

    def half_width(self, coverage: float = 0.95) -> float:
        return self.width


@dataclass(frozen=True)
class Estimate:
    """What is known of one atom."""

    cells: Cells
    width: float  # half of the widest 95 % interval, or the scale of noise that has none
    promised: float = 0.0  # the width for which it was asked
    scaled: bool = False  # its noise has no interval

    def as_text(self, question: GroupNames) -> str:
        """As it was shown; without groups that the tests of the question leave empty."""
        named = ((question.name_of(key), columns) for key, columns in self.cells.items())
        rows = [(*name, *columns) for name, columns in named if name is not None]
        scale = self.width if self.scaled else None
        return json.dumps({"scale": scale, "promised": self.promised, "rows": as_text(rows)})


@dataclass
class AtomPlan:
    target: float
    bins: int = 0
    found: Estimate | None = None
    fresh: bool = False  # found now: to be kept as shown
    shown: Cells = field(default_factory=dict)
    stated: bool = False
    sums: list[dict[Key, NoisySum]] = field(default_factory=list)  # to be brought together with what is bought


@dataclass
class CorePlan:
    """What answers one core: atoms that are known, and what is bought beside them."""

    part: PricedCore
    asked: AskedTable
    file: str  # where its tables are kept
    keys: list[Key] | None  # those of the answer, where they are known
    atoms: list[AtomPlan] = field(default_factory=list)
    buys: PricedCore | None = None
    bought: tuple[int, ...] = ()  # the atoms of `buys`, by their numbers here
    fresh_keys: bool = False  # the keys were found in a table, and are to be kept as shown
    threshold: int = 0  # and what they needed

    @property
    def cost(self) -> Cost:
        return self.buys.noise.cost if self.buys is not None else Cost()

    def columns(self) -> Iterator[tuple[int, NoiseOf, int, int]]:
        """Of each atom that is bought: its number, its noise, and where its columns stand in what is read."""
        assert self.buys is not None
        start = len(self.asked.keys)
        for place, atom, noise in zip(self.bought, self.buys.core.atoms, self.buys.noise.atoms, strict=True):
            end = start + 2 + (len(RANGED) if atom.kind == "ranged" else 0)
            yield place, noise, start, end
            start = end

    @property
    def shown(self) -> PricedCore:
        """For EXPLAIN: with the noise that its answer has."""
        atoms = tuple(
            PaidNoise(list, Cost(), 0.0, width=plan.found.width if plan.found.cells else plan.target)
            if plan.found is not None
            else own
            for plan, own in zip(self.atoms, self.part.noise.atoms, strict=True)
        )
        keys = self.part.noise.keys if self.keys is None else None
        kept = self.part.noise.keys if any(each is None for each in atoms) else keys
        return replace(self.part, noise=Noise(atoms, kept, self.part.noise.sensitivities, self.cost))


@dataclass(frozen=True)
class PaidTables:
    """The noisy tables in a ledger, and how questions follow from them."""

    reads: PrivateReads
    post: PostDatabase
    mechanisms: Mechanisms

    def plan(self, prepared: PricedStatement, principal: str) -> list[CorePlan]:
        """How each core of a statement is answered. Nothing but the ledger is read."""
        return [self._plan(part, prepared, principal) for part in prepared.parts]

    def _plan(self, part: PricedCore, prepared: PricedStatement, principal: str) -> CorePlan:
        core = part.core
        asked = asked_table(core, prepared.limit, self.reads.catalog)
        file = self._file(principal, asked)
        plan = CorePlan(part, asked, file, None)
        known = [known_table(text) for text in self.reads.ledger.filed(file)]
        rows = {table.answer: text for table in known if (text := self.reads.ledger.cached(table.answer)) is not None}
        tables = [(table, from_text(rows[table.answer])) for table in known if table.answer in rows]
        stated = prepared.stated
        plan.atoms = _atom_plans(part)
        if core.mode in ("none", "declared"):
            plan.keys = [_same(key) for key in self.reads.data.keys(core) or []]
        else:
            self._find_keys(plan, tables, stated)
        if plan.keys is None and core.mode == "private":
            plan.buys, plan.bought = replace(part, cache_key=_drawn(part)), tuple(range(len(core.atoms)))
            return plan
        for own, atom in zip(plan.atoms, asked.atoms, strict=True):
            own.stated, own.shown = stated, self._shown_cells(plan, own, atom, stated)
            self._find_atom(plan, own, atom, tables, stated)
        self._buy(plan, prepared)
        return plan

    # ---- what is known

    def _find_keys(self, plan: CorePlan, tables: Sequence[tuple[KnownTable, Any]], stated: bool) -> None:
        """Keys that were shown, of as low a threshold as asked; or those of tables whose keys are public."""
        wanted = plan.part.noise.keys.threshold if plan.part.noise.keys is not None else 0
        question = plan.asked.question(None)
        for text in self.reads.ledger.filed(_file_of(plan, question)):
            held = json.loads(text)
            if not stated or held["promised"] <= wanted:
                shown = [_same(question.key(cell)) for cell in from_text(held["rows"])]
                plan.keys = [key for key in shown if question.cell(key) is not None]
                plan.threshold = int(held["promised"])
                return
        if plan.part.core.mode != "private":
            return  # the public table tells
        for table, rows in tables:
            way = derive(plan.asked, None, table, None)
            if way is None or not (table.covers or way.same_keys):
                continue
            if table.mode == "private" and stated and table.threshold > wanted:
                continue
            found = self._added(way, rows)
            if found is None:
                continue
            plan.keys = list(found)
            plan.fresh_keys, plan.threshold = True, table.threshold if table.mode == "private" else 0
            return

    def _shown_cells(self, plan: CorePlan, own: AtomPlan, atom: AskedAtom, stated: bool) -> Cells:
        """Of each group what was shown first, as accurate as asked; 0 for those that the tests leave empty."""
        question = plan.asked.question(atom)
        shown: Cells = {}
        width = len(question.parts)
        for text in self.reads.ledger.filed(_file_of(plan, question)):
            held = json.loads(text)
            for row in from_text(held["rows"]):
                reached = row[width + 1] if held["scale"] is None else held["scale"]
                if not stated or min(reached, held["promised"] or reached) <= own.target * EQUAL:
                    shown.setdefault(_same(row[:width]), row[width:])
        nothing = _nothing(atom.kind, own.bins, shown)
        names = [(key, question.name_of(key)) for key in plan.keys or ()]
        return {key: nothing if name is None else shown[name] for key, name in names if name is None or name in shown}

    def _find_atom(
        self, plan: CorePlan, own: AtomPlan, atom: AskedAtom, tables: Sequence[tuple[KnownTable, Any]], stated: bool
    ) -> None:
        """What was shown of an atom, or what follows from tables; else what is to be brought together with more."""
        if plan.keys is not None and own.shown.keys() >= set(plan.keys):
            own.found = Estimate(own.shown, max((each[1] for each in own.shown.values()), default=0.0))
            return
        for table, rows in tables:
            for known in table.atoms:
                way = derive(plan.asked, atom, table, known)
                found = self._added(way, rows) if way is not None else None
                if way is None or found is None or not _may_be_used(plan, way, found):
                    continue
                if known.noise not in ADDED:
                    if known.scale <= own.target * EQUAL or not stated:
                        columns = {key: group.columns for key, group in found.items()}
                        own.found, own.fresh = Estimate(columns, known.scale, scaled=True), True
                        return
                    continue
                own.sums.append({key: group.summed(known) for key, group in found.items()})
                shown = not stated and all(group.count == 1 for group in found.values())
                together = _single(found, known, plan.keys) if len(own.sums) == 1 else _together(own.sums, plan.keys)
                if together.width <= own.target * EQUAL or shown:
                    own.found, own.fresh = together, True
                    return

    def _added(self, way: Derivation, rows: Sequence[tuple[Any, ...]]) -> Added | None:
        """By key: how many groups of the table are added up, their sum, and the columns of one of them."""
        table, known = way.table, way.atom
        types = [(f"k{place}", TYPES[kind]) for place, kind in enumerate(table.kinds)]
        width, size = len(types), known.width if known is not None else 0
        columns = [("a", "BIGINT"), ("h", "DOUBLE"), *((name, "DOUBLE") for name in RANGED)][:size]
        held = [(*row[:width], *(row[known.start : known.start + size] if known is not None else ())) for row in rows]
        query = exp.Select().from_("paid", copy=False)
        for place, key in enumerate(way.keys):
            query = query.select(exp.alias_(key.copy(), f"q{place}"), copy=False)
        query = query.select(exp.Count(this=exp.Star()), copy=False)
        if known is not None:
            total = exp.Coalesce(this=exp.Sum(this=exp.column("a")), expressions=[exp.Literal.number(0)])
            query = query.select(exp.cast(total, exp.DataType.Type.INT128), copy=False)
        query = query.select(*(exp.Min(this=exp.column(name)) for name, _ in columns), copy=False)
        if way.tests:
            query = query.where(*(test.copy() for test in way.tests), copy=False)
        if way.keys:
            query = query.group_by(*(exp.Literal.number(place + 1) for place in range(len(way.keys))), copy=False)
        if not types + columns:
            types, held = [("nothing", "INTEGER")], [(0,) for _ in held]
        try:
            made = self.post.compute({"paid": ([*types, *columns], held)}, query.sql("duckdb"))
        except EngineError:
            return None  # then it is paid for
        count, found = len(way.keys), {}
        for row in sorted(made, key=lambda row: [(each is None, "" if each is None else each) for each in row[:count]]):
            value = int(row[count + 1]) if known is not None else 0
            found[_same(row[:count])] = Group(int(row[count]), value, tuple(row[count + 2 :]))
        return found

    # ---- what is bought

    def wanted(self, prepared: Sequence[PricedStatement], principal: str) -> list[CorePlan]:
        """The tables from which all of several statements follow; none where they follow from what is there."""
        missing = [each for each in prepared if any(plan.buys is not None for plan in self.plan(each, principal))]
        policy = self.reads.policy
        plans = []
        for part, limit in tables_for(missing, self.reads.catalog, policy.mechanism, self.mechanisms):
            asked = asked_table(part.core, limit, self.reads.catalog)
            plan = CorePlan(part, asked, self._file(principal, asked), None, _atom_plans(part))
            plan.buys, plan.bought = replace(part, cache_key=_drawn(part)), tuple(range(len(part.core.atoms)))
            plans.append(plan)
        return plans

    def _file(self, principal: str, asked: AskedTable) -> str:
        """Where the tables about some rows are kept."""
        policy = self.reads.policy
        return digest(["tables", principal, policy.fingerprint, self.reads.data_version(), asked.source])

    def _buy(self, plan: CorePlan, prepared: PricedStatement) -> None:
        """The noise of atoms that are not known accurately enough, as far as it is missing."""
        core, noise, policy = plan.part.core, plan.part.noise, self.reads.policy
        missing = [place for place, each in enumerate(plan.atoms) if each.found is None]
        if not missing:
            return
        cores = len(prepared.parts)
        delta, least = prepared.delta / cores, LEAST * policy.budget.statement.epsilon / cores / len(core.atoms)
        bought: list[NoiseOf] = []
        for place in missing:
            own = noise.atoms[place]
            share = _missing(plan.atoms[place], own, noise.keys)
            amount = amount_of(own, noise.keys, policy.mechanism)
            if policy.mechanism == "gaussian":
                amount = max(amount * share, min(amount, 1e-6))
            else:
                amount = max(amount * share**0.5, min(amount, least))
            atom = core.atoms[place]
            bought.append(mechanism_for(core, atom, prepared.limit, amount, delta, policy.mechanism, self.mechanisms))
        atoms = [core.atoms[place] for place in missing]
        # Keys that were shown are as public as declared ones.
        own_keys = {"mode": "declared", "declared": tuple(plan.keys or ())} if core.mode == "private" else {}
        small = replace(core, atoms=atoms, **own_keys)  # type: ignore[arg-type]
        reaches = tuple(sensitivity(small, atom, prepared.limit) for atom in atoms)
        cost = cost_of(bought, None, delta, policy.mechanism)
        statements = statements_of(small, prepared.limit)
        plan.buys = PricedCore(small, Noise(tuple(bought), None, reaches, cost), statements, _drawn(plan.part))
        plan.bought = tuple(missing)

    # ---- what is answered

    def complete(self, plan: CorePlan, rows: Sequence[tuple[Any, ...]] | None) -> list[tuple[str, str]]:
        """Bring together what was bought, if anything was, with what was known; gives what is to be filed."""
        filed: list[tuple[str, str]] = []
        if plan.part.core.mode == "public" and plan.fresh_keys:  # the keys were not known before
            for own, atom in zip(plan.atoms, plan.asked.atoms, strict=True):
                own.shown = self._shown_cells(plan, own, atom, own.stated)
        if plan.buys is not None and rows is not None:
            width = len(plan.part.core.keys)
            if plan.buys.noise.keys is not None:
                plan.keys = [_same(row[:width]) for row in rows]
                plan.fresh_keys, plan.threshold = True, plan.buys.noise.keys.threshold
            filed.append((plan.file, self._view(plan).as_text()))
            for place, mechanism, start, end in plan.columns():
                cells: Cells = {_same(row[:width]): tuple(row[start:end]) for row in rows}
                plan.atoms[place].found = _with_bought(plan, place, cells, mechanism)
                plan.atoms[place].fresh = True
        if plan.fresh_keys:
            assert plan.keys is not None
            question = plan.asked.question(None)
            named = [cell for key in plan.keys if (cell := question.cell(key)) is not None]
            text = json.dumps({"scale": None, "promised": plan.threshold, "rows": as_text(named)})
            filed.append((_file_of(plan, question), text))
        for own, asked in zip(plan.atoms, plan.asked.atoms, strict=True):
            if own.fresh and own.found is not None:
                # What was shown of a group before is shown again.
                cells = _of_keys(own.found.cells, plan.keys, asked.kind, own.bins) | own.shown
                own.found = replace(own.found, cells={key: cells[key] for key in plan.keys or ()})
                question = plan.asked.question(asked)
                filed.append((_file_of(plan, question), own.found.as_text(question)))
        return filed

    def complete_known(self, plans: Sequence[CorePlan]) -> list[tuple[str, str]]:
        """What is to be filed of plans that buy nothing: less than what fills a disk, since it costs nothing."""
        return [each for plan in plans for each in self.complete(plan, None) if len(each[1]) <= LONGEST_FREE]

    def settled(self, own: Sequence[CorePlan], now: Sequence[CorePlan]) -> list[CorePlan]:
        """After a purchase: what was shown first, where another process bought the same at the same time."""
        return [b if b.buys is None and b.keys is not None else a for a, b in zip(own, now, strict=True)]

    def _view(self, plan: CorePlan) -> KnownTable:
        """What was bought, as a table that others may follow from."""
        buys, asked = plan.buys, plan.asked
        assert buys is not None
        atoms = []
        for place, mechanism, start, end in plan.columns():
            own = asked.atoms[place]
            noise, scale = _kind_of(mechanism, buys.noise.keys)
            atoms.append(
                KnownAtom(
                    mark(own.identity), own.kind, frozenset(map(mark, own.tests)), start, end - start, noise, scale
                )
            )
        keys = tuple(tuple(mark(form.sql("duckdb")) for form in forms) for forms in asked.keys)
        among = tuple((mark(text), place, tuple(map(mark, values))) for text, place, values in asked.among)
        return KnownTable(
            buys.cache_key, frozenset(map(mark, asked.tests)), keys, asked.kinds, among, tuple(atoms), asked.mode,
            asked.covers, plan.threshold,
        )  # fmt: skip

    def table_of(self, plan: CorePlan) -> tuple[Core, list[tuple[Any, ...]]]:
        """The noisy table of a core whose atoms are all known."""
        found = [own.found for own in plan.atoms]
        keys = plan.keys or []
        return plan.part.core, [(*key, *(cell for each in found if each for cell in each.cells[key])) for key in keys]


def _of_keys(cells: Cells, keys: Sequence[Key] | None, kind: str, bins: int) -> Cells:
    """By all keys of an answer. What no group of a table stands for has no row, which tests and keys alone tell:
    its sums are 0, and its quantile is the middle of what it is chosen from."""
    if keys is None:
        return cells
    empty = _nothing(kind, bins, cells)
    return {key: cells.get(key, empty) for key in keys}


def _nothing(kind: str, bins: int, others: Cells) -> tuple[Any, ...]:
    """The columns of a group that has no row, beside others of the same atom."""
    if kind == "ranged":
        return (0, 0.0, *next(iter(others.values()), (0, 0.0, 1.0, 0.0, 0.0))[2:])
    return bins // 2 if kind == "quantile" else 0, 0.0


def _atom_plans(part: PricedCore) -> list[AtomPlan]:
    pairs = zip(part.core.atoms, part.noise.atoms, strict=True)
    return [AtomPlan(_width(own, part.noise.keys), atom.bins) for atom, own in pairs]


def _with_bought(plan: CorePlan, place: int, cells: Cells, mechanism: NoiseOf) -> Estimate:
    own = plan.atoms[place]
    noise, scale = _kind_of(mechanism, plan.part.noise.keys)
    if not own.sums or noise not in ADDED:
        width = scale if noise not in (*ADDED, "selected") else max((row[1] for row in cells.values()), default=0.0)
        return Estimate(cells, width, own.target, scaled=noise not in (*ADDED, "selected"))
    drawn = {key: NoisySum(noise, scale, 1, int(row[0])) for key, row in cells.items()}
    return replace(_together([*own.sums, drawn], list(cells)), promised=own.target)


def _drawn(part: PricedCore) -> str:
    """A name of its own for each purchase: two are never the same draw, however alike they are."""
    return digest(["drawn", part.cache_key, secrets.token_hex(16)])


def _file_of(plan: CorePlan, question: GroupNames) -> str:
    return digest(["shown", plan.file, question.name])


def _same(key: Sequence[Any]) -> Key:
    return tuple(map(same_key, key))


def _may_be_used(plan: CorePlan, way: Derivation, found: Added) -> bool:
    """Rows can be added up over groups; persons and distinct values cannot, nor what has no integer."""
    known = way.atom
    assert known is not None
    if known.kind != "sum" and any(group.count != 1 for group in found.values()):
        return False
    wanted = plan.keys
    # Of a table with private keys, a group that is not there is not empty.
    return way.table.mode != "private" or (wanted is not None and all(key in found for key in wanted))


def _single(found: Added, known: KnownAtom, keys: Sequence[Key] | None) -> Estimate:
    """What one table tells; of a group that it shows, in so many words."""
    cells = _together([{key: group.summed(known) for key, group in found.items()}], keys).cells
    cells |= {key: group.columns for key, group in found.items() if group.count == 1 and key in cells}
    return Estimate(cells, max((float(row[1]) for row in cells.values()), default=0.0))


def _together(sums: Sequence[Mapping[Key, NoisySum]], keys: Sequence[Key] | None) -> Estimate:
    """Several estimates of the same numbers."""
    cells: Cells = {}
    nothing = NoisySum("laplace", 0.0, 0)
    for key in keys if keys is not None else list(dict.fromkeys(key for each in sums for key in each)):
        own = [each.get(key, nothing) for each in sums]
        cells[key] = value_of(own), half_width_of(own)
    return Estimate(cells, max((float(width) for _, width in cells.values()), default=0.0))


def _width(mechanism: NoiseOf, keys: KeySelection | None) -> float:
    """Half of the 95 % interval of what is asked; the scale of noise that has none."""
    if mechanism is None:
        assert keys is not None
        return key_width(keys)
    return mechanism.half_width() if isinstance(mechanism, Mechanism) else mechanism.scale


def _kind_of(mechanism: NoiseOf, keys: KeySelection | None) -> tuple[str, float]:
    if mechanism is None:
        assert keys is not None
        return "selected", key_width(keys)
    if isinstance(mechanism, Mechanism):
        return mechanism.distribution, mechanism.scale
    return ("ranged" if isinstance(mechanism, RangedSum) else "choice"), mechanism.scale


def _missing(own: AtomPlan, mechanism: NoiseOf, keys: KeySelection | None) -> float:
    """The share of the inverse variance that has to be bought for the width that is asked; of 1, all is drawn anew."""
    noise, scale = _kind_of(mechanism, keys)
    if noise not in ADDED or not own.sums:
        return 1.0
    target = variance_of(noise, scale)
    nothing = NoisySum("laplace", 0.0, 0)
    every = {tuple(replace(each.get(key, nothing), value=0) for each in own.sums) for each in own.sums for key in each}
    share = max((missing_share(known, target) for known in every), default=1.0)
    share = max(share, LEAST_SHARE)
    while share < 1 and any(
        half_width_of([*known, NoisySum(noise, scale / share**0.5, 1)]) > own.target * EQUAL for known in every
    ):
        share *= STEP
    if share >= 1:
        own.sums.clear()
    return min(share, 1.0)
