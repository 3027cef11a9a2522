"""From a policy to the statements that check it: each model, for each quasi-identifier and sensitive attribute."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.families import Plugin, plugin
from sqlanon.hierarchies import Hierarchy
from sqlanon.policy import ModelUse, Policy, Source
from sqlanon.policy.person_shapes import ENTITY, require_shape
from sqlanon.policy.suppressed_cells import HINT, READING
from sqlanon.relations.category_weights import category_rows
from sqlanon.relations.classes import (
    NULL_NODE,
    Grouping,
    Prelude,
    as_label,
    class_categories,
    class_guards,
    class_population,
    class_values,
    class_values_of,
    classes,
    totals,
)
from sqlanon.relations.entities import EntityTable, add_signatures
from sqlanon.relations.hierarchy_lookups import level_names, lookup, taxonomy
from sqlanon.relations.matching_classes import matches_any_value, matching_classes
from sqlanon.relations.model_relations import class_probability, combinations, supersets
from sqlanon.relations.row_sets import add_row_sets
from sqlanon.relations.source import SUPPRESSED, relation, rows_to_check
from sqlanon.sqltree.tree import (
    DOUBLE,
    TEXT,
    alias,
    bind,
    find_references,
    inline_verdict,
    literal,
    nest_query,
    put_first,
    rows_relation,
    table,
    union_all,
    uses_column,
    with_verdict,
)

# What is made of class_values, besides what a model itself reads of it.
BUILT_ON_VALUES = frozenset(["class_supersets", "class_probability"])
# What is made of the columns of a class themselves, and cannot be made of sets of rows.
BUILT_ON_COLUMNS = frozenset(["class_population", "class_supersets", "class_probability", "combinations"])
# A model whose classes are made of m columns at a time, and how many such sets are measured at most.
OF_COMBINATIONS = "combinations(m)"
MOST_COMBINATIONS = 1_000
# What is asked about the sensitive values of persons with one signature.
ANY_ROW, KNOWN_ROW = "in any row", "in a known row"
OF_ROW_SETS = "row_sets"  # what the header of a model calls classes of owners with the same set of rows


@dataclass(frozen=True)
class Precondition:
    """Something that must hold before a model can be measured; rows (value, records) are what breaks it."""

    query: exp.Select
    message: str
    hint: str


@dataclass(frozen=True)
class Check:
    """One model on one quasi-identifier and attribute, compiled."""

    model: Plugin
    params: Mapping[str, Any]
    qid: tuple[str, ...]
    attribute: str | None
    result: str | exp.Select  # (class_id, measured, broken): a table; a query where it is read off the classes
    classes: str  # table with class_id, records and the columns below
    shown: Mapping[str, str]  # column of the table above to the name that a person knows
    requirements: tuple[Precondition, ...] = ()
    freeform_values: tuple[tuple[str, str], ...] = ()
    rows: str | None = None  # table of distinct records, for these
    listed_values: tuple[str, ...] = ()  # sensitive values that the policy names; a typo there would weaken it
    totals: str | None = None
    asks: str = ""  # of a sensitive value of persons with several rows: which of their values

    def measured(self, name: str | None = None) -> exp.Expr:
        """Its result as a relation to read from."""
        if isinstance(self.result, str):
            return table(self.result, alias=name)
        return nest_query(self.result.copy(), name or "result")


@dataclass
class Compiler:
    """The state of one compilation: what was asked, and the temporary tables made so far."""

    policy: Policy
    hierarchies: Mapping[str, Hierarchy]
    dialect: str
    source: Source
    population: exp.Select | None = None  # in place of the policy's own, where it had to be generalized
    population_has_persons: bool = False
    child_columns: Mapping[str, Sequence[str]] | None = None  # columns to take from each joined table
    shared: Prelude | None = None  # tables of a search, in place of tables of its own
    asked: Counter[tuple[Grouping, str | None]] = field(default_factory=Counter)  # models of classes and attribute
    # Where classes are persons with the same set of rows: the column with the number of that set, by quasi-identifier.
    row_sets: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    linked: bool = False  # whether the classes of all models are such sets, and not only of those that say so
    by_row: bool = True  # and by which of these rows it is, where sensitive values count
    # Where classes are persons with the same signature: the tables whose rows make it.
    entity: EntityTable | None = None
    prelude: Prelude = field(init=False)
    read: exp.Select = field(init=False)  # the rows without the columns that are put beside them

    def __post_init__(self) -> None:
        if self.entity is None:
            require_shape(self.policy, "a measure of classes of rows")
        if self.shared is not None:
            self.prelude = self.shared
            self.read = self.prelude.rows
            return
        names = self.policy.quasi_identifiers
        rows = rows_to_check(
            relation(self.source, self.dialect, self.child_columns),
            names,
            suppressed_marker=SUPPRESSED if self.policy.suppressed_rows == "keep" else None,
            number_rows=self.policy.nulls == "unique",
            sensitive=self.policy.sensitive,
        )
        self.prelude = Prelude(rows, self.dialect)
        if self.policy.nulls == "unique":
            # Rows must keep their numbers from one statement to the next.
            made = self.prelude.once("rows", (), lambda: rows)
            self.prelude.rows = exp.select("*").from_(table(made))
        self.prelude.originals = self.prelude.rows
        self.prelude.null_is_value = self.policy.sensitive_nulls == "value"
        self.read = self.prelude.rows

    def checks(self) -> list[Check]:
        uses = [
            (use, qid, attribute)
            for use in self.policy.models
            for qid in self.qids(use)
            for attribute in self.attributes(use)
        ]
        if self.entity is not None:
            return self._entity_checks(uses)
        if self.policy.person is not None and not self.row_sets:
            sets = [qid for use, qid, _ in uses if plugin("models", use.name).classes == OF_ROW_SETS]
            if sets:
                match = self.policy.nulls == "value"
                self.row_sets = add_row_sets(self.prelude, self.policy.person, sets, nulls_match=match)
        for use, qid, attribute in uses:
            grouping = self.grouping(plugin("models", use.name), use, qid, attribute)
            self.asked[grouping, attribute] += 1
            if attribute is not None and grouping.person is None and not grouping.distinct:
                self.prelude.rolls_up_from.setdefault(grouping, attribute)
        return [self._check(use, qid, attribute) for use, qid, attribute in uses]

    def _entity_checks(self, uses: Sequence[tuple[ModelUse, tuple[str, ...], str | None]]) -> list[Check]:
        """Every model on classes of persons with the same signature. A person may have several sensitive values, and
        counts for each of them once: among the values of all rows, and among those of rows that look alike."""
        assert self.entity is not None and self.policy.person is not None
        for use, _, _ in uses:  # a policy that was put together in Python may ask for what no policy file can
            if ENTITY not in plugin("models", use.name).shapes:
                raise PolicyError(f"{use.name} is not defined for 'shape: entity'", hint="leave it out")
        self.row_sets = add_signatures(self.prelude, self.entity, self.policy.person, [qid for _, qid, _ in uses])
        self.linked = True
        made = []
        for use, qid, attribute in uses:
            for self.by_row, asks in ((False, ANY_ROW), (True, KNOWN_ROW)) if attribute is not None else ((False, ""),):
                grouping = self.grouping(plugin("models", use.name), use, qid, attribute)
                self.asked[grouping, attribute] += 1
                made.append((use, qid, attribute, self.by_row, asks))
        found = []
        for use, qid, attribute, self.by_row, asks in made:
            found.append(replace(self._check(use, qid, attribute), asks=asks))
        return found

    def entity_classes(self, qid: tuple[str, ...]) -> Grouping:
        """The classes of persons with the same signature, whatever their sensitive values are."""
        return Grouping((self.row_sets[qid],), person=self.policy.person)

    def qids(self, use: ModelUse) -> list[tuple[str, ...]]:
        """The columns that make the classes of a model; for several quasi-identifiers one set after the other."""
        model = plugin("models", use.name)
        if model.classes == "x":
            return [tuple(use.params["x"])]
        if "combinations" in model.needs:
            return [()]
        if model.classes == OF_COMBINATIONS:
            return self._combinations(use)
        if isinstance(use.qid, tuple):
            return [use.qid]
        # A smaller quasi-identifier is implied by a larger one, for models that hold on under generalization. Shares
        # of persons do not: one person may be in several classes, so then it is counts alone that only grow.
        observed_only = use.params.get("observed_only", False)
        growing = "also under record suppression" if self.policy.person else "yes"
        sets = self.policy.qid_sets(drop_contained=use.qid is None and growing in model.monotone and not observed_only)
        chosen = [sets[use.qid]] if isinstance(use.qid, str) else list(sets.values())
        if not all(chosen):
            raise PolicyError(
                f"{use.name} has no quasi-identifier to look at",
                hint="give at least one column the role quasi_identifier",
            )
        return chosen

    def _combinations(self, use: ModelUse) -> list[tuple[str, ...]]:
        """All sets of m columns of a quasi-identifier; with fewer columns than m, all of them."""
        named = self.policy.qid_sets()
        whole = [use.qid] if isinstance(use.qid, tuple) else [named[use.qid]] if use.qid else list(named.values())
        m = int(use.params["m"])
        number = sum(math.comb(len(columns), min(m, len(columns))) for columns in whole)
        if number > MOST_COMBINATIONS:
            raise PolicyError(
                f"{use.name}: {number:,} combinations of {m} columns would be measured, "
                f"the limit is {MOST_COMBINATIONS:,}",
                hint="take a smaller m, or name fewer columns with 'qid'",
            )
        return list(
            dict.fromkeys(each for columns in whole for each in itertools.combinations(columns, min(m, len(columns))))
        )

    def attributes(self, use: ModelUse) -> list[str | None]:
        if "sensitive" not in plugin("models", use.name).needs:
            return [None]
        return [use.attribute] if use.attribute else list(self.policy.sensitive)

    def grouping(self, model: Plugin, use: ModelUse, qid: tuple[str, ...], attribute: str | None) -> Grouping:
        columns = qid
        if model.classes == "other_sensitive":
            columns = (*qid, *(name for name in self.policy.sensitive if name != attribute))
        own_sets = qid in self.row_sets and (self.linked or model.classes == OF_ROW_SETS)
        if own_sets:
            columns = (self.row_sets[qid], *(columns if self.by_row and attribute is not None else ()))
        return Grouping(
            columns=columns,
            person=None if model.counts else self.policy.person,
            distinct=tuple(use.params["y"]) if model.counts == "y" else (),
            nulls_match=self.policy.nulls == "value" or "population" in model.needs,
        )

    def _check(self, use: ModelUse, qid: tuple[str, ...], attribute: str | None) -> Check:
        model = plugin("models", use.name)
        params = model.filled(use.params)
        grouping = self.grouping(model, use, qid, attribute)
        if "combinations" in model.needs:
            return self._freeform_check(model, params)
        needed = find_references(model.sql)
        inline = self._values_for_one(needed, grouping, attribute)
        ranked = not inline or self.prelude.baseline is not None or _reads_values(model, needed)
        relations = self._relations(needed, model, params, grouping, attribute, inline=inline, ranked=ranked)
        sizes = relations.get("class_population") or classes(self.prelude, grouping)
        requirements, lists = self.parameter_relations(model, params, relations)
        # Sets of rows are compared as they are shown: those that are the same match, too.
        matching = matches_any_value(self.policy) and grouping.columns == qid
        if matching:
            self._require_matching(model)
            relations["classes"] = matching_classes(self.prelude, grouping, self.hierarchies)

        def build() -> exp.Select:
            tree = bind(model.sql, params, relations)
            if inline and attribute is not None:
                put_first(tree, "class_values", class_values_of(self.prelude, grouping, attribute, ranked=ranked))
            return with_verdict(tree)

        result: str | exp.Select
        if inline_verdict(model.sql, params) is not None and not matching:
            result = build()
        else:
            result = self.prelude.once("result", (use.name, repr(params), grouping, attribute), build)
        return Check(
            model=model,
            params=use.params,
            qid=qid,
            attribute=attribute,
            result=result,
            classes=sizes,
            shown={f"c{i}": name for i, name in enumerate(grouping.columns, start=1) if self._may_be_shown(name)},
            requirements=tuple(requirements) + self._guard_requirement(relations, attribute),
            listed_values=lists,
            totals=relations.get("totals"),
        )

    def _require_matching(self, model: Plugin) -> None:
        """A policy that was put together in Python may ask for what no policy file can."""
        if not model.bounds_size_alone:
            raise PolicyError(f"{model.name} is not defined where {READING}", hint=HINT)
        if self.policy.person is not None:
            raise PolicyError(f"persons are not counted where {READING}: it is rows that match", hint=HINT)

    def _values_for_one(self, needed: Set[str], grouping: Grouping, attribute: str | None) -> bool:
        """Whether class_values serves one model alone: then it is a part of that model's statement, a table less to
        plan and to write. PostgreSQL plans better from the statistics of a table."""
        alone = self.shared is None and self.asked[grouping, attribute] == 1
        return alone and self.dialect == "duckdb" and "class_values" in needed and not needed & BUILT_ON_VALUES

    def _may_be_shown(self, name: str) -> bool:
        """Classes are shown by what an attacker knows anyway, never by names or secrets."""
        known = self.policy.columns.get(name)
        return known is not None and known.role in ("quasi_identifier", "insensitive") and name != self.policy.person

    def _relations(
        self,
        needed: Set[str],
        model: Plugin,
        params: Mapping[str, Any],
        grouping: Grouping,
        attribute: str | None,
        *,
        inline: bool,
        ranked: bool,
    ) -> dict[str, str]:
        made: dict[str, str] = {}
        if "class_population" in needed:
            assert self.policy.population is not None
            rows = self.population or relation(self.policy.population, self.dialect)
            made["class_population"] = class_population(self.prelude, grouping, rows, self.population_has_persons)
        if attribute is not None and not inline:
            made["class_values"] = class_values(self.prelude, grouping, attribute)
        if attribute is not None and ranked:
            made["totals"] = totals(self.prelude, grouping, attribute, numeric="numeric" in model.needs)
        if "classes" in needed:
            made["classes"] = classes(self.prelude, grouping)
        if "taxonomy" in needed and attribute is not None:
            made["taxonomy"] = taxonomy(self.prelude, grouping, attribute, self.hierarchies[attribute])
        if "class_guards" in needed:
            made["class_guards"] = class_guards(self.prelude, grouping, params["guard"])
        if "class_supersets" in needed and attribute is not None:
            made["class_supersets"], made["superset_values"], made["superset_sizes"] = supersets(
                self.prelude, grouping, attribute, self.hierarchies
            )
        if "class_categories" in needed and attribute is not None:
            made["class_categories"] = class_categories(self.prelude, grouping, attribute, params["categories"])
        if "class_probability" in needed and attribute is not None:
            made["class_probability"] = class_probability(
                self.prelude,
                grouping,
                attribute,
                announced_probabilities(params["public"]),
                conditional_rules(params["conditional"]),
                self.hierarchies,
            )
        return made

    def parameter_relations(
        self, model: Plugin, params: Mapping[str, Any], relations: dict[str, str]
    ) -> tuple[list[Precondition], tuple[str, ...]]:
        """Parameters that are lists or mappings of sensitive values become small relations."""
        requirements: list[Precondition] = []
        named: list[str] = [params["value"]] if model.param("value") else []
        for name in ("guarded", "dont_care", "protect"):
            if model.param(name):
                relations[name] = self._value_list(name, params[name], relations)
                if name == "guarded":  # an absent value of the other lists makes a model stricter, never weaker
                    named += [as_label(value) for value in params[name] or ()]
        if model.param("thresholds"):
            rows = [(_label(value), share(amount, "thresholds")) for value, amount in params["thresholds"].items()]
            relations["thresholds"] = self._rows("thresholds", rows, ("label", "amount"), [TEXT, DOUBLE])
            named += [as_label(value) for value in params["thresholds"]]
        if model.param("categories"):
            weighed = category_rows(params["categories"], params["weights"], params["weighting"], params["beta"])
            labelled = [(_label(value), place, weight) for value, place, weight in weighed]
            columns = ("label", "category", "weight")
            kinds = [TEXT, exp.DataType.build("int"), DOUBLE]
            relations["weights"] = self._rows("weights", labelled, columns, kinds)
            requirements.append(_covered(relations["totals"], relations["weights"], model.name))
        for rule in params.get("conditional") or ():
            named.append(as_label(rule["value"]) if isinstance(rule, dict) and "value" in rule else "")
        return requirements, tuple(named)

    def _value_list(self, name: str, values: list[Any] | None, relations: Mapping[str, str]) -> str:
        if values is None and name == "guarded":
            return relations["totals"]  # which has the labels of all values
        # Twice the same value would count what it matches twice.
        labels = dict.fromkeys(_label(value) for value in values or ())
        return self._rows(name, [(label,) for label in labels], ("label",), [TEXT])

    def _rows(self, kind: str, rows: list[Any], columns: tuple[str, ...], kinds: list[exp.DataType]) -> str:
        return self.prelude.once(kind, (repr(rows),), lambda: rows_relation(rows, columns, kinds))

    def _known_nodes(self, attribute: str, present: str) -> exp.Query:
        """All nodes of a taxonomy: of the whole lookup table, or of the values present where levels are computed."""
        made = lookup(self.prelude, attribute, self.hierarchies[attribute])
        if made is None:
            return exp.select("node").from_(table(present))
        names = level_names(self.hierarchies[attribute])
        return union_all([exp.select(name).from_(table(made)) for name in names])

    def _guard_requirement(self, relations: Mapping[str, str], attribute: str | None) -> tuple[Precondition, ...]:
        if "class_guards" not in relations or attribute is None:
            return ()
        known = self._known_nodes(attribute, relations["taxonomy"])
        query = (
            exp.select(alias(exp.column("guard"), "value"), alias(exp.Count(this=exp.Star()), "records"))
            .from_(table(relations["class_guards"]))
            .where(exp.column("guard").isin(query=known).not_())
            .group_by("guard")
        )
        message = "guarding nodes that are not in the taxonomy of the sensitive attribute"
        return (Precondition(query, message, "correct the guarding nodes, or add them to the hierarchy"),)

    def _freeform_check(self, model: Plugin, params: Mapping[str, Any]) -> Check:
        secrets = params["sensitive_values"]
        if not all(isinstance(values, list) and values for values in secrets.values()):
            raise PolicyError("'sensitive_values' must map each column to a list of values")
        columns = tuple(dict.fromkeys((*self.policy.quasi_identifiers, *self.policy.sensitive, *secrets)))
        made, rows = combinations(self.prelude, columns, secrets, self.policy.person)
        result = self.prelude.once(
            "result",
            (model.name, repr(params)),
            lambda: with_verdict(bind(model.sql, params, {"combinations": made})),
        )
        shown = {f"c{i}": name for i, name in enumerate(columns, start=1)} | {"secret": "infers"}
        named = tuple((name, as_label(value)) for name, values in secrets.items() for value in values)
        return Check(model, params, columns, None, result, made, shown, freeform_values=named, rows=rows)


def announced_probabilities(public: Any) -> Mapping[str, Mapping[Any, float]] | None:
    if public is None:
        return None
    if not all(isinstance(values, dict) for values in public.values()):
        raise PolicyError("'public' must map each column to a mapping of its values to probabilities")
    return {name: {value: share(p, "public") for value, p in values.items()} for name, values in public.items()}


def conditional_rules(conditional: Any) -> list[dict[str, Any]]:
    return [rule | {"probability": share(rule["probability"], "conditional")} for rule in _readable(conditional or [])]


def _readable(rules: list[Any]) -> list[dict[str, Any]]:
    keys = {"when", "value", "probability"}
    if not all(isinstance(rule, dict) and set(rule) == keys and isinstance(rule["when"], dict) for rule in rules):
        raise PolicyError(
            "a rule of 'conditional' cannot be read",
            hint="write {when: {quasi-identifier: value}, value: sensitive value, probability: number}",
        )
    return rules


def share(amount: Any, name: str) -> float:
    """A number between 0 and 1, or an error: a percentage by mistake would allow everything."""
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount <= 1:
        raise PolicyError(f"'{name}' must hold numbers between 0 and 1, not {amount!r}")
    return float(amount)


def _label(value: Any) -> str | None:
    return None if value is None else as_label(value)


def _covered(all_values: str, weights: str, model: str) -> Precondition:
    """Every sensitive value needs a category, or the class weights would silently leave it out."""
    known = exp.Coalesce(this=exp.column("label", table="w"), expressions=[literal(NULL_NODE)])
    own = exp.Coalesce(this=exp.column("label", table="t"), expressions=[literal(NULL_NODE)])
    listed = exp.select(known).from_(table(weights, alias="w"))
    query = (
        exp.select(alias(own, "value"), exp.column("records", table="t"))
        .from_(table(all_values, alias="t"))
        .where(own.copy().isin(query=listed).not_())
    )
    return Precondition(
        query, f"{model}: sensitive values without a category", "put each value into one of the categories"
    )


def _reads_values(model: Plugin, needed: Set[str]) -> bool:
    """Whether a model asks which value it is, and not only how many records have it."""
    lists = ("value", "guarded", "dont_care", "protect", "thresholds", "categories", "conditional")
    return bool(needed - {"classes", "class_values"}) or uses_column(model.sql, "value") or any(map(model.param, lists))
