"""What the commands do with a policy for tables of statistics, and how they print it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlanon.cli.policy_options import open_database
from sqlanon.cli.progress import progress_bar
from sqlanon.cli.terminal import escape_markup, make_table, open_console, plain_text, replace_infinities
from sqlanon.errors import PolicyError, number
from sqlanon.policy.yaml_lines import text_of

if TYPE_CHECKING:
    from sqlanon.policy.statistics import StatisticsPolicy
    from sqlanon.statistics.check_tables import TableAttacks, TableCheck, TableRisk
    from sqlanon.statistics.foreign_table import ForeignCheck


def read_statistics(target: str) -> tuple[StatisticsPolicy, str | None] | None:
    """The policy of a file for tables of statistics, and its database; None if TARGET is something else."""
    if not target.lower().endswith((".yml", ".yaml")) or "statistics" not in text_of(Path(target)):
        return None
    from sqlanon.policy.files import load_statistics

    policy = load_statistics(Path(target))
    if policy is None:
        return None
    database = policy.source.database
    return policy.located(), policy.locate(database) if database else None


def refuse_options(given: Mapping[str, Any]) -> None:
    """Options that have no meaning for tables of statistics."""
    for name, value in given.items():
        if value not in (None, False, (), ""):
            raise PolicyError(
                f"--{name.replace('_', '-')} is not for tables of statistics",
                hint="write it into the policy, or leave it out",
            )


def publish_tables(
    policy: StatisticsPolicy, url: str | None, *, dry_run: bool, plan_file: Path | None, as_json: bool,
    memory_limit: str | None,
) -> Mapping[str, Any]:  # fmt: skip
    from sqlanon.release.publish_statistics import publish_statistics

    with open_database(policy, url, writes=not dry_run, memory_limit=memory_limit) as engine, progress_bar() as bar:
        done = publish_statistics(policy, engine, dry_run=dry_run, secret=os.environ.get("SQLANON_KEY"), progress=bar)
    if plan_file:
        plan_file.write_text(done.plan.to_json() + "\n", encoding="utf-8")
    if as_json:
        click.echo(json.dumps(replace_infinities(dict(done.document)), indent=2, ensure_ascii=False))
    else:
        print_tables(done.document)
    return done.document


def print_tables(document: Mapping[str, Any]) -> None:
    console = open_console()
    release, found = document.get("release"), document["statistics"]
    where = f"{release['kind']} {release['name']}" if release else "dry run"
    share = document["suppressed"] / document["cells"] if document["cells"] else 0
    said = f"{where}: {document['cells']:,} cells, {document['suppressed']:,} hidden ({share:.1%})"
    changes = found.get("changes")
    if changes is not None:
        share = changes["changed"] / document["cells"] if document["cells"] else 0
        said = f"{where}: {document['cells']:,} cells, {changes['changed']:,} changed ({share:.1%})"
    console.print(plain_text(said, style="bold"))
    table = make_table()
    for title, side in (("table", "left"), ("cells", "right"), ("unsafe", "right"), ("hidden", "right")):
        table.add_column(title, justify=side)  # type: ignore[arg-type]
    table.add_column("unsafe by rule", overflow="fold")
    for item in found["tables"]:
        rules = ", ".join(f"{name} {count:,}" for name, count in item["by_rule"].items()) or "-"
        table.add_row(
            escape_markup(item["name"]), f"{item['cells']:,}", f"{item['unsafe']:,}", f"{item['hidden']:,}", rules
        )
    console.print(table)
    if changes is None:
        said = f"{describe_search(found)}; {found['attackers']:,} contributors are attackers too"
        console.print(plain_text(said), soft_wrap=True)
    else:
        for line in describe_changes(found):
            console.print(plain_text(line), soft_wrap=True)
    for line in document["not_protected"]:
        console.print(plain_text(f"note: {line}", style="yellow"), soft_wrap=True)
    console.print(plain_text(f"plan {document['plan_hash'][:16]}", style="dim"))
    if release:
        console.print(f"[bold green]published: {PROMISES[found.get('method', 'suppression')]}[/]")
    else:
        console.print("[bold]nothing was written[/]")


# What the audit of the table as written found, in words.
PROMISES = {
    "suppression": "no unsafe cell can be computed from the tables as written",
    "rounding": "no unsafe cell can be bounded more closely than its rules allow",
    "random_rounding": "no unsafe cell is left less open than its rules ask for",
    "adjustment": "every unsafe cell is shown at least its level away from its value",
    "cell_key": "no unsafe cell is left less open than its rules ask for",
}


def describe_changes(found: Mapping[str, Any]) -> list[str]:
    """What tables lose whose values were changed, in words."""
    changes = found["changes"]
    said = f"{found['method']}: changes of {number(changes['distance'])} in all, {number(changes['greatest'])} at most"
    if found["bound"] is not None:
        said += (
            ", proven least" if found["gap"] == 0 else f", at most {found['gap']:.1%} above the least (time was over)"
        )
    worst = max(changes["hellinger"].values(), default=0.0)
    more = f"mean change {changes['mean_relative']:.2%} of the value; Hellinger distance {worst:.4f} at most; "
    gap = changes["additivity_gap"]
    more += "totals are the sums of their parts" if gap < 1e-6 else f"totals miss the sum of their parts by {gap:.3g}"
    return [said, more]


def describe_search(found: Mapping[str, Any]) -> str:
    """How good a pattern is, in words."""
    said = f"{found['search']}: cost {number(found['cost'])}"
    if found["search"] == "earlier pattern":
        return f"{said}, as in the earlier release of the same records"
    if found["gap"] == 0:
        return f"{said}, proven least"
    if found["gap"] is None:
        return f"{said}, no bound was looked for"
    return f"{said}, at most {found['gap']:.1%} above the least (time was over)"


def check_tables(
    policy: StatisticsPolicy, url: str | None, *, release: str | None, as_json: bool, memory_limit: str | None
) -> None:
    """Exit code 0 if every unsafe cell is protected."""
    from sqlanon.engines import connect
    from sqlanon.statistics.check_tables import check_statistics

    with closing(connect(url, memory_limit=memory_limit)) as engine:
        secret = os.environ.get("SQLANON_KEY") if policy.protect.is_keyed else None
        found = check_statistics(policy, engine, release=release, secret=secret)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        print_check(policy, found)
    sys.exit(0 if found.holds else 1)


def print_check(policy: StatisticsPolicy, found: TableCheck) -> None:
    console = open_console()
    done = f"{found.hidden:,} hidden" if policy.protect.hides else f"{found.changed:,} changed"
    said = f"{found.release}: {found.cells:,} cells, {done}, {found.unsafe:,} unsafe"
    console.print(plain_text(said, style="bold"))
    for problem in found.problems:
        console.print(plain_text(f"BROKEN  {problem}", style="red"), soft_wrap=True)
    for note in found.notes:
        console.print(plain_text(f"note: {note}", style="yellow"), soft_wrap=True)
    if found.holds:
        console.print(f"[bold green]{PROMISES[policy.protect.name]}[/]")


def risk_tables(policy: StatisticsPolicy, url: str | None, *, as_json: bool, memory_limit: str | None) -> None:
    from sqlanon.engines import connect
    from sqlanon.statistics.check_tables import measure_statistics

    with closing(connect(url, memory_limit=memory_limit)) as engine:
        found = measure_statistics(policy, engine)
    if as_json:
        click.echo(json.dumps([item.to_json() for item in found], indent=2, ensure_ascii=False))
        return
    print_risks(found)


def print_risks(found: list[TableRisk]) -> None:
    console = open_console()
    table = make_table("unsafe cells")
    for title in ("table", "rule"):
        table.add_column(title)
    for title in ("cells", "unsafe", "contributors in them", "alone"):
        table.add_column(title, justify="right")
    for item in found:
        table.add_row(
            escape_markup(item.table), item.rule, f"{item.cells:,}", f"{item.unsafe:,}", f"{item.contributors:,}",
            f"{item.alone:,}",
        )  # fmt: skip
    console.print(table)


def attack_tables(
    policy: StatisticsPolicy, url: str | None, *, release: str | None, other: str | None, names: tuple[str, ...],
    as_json: bool, memory_limit: str | None,
) -> None:  # fmt: skip
    from sqlanon.engines import connect
    from sqlanon.statistics.check_tables import attack_statistics

    with closing(connect(url, memory_limit=memory_limit)) as engine:
        found = attack_statistics(policy, engine, release=release, other=other, names=names)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        print_attacks(found)


def print_attacks(found: TableAttacks) -> None:
    console = open_console()
    hidden = f", {found.hidden:,} hidden cells" if found.hidden else ""
    console.print(plain_text(f"{found.release}: {found.unsafe:,} unsafe cells{hidden}"))
    for item in found.attacks:
        console.print(plain_text(item.name, style="bold"))
        style = "red" if item.broken else "green"
        line = plain_text("  ").append(
            f"{item.broken:,} of {found.unsafe:,} unsafe cells bounded too closely", style=style
        )
        line.append(f"; {item.exact:,} known exactly")
        if item.narrowest is not None:
            line.append(f"; narrowest interval {item.narrowest:.1%} of its value")
        if item.about:
            line.append(f"; {item.about}")
        console.print(line, soft_wrap=True)
    for name, reason in found.not_judged.items():
        console.print(plain_text(f"not judged: {name}: {reason}", style="dim"), soft_wrap=True)


def check_foreign_table(
    target: str, table: str | None, cells: str | None, value: str | None, total: str | None,
    hierarchies: tuple[str, ...], *, as_json: bool, memory_limit: str | None,
) -> None:  # fmt: skip
    """Exit code 1 if a hidden cell is known exactly, or the table is no sum of its parts."""
    from sqlanon.engines import connect
    from sqlanon.policy.options import require_database
    from sqlanon.statistics.foreign_table import check_foreign

    if table is None or not cells or not value:
        raise PolicyError(
            "a table of statistics needs its database, its name, --cells and --value",
            hint="as in: sqlanon check business.duckdb turnover --cells region,branch --value turnover",
        )
    require_database(target, table)
    names = [name.strip() for name in cells.split(",") if name.strip()]
    files = {}
    for given in hierarchies:
        own, _, path = given.partition("=")
        if not own or not path or own in files:
            raise PolicyError(
                "--hierarchy names a column and its file, once each", hint="as in: --hierarchy region=regions.csv"
            )
        files[own] = Path(path)
    with closing(connect(target, memory_limit=memory_limit)) as engine:
        found = check_foreign(engine, table, names, value, total, files)
    _print_foreign(found, as_json=as_json)


def check_argus_table(target: str, *, as_json: bool) -> None:
    """The same for a table of tau-Argus, by its description."""
    from sqlanon.statistics.exchange_files import read_argus
    from sqlanon.statistics.foreign_table import check_cells

    table = read_argus(Path(target))
    _print_foreign(check_cells(table.name, table.cells, table.totals, table.above), as_json=as_json)


def _print_foreign(found: ForeignCheck, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        console = open_console()
        console.print(plain_text(f"{found.table}: {found.cells:,} cells, {found.hidden:,} hidden", style="bold"))
        for problem in found.problems:
            console.print(plain_text(f"BROKEN  {problem}", style="red"), soft_wrap=True)
        style = "red" if found.exact else "green"
        console.print(plain_text(f"{found.exact:,} hidden cells can be computed exactly", style=style))
        console.print(
            plain_text(f"{found.close:,} hidden cells can be computed within a tenth of their greatest value")
        )
    sys.exit(0 if found.holds else 1)
