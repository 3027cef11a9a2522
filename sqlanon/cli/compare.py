"""`sqlanon compare`: policies side by side, by the risk that is left and what their releases are still good for."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import click

from sqlanon.cli.policy_options import policy_of
from sqlanon.errors import PolicyError


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
    import os

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
    document = _plain(describe_comparison(found, policies))
    if html is not None:
        from sqlanon.report.comparison import render_comparison

        html.write_text(render_comparison(document), encoding="utf-8")
    if as_json:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        from sqlanon.cli.console_compare import print_compared

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
    return url if url is None or "://" in url or url == ":memory:" else str(Path(url).resolve())


def _names(text: str | None) -> list[str] | None:
    return [name.strip() for name in text.split(",") if name.strip()] if text else None


def _plain(value: Any) -> Any:
    """JSON has no infinities: they become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


COMMANDS = (compare,)
