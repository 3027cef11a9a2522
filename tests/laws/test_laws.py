"""Laws of the code itself: layers, plug-in headers, names, and SQL that runs as it stands."""

from __future__ import annotations

import subprocess
import sys

import histories
import pytest
import sqlglot
from conftest import Database
from sqlglot import exp

from sqlanon import hierarchies
from sqlanon.families import family, sql_root
from sqlanon.sqltree.tree import FILE_DIALECT, find_references, threshold


def test_importing_sqlanon_is_light() -> None:
    heavy = "duckdb, psycopg, rich, sqlglot, pandas, pyspark, opendp"
    code = f"import sys, sqlanon; print([name for name in '{heavy}'.split(', ') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize("folder", ["models", "loss", "history"])
def test_every_plugin_has_a_manual_page(folder: str) -> None:
    for plugin in family(folder).values():
        assert plugin.summary and plugin.summary.endswith((".", ")")), plugin.name
        assert plugin.cite and plugin.monotone, plugin.name
        assert plugin.measures.endswith(("worse when smaller", "worse when larger")), plugin.name
        used = {node.name for node in sqlglot.parse_one(plugin.sql, read=FILE_DIALECT).find_all(exp.Placeholder)}
        relations = find_references(plugin.sql)
        known = {param.name for param in plugin.params}
        assert used <= known, plugin.name
        # A parameter is a literal, a relation, or shapes the relations that the compiler makes.
        shaping = {"x", "y", "guard", "categories", "weights", "weighting", "beta"}
        shaping |= {"sensitive_values", "public", "conditional"}
        shaping |= {"m"} if plugin.classes == "combinations(m)" else set()
        # Sets of items: how large they are, which items are known, and which values an attacker is after.
        shaping |= (
            {"m", "p", "l", "antecedent", "private", "sensitive", "guarded"} if "items" in plugin.needs else set()
        )
        shaping |= {"owners"} if "visits" in plugin.needs else set()
        assert known - used - relations <= shaping, plugin.name


def test_a_model_lists_what_breaks_it() -> None:
    for plugin in family("models").values():
        tree = sqlglot.parse_one(plugin.sql, read=FILE_DIALECT)
        assert tree.named_selects == ["class_id", "measured"], plugin.name
        assert tree.args.get("where") is not None, plugin.name
    for plugin in family("history").values():
        tree = sqlglot.parse_one(plugin.sql, read=FILE_DIALECT)
        assert tree.named_selects == ["class_id", "version", "past_class_id", "measured"], plugin.name
        assert tree.args.get("where") is not None, plugin.name


def test_an_attack_tells_how_sure_it_is() -> None:
    for plugin in family("attacks").values():
        assert plugin.summary.endswith((".", ")")) and plugin.cite and plugin.measures, plugin.name
        tree = sqlglot.parse_one(plugin.sql, read=FILE_DIALECT)
        if "requirement" in plugin.needs or plugin.makes:  # its conclusions are drawn from its rows in Python
            continue
        assert tree.named_selects == ["persons", "confidence", "broken"], plugin.name
        used = {node.name for node in tree.find_all(exp.Placeholder)}
        assert used == {param.name for param in plugin.params} - {"rounds"}, plugin.name


def test_a_guess_is_right_or_wrong_about_a_person() -> None:
    for plugin in family("guesses").values():
        assert plugin.summary.endswith(".") and plugin.measures, plugin.name
        tree = sqlglot.parse_one(plugin.sql, read=FILE_DIALECT)
        used = {node.name for node in tree.find_all(exp.Placeholder)}
        assert used == {param.name for param in plugin.params}, plugin.name
        if not plugin.makes:
            assert plugin.cite and tree.named_selects == ["group_id", "truth", "attacked", "by_margins"], plugin.name
            # A guess takes no other parameter than its attack.
            assert {param.name for param in plugin.params} <= {
                param.name for param in family("attacks")[plugin.name].params
            }


CANONICAL = {
    "classes": "class_id BIGINT, records BIGINT",
    "itemsets": "class_id BIGINT, size BIGINT, records BIGINT",
    "itemset_values": "class_id BIGINT, value BIGINT, records BIGINT",
    "class_values": "class_id BIGINT, value BIGINT, records BIGINT, known INT",
    "totals": "value BIGINT, label TEXT, number DOUBLE PRECISION, records BIGINT",
    "taxonomy": "value BIGINT, level INT, node TEXT",
    "class_population": "class_id BIGINT, records BIGINT, population BIGINT",
    "class_guards": "class_id BIGINT, guard TEXT",
    "class_categories": "class_id BIGINT, category INT, records BIGINT",
    "class_supersets": "class_id BIGINT, superset_id BIGINT",
    "superset_values": "superset_id BIGINT, value BIGINT, records BIGINT",
    "superset_sizes": "superset_id BIGINT, records BIGINT",
    "class_probability": "class_id BIGINT, value BIGINT, probability DOUBLE PRECISION",
    "combinations": "class_id BIGINT, records BIGINT, matching BIGINT",
    "inferences": "class_id BIGINT, records BIGINT, matching BIGINT",
    "path_groups": "class_id BIGINT, records BIGINT, gaps BIGINT, distance DOUBLE PRECISION",
    "guarded": "label TEXT",
    "dont_care": "label TEXT",
    "protect": "label TEXT",
    "thresholds": "label TEXT, amount DOUBLE PRECISION",
    "weights": "label TEXT, category INT, weight DOUBLE PRECISION",
    "recoded_classes": "class_id BIGINT, records BIGINT, kept INT",
    "recoded_values": "attribute TEXT, value TEXT, label TEXT, level INT, height INT, leaves BIGINT, domain BIGINT, "
    "weight DOUBLE PRECISION, kept INT, records BIGINT",
    "recoded_tuples": "class_id BIGINT, records BIGINT, class_records BIGINT, area DOUBLE PRECISION, kept INT",
    "recoded_class_values": "class_id BIGINT, value TEXT, records BIGINT, kept INT",
    "class_weights": "class_id BIGINT, records BIGINT, weight DOUBLE PRECISION",
    "class_households": "class_id BIGINT, household TEXT, records BIGINT",
    "class_risks": "class_id BIGINT, records BIGINT, weight DOUBLE PRECISION, risk DOUBLE PRECISION",
    "household_risks": "household TEXT, members BIGINT, risk DOUBLE PRECISION",
    "partitions": "atoms BIGINT, number BIGINT, persons BIGINT, place BIGINT, size BIGINT",
    "subset_classes": "subset BIGINT, class_id BIGINT, records BIGINT",
    "subset_uniques": "subset BIGINT, class_id BIGINT",
    "other_columns": "amount BIGINT",
    "subset_scores": "subset BIGINT, score DOUBLE PRECISION",
    "minimal_uniques": "subset BIGINT, class_id BIGINT",
    "number_pairs": "attribute BIGINT, original DOUBLE PRECISION, released DOUBLE PRECISION, records BIGINT",
    "label_pairs": "attribute BIGINT, original TEXT, released TEXT, records BIGINT",
    "numbers": "attribute BIGINT, side INT, number DOUBLE PRECISION, records BIGINT",
    "spreads": "attribute BIGINT, deviation DOUBLE PRECISION, low DOUBLE PRECISION, high DOUBLE PRECISION",
}
RECODING = {
    "cells": "cell BIGINT, value BIGINT, n BIGINT",
    "pieces": "class_id BIGINT, cell BIGINT, value BIGINT, n BIGINT",
    "levels": "class_id BIGINT, attribute BIGINT, level BIGINT, open BIGINT",
    "trial": "child_id BIGINT, class_id BIGINT, cell BIGINT, value BIGINT, n BIGINT",
    "children": "child_id BIGINT, class_id BIGINT, attribute BIGINT, rows_ BIGINT, saved DOUBLE PRECISION, broken INT",
    "factors": "attribute BIGINT, factor DOUBLE PRECISION",
    "choice": "class_id BIGINT, attribute BIGINT",
    "split": "parent BIGINT, child BIGINT, cell BIGINT, value BIGINT, n BIGINT",
    "lacking": "class_id BIGINT",
    "grid": "number BIGINT",
    "donations": "donation BIGINT, parent BIGINT, child BIGINT, value BIGINT, given BIGINT, kept BIGINT",
    "verdicts": "class_id BIGINT, broken INT",
    "accepted": "parent BIGINT, child BIGINT, value BIGINT, given BIGINT",
    "classes_below": "parent BIGINT, child BIGINT, class_id BIGINT",
    "placed": "cell BIGINT, step BIGINT, n BIGINT, class_id BIGINT",
    "unsafe": "cell BIGINT",
}
VALIDATION = {"source_values": "value TEXT, records BIGINT", "taxonomy": "leaf TEXT, level INT, node TEXT"}
# Relations of one name that hold something else for a family.
KEPT = {
    "persons": "person UUID, group_id BIGINT",
    "members": "person UUID, original TEXT, group_id BIGINT, class_id BIGINT",
    "broken": "class_id BIGINT, version BIGINT, past_class_id BIGINT, measured BIGINT",
    "group_values": "group_id BIGINT, value TEXT, records BIGINT",
    "paths": "attribute TEXT, label TEXT, own BIGINT, level BIGINT, node TEXT",
    "past_paths": "version BIGINT, attribute TEXT, label TEXT, own BIGINT, level BIGINT, node TEXT",
    "past_labels": "version BIGINT, class_id BIGINT, attribute TEXT, label TEXT",
    "class_labels": "class_id BIGINT, attribute TEXT, label TEXT",
    "pairs": "version BIGINT, class_id BIGINT, our_id BIGINT, their_id BIGINT, ours BIGINT, theirs BIGINT",
    "next_groups": "group_id BIGINT, class_id BIGINT, next_id BIGINT",
}
TRANSFORMED = {
    "drawn": "row_id BIGINT, value DOUBLE PRECISION, stratum TEXT, sample BIGINT, key TEXT, shift DOUBLE PRECISION, "
    "draw DOUBLE PRECISION, second DOUBLE PRECISION",
    "known": "row_id BIGINT, value DOUBLE PRECISION",
    "ranked": "place BIGINT, value DOUBLE PRECISION",
    "moves": "source TEXT, target TEXT, p DOUBLE PRECISION",
    "marginals": "value TEXT, n DOUBLE PRECISION",
}
PARTED = {
    "tuples": "tuple_id BIGINT, part BIGINT, value TEXT",
    "cells": "part BIGINT, bucket BIGINT, value TEXT, n BIGINT",
    "secrets": "bucket BIGINT, value TEXT, secret TEXT, n BIGINT",
    "sizes": "bucket BIGINT, n BIGINT",
    "classes": "label TEXT, n BIGINT, sensitive BIGINT, draw BIGINT",
    "members": "row_id BIGINT, label TEXT, original TEXT, one INT, draw BIGINT, second BIGINT",
    "guards": "label TEXT, guard TEXT",
    "pieces": "label TEXT, original TEXT, node TEXT, n BIGINT",
    "moves": "guard TEXT, node TEXT, weight DOUBLE PRECISION, target TEXT, after DOUBLE PRECISION",
    "breaches": "label TEXT, guard TEXT, measured DOUBLE PRECISION",
    "others": "original TEXT, low DOUBLE PRECISION, high DOUBLE PRECISION",
}
ATTACKED = {
    "targets": "group_id BIGINT, persons BIGINT",
    "target_classes": "group_id BIGINT, class_id BIGINT",
    "target_rows": "person BIGINT, group_id BIGINT, records BIGINT",
    "class_rows": "person BIGINT, class_id BIGINT, records BIGINT",
    "other_target_classes": "group_id BIGINT, class_id BIGINT",
    "named_values": "class_id BIGINT, value TEXT, records BIGINT",
    "truths": "group_id BIGINT, value TEXT, persons BIGINT",
    "features": "group_id BIGINT, feature BIGINT, label TEXT",
    "beliefs": "group_id BIGINT, value TEXT, share DOUBLE PRECISION, belief DOUBLE PRECISION",
    "chosen_targets": "group_id BIGINT, persons BIGINT",
    "distances": "group_id BIGINT, class_id BIGINT, distance DOUBLE PRECISION",
    "matches": "group_id BIGINT, class_id BIGINT, probability DOUBLE PRECISION",
    "joined": "class_id BIGINT, records BIGINT, ours BIGINT, theirs BIGINT",
    "joined_values": "class_id BIGINT, value TEXT, records BIGINT",
    "comparable": "class_id BIGINT, other_id BIGINT",
    "versions": "truth DOUBLE PRECISION, ours DOUBLE PRECISION, theirs DOUBLE PRECISION",
    "target_parts": "group_id BIGINT, part BIGINT, value TEXT",
    "part_cells": "part BIGINT, bucket BIGINT, value TEXT, n BIGINT",
    "part_sizes": "bucket BIGINT, n BIGINT",
    "part_secrets": "bucket BIGINT, value TEXT, secret TEXT, n BIGINT",
    "newcomers": "group_id BIGINT, persons BIGINT, class_id BIGINT",
    "inferences": "row_id BIGINT, persons BIGINT, confidence DOUBLE PRECISION",
    "priors": "group_id BIGINT, value TEXT, prior DOUBLE PRECISION",
    "finer_groups": "class_id BIGINT, persons BIGINT",
    "guarded_values": "class_id BIGINT, records BIGINT",
    "units": "unit BIGINT, records BIGINT",
    "target_units": "group_id BIGINT, unit BIGINT",
    "unit_shares": "unit BIGINT, value TEXT, share DOUBLE PRECISION",
    "other_named_values": "class_id BIGINT, value TEXT, records BIGINT",
}
SETS = {
    "entities": "person BIGINT, signature BIGINT, records BIGINT",
    "person_rows": "person BIGINT, class_id BIGINT, records BIGINT",
    "row_sets": "person BIGINT, row_set BIGINT, records BIGINT",
    "matching_classes": "class_id BIGINT, records BIGINT",
}
PATHS = {
    "points": "person BIGINT, moment DOUBLE PRECISION, x DOUBLE PRECISION, y DOUBLE PRECISION",
    "positions": "person BIGINT, tick BIGINT, x DOUBLE PRECISION, y DOUBLE PRECISION",
    "spans": "person BIGINT, span BIGINT, first_tick BIGINT, last_tick BIGINT, paths BIGINT",
    "cut": "person BIGINT, span BIGINT, tick BIGINT, x DOUBLE PRECISION, y DOUBLE PRECISION",
    "pool": "person BIGINT, span BIGINT, center DOUBLE PRECISION, far DOUBLE PRECISION, open INT, leader BIGINT, "
    "near DOUBLE PRECISION",
    "ranked": "span BIGINT, leader BIGINT, person BIGINT, distance DOUBLE PRECISION, place BIGINT, accepted INT",
    "reaches": "person BIGINT, reach DOUBLE PRECISION",
    "clusters": "person BIGINT, leader BIGINT",
    "shifted": "leader BIGINT, person BIGINT, tick BIGINT, x DOUBLE PRECISION, y DOUBLE PRECISION",
    "visits": "person BIGINT, visit BIGINT, place BIGINT",
    "owners": "place BIGINT, adversary BIGINT",
    "projections": "adversary BIGINT, person BIGINT, projection TEXT",
    "projection_sizes": "adversary BIGINT, projection TEXT, persons BIGINT",
    "inferences": "class_id BIGINT, adversary BIGINT, projection TEXT, place BIGINT, records BIGINT, matching BIGINT",
    "breached": "class_id BIGINT, measured DOUBLE PRECISION",
    "dropped": "ordinal BIGINT",
    "items": "person BIGINT, item BIGINT",
    "visit_items": "person BIGINT, visit BIGINT, place BIGINT, item BIGINT",
    "signatures": "person BIGINT, signature TEXT",
    "known_matches": "person BIGINT, matches BIGINT",
    "published": "path BIGINT, group_id BIGINT, tick BIGINT, x DOUBLE PRECISION, y DOUBLE PRECISION",
}
ITEMSETS = {
    "items": "person BIGINT, item BIGINT",
    "chosen": "item BIGINT",
    "cut": "item BIGINT, node BIGINT",
    "person_groups": "person BIGINT, group_id BIGINT",
    "open_nodes": "group_id BIGINT, node BIGINT",
    "item_children": "item BIGINT, node BIGINT, child BIGINT, saved DOUBLE PRECISION",
    "person_splits": "group_id BIGINT, node BIGINT, person BIGINT, signature TEXT, saved DOUBLE PRECISION",
    "chosen_splits": "group_id BIGINT, node BIGINT, signature TEXT, new_id BIGINT",
    "row_sets": "person BIGINT, row_set BIGINT, records BIGINT",
    "person_numbers": "person BIGINT, key TEXT",
    "person_order": "person BIGINT, place BIGINT",
    "owners": "person BIGINT, value BIGINT",
    "grouped": "place BIGINT, group_id BIGINT",
    "person_parts": "person BIGINT, part BIGINT",
    "pairs": "x1 BIGINT, x2 BIGINT, records BIGINT",
    "shown_pairs": "x1 BIGINT, x2 BIGINT, records BIGINT",
    "covers": "item BIGINT, label BIGINT, leaves BIGINT",
}
TABLED = {
    "contributions": "cell BIGINT, contributor BIGINT, records BIGINT, amount BIGINT, waived INT, weight BIGINT",
    "other_contributions": "cell BIGINT, contributor BIGINT, records BIGINT, amount BIGINT, waived INT, weight BIGINT",
    "spread": "contributor BIGINT, total BIGINT",
    "counts": "cell BIGINT, contributors BIGINT, protected BIGINT",
    "spread_contributors": "contributor BIGINT, number BIGINT, total BIGINT",
    "sums": "cell BIGINT, records BIGINT, contributors BIGINT, protected BIGINT, value BIGINT, lone BIGINT",
    "other_sums": "cell BIGINT, records BIGINT, contributors BIGINT, protected BIGINT, value BIGINT, lone BIGINT",
    "up": "dimension INT, part BIGINT, step BIGINT",
    "nodes": "dimension INT, part BIGINT, parent BIGINT, label TEXT",
    "universe": "cell BIGINT",
    "limits": "cell BIGINT, contributors BIGINT, amount BIGINT",
    "other_limits": "cell BIGINT, contributors BIGINT, amount BIGINT",
    "ancestors": "leaf BIGINT, cell BIGINT, contributors BIGINT, amount BIGINT",
    "tops": "cell BIGINT, amount BIGINT, weight BIGINT, waived INT, place BIGINT, before BIGINT",
    "cells": "cell BIGINT, counted INT, records BIGINT, contributors BIGINT, protected BIGINT, value BIGINT, "
    "amount DOUBLE PRECISION, lone BIGINT, largest DOUBLE PRECISION, remainder DOUBLE PRECISION",
    "members": "total BIGINT, part BIGINT, dimension INT",
    "lone_contributors": "contributor BIGINT, number BIGINT",
    "record_keys": "contributor BIGINT, record_key BIGINT",
    "cell_keys": "cell BIGINT, cell_key BIGINT",
    "other_cell_keys": "cell BIGINT, cell_key BIGINT",
    "noise": "size BIGINT, change BIGINT, low_key BIGINT, high_key BIGINT",
    "draws": "cell BIGINT, draw DOUBLE PRECISION",
    "needs": "cell BIGINT, need DOUBLE PRECISION",
    "open_needs": "cell BIGINT, need DOUBLE PRECISION",
    "settled": "cell BIGINT, need DOUBLE PRECISION",
    "states": "cell BIGINT, room_down DOUBLE PRECISION, room_up DOUBLE PRECISION, weight DOUBLE PRECISION, helps INT, "
    "forced INT",
    "turns": "dimension INT, part BIGINT, family BIGINT, step BIGINT, side INT",
    "corners": "cell BIGINT, need DOUBLE PRECISION, subtable BIGINT, other BIGINT, corner BIGINT, side INT",
    "cubes": "cell BIGINT, need DOUBLE PRECISION, subtable BIGINT, other BIGINT, fresh BIGINT",
}
OWN = {
    "itemsets": ITEMSETS,
    "paths": PATHS,
    "statistics": TABLED,
    "rules": TABLED,
    "attacks": ATTACKED,
    "guesses": ATTACKED
    | {
        "truths": "group_id BIGINT, value TEXT",
        "known_persons": "group_id BIGINT, value TEXT, held INT, person TEXT, records BIGINT",
        "margins": "value TEXT, records BIGINT",
        "kinds": "value TEXT, kind TEXT",
        "fitting_shares": "group_id BIGINT, place INT, share DOUBLE PRECISION",
        "revised_beliefs": "group_id BIGINT, value TEXT, share DOUBLE PRECISION, belief DOUBLE PRECISION",
        "guesses": "group_id BIGINT, truth TEXT, attacked INT, by_margins DOUBLE PRECISION",
    },
    "linking": SETS,
    "parting": PARTED,
    "transformations": TRANSFORMED,
    "hierarchies": VALIDATION,
    "history": histories.RELATIONS,
    "releases": histories.RELATIONS | KEPT,
}


# Where what is measured is not compared with one parameter of its own name alone.
LIMITS: dict[str, str | float | None] = {
    "alpha_k_anonymity": "alpha",
    "coherence": "h",
    "combination_anonymity": "k",
    "delta_presence": "delta_max",
    "distinct_l_alpha_diversity": "alpha",
    "enhanced_beta_likeness": None,  # its limit is another one for each value
    "entropy_l_alpha_diversity": "l",
    "epsilon_m_anonymity": 0.25,  # 1 / m
    "expected_confidence": 0.0,  # an excess
    "k_e_anonymity": "e",
    "km_anonymity": "k",
    "l_plus_diversity": 0.0,  # an excess
    "lkc_privacy": "c",
    "negative_positive_recursive_cl_diversity": "c1",
    "nt_closeness": "t",
    "projections": "p",
    "k_delta_anonymity": "k",
    "population_uniqueness": "share",
    "privacy_degree": 100.0,  # 1 / p
    "positive_recursive_cl_diversity": "c",
    "record_risk": "share",
    "recursive_cl_alpha_diversity": "c",
    "recursive_cl_diversity": "c",
    "relative_epsilon_m_anonymity": 0.25,
    "rho_uncertainty": "rho",
    "sequential_privacy": "h",
    "stable_partition": "k",
    "xy_privacy": "h",
}


def test_a_report_compares_what_is_measured_with_its_own_limit() -> None:
    for name, model in (*family("models").items(), *family("history").items()):
        numbers = [param.name for param in model.params if param.type in ("integer", "number")]
        params = {each: place / 100 for place, each in enumerate(numbers, start=1)} | {"m": 4}
        assert name in LIMITS or len(numbers) == 1, f"add {name} to LIMITS"
        wanted = LIMITS.get(name, numbers[0] if numbers else None)
        found = threshold(model.sql, params, smaller_is_worse=model.worse_when_smaller)
        assert found == pytest.approx(params[wanted] if isinstance(wanted, str) else wanted), name


@pytest.mark.full
def test_every_sql_file_runs_as_it_stands(database: Database) -> None:
    """As a person would run it in psql or duckdb: canonical tables, and values put for the parameters."""
    for folder in (
        "models",
        "loss",
        "hierarchies",
        "recoding",
        "history",
        "releases",
        "risk",
        "transformations",
        "parting",
        "utility",
        "attacks",
        "guesses",
        "linking",
        "paths",
        "statistics",
        "rules",
    ):
        for name, columns in {**CANONICAL, **RECODING, **OWN.get(folder, {})}.items():
            database.run(f"DROP TABLE IF EXISTS {name}")
            database.run(f"CREATE TABLE {name} ({columns})")
        for plugin in family(folder).values():
            text = plugin.sql
            for param in sorted(plugin.params, key=lambda param: -len(param.name)):
                value = {"text": "'x'", "boolean": "FALSE"}.get(param.type, "1")
                text = text.replace(f":{param.name}", value)
            database.fetch(text)


def test_every_sql_file_belongs_to_a_family() -> None:
    folders = {path.parent.name for path in sql_root().rglob("*.sql") if "compiled" not in path.parts}
    assert folders == {
        "models", "loss", "hierarchies", "recoding", "state", "history", "releases", "risk", "transformations",
        "parting",
        "utility",
        "attacks",
        "guesses",
        "linking",
        "itemsets",
        "paths",
        "statistics",
        "rules",
    }  # fmt: skip


def test_every_kind_of_hierarchy_has_a_manual_page() -> None:
    for name in hierarchies.names():
        module = hierarchies.kind(name)
        assert module.__doc__, name
        for field, info in module.Params.model_fields.items():
            assert info.description, (name, field)
