"""`sqlanon attack`: what attackers achieve against a table, and against its release."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from sqlanon import __version__
from sqlanon.cli.policy_options import database_to_read, policy_to_look_at, source_named, table_options
from sqlanon.cli.terminal import open_console, plain_text

if TYPE_CHECKING:
    from rich.text import Text

    from sqlanon.evidence.attacks import Attacks, Outcome


@click.command()
@table_options
@click.option("--release", help="Attack this release (table or file) too; with a policy file its own, by default.")
@click.option("--external", help="Table or file of persons with quasi-identifiers that the attacker has.")
@click.option("--other", help="Another release (table or file) of the same persons, put together with the first.")
@click.option("--earlier", help="Table or file of the persons of --other, where that is an earlier release.")
@click.option("--prior", help="Table or file of sensitive values and their probability, as the attacker believes.")
@click.option("--attack", "names", multiple=True, metavar="NAME", help="Try this attack only. May be repeated.")
@click.option("--certainty", type=float, help="How sure an attacker must be for a person to count as broken.")
@click.option("--knowledge", type=int, help="How many values the attacker can rule out for a person; 1 by default.")
@click.option("--gain", type=float, help="How much more likely a value must become; 0.2 by default.")
@click.option(
    "--ratio", type=float, help="How many times as likely a value must become beside --prior; any by default."
)
@click.option("--level", type=int, help="Level of a sensitive column's hierarchy that tells kinds; 1 by default.")
@click.option("--epsilon", type=float, help="Sensitive numbers no farther apart than this count as equal.")
@click.option("--rounds", type=int, help="Rounds in which the deFinetti attack learns; 5 by default.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--memory-limit", help="Most memory that DuckDB may use, such as 1GB; it spills to disk beyond that.")
def attack(
    target: str,
    table: str | None,
    release: str | None,
    external: str | None,
    other: str | None,
    earlier: str | None,
    prior: str | None,
    names: tuple[str, ...],
    as_json: bool,
    memory_limit: str | None,
    qi: str | None,
    sensitive: str | None,
    person: str | None,
    nulls: str | None,
    **asked: Any,
) -> None:
    """Try attacks on a table and on its release, and tell how many persons they break, and how surely.

    TARGET is a policy file, a file of rows or a folder of them, a DuckDB file, or a postgresql:// URL; with a database,
    TABLE names the table in it. A table that was published is attacked beside the source of its policy. Without
    --external the attacker knows the quasi-identifiers of everybody in the source. Numbers are shown, never persons.
    'sqlanon explain NAME' says what an attack does, and what withstands it.
    """
    from sqlanon.engines import connect
    from sqlanon.evidence.attacks import as_data
    from sqlanon.evidence.attacks import attack as run

    options = {"qi": qi, "sensitive": sensitive, "person": person, "nulls": nulls}
    policy, url, release = policy_to_look_at(target, table, release, options)
    engine = connect(database_to_read(policy, url), memory_limit=memory_limit)
    try:
        shown, where = _released(policy, engine, release)
        found = run(
            policy,
            engine,
            release=shown,
            external=source_named(external) if external is not None else None,
            other=source_named(other) if other is not None else None,
            prior=source_named(prior) if prior is not None else None,
            earlier=source_named(earlier) if earlier is not None else None,
            names=names,
            **asked,
        )
    finally:
        engine.close()
    if as_json:
        head = {"sqlanon": __version__, "policy": policy.name, "source": policy.source.text, "release": where}
        click.echo(json.dumps({**head, **as_data(found)}, indent=2, ensure_ascii=False))
        return
    print_attacks(policy.source.text, where, found)


def _released(policy: Any, engine: Any, release: str | None) -> tuple[Any, str | None]:
    """The release that is named, or that of the policy, if it was published."""
    from sqlanon.errors import SourceError
    from sqlanon.policy import Source
    from sqlanon.relations.source import table_parts

    if release is not None:
        return source_named(release), release
    given = policy.release
    if given is None:
        return None, None
    name = given.table or given.view
    if name is not None:
        return (Source(table=name), name) if engine.find(table_parts(name)) is not None else (None, None)
    source = Source(path=given.path)
    try:
        engine.resolve(source)
    except SourceError:
        return None, None
    return source, given.path


def print_attacks(source: str, release: str | None, found: Attacks) -> None:
    console = open_console()
    beside = f", and {release}" if release else ", which has no release yet"
    columns = ", ".join(found.quasi_identifiers)
    console.print(plain_text(f"{source}{beside}: attacks by someone who knows {columns}"), soft_wrap=True)
    for note in found.notes:
        console.print(plain_text(f"note: {note}", style="yellow"), soft_wrap=True)
    for item in found.attacks:
        console.print(plain_text(f"{item.name} of {item.attribute}" if item.attribute else item.name, style="bold"))
        console.print(_line("source", item.before), soft_wrap=True)
        if item.after is not None:
            console.print(_line("release", item.after), soft_wrap=True)
        elif item.not_judged is not None:
            console.print(plain_text(f"  release not judged: {item.not_judged}", style="yellow"), soft_wrap=True)
    for name, reason in found.not_judged.items():
        console.print(plain_text(f"not judged: {name}: {reason}", style="dim"), soft_wrap=True)


def _line(side: str, outcome: Outcome) -> Text:
    line = plain_text(f"  {side:<8}")
    if not outcome.targets:
        return line.append("no person to look for")
    share = f" ({outcome.broken / outcome.targets:.1%})" if outcome.broken else ""
    style = "red" if outcome.broken else "green"
    line.append(f"{outcome.broken:,} of {outcome.targets:,} {outcome.counts} broken{share}", style=style)
    return line.append(f"; sure {_percent(outcome.confidence)} at most, {_percent(outcome.average)} on average")


def _percent(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2%}" if value >= 0.0001 or value == 0 else f"{value:.2g}"
