"""What became of a refresh, in one line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sqlanon.schedule import RefreshOutcome


def print_outcome(done: RefreshOutcome) -> None:
    from sqlanon.marginals import Refreshed

    where = str(done.job.path)
    if done.error is not None:
        click.echo(f"{where}: not refreshed: {done.error}", err=True)
    elif done.run is None:
        click.echo(f"{where}: somebody else refreshes it")
    else:
        assert done.published is not None
        document = done.published.document
        history = document.get("history", {})
        if isinstance(done.published, Refreshed):
            width, spent = document["differential_privacy"]["half_width"], done.published.cost.epsilon
            noise = f", counts of {document['released']:,} rows, each ± {width:g}"
            version = f"{noise}; spent {f'epsilon {spent:g}' if spent else 'nothing more'}"
        else:
            version = f", version {history['version']}, {history['held_back']:,} rows held back" if history else ""
        click.echo(f"{where}: refreshed{version}; plan {done.published.plan.hash[:12]}")
    sys.stdout.flush()
