"""What `sqlanon attack` prints for people."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from sqlanon.evidence.attacks import Attacks, Outcome


def print_attacks(source: str, release: str | None, found: Attacks) -> None:
    console = Console(highlight=False)
    beside = f", and {release}" if release else ", which has no release yet"
    columns = ", ".join(found.quasi_identifiers)
    console.print(Text(f"{source}{beside}: attacks by who knows {columns}"), soft_wrap=True)
    for note in found.notes:
        console.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)
    for item in found.attacks:
        console.print(Text(f"{item.name} of {item.attribute}" if item.attribute else item.name, style="bold"))
        console.print(_line("source", item.before), soft_wrap=True)
        if item.after is not None:
            console.print(_line("release", item.after), soft_wrap=True)
        elif item.not_judged is not None:
            console.print(Text(f"  release not judged: {item.not_judged}", style="yellow"), soft_wrap=True)
    for name, reason in found.not_judged.items():
        console.print(Text(f"not judged: {name}: {reason}", style="dim"), soft_wrap=True)


def _line(side: str, outcome: Outcome) -> Text:
    line = Text(f"  {side:<8}")
    if not outcome.targets:
        return line.append("nobody to look for")
    share = f" ({outcome.broken / outcome.targets:.1%})" if outcome.broken else ""
    style = "red" if outcome.broken else "green"
    line.append(f"{outcome.broken:,} of {outcome.targets:,} {outcome.counts} broken{share}", style=style)
    return line.append(f"; sure {_percent(outcome.confidence)} at most, {_percent(outcome.average)} on average")


def _percent(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2%}" if value >= 0.0001 or value == 0 else f"{value:.2g}"
