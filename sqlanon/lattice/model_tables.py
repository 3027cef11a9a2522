"""Relations that one model each reads and that depend on the levels of a node: the public probability of a record, and
the classes above a class. Both look at all that is released, so that what is suppressed anywhere changes them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.lattice.model_classes import join_keys
from sqlanon.relations.checks import announced_probabilities, conditional_rules
from sqlanon.relations.classes import as_label
from sqlanon.relations.compressed_rows import Compressed, Domain, code
from sqlanon.sqltree.tree import alias, bigint, case, double, literal, select, sum_bigint, table

Node = tuple[int, ...]
Parts = list[tuple[str, exp.Query]]  # CTEs
# From the place of a requirement, a node, the number of a class, what is counted and a table: CTEs, and the names of
# those among them that the model reads; `pairs` are the classes of the release and of the model that meet, where they
# meet in another way than by their rows.
Special = Callable[[int, Node, exp.Expr, exp.Expr, str], tuple[Parts, dict[str, str]]]
# What the models read that are searched for like this.
SPECIAL = frozenset({"class_probability", "class_supersets", "superset_values", "superset_sizes", "combinations"})


def supersets(packed: Compressed, value: str) -> Special:
    """The classes above each class: one for each node above."""

    def made(place: int, node: Node, key: exp.Expr, counted: exp.Expr, source: str) -> tuple[Parts, dict[str, str]]:
        nodes = itertools.product(
            *(range(level, domain.height + 1) for domain, level in zip(packed.domains, node, strict=True))
        )
        masks = [packed.masks(levels) for levels in nodes]
        names = [f"m{number}" for number in range(1, packed.keys + 1)]
        rows = [(literal(number), *map(literal, own)) for number, own in enumerate(masks)]
        above = exp.values(rows, alias="above", columns=["number", *names])
        shown = [
            exp.BitwiseAnd(this=exp.column(own), expression=bigint(exp.column(mask, table="above")))
            for own, mask in zip(packed.key_names, names, strict=True)
        ]
        superset = join_keys([exp.column("number", table="above"), *shown])
        cells = select(alias(key.copy(), "class_id"), alias(superset, "superset_id"), alias(exp.column(value), "value"),
                       *(["person"] if packed.person else []), "n", source=table(source))  # fmt: skip
        cells.append("joins", exp.Join(this=above, kind="CROSS"))
        own = f"superset_cells_{place}"
        made_of = exp.select("class_id", "superset_id").distinct().from_(own)
        number = alias(counted.copy(), "records")
        values = exp.select("superset_id", "value", number).from_(own).group_by("superset_id", "value")
        sizes = exp.select("superset_id", number.copy()).from_(own).group_by("superset_id")
        relations = {"class_supersets": made_of, "superset_values": values, "superset_sizes": sizes}
        parts: Parts = [(own, cells), *((f"{name}_{place}", tree) for name, tree in relations.items())]
        return parts, {name: f"{name}_{place}" for name in relations}

    return made


def probabilities(
    packed: Compressed, qid: Sequence[str], attribute: str, totals: str, params: Mapping[str, Any]
) -> Special:
    """The product of the probabilities of the labels of a class and of a sensitive value: as announced, or their shares
    of the released rows; the last rule that applies overrides that of the value."""
    public = announced_probabilities(params["public"]) or {}
    rules = conditional_rules(params["conditional"])
    value = packed.values[attribute]

    def made(place: int, node: Node, key: exp.Expr, counted: exp.Expr, source: str) -> tuple[Parts, dict[str, str]]:
        own, found = f"record_cells_{place}", f"class_probability_{place}"
        codes = [
            exp.BitwiseAnd(
                this=exp.column(packed.key_names[domain.key]), expression=bigint(literal(domain.masks[level]))
            )
            for domain, level in zip(packed.domains, node, strict=True)
        ]
        named = [alias(item, f"y{i}") for i, item in enumerate(codes, start=1)]
        cells = select(
            alias(key.copy(), "class_id"), alias(exp.column(value), "value"), *named, "n", source=table(source)
        )
        parts: Parts = [(own, cells)]
        least = [alias(exp.Min(this=exp.column(f"y{i}")), f"y{i}") for i in range(1, len(codes) + 1)]
        present = exp.select("class_id", "value", *least).from_(own).group_by("class_id", "value")
        tree = exp.select("v.class_id", "v.value").from_(present.subquery(alias="v"))
        tree = tree.join(table(totals, alias="t"), on="t.value = v.value")
        label = exp.column("label", table="t")
        if attribute in public:
            product: exp.Expr = _announced(or_null(label), public[attribute])
        else:
            share = exp.select("value", alias(_share(own), "p")).from_(own).group_by("value")
            tree = tree.join(share.subquery(alias="s"), on="s.value = v.value")
            product = exp.column("p", table="s")
        for rule in rules:
            applies: list[exp.Expr] = [or_null(label.copy()).eq(literal(as_label(rule["value"])))]
            applies += [_is_label(packed, node, name, as_label(asked)) for name, asked in rule["when"].items()]
            product = case((exp.and_(*applies), double(literal(float(rule["probability"])))), default=product)
        for i, (domain, level) in enumerate(zip(packed.domains, node, strict=True), start=1):
            if domain.name not in qid:
                continue
            if domain.name in public:
                factor = _announced_at(domain, level, public[domain.name])
            else:
                factor = (
                    exp.select(alias(exp.column(f"y{i}"), "code"), alias(_share(own), "p")).from_(own).group_by(f"y{i}")
                )
            same = exp.column("code", table=f"p{i}").eq(exp.column(f"y{i}", table="v"))
            tree = tree.join(factor.subquery(alias=f"p{i}"), on=same)
            product = exp.Mul(this=exp.paren(product), expression=exp.column("p", table=f"p{i}"))
        parts.append((found, tree.select(alias(product, "probability"))))
        return parts, {"class_probability": found}

    return made


def _share(cells: str) -> exp.Expr:
    whole = exp.select(double(sum_bigint(exp.column("n")))).from_(cells).subquery()
    return exp.Div(this=double(sum_bigint(exp.column("n"))), expression=whole)


def or_null(label: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=label, expressions=[literal(as_label(None))])


def _announced(label: exp.Expr, public: Mapping[Any, float]) -> exp.Expr:
    known = [(label.copy().eq(literal(as_label(value))), double(literal(share))) for value, share in public.items()]
    return case(*known, default=double(literal(0.0)))


def _announced_at(domain: Domain, level: int, public: Mapping[Any, float]) -> exp.Select:
    """The announced probability of each label on a level; one that nobody announced has none."""
    label: exp.Expr = literal(domain.hierarchy.root) if level == domain.height else exp.column(f"n{level}")
    own = bigint(literal(0)) if level == domain.height else code(domain, level=level)
    chosen = [alias(own, "code"), alias(_announced(label, public), "p")]
    return exp.select(*chosen).distinct().from_(table(domain.dictionary))


def _is_label(packed: Compressed, node: Node, name: str, asked: str) -> exp.Expr:
    """Whether a class shows a label of a quasi-identifier."""
    places = {domain.name: place for place, domain in enumerate(packed.domains)}
    if name not in places:
        raise PolicyError(f"a rule of 'conditional' names '{name}', which is no quasi-identifier")
    place = places[name]
    return shows_label(packed, node, place, asked, exp.column(f"y{place + 1}", table="v"))


def shows_label(packed: Compressed, node: Node, place: int, asked: str, bits: exp.Expr | None = None) -> exp.Expr:
    """Whether `bits`, those of a row if not given, are of a label on the level of a node."""
    domain, level = packed.domains[place], node[place]
    if level == domain.height:
        return exp.true() if asked == domain.hierarchy.root else exp.false()
    listed = exp.select(code(domain, level=level)).from_(table(domain.dictionary))
    listed = listed.where(exp.column(f"n{level}").eq(literal(asked)))
    mask = bigint(literal(domain.masks[level]))
    own = exp.BitwiseAnd(this=exp.column(packed.key_names[domain.key]), expression=mask)
    return exp.paren(bits or own).isin(query=listed)
