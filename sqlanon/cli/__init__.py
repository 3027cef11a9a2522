"""The command line: a thin skin over the Python API. Exit code 0: all holds; 1: a requirement is broken; 2: error."""

from __future__ import annotations

import errno
import gc
import json
import math
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from sqlanon import __version__
from sqlanon.cli.policy_options import open_database, policy_of, policy_of_release, policy_options
from sqlanon.cli.progress import progress_bar
from sqlanon.errors import PolicyError, SqlanonError

# Commands of modules that are loaded when they are asked for.
ELSEWHERE = {
    "attack": "attack", "audit": "gateway", "budget": "gateway", "compare": "compare",
    "plan": "releases", "query": "gateway", "refresh": "refresh", "releases": "releases",
    "risk": "risk", "schedule": "refresh", "serve": "serve", "status": "refresh", "user": "user",
}  # fmt: skip


class Commands(click.Group):
    """Turns every error that sqlanon knows into a message on standard error and exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*self.commands, *ELSEWHERE])

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in ELSEWHERE:
            return super().get_command(ctx, name)
        found: dict[str, click.Command] = {
            command.name: command for command in import_module(f"sqlanon.cli.{ELSEWHERE[name]}").COMMANDS
        }
        return found[name]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SqlanonError as error:
            click.echo(f"sqlanon: {error}", err=True)
            sys.exit(2)
        except KeyboardInterrupt:
            click.echo("sqlanon: interrupted", err=True)
            sys.exit(130)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # who reads the output has seen enough
            said = error.strerror or "the system refused"
            if error.filename is not None:
                said = f"'{error.filename}': {said}"
            elif error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                said = f"the output cannot be written: {said}"
            click.echo(f"sqlanon: {said}", err=True)
            sys.exit(2)


LASTING = ("serve", "schedule")  # commands that go on until they are stopped


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sqlanon")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Privacy as SQL: check tables against privacy requirements and publish what meets them, inside your database.

    A first look, with no file at all:

    \b
      sqlanon check patients.parquet --qi age,zip,sex --sensitive disease --k 5

    The same with a policy file, which 'sqlanon init' drafts from a table:

    \b
      sqlanon init warehouse.duckdb patients -o policy.yml
      sqlanon check policy.yml
      sqlanon publish policy.yml
      sqlanon report policy.yml
    """
    if ctx.invoked_subcommand not in LASTING:
        # Loading modules and building SQL makes many objects and hardly any garbage: looking for it at every 700th new
        # one took a tenth of a short command.
        gc.set_threshold(100_000, 20, 20)


@main.command()
@policy_options
@click.option("--release", help="Check this release (table or file) of the policy's source, and measure its loss.")
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Show at most this many broken classes for each model.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--memory-limit", help="Most memory that DuckDB may use, such as 1GB; it spills to disk beyond that.")
def check(
    target: str,
    table: str | None,
    release: str | None,
    limit: int,
    as_json: bool,
    memory_limit: str | None,
    **options: Any,
) -> None:
    """Tell whether a table meets its privacy requirements, which classes break them, and how badly.

    TARGET is a policy file, a Parquet or CSV file or folder, a DuckDB file, or a postgresql:// URL; with a database,
    TABLE names the table in it. A table that was published is checked under the policy of its release, if no option
    asks for something else. Only classes are shown, never the rows of persons.
    """
    import os

    from sqlanon.engines import connect
    from sqlanon.evidence.checks import check as measure

    policy, url, release = policy_of_release(target, table, release, options) or (
        *policy_of(target, table, options),
        release,
    )
    engine = connect(url, memory_limit=memory_limit)
    try:
        source = _release_source(release) if release else None
        with progress_bar() as progress:
            told = (lambda done, total: progress("measuring", done, total)) if progress else None
            secret = os.environ.get("SQLANON_KEY")
            found = measure(policy, engine, release=source, limit=limit, progress=told, secret=secret)
        lost, why = _loss(policy, engine, source) if source else (None, None)
    finally:
        engine.close()
    if as_json:
        click.echo(json.dumps(_as_json(policy, found, lost, release), indent=2, ensure_ascii=False))
    else:
        from sqlanon.cli.console import print_evidence

        print_evidence(policy, found, lost, release=release, no_loss=why)
    sys.exit(0 if found.holds else 1)


@main.command()
@click.argument("policy_file", metavar="POLICY")
@click.option("--dry-run", is_flag=True, help="Search, show the plan and its loss, and write nothing.")
@click.option("--explain", "explained", is_flag=True, help="Say why each column went to its level, and what came next.")
@click.option("--time-limit", type=click.FloatRange(min=0, min_open=True), help="Seconds for the search.")
@click.option("--plan", "plan_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the plan as JSON.")
@click.option("--report", "report_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the HTML report.")
@click.option("--no-workload", is_flag=True, help="Do not measure the error of random counts: saves a few seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print the evidence as JSON.")
@click.option("--memory-limit", help="Most memory that DuckDB may use, such as 1GB; it spills to disk beyond that.")
def publish(
    policy_file: str,
    dry_run: bool,
    explained: bool,
    time_limit: float | None,
    plan_file: Path | None,
    report_file: Path | None,
    no_workload: bool,
    as_json: bool,
    memory_limit: str | None,
) -> None:
    """Find the anonymization with the least loss, write the release, check it as written, and swap it in.

    POLICY is a policy file that names its release. If anything fails, the previous release stays as it was.
    Pseudonyms and random transformations take their key from the environment variable SQLANON_KEY.
    """
    import os

    from sqlanon.cli.console_publish import print_published
    from sqlanon.release import publish as run

    for file in (plan_file, report_file):
        if file is not None and not file.parent.is_dir():  # better now than when the release is out
            raise PolicyError(f"there is no folder '{file.parent}'", hint=f"create it first, for '{file.name}'")
    policy, url = policy_of(policy_file, None, {})
    writes = not dry_run and policy.release is not None and policy.release.path is None
    with open_database(policy, url, writes=writes, memory_limit=memory_limit) as engine, progress_bar() as progress:
        done = run(
            policy,
            engine,
            dry_run=dry_run,
            time_limit=time_limit,
            secret=os.environ.get("SQLANON_KEY"),
            workload=not no_workload,
            progress=progress,
        )
    if plan_file:
        plan_file.write_text(done.plan.to_json() + "\n", encoding="utf-8")
    if report_file:
        from sqlanon.report import render

        report_file.write_text(render(done.document), encoding="utf-8")
    if as_json:
        click.echo(json.dumps(_plain(done.document), indent=2, ensure_ascii=False))
    else:
        print_published(done.document, explain=explained)


@main.command()
@click.argument("policy_file", metavar="POLICY")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("report.html"), show_default=True,
    help="The HTML file to write.",
)  # fmt: skip
@click.option(
    "--explore", default=30.0, show_default=True, type=click.FloatRange(min=0),
    help="Seconds to spend on the map of other k and suppression limits; 0 leaves it out.",
)  # fmt: skip
@click.option("--no-attacks", is_flag=True, help="Measure no risks and try no attacks: saves time on large tables.")
def report(policy_file: str, output: Path, explore: float, no_attacks: bool) -> None:
    """Write the evidence of a release as one self-contained HTML page that a data-protection officer can read."""
    import os

    from sqlanon.engines import connect
    from sqlanon.release import report as gather
    from sqlanon.report import render

    policy, url = policy_of(policy_file, None, {})
    engine = connect(url)
    try:
        with progress_bar() as progress:
            secret = os.environ.get("SQLANON_KEY")
            document = gather(
                policy, engine, explore=explore, secret=secret, attacked=not no_attacks, progress=progress
            )
    finally:
        engine.close()
    output.write_text(render(document), encoding="utf-8")
    click.echo(f"wrote {output}")


@main.command()
@policy_options
@click.option(
    "--dialect", type=click.Choice(["duckdb", "postgres", "spark"]), help="The engine's own dialect by default."
)
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Show the SQL that writes the release of this plan, which 'sqlanon publish --plan' makes.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
def compile(
    target: str, table: str | None, dialect: str | None, plan_file: Path | None, output: Path | None, **options: Any
) -> None:
    """Show the SQL that a check runs, or that writes a release, to read it or to run it yourself. Touches no data."""
    from sqlanon.engines import connect
    from sqlanon.relations.check_script import check_script

    policy, url = policy_of(target, table, options)
    own = "postgres" if url and url.startswith(("postgres://", "postgresql://")) else "duckdb"
    if policy.source.path:
        policy = policy.model_copy(update={"source": connect().resolve(policy.source)})
    if plan_file:
        from sqlanon.plan import Plan
        from sqlanon.release.release_script import release_script

        plan = Plan.from_json(plan_file.read_text(encoding="utf-8"))
        script = release_script(policy, plan, dialect or own)
    else:
        script = check_script(policy, dialect or own)
    if output:
        output.write_text(script, encoding="utf-8")
    else:
        click.echo(script, nl=False)


@main.command()
@click.argument("database")
@click.argument("table", required=False)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def init(database: str, table: str | None, output: Path | None, force: bool) -> None:
    """Profile a table inside its database and write a commented starter policy.

    DATABASE is a DuckDB file or a postgresql:// URL with TABLE in it, or a Parquet or CSV file or folder.
    """
    from sqlanon.evidence.profile_table import starter_policy

    if output and output.exists() and not force:
        raise PolicyError(f"'{output}' exists already", hint="choose another name, or add --force")
    text = starter_policy(database, table, base=output.parent if output else Path("."))
    if output:
        output.write_text(text, encoding="utf-8")
        click.echo(f"wrote {output}; read it through, then: sqlanon check {output}")
    else:
        click.echo(text, nl=False)


@main.command()
@click.argument("name", required=False)
def explain(name: str | None) -> None:
    """Say what a model, measure, hierarchy, transformation or algorithm means, with its parameters and its SQL."""
    from sqlanon.cli.console import explain as show

    show(name)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def models(as_json: bool) -> None:
    """List the privacy models, loss metrics, kinds of hierarchy, transformations and algorithms."""
    from sqlanon.cli.console import catalogue, print_catalogue

    if as_json:
        click.echo(json.dumps(catalogue(), indent=2, ensure_ascii=False))
    else:
        print_catalogue()


@main.command()
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
def schema(output: Path | None) -> None:
    """Print the JSON Schema of policy files, for completion and checks in an editor."""
    from sqlanon.policy import json_schema

    text = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    if output:
        output.write_text(text, encoding="utf-8")
    else:
        click.echo(text, nl=False)


@main.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path("demo"))
@click.option("--rows", default=20_000, show_default=True, help="How many patients to generate.")
def demo(folder: Path, rows: int) -> None:
    """Generate hospital data in FOLDER and go through the main job with it, step by step."""
    from sqlanon.demo import run

    run(folder, rows)


@main.command()
def version() -> None:
    """Print the versions of sqlanon and of what it runs on."""
    import platform
    from importlib.metadata import version as installed

    click.echo(f"sqlanon {__version__}")
    click.echo(f"duckdb {installed('duckdb')}, sqlglot {installed('sqlglot')}, python {platform.python_version()}")


def _loss(policy: Any, engine: Any, source: Any) -> tuple[Any, str | None]:
    """The loss of a release, or why it cannot be measured: that is no reason to withhold the verdict."""
    from sqlanon.evidence.loss import loss
    from sqlanon.relations.bucketization import parts_rows

    if parts_rows(policy):
        return None, None  # quasi-identifiers are shown as they are
    if policy.transformations:
        return None, "the loss was not measured: values of the release were changed by transformations"
    if not policy.hierarchies:
        return None, "the loss was not measured: the policy has no hierarchies"
    try:
        return loss(policy, engine, source), None
    except PolicyError as error:
        return None, f"the loss was not measured: {error.message}"


def _as_json(policy: Any, found: Any, lost: Any, release: str | None) -> Any:
    result = {
        "sqlanon": __version__,
        "policy": policy.name,
        "source": policy.source.text,
        "release": release,
        "holds": found.holds,
        **asdict(found),
        "loss": asdict(lost) if lost else None,
    }
    result["checks"] = [{"holds": item.holds, **asdict(item)} for item in found.checks]
    if found.linked is not None:
        told = {"holds": found.linked.holds, "said": found.linked.said, "problems": found.linked.problems}
        result["linked"] = {**told, **asdict(found.linked)}
    return _plain(result)


def _release_source(release: str) -> Any:
    from sqlanon.policy import Source
    from sqlanon.policy.options import source_of

    return Source(**source_of(release))


def _plain(value: Any) -> Any:
    """JSON has no infinities: they become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
