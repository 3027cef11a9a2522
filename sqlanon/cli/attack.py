"""`sqlanon attack`: what attackers achieve against a table, and against its release."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from sqlanon import __version__
from sqlanon.cli.policy_options import database_to_read, policy_to_look_at, source_named, table_options
from sqlanon.cli.statistics_tables import attack_tables, read_statistics, refuse_options
from sqlanon.cli.terminal import open_console, plain_text
from sqlanon.errors import PolicyError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from sqlanon.engines import Engine
    from sqlanon.evidence.attacks import Advantage, Attacks, Outcome
    from sqlanon.evidence.attacks.success_rates import SuccessRate
    from sqlanon.policy import Policy


MADE_FOR_IT = "a release of those who were not set aside"


@click.command()
@table_options
@click.option("--release", help="Attack this release (table or file) too; with a policy file its own, by default.")
@click.option("--external", help="Table or file of persons with quasi-identifiers that the attacker has.")
@click.option("--other", help="Another release (table or file) of the same persons, put together with the first.")
@click.option("--earlier", help="Table or file of the persons of --other, where that is an earlier release.")
@click.option("--prior", help="Table or file of sensitive values and their probability, as the attacker believes.")
@click.option("--control", help="Table or file of persons of the same population who are not in the source.")
@click.option(
    "--holdout",
    type=float,
    metavar="SHARE",
    help="Set this share of the persons aside as a control group, and attack a release of the others, made for that.",
)
@click.option(
    "--advantage",
    "least_advantage",
    type=float,
    help="An attack is a finding if its advantage is over this at the lower end of its interval; 0.05 by default.",
)
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
    control: str | None,
    holdout: float | None,
    least_advantage: float | None,
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
    --external the attacker knows the quasi-identifiers of everybody in the source. With --control or --holdout the same
    attacker also guesses about persons who are not in the data. How much more often they are right about the others, or
    than somebody who guesses from the margins of the release, is their advantage. --holdout draws persons by the key in
    the environment variable SQLANON_KEY. Numbers are shown, never persons.
    'sqlanon explain NAME' says what an attack does, and what withstands it.
    """
    from sqlanon.engines import connect
    from sqlanon.evidence.attacks import as_data
    from sqlanon.evidence.attacks import attack as run

    if least_advantage is not None:
        asked["least_advantage"] = least_advantage
    alone = {"release": release, "external": external, "other": other, "earlier": earlier, "control": control}
    if holdout is not None:
        _require_alone([name for name, value in alone.items() if value is not None])
    options = {"qi": qi, "sensitive": sensitive, "person": person, "nulls": nulls}
    if (tables := read_statistics(target)) is not None:
        refuse_options({"external": external, "earlier": earlier, "prior": prior, **options, **asked})
        attack_tables(*tables, release=release, other=other, names=names, as_json=as_json, memory_limit=memory_limit)
        return
    policy, url, release = policy_to_look_at(target, table, release, options)
    engine = connect(database_to_read(policy, url), memory_limit=memory_limit)
    try:
        given = {"external": external, "other": other, "prior": prior, "earlier": earlier, "control": control}
        sources: dict[str, Any] = {name: source_named(text) for name, text in given.items() if text is not None}
        if holdout is not None:
            where = None
            found = _of_policy(policy, engine, target, holdout=holdout, names=names, **sources, **asked)
        else:
            shown, where = _released(policy, engine, release)
            found = run(policy, engine, release=shown, names=names, **sources, **asked)
    finally:
        engine.close()
    if as_json:
        head = {"sqlanon": __version__, "policy": policy.name, "source": policy.source.text, "release": where}
        click.echo(json.dumps({**head, **as_data(found)}, indent=2, ensure_ascii=False))
        return
    print_attacks(policy.source.text, MADE_FOR_IT if holdout is not None else where, found)


def _require_alone(given: list[str]) -> None:
    if given:
        raise PolicyError(
            f"--holdout makes a release of its own: it does not go with --{given[0]}",
            hint="a release that exists was made of everybody; name persons who are not in it with --control",
        )


def _of_policy(policy: Policy, engine: Engine, target: str, **asked: Any) -> Attacks:
    from sqlanon.release.hold_out_persons import attack_policy

    if not target.lower().endswith((".yml", ".yaml")):
        raise PolicyError(
            "--holdout makes a release, which needs a policy file",
            hint="'sqlanon init' drafts one: sqlanon attack policy.yml",
        )
    return attack_policy(policy, engine, secret=os.environ.get("SQLANON_KEY"), **asked)


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
        for advantage in found.advantages:
            if (advantage.attack, advantage.attribute) == (item.name, item.attribute):
                _print_advantage(console, advantage)
    tried = {(item.name, item.attribute) for item in found.attacks}
    for advantage in found.advantages:
        if (advantage.attack, advantage.attribute) not in tried:
            title = f"{advantage.attack} of {advantage.attribute}" if advantage.attribute else advantage.attack
            console.print(plain_text(title, style="bold"))
            _print_advantage(console, advantage)
    if found.advantages:
        console.print(plain_text(_conclusion(found)), soft_wrap=True)
    for name, reason in found.not_compared.items():
        console.print(plain_text(f"no advantage measured: {name}: {reason}", style="dim"), soft_wrap=True)
    for name, reason in found.not_judged.items():
        console.print(plain_text(f"not judged: {name}: {reason}", style="dim"), soft_wrap=True)


def _print_advantage(console: Console, item: Advantage) -> None:
    """What the attacker guesses about persons of the source, beside what they achieve without their data."""
    told = f"  guesses {_rate(item.attacked)} right in the source"
    told += f", {_rate(item.control)} in the control group" if item.control else ""
    console.print(plain_text(f"{told}, {item.by_margins.rate:.1%} from the margins"), soft_wrap=True)
    over = "the control group" if item.against == "control" else "the margins"
    value, low, high = (_signed(each) for each in (item.advantage, item.low, item.high))
    line = plain_text(f"  advantage {value} over {over}, 95% interval {low} to {high}: ")
    style = "red" if item.finding else "green"
    console.print(line.append("a finding" if item.finding else "no finding", style=style), soft_wrap=True)


def _signed(share: float) -> str:
    shown = f"{share:.1%}"
    return "0.0%" if shown == "-0.0%" else shown


def _rate(found: SuccessRate) -> str:
    right = f"{found.right:,.0f} of {found.guesses:,}"
    return f"{right} ({found.rate:.1%}, {found.low:.1%} to {found.high:.1%})"


def _conclusion(found: Attacks) -> str:
    """One line that says what the advantages are compared with, and how many are findings."""
    limit = f"{found.least_advantage:.0%}" if found.least_advantage >= 0.01 else f"{found.least_advantage:.2%}"
    many = f"findings: {len(found.findings)} of {len(found.advantages)} advantages have an interval above {limit}"
    if any(item.control_targets for item in found.advantages):
        return many
    return (
        f"{many}; no control group given: over the margins, an advantage also holds what the release tells about "
        "anybody (--control, --holdout)"
    )


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
