"""What `sqlanon risk` prints for people."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sqlanon.errors import number
from sqlanon.evidence.risk import Numbers, Risk, Subset, Suda

# A measure, its number, and what it says.
LINES = (
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


def print_risk(what: str, found: Risk, limit: int) -> None:
    console = Console(highlight=False)
    columns = ", ".join(found.quasi_identifiers)
    console.print(
        Text(f"{what}: {found.records:,} {found.counts} in {found.classes:,} classes of {columns}"), soft_wrap=True
    )
    for note in found.notes:
        console.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)
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
        console.print(f"[bold]{escape(name)}[/]")
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
        console.print(Text(f"{value:>10}  {text}"), soft_wrap=True)


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
    table = Table(
        box=None, pad_edge=False, title="sets of quasi-identifiers with most minimal sample uniques",
        title_justify="left", title_style="bold",
    )  # fmt: skip
    table.add_column("columns", overflow="fold")
    for title in ("classes", "uniques", "minimal", "distinction", "separation"):
        table.add_column(title, justify="right")
    for item in order[:limit]:
        table.add_row(
            Text(", ".join(item.columns)),
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
