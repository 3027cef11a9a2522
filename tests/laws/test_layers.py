"""Laws of the rooms: a module imports from below its layer only, there are no cycles, private modules stay private."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest
from conftest import ROOT
from pydantic import BaseModel

from sqlanon import algorithms
from sqlanon.families import AlgorithmTraits, load_module

PACKAGE = ROOT / "sqlanon"
# From the top down: a module imports only from lines below its own, never sideways. The longest name that fits counts.
LAYERS = [
    {"__main__", "notebook_magics"},
    {"cli"},
    {"demo"},
    {"dataframes.measure_data", "dataframes.answer_sql"},
    {"dataframes.anonymize_data", "dataframes.comparison_plot"},
    {"dataframes.open_data", "dataframes.policy_arguments"},
    {"dataframes"},
    {"server.serve"},
    {"ddl.run_statements"},
    {"ddl.owner_catalog"},
    {"console"},
    {"server.server", "server.http"},  # the two doors
    {"server.connection"},
    {"server.session"},
    {"server.extended_protocol"},
    {"server.run_command"},
    {"server.utility_commands", "server.owner_commands"},
    {"server.answers"},
    {"server.session_state"},
    {"server.broker", "server.worker"},  # on both sides of the socket between the server and a worker
    {"server.pool", "server.catalog_worker"},
    {"server.query_worker"},
    {"server", "schedule"},
    {"pgcatalog"},
    {"marginals"},
    {"gateway.replay"},
    {"gateway.synthetic"},
    {"gateway"},
    {"gateway.controls"},
    {"gateway.answer"},
    {"gateway.price"},
    {"gateway.bind"},
    {"ddl"},
    {"sqlfront", "pgwire"},
    {"release"},  # its public names alone
    {
        "release.publish_release", "release.plan_refresh", "release.compare_policies", "release.gather_report",
        "release.hold_out_persons",
        "release.retire_release", "release.release_script", "release.publish_statistics", "release.gather_table_report",
    },
    {"release.choose_maker"},
    {
        "release.publish_buckets", "release.publish_entities", "release.publish_items", "release.publish_journeys",
        "release.raise_levels",
        "release.gather_verdict",
    },
    {"release.history", "release.made_release"},
    {
        "release.stored_evidence", "release.evidence_document", "release.check_release", "release.second_draws",
        "release.second_patterns",
    },
    {"release.find_published"},
    {"release.versions"},
    {"release.targets"},
    {"release.solve_policy", "release.give_advice", "release.count_evidence", "release.measure_resistance"},
    {"release.count_distributions"},
    {
        "release.record", "release.rewrite_release", "release.publication", "release.fingerprint",
        "release.algorithm_kind", "release.region_digest", "release.explain_infeasible", "release.same_persons",
        "release.level_words",
    },
    {"verdict"},
    {"algorithms", "evidence.attacks", "evidence.risk", "evidence.utility", "report", "statistics"},
    {"evidence"},
    {"paths"},
    {"buckets", "cells", "entities", "itemsets", "regions"},
    {"lattice"},
    {"engines", "ledger"},
    {"relations.attacks"},
    {"relations"},
    {"plan"},
    {"policy"},
    {"hierarchies", "transformations"},
    {"mechanisms"},
    {"sqltree", "families"},
    {"errors"},
    {""},  # sqlanon itself: its version
]  # fmt: skip


def _modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = path
    return found


MODULES = _modules()


@functools.cache
def _imports(module: str) -> set[str]:
    """The modules of sqlanon that a module imports anywhere in it, also for the type checker alone."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner.removeprefix("sqlanon.") in MODULES else node.module)
    inside = {name for name in found if name == "sqlanon" or name.startswith("sqlanon.")}
    return {name.removeprefix("sqlanon").removeprefix(".") for name in inside} - {module}


def _room(module: str) -> tuple[int, str] | None:
    """The layer of a module, and the entry that puts it there."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        for layer, names in enumerate(LAYERS):
            if name in names:
                return layer, name
    return None


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_imports_from_below_its_layer(module: str) -> None:
    own = _room(module)
    assert own is not None, f"{module} is in no layer: add its package to LAYERS"
    if module == "":  # offers the public names, and imports each of them only when it is used
        return
    for other in _imports(module):
        room = _room(other)
        assert room is not None, f"{module} imports {other}, which is no module of sqlanon"
        assert room == own or room[0] > own[0], f"{module} imports {other}, which is not below it"


def test_private_modules_are_imported_by_their_package_alone() -> None:
    crossing = [
        (module, other)
        for module in MODULES
        for other in _imports(module)
        if other.rpartition(".")[2].startswith("_")
        and not f"{module}.".startswith(f"{other.rpartition('.')[0]}.")
        and other != "__main__"
    ]
    assert crossing == []


def test_no_module_imports_itself_through_others() -> None:
    """Also not for the type checker: who reads one of them would have to read all."""
    reached: dict[str, set[str]] = {}
    for module in MODULES:
        seen: set[str] = set()
        waiting = [module]
        while waiting:
            for other in _imports(waiting.pop()) - seen - {""}:
                seen.add(other)
                waiting.append(other)
        reached[module] = seen
    cycles = {
        frozenset({module} | {o for o in seen if module in reached[o]})
        for module, seen in reached.items()
        if module in seen
    }
    assert sorted(map(sorted, cycles)) == []


@pytest.mark.parametrize("name", algorithms.names())
def test_an_algorithm_offers_what_the_protocol_says(name: str) -> None:
    module = load_module("algorithms", name)
    assert (module.__doc__ or "").strip() and issubclass(module.Params, BaseModel)
    assert isinstance(module.TRAITS, AlgorithmTraits)
    offered = {verb for verb in ("run", "part", "protect", "release_journeys") if verb in vars(module)}
    of_rows = "part" if module.TRAITS.writes_rows else "run"
    verbs = {"rows": of_rows, "entity": "part", "set": "protect", "sequence": "release_journeys"}
    assert offered == {verbs[shape] for shape in module.TRAITS.shapes if shape in verbs}
    fields = module.Params.model_fields
    assert {module.TRAITS.target, module.TRAITS.parts} - {None} <= set(fields)
    assert (module.TRAITS.target is not None) == ("class_attribute" in fields)
    assert module.TRAITS.groups or not module.TRAITS.two_tables
