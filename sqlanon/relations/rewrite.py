"""The release as one SELECT over the source: labels in place of quasi-identifiers, without what must not leave.

A row finds its labels and its packed key through the dictionaries, one narrow hash join a quasi-identifier; rows are
suppressed by that key, not by a window over strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.relations.classes import NULL_NODE
from sqlanon.relations.compressed_rows import Compressed, Domain, code, same_value
from sqlanon.relations.source import SUPPRESSED
from sqlanon.sqltree.tree import alias, bigint, case, column, literal, table, text, window

MOST_CODED = 65_536  # labels; a join to more is no faster than sorting them
SHOWN, HASHED, HIDDEN = "shown", "hashed", "hidden"


@dataclass(frozen=True)
class Pass:
    """A node of the lattice, by its levels, and the table of its classes (class_id) that break a model."""

    node: tuple[int, ...]
    broken: str | None


@dataclass(frozen=True)
class Output:
    """What becomes of the columns: `others` are those beside the quasi-identifiers, each shown or hashed;
    `sensitive` ones are hidden in a suppressed row that is kept."""

    others: Mapping[str, str]
    sensitive: tuple[str, ...]
    keep_suppressed: bool = False
    secret: str | None = None  # table of one row with the key of hashes


def by_levels(dialect: str, rows: exp.Select, packed: Compressed, passes: Sequence[Pass], output: Output) -> exp.Select:
    """Every quasi-identifier at the level of its pass; rows that no pass can show are suppressed."""
    tree = exp.select().from_(rows.subquery(alias="original"))
    coded = _coded(packed, passes, output) if dialect == "duckdb" else {}
    for place, domain in enumerate(packed.domains, start=1):
        chosen = _looked_up(domain, place, passes, coded.get(place))
        if chosen:
            part = exp.select("original", *chosen).from_(table(domain.dictionary)).subquery(alias=f"d{place}")
            tree = tree.join(part, on=_own_value(dialect, domain.name, f"d{place}"))
    for number, item in enumerate(passes, start=1):
        if item.broken:
            same = exp.column("class_id", table=f"b{number}").eq(class_id(packed, number, item))
            tree = tree.join(table(item.broken, alias=f"b{number}"), on=same, join_type="left")
    shown_at = [
        exp.column("class_id", table=f"b{number}").is_(exp.Null()) if item.broken else exp.true()
        for number, item in enumerate(passes, start=1)
    ]
    labels = _labels(packed, passes, shown_at, output)
    for place in coded:
        name = packed.domains[place - 1].name
        labels[place - 1] = alias(exp.column("code", table=f"d{place}"), name, quoted=True)
    tree = tree.select(*labels, *_others(dialect, shown_at, output))
    if output.secret:
        tree = tree.join(table(output.secret, alias="secret"), join_type="cross")
    if any(item.broken for item in passes) and not output.keep_suppressed:
        tree = tree.where(exp.or_(*(item.copy() for item in shown_at)))
    return _decoded(shuffle_rows(tree), packed, coded) if coded else shuffle_rows(tree)


def _decoded(rows: exp.Select, packed: Compressed, coded: Mapping[int, int]) -> exp.Select:
    """Shuffled rows with labels in place of their codes: DuckDB sorts numbers in half the time that strings take.

    A join may change the order of rows again. So codes stand for labels, not for the exact values behind them: no order
    can tell more than the labels do.
    """
    tree = exp.select().from_(rows.subquery(alias="shuffled"))
    shown: dict[str, exp.Expr] = {}
    for place, level in coded.items():
        domain = packed.domains[place - 1]
        name = f"o{place}"
        known = exp.select(alias(_code_of(level), "code"), alias(_label_of(level), "label")).distinct()
        known = known.from_(table(domain.dictionary))
        same = exp.column("code", table=name).eq(column(domain.name, "shuffled"))
        tree = tree.join(known.subquery(alias=name), on=same)
        shown[domain.name] = exp.column("label", table=name)
    names = [item.alias for item in rows.selects]
    return tree.select(*(alias(shown.get(name, column(name, "shuffled")), name, quoted=True) for name in names))


def _label_of(level: int) -> exp.Expr:
    """What a row of a dictionary shows at a level below the root; NULL stays NULL."""
    if level == 0:
        return exp.column("original")
    return case((exp.column("original").is_(exp.Null()), text(exp.Null())), default=exp.column(f"n{level}"))


def _code_of(level: int) -> exp.Expr:
    """A number for each label."""
    position = exp.column("position")
    return position if level == 0 else window(exp.Min(this=position), partition=[_label_of(level)])


def _coded(packed: Compressed, passes: Sequence[Pass], output: Output) -> dict[int, int]:
    """The places of quasi-identifiers that are looked up at one level alone and have few labels, and their levels."""
    found = {}
    suppresses = any(item.broken for item in passes)
    for place, domain in enumerate(packed.domains, start=1):
        levels = {item.node[place - 1] for item in passes}
        level = min(levels)
        simple = len(levels) == 1 and level < domain.height and not (suppresses and output.keep_suppressed)
        if simple and (level > 0 or suppresses) and domain.leaves <= MOST_CODED:
            found[place] = level
    return found


def _looked_up(domain: Domain, place: int, passes: Sequence[Pass], coded: int | None) -> list[exp.Expr]:
    """What a row takes from a dictionary: for each pass its label, and its bits of the class. Worked out once for each
    value, not for each row."""
    found: list[exp.Expr] = [] if coded is None else [alias(_code_of(coded), "code")]
    for number, item in enumerate(passes, start=1):
        level = item.node[place - 1]
        if coded is None and 0 < level < domain.height:
            found.append(alias(_label_of(level), f"label_{number}"))
        if item.broken and level < domain.height:
            found.append(alias(code(domain, level=level), f"bits_{number}"))
    return found


def class_id(packed: Compressed, number: int, item: Pass) -> exp.Expr:
    """The class of a row in a pass, from the dictionaries d1, d2, … of its quasi-identifiers."""
    found: list[exp.Expr] = []
    for key in range(packed.keys):
        parts: list[exp.Expr] = [
            exp.column(f"bits_{number}", table=f"d{place}")
            for place, domain in enumerate(packed.domains, start=1)
            if domain.key == key and item.node[place - 1] < domain.height
        ]
        tree = parts[0] if parts else bigint(literal(0))
        for part in parts[1:]:
            tree = exp.Add(this=tree, expression=part)
        found.append(tree)
    if len(found) == 1:
        return exp.paren(found[0])
    tree = text(exp.paren(found[0]))
    for part in found[1:]:
        tree = exp.DPipe(this=exp.DPipe(this=tree, expression=literal("/")), expression=text(exp.paren(part)))
    return exp.paren(tree)


def _own_value(dialect: str, name: str, dictionary: str) -> exp.Expr:
    return same_value(dialect, column(name, "original"), dictionary)


def _labels(packed: Compressed, passes: Sequence[Pass], shown_at: Sequence[exp.Expr], output: Output) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    hides = output.keep_suppressed and any(item.broken for item in passes)
    for place, domain in enumerate(packed.domains):
        levels = [item.node[place] for item in passes]
        if not hides and set(levels) == {0}:
            found.append(alias(column(domain.name, "original"), domain.name, quoted=True))
            continue
        shown = [_label(packed, place, number, level) for number, level in enumerate(levels, start=1)]
        if not hides and len(set(levels)) == 1:
            found.append(alias(shown[0], domain.name, quoted=True))
            continue
        branches = [(flag.copy(), label) for flag, label in zip(shown_at, shown, strict=True)]
        found.append(alias(case(*branches, default=literal(SUPPRESSED)), domain.name, quoted=True))
    return found


def _label(packed: Compressed, place: int, number: int, level: int) -> exp.Expr:
    """The label in a pass, as text; NULL stays NULL below the root."""
    domain = packed.domains[place]
    if level == 0:
        return text(column(domain.name, "original"))
    if level >= domain.height:
        return literal(domain.hierarchy.root)
    return exp.column(f"label_{number}", table=f"d{place + 1}")


def _others(dialect: str, shown_at: Sequence[exp.Expr], output: Output) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for name, what in output.others.items():
        value: exp.Expr = column(name, "original")
        if what == HASHED:
            value = pseudonym(value, name, dialect)
        if output.keep_suppressed and name in output.sensitive:
            value = case((exp.or_(*(flag.copy() for flag in shown_at)), value), default=exp.Null())
        found.append(alias(value, name, quoted=True))
    return found


def pseudonym(value: exp.Expr, name: str, dialect: str) -> exp.Expr:
    """A keyed hash: the same person gets the same pseudonym, and nobody without the key can try out names.

    The key is hashed in twice, so that a longer value cannot be appended to a known hash; and the name of the column,
    so that equal values of two columns cannot be told to be equal.
    """
    key = exp.column("key", table="secret")
    named = exp.DPipe(this=literal(f":{name}:"), expression=text(value))
    inner = sha256(exp.DPipe(this=key, expression=named), dialect)
    outer = sha256(exp.DPipe(this=key.copy(), expression=inner), dialect)
    return case((value.copy().is_(exp.Null()), text(exp.Null())), default=outer)


def sha256(value: exp.Expr, dialect: str) -> exp.Expr:
    if dialect == "postgres":
        value = exp.Anonymous(this="convert_to", expressions=[value, literal("UTF8")])
    return exp.SHA2(this=value, length=literal(256))


def by_regions(
    dialect: str,
    rows: exp.Select,
    packed: Compressed,
    members: str,
    labels: str,
    output: Output,
    *,
    values: Mapping[str, str] | None = None,
    split: bool = False,
) -> exp.Select:
    """Every row with the labels of its region. `values` maps sensitive columns to tables (original, value) of their
    ranks where the region of a row depends on them; `split` where rows that are alike go to different regions."""
    inner = exp.select("original.*").from_(rows.subquery(alias="original"))
    keys = []
    for place, domain in enumerate(packed.domains):
        name = f"d{place + 1}"
        part = exp.select("original", alias(code(domain), "bits")).from_(table(domain.dictionary)).subquery(alias=name)
        inner = inner.join(part, on=_own_value(dialect, domain.name, name))
    for number in range(packed.keys):
        parts = [
            exp.column("bits", table=f"d{i + 1}") for i, domain in enumerate(packed.domains) if domain.key == number
        ]
        tree: exp.Expr = parts[0]
        for more in parts[1:]:
            tree = exp.Add(this=tree, expression=more)
        keys.append(f"k{number + 1}")
        inner = inner.select(alias(bigint(tree), _own(keys[-1]), quoted=True))
    for number, (name, ranks) in enumerate((values or {}).items(), start=1):
        short = f"v{number}"
        inner = inner.join(table(ranks, alias=short), on=_own_value(dialect, name, short))
        inner = inner.select(alias(exp.column("value", table=short), _own(short), quoted=True))
        keys.append(short)
    if split:
        alike = [column(_own(name)) for name in keys]
        numbered = alias(window(exp.RowNumber(), partition=alike), _own("row"), quoted=True)
        inner = exp.select("*", numbered).from_(inner.subquery(alias="keyed"))
    same: list[exp.Expr] = [exp.column(name, table="m").eq(column(_own(name), "original")) for name in keys]
    if split:
        row = column(_own("row"), "original")
        same.append(row.copy().between(exp.column("first", table="m"), exp.column("last", table="m")))
    tree_ = exp.select().from_(inner.subquery(alias="original"))
    how = "left" if output.keep_suppressed else ""
    tree_ = tree_.join(table(members, alias="m"), on=exp.and_(*same), join_type=how)
    region = exp.column("region", table="l").eq(exp.column("region", table="m"))
    tree_ = tree_.join(table(labels, alias="l"), on=region, join_type=how)
    shown_at: list[exp.Expr] = [exp.column("region", table="l").is_(exp.Null()).not_()]
    for place, domain in enumerate(packed.domains, start=1):
        # NULL stays NULL below the root, as in `by_levels`.
        label: exp.Expr = exp.Nullif(this=exp.column(f"l{place}", table="l"), expression=literal(NULL_NODE))
        if output.keep_suppressed:
            label = case((shown_at[0].copy(), label), default=literal(SUPPRESSED))
        tree_ = tree_.select(alias(label, domain.name, quoted=True))
    if output.secret:
        tree_ = tree_.join(table(output.secret, alias="secret"), join_type="cross")
    return shuffle_rows(tree_.select(*_others(dialect, shown_at, output)))


def shuffle_rows(tree: exp.Select) -> exp.Select:
    """In an order that tells nothing: that of the source may follow names, or the exact values behind a label."""
    return tree.order_by(exp.Rand())


def _own(name: str) -> str:
    """A column beside the user's own; no sane column is called like this."""
    return f"\u2205 {name}"
