"""`sqlanon compare`: policies side by side, by the risk that is left and what their releases are still good for."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlanon.cli.policy_options import policy_of
from sqlanon.cli.terminal import make_table, open_console, plain_text, replace_infinities
from sqlanon.errors import PolicyError, number

if TYPE_CHECKING:
    from rich.text import Text

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


@click.command()
@click.argument("policy_files", metavar="POLICY…", nargs=-1, required=True)
@click.option(
    "--vary", multiple=True, metavar="PLACE=VALUE,…",
    help="Compare each policy with other values, as in --vary models.k_anonymity.k=2,5,10. May be repeated.",
)  # fmt: skip
@click.option("--target", help="Train a classifier to predict this column; needs scikit-learn.")
@click.option("--features", help="Columns that it learns from, separated by commas; all others by default.")
@click.option("--categories", help="Columns of numbers that are codes, not quantities, separated by commas.")
@click.option("--time-limit", type=click.FloatRange(min=0, min_open=True), help="Seconds for each search.")
@click.option("--json", "as_json", is_flag=True, help="Print everything that was measured as JSON.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with the map.")
@click.option("--memory-limit", help="Most memory that DuckDB may use, such as 1GB; it spills to disk beyond that.")
def compare(
    policy_files: tuple[str, ...],
    vary: tuple[str, ...],
    target: str | None,
    features: str | None,
    categories: str | None,
    time_limit: float | None,
    as_json: bool,
    html: Path | None,
    memory_limit: str | None,
) -> None:
    """Compare policies of one source: the risk that is left, and what the release would still be good for.

    Each POLICY is planned and its release written aside, checked and measured; nothing is published. Draws take their
    key from the environment variable SQLANON_KEY. Exit code 1 says that a policy has no release.
    """
    from sqlanon.engines import connect
    from sqlanon.release.compare_policies import compare as run
    from sqlanon.release.compare_policies import describe_comparison

    policies, url = _policies(policy_files, vary)
    engine = connect(url, memory_limit=memory_limit)
    try:
        found = run(
            policies,
            engine,
            secret=os.environ.get("SQLANON_KEY"),
            categories=_names(categories) or (),
            target=target,
            features=_names(features),
            time_limit=time_limit,
        )
    finally:
        engine.close()
    document = replace_infinities(describe_comparison(found, policies))
    if html is not None:
        from sqlanon.report.comparison import render_comparison

        html.write_text(render_comparison(document), encoding="utf-8")
    if as_json:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print_compared(policies[0].source.text, found)
        if html is not None:
            click.echo(f"wrote {html}")
    sys.exit(0 if all(item.refused is None and item.holds for item in found) else 1)


def _policies(files: tuple[str, ...], vary: tuple[str, ...]) -> tuple[list[Any], str | None]:
    from sqlanon.policy.policy_variants import vary_policy

    if odd := [file for file in files if not file.lower().endswith((".yml", ".yaml"))]:
        raise PolicyError(f"'{odd[0]}' is no policy file", hint="name the policies to compare: files that end in .yml")
    found: list[Any] = []
    urls = []
    for file in files:
        for policy in vary_policy(file, vary) if vary else [policy_of(file, None, {})[0]]:
            database = policy.source.database
            urls.append(policy.locate(database) if database else None)
            located = policy.located()
            # Where the database is, is compared by itself: each file writes it from its own folder.
            found.append(located.model_copy(update={"source": located.source.model_copy(update={"database": None})}))
    if len({_resolved(url) for url in urls}) > 1:
        raise PolicyError(
            "the policies read different databases", hint="only releases of the same rows can be compared"
        )
    return found, urls[0]


def _resolved(url: str | None) -> str | None:
    from sqlanon.policy.database_names import is_url

    return url if url is None or is_url(url) or url == ":memory:" else str(Path(url).resolve())


def _names(text: str | None) -> list[str] | None:
    return [name.strip() for name in text.split(",") if name.strip()] if text else None


def print_compared(source: str, found: Sequence[Compared]) -> None:
    console = open_console()
    rows = next((item.records for item in found if item.records), None)
    told = f"{source}: {rows:,} rows, " if rows is not None else f"{source}: "
    console.print(plain_text(f"{told}{len(found)} {'policy' if len(found) == 1 else 'policies'}"), soft_wrap=True)
    classified = any(item.utility and item.utility.accuracy for item in found)
    table = make_table()
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
            console.print(plain_text(f"no release of {item.policy}: {item.refused}", style="red"), soft_wrap=True)
        elif not item.holds:
            console.print(
                plain_text(f"BROKEN  {item.policy}: its release breaks the policy", style="red"), soft_wrap=True
            )
    notes = dict.fromkeys(
        f"{item.policy}: {note}" for item in found if item.utility is not None for note in item.utility.notes
    )
    for note in notes:
        console.print(plain_text(f"note: {note}", style="yellow"), soft_wrap=True)
    for word, meaning in LEGEND if classified else LEGEND[:-1]:
        console.print(plain_text(f"{word:>8}  {meaning}", style="dim"), soft_wrap=True)


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
    return [plain_text(cell, style="bold" if item.best else "") for cell in cells]


def _share(value: float) -> str:
    return f"{value:.1%}"


def _shown(value: float | None, write: Callable[[float], str]) -> str:
    return "-" if value is None else write(value)
