"""`sqlanon risk`: how likely persons are found in a table, or what is found out about them."""

from __future__ import annotations

import json
from typing import Any

import click

from sqlanon import __version__
from sqlanon.cli.policy_options import policy_to_look_at, source_named, table_options
from sqlanon.errors import PolicyError


@click.command()
@table_options
@click.option("--release", help="Measure this release (table or file) of the policy's source.")
@click.option("--population", help="Table or file of the people among whom a record could be anyone's.")
@click.option("--sampling-fraction", type=float, help="Share of the population that the table holds, such as 0.1.")
@click.option("--weight", help="Column with sampling weights: how many persons a row stands for.")
@click.option("--household", help="Column that identifies a household; needs --weight.")
@click.option("--threshold", type=float, default=0.2, show_default=True, help="A record with more risk is at risk.")
@click.option(
    "--knowledge", type=int, default=3, show_default=True, help="Most implications that an attacker may know."
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

    TARGET is a policy file, a Parquet or CSV file or folder, a DuckDB file, or a postgresql:// URL; with a database,
    TABLE names the table in it. A table that was published is measured under the policy of its release. Numbers are
    shown, never the rows or classes of persons.
    """
    from sqlanon.engines import connect
    from sqlanon.evidence.risk import as_data
    from sqlanon.evidence.risk import risk as measure

    options = {"qi": qi, "sensitive": sensitive, "person": person, "nulls": nulls}
    policy, url, release = policy_to_look_at(target, table, release, options)
    if population is not None:
        if policy.population is not None:
            raise PolicyError("the policy has a population already", hint="leave --population out")
        policy = policy.model_copy(update={"population": source_named(population)})
    engine = connect(url, memory_limit=memory_limit)
    try:
        found = measure(policy, engine, release=source_named(release) if release is not None else None, **asked)
    finally:
        engine.close()
    if as_json:
        head = {"sqlanon": __version__, "policy": policy.name, "source": policy.source.text, "release": release}
        click.echo(json.dumps({**head, **as_data(found)}, indent=2, ensure_ascii=False))
        return
    from sqlanon.cli.console_risk import print_risk

    print_risk(release or policy.source.text, found, limit)


COMMANDS = (risk,)
