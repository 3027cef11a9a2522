"""What `sqlanon compare` prints for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sqlanon.errors import number
from sqlanon.release.compare_policies import Compared

LEGEND = (
    (
        "risk",
        "mean of the chance to find a person by the quasi-identifiers, and of the protected numbers known closely",
    ),
    ("loss", "share of the information in the cells that is gone, over all columns"),
    ("score", "mean of risk and loss; less is better, and * marks what no other policy beats"),
    ("IL1s", "distance of a number from its original, in standard deviations"),
    ("prob.", "probabilistic loss: how surely statistics are not those of another sample"),
    ("pMSE", "how well release and source are told apart; 0% not at all, 100% always"),
    ("accuracy", "of a classifier that learned from the release, of one that learned from the originals, of guessing"),
)


def print_compared(source: str, found: Sequence[Compared]) -> None:
    console = Console(highlight=False)
    rows = next((item.records for item in found if item.records), None)
    told = f"{source}: {rows:,} rows, " if rows is not None else f"{source}: "
    console.print(Text(f"{told}{len(found)} {'policy' if len(found) == 1 else 'policies'}"), soft_wrap=True)
    classified = any(item.utility and item.utility.accuracy for item in found)
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("policy", overflow="fold")
    for title in ("rows", "risk", "loss", "score", "IL1s", "prob.", "pMSE"):
        table.add_column(title, justify="right")
    if classified:
        table.add_column("accuracy", justify="right")
    for item in found:
        if item.refused is None:
            table.add_row(*_row(item, classified))
    console.print(table)
    for item in found:
        if item.refused is not None:
            console.print(Text(f"no release of {item.policy}: {item.refused}", style="red"), soft_wrap=True)
        elif not item.holds:
            console.print(Text(f"BROKEN  {item.policy}: its release breaks the policy", style="red"), soft_wrap=True)
    notes = dict.fromkeys(
        f"{item.policy}: {note}" for item in found if item.utility is not None for note in item.utility.notes
    )
    for note in notes:
        console.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)
    for word, meaning in LEGEND if classified else LEGEND[:-1]:
        console.print(Text(f"{word:>8}  {meaning}", style="dim"), soft_wrap=True)


def _row(item: Compared, classified: bool) -> list[Text]:
    useful = item.utility
    assert useful is not None
    cells = [
        "*" if item.best else "",
        item.policy,
        f"{item.released:,}",
        *(_shown(value, _share) for value in (item.risk, item.loss, item.score)),
        _shown(useful.il1s, number),
        _shown(useful.probabilistic.get("all"), _share),
        _shown(useful.propensity.share if useful.propensity else None, _share),
    ]
    if classified:
        accuracy = useful.accuracy
        parts = (accuracy.released, accuracy.original, accuracy.baseline) if accuracy else ()
        cells.append(" / ".join(_shown(part, _share) for part in parts) or "-")
    return [Text(cell, style="bold" if item.best else "") for cell in cells]


def _share(value: float) -> str:
    return f"{value:.1%}"


def _shown(value: float | None, write: Callable[[float], str]) -> str:
    return "-" if value is None else write(value)
