"""`sqlanon risk`: how likely persons are found in a table, or what is found out about them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from sqlanon import __version__
from sqlanon.cli.policy_options import database_to_read, policy_to_look_at, source_named, table_options
from sqlanon.cli.statistics_tables import read_statistics, refuse_options, risk_tables
from sqlanon.cli.terminal import escape_markup, make_table, open_console, plain_text
from sqlanon.errors import PolicyError, number

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from sqlanon.evidence.risk import Numbers, Risk, Subset, Suda


# A measure, its number, and what it says.
LINES = (
    ("known_persons", "by_all_rows", "{unit} whom nobody else equals in all rows"),
    ("known_persons", "by_one_row", "{unit} with a row that nobody else has"),
    ("known_persons", "by_number", "{unit} with a number of rows that nobody else has"),
    ("prosecutor", "highest", "chance to find a person who is known to be in the table, at most"),
    ("prosecutor", "average", "the same on average: prosecutor risk"),
    ("prosecutor", "records_at_risk", "{unit} with a prosecutor risk above {threshold}"),
    ("journalist", "highest", "chance to find somebody of the population, at most"),
    ("journalist", "average", "the same on average: journalist risk"),
    ("journalist", "records_at_risk", "{unit} with a journalist risk above {threshold}"),
    ("journalist", "population_unique", "{unit} that are unique in the population"),
    ("marketer", "average", "{unit} matched rightly if all are linked: marketer risk"),
    ("sample_uniqueness", "share", "{unit} that are unique in the table"),
    ("population_uniqueness", "dankar", "of the population unique there, estimated by Dankar's rule"),
    ("population_uniqueness", "pitman", "the same by Pitman's model"),
    ("population_uniqueness", "zayatz", "the same by Zayatz's"),
    ("population_uniqueness", "snb", "the same by the shifted negative binomial one"),
    ("individual_risk", "highest", "individual risk by sampling weights, at most"),
    ("individual_risk", "average", "the same on average"),
    ("individual_risk", "expected", "{unit} that are expected to be found"),
    ("hierarchical_risk", "highest", "risk of a household, at most"),
    ("hierarchical_risk", "average", "the same on average over its members"),
    ("hierarchical_risk", "expected", "{unit} that are expected to be found, with their households"),
)
OF_ATTRIBUTE = (
    ("guessed", "guessed rightly from the class of a person"),
    ("guessed_without", "guessed rightly without the classes"),
    ("highest", "surest guess"),
    ("disclosed", "{unit} in classes that hold one value only"),
)
COUNTS = ("expected", "uniques")


@click.command()
@table_options
@click.option("--release", help="Measure this release (table or file) of the policy's source.")
@click.option("--population", help="Table or file of the people among whom a record could be anyone's.")
@click.option("--sampling-fraction", type=float, help="Share of the population that the table holds, such as 0.1.")
@click.option("--weight", help="Column with sampling weights: how many persons a row stands for.")
@click.option("--household", help="Column that identifies a household; needs --weight.")
@click.option("--threshold", type=float, default=0.2, show_default=True, help="A record with more risk is at risk.")
@click.option(
    "--knowledge",
    type=int,
    default=3,
    show_default=True,
    help="Most implications that an attacker may know; most items, with 'shape: set'.",
)
@click.option("--subsets", is_flag=True, help="What each set of quasi-identifiers tells apart.")
@click.option("--suda", is_flag=True, help="Scores of special uniques (SUDA2, and DIS with a sampling fraction).")
@click.option("--max-size", type=int, help="Most quasi-identifiers in a set, for --subsets and --suda.")
@click.option("--limit", type=click.IntRange(0), default=10, show_default=True, help="Show at most this many sets.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--memory-limit", help="Most memory that DuckDB may use, such as 1GB; it spills to disk beyond that.")
def risk(
    target: str,
    table: str | None,
    release: str | None,
    population: str | None,
    limit: int,
    as_json: bool,
    memory_limit: str | None,
    qi: str | None,
    sensitive: str | None,
    person: str | None,
    nulls: str | None,
    **asked: Any,
) -> None:
    """Measure how likely persons are found in a table, and what is found out about them.

    TARGET is a policy file, a file of rows or a folder of them, a DuckDB file, or a postgresql:// URL; with a database,
    TABLE names the table in it. A table that was published is measured under the policy of its release. Numbers are
    shown, never the rows or classes of persons.
    """
    from sqlanon.engines import connect
    from sqlanon.evidence.risk import as_data
    from sqlanon.evidence.risk import risk as measure
    from sqlanon.policy.person_shapes import SEQUENCE, SET

    options = {"qi": qi, "sensitive": sensitive, "person": person, "nulls": nulls}
    if (tables := read_statistics(target)) is not None:
        given = {
            name: asked[name] for name in ("sampling_fraction", "weight", "household", "subsets", "suda", "max_size")
        }
        refuse_options({"release": release, "population": population, **options, **given})
        risk_tables(*tables, as_json=as_json, memory_limit=memory_limit)
        return
    policy, url, release = policy_to_look_at(target, table, release, options)
    if population is not None:
        if policy.population is not None:
            raise PolicyError("the policy has a population already", hint="leave --population out")
        policy = policy.model_copy(update={"population": source_named(population)})
    if policy.shape in (SET, SEQUENCE):
        _risk_by_parts(policy, url, release, as_json, memory_limit, asked)
        return
    engine = connect(database_to_read(policy, url), memory_limit=memory_limit)
    try:
        found = measure(policy, engine, release=source_named(release) if release is not None else None, **asked)
    finally:
        engine.close()
    if as_json:
        head = {"sqlanon": __version__, "policy": policy.name, "source": policy.source.text, "release": release}
        click.echo(json.dumps({**head, **as_data(found)}, indent=2, ensure_ascii=False))
        return
    print_risk(release or policy.source.text, found, limit)


def _risk_by_parts(
    policy: Any, url: str | None, release: str | None, as_json: bool, memory_limit: str | None, asked: dict[str, Any]
) -> None:
    """The same where persons are sets of items or journeys: what an attacker achieves who knows a few of them."""
    from sqlanon.engines import connect
    from sqlanon.evidence.item_risk import as_data, item_risk
    from sqlanon.evidence.journey_risk import journey_risk
    from sqlanon.policy.person_shapes import SET

    defaults = {"threshold": 0.2, "knowledge": asked["knowledge"], "max_size": None}
    given = [name for name, value in asked.items() if value != defaults.get(name) and value not in (None, False)]
    if given:
        option = given[0].replace("_", "-")
        raise PolicyError(
            f"--{option} means nothing with 'shape: {policy.shape}'", hint="only --knowledge and --release do"
        )
    engine = connect(database_to_read(policy, url), memory_limit=memory_limit)
    try:
        source = source_named(release) if release is not None else None
        of_shape = item_risk if policy.shape == SET else journey_risk
        found = of_shape(policy, engine, release=source, knowledge=asked["knowledge"])
    finally:
        engine.close()
    if as_json:
        head = {"sqlanon": __version__, "policy": policy.name, "source": policy.source.text, "release": release}
        click.echo(json.dumps({**head, **as_data(found)}, indent=2, ensure_ascii=False))
        return
    console = open_console()
    what, part = release or policy.source.text, "items" if policy.shape == SET else "visits"
    console.print(plain_text(f"{what}: {found.persons:,} persons, {found.rows:,} {part} of persons"), soft_wrap=True)
    table = make_table(f"persons who are alone with some of their {part}")
    table.add_column("the attacker has", overflow="fold")
    for name in (part, "persons", "share", "mean chance"):
        table.add_column(name, justify="right")
    for item in found.known:
        share = f"{item.singled_out / found.persons:.1%}" if found.persons else "-"
        chance = "-" if item.average is None else number(item.average)
        table.add_row(item.attacker, str(item.items), f"{item.singled_out:,}", share, chance)
    console.print(table)


def print_risk(what: str, found: Risk, limit: int) -> None:
    console = open_console()
    columns = ", ".join(found.quasi_identifiers)
    console.print(
        plain_text(f"{what}: {found.records:,} {found.counts} in {found.classes:,} classes of {columns}"),
        soft_wrap=True,
    )
    for note in found.notes:
        console.print(plain_text(f"note: {note}", style="yellow"), soft_wrap=True)
    if not found.records:
        console.print("there is no row to measure")
        return
    words = {"unit": found.counts, "threshold": f"{found.threshold:g}"}
    lines = [
        (_shown(found.measures[name], key), text.format(**words)) for name, key, text in LINES if name in found.measures
    ]
    _print_lines(console, lines)
    for name, measures in found.attributes.items():
        console.print()
        console.print(f"[bold]{escape_markup(name)}[/]")
        disclosure = measures["attribute_disclosure"]
        lines = [(_shown(disclosure, key), text.format(**words)) for key, text in OF_ATTRIBUTE]
        lines += [(_shown(measures["ck_safety"], known), _implications(int(known))) for known in measures["ck_safety"]]
        _print_lines(console, lines)
    if found.suda is not None:
        _print_suda(console, found.suda, found.records, found.counts)
    if found.subsets:
        console.print()
        console.print(_subsets(found.subsets, limit))


def _implications(known: int) -> str:
    if known == 0:
        return "surest conclusion of an attacker who knows the classes"
    return f"the same with {known} implication{'s' if known > 1 else ''} ((c,k)-safety)"


def _shown(numbers: Numbers, key: str) -> str:
    value = numbers[key]
    if value is None or isinstance(value, str):
        return "-"
    if key in COUNTS:
        return f"{value:,.1f}"
    return f"{value:.2%}" if value >= 0.0001 or value == 0 else f"{value:.2g}"


def _print_lines(console: Console, lines: list[tuple[str, str]]) -> None:
    for value, text in lines:
        console.print(plain_text(f"{value:>10}  {text}"), soft_wrap=True)


def _print_suda(console: Console, found: Suda, records: int, unit: str) -> None:
    console.print()
    console.print("[bold]special uniques (SUDA2)[/]")
    lines = [(f"{found.records:,}", f"of {records:,} {unit} have a score")]
    lines += [
        (f"{count:,}", f"minimal sample uniques of {size} column{'s' if size > 1 else ''}")
        for size, count in sorted(found.minimal_uniques.items())
        if count
    ]
    if found.scores:
        highest = found.scores[-1]
        total = sum(item.score * item.records for item in found.scores)
        lines.append((number(highest.score), "highest score"))
        lines.append((number(total / found.records), "average score of those who have one"))
        if highest.dis is not None:
            lines.append((f"{highest.dis:.2%}", "highest chance that a match is the right one (DIS-SUDA)"))
            likely = sum(item.records for item in found.scores if (item.dis or 0.0) > 0.1)
            lines.append((f"{likely:,}", f"{unit} with a chance above 10%"))
        parts = sorted(found.contributions.items(), key=lambda item: -item[1])
        lines += [(f"{share:.1%}", f"of all scores have to do with {name}") for name, share in parts]
    _print_lines(console, lines)


def _subsets(subsets: tuple[Subset, ...], limit: int) -> Table:
    """Those that tell most apart, and of these the smallest first."""
    order = sorted(subsets, key=lambda item: (-item.minimal_uniques, -item.distinction, len(item.columns)))
    table = make_table("sets of quasi-identifiers with most minimal sample uniques")
    table.add_column("columns", overflow="fold")
    for title in ("classes", "uniques", "minimal", "distinction", "separation"):
        table.add_column(title, justify="right")
    for item in order[:limit]:
        table.add_row(
            plain_text(", ".join(item.columns)),
            f"{item.classes:,}",
            f"{item.uniques:,}",
            f"{item.minimal_uniques:,}",
            f"{item.distinction:.2%}",
            "-" if item.separation is None else f"{item.separation:.2%}",
        )
    if len(order) > limit:
        table.caption = f"… and {len(order) - limit:,} more; --json lists all"
        table.caption_justify = "left"
    return table
