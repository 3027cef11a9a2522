"""`sqlanon init`: draft a policy from a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlanon.errors import PolicyError

if TYPE_CHECKING:
    from sqlanon.evidence.draft_policy import PolicyDraft
    from sqlanon.evidence.draft_statistics import StatisticsDraft
    from sqlanon.evidence.suggest_roles import RoleDraft, RolesGiven
    from sqlanon.policy.checks import Role

OPTIONS: dict[str, Role] = {
    "qi": "quasi_identifier",
    "sensitive": "sensitive",
    "identifier": "identifier",
    "insensitive": "insensitive",
}
LETTERS: dict[str, Role] = {
    "q": "quasi_identifier",
    "s": "sensitive",
    "i": "identifier",
    "n": "insensitive",
}


@click.command()
@click.argument("database")
@click.argument("table", required=False)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
@click.option("--qi", multiple=True, help="Quasi-identifiers: columns that an attacker may know, separated by commas.")
@click.option("--sensitive", multiple=True, help="Sensitive columns, separated by commas.")
@click.option("--identifier", multiple=True, help="Columns that are not released, separated by commas.")
@click.option("--insensitive", "--keep", multiple=True, help="Columns that are released as they are.")
@click.option("--person", help="Column that identifies a person; persons are counted, not rows.")
@click.option("--k", type=click.IntRange(min=2), default=5, show_default=True, help="Least persons or rows of a group.")
@click.option("--statistics", is_flag=True, help="Draft tables of statistics instead of a release of rows.")
@click.option("--by", multiple=True, help="With --statistics: columns that make the cells, separated by commas.")
@click.option("--of", "amounts", multiple=True, help="With --statistics: amounts that are summed up.")
@click.option("--contributor", help="With --statistics: the column that says whose a record is.")
@click.option("--gateway", is_flag=True, help="Draft a gateway from keys and foreign keys; with --unit.")
@click.option("--unit", metavar="TABLE[.KEY]", help="With --gateway: the table of the persons to be protected.")
@click.option("-i", "--interactive", is_flag=True, help="Ask for the role of each column, with the guess as default.")
def init(
    database: str,
    table: str | None,
    output: Path | None,
    force: bool,
    qi: Sequence[str],
    sensitive: Sequence[str],
    identifier: Sequence[str],
    insensitive: Sequence[str],
    person: str | None,
    k: int,
    statistics: bool,
    by: Sequence[str],
    amounts: Sequence[str],
    contributor: str | None,
    gateway: bool,
    unit: str | None,
    interactive: bool,
) -> None:
    """Profile a table inside its database and write a commented policy that can be published as it is.

    DATABASE is a DuckDB file or a postgresql:// URL with TABLE in it, or a file of rows or a folder of them. Roles that
    no option gives are guessed from names, types and values.

    With --gateway, write the policy of a gateway instead, from the schema alone: tables that foreign keys join to the
    persons of --unit are private, nothing is public, and no row is read.
    """
    if gateway or unit is not None:
        roles = any((qi, sensitive, identifier, insensitive, person, interactive))
        if not gateway or table or roles or statistics or any((by, amounts, contributor)):
            raise click.UsageError("--gateway drafts from the schema: it takes --unit, and no table, roles or persons")
        _draft_gateway(database, unit, output, force)
        return
    from sqlanon.evidence.draft_policy import draft_policy
    from sqlanon.evidence.suggest_roles import RolesGiven

    _require_new(output, force)
    named = {"qi": qi, "sensitive": sensitive, "identifier": identifier, "insensitive": insensitive}
    if statistics:
        if any(named.values()) or interactive:
            raise PolicyError(
                "tables of statistics have no roles of columns",
                hint="say what makes cells and what is summed up: --by, --of and --contributor",
            )
        _draft_tables(database, table, output, force, (_listed(by), _listed(amounts), contributor or person))
        return
    if by or amounts or contributor:
        raise PolicyError("--by, --of and --contributor go with --statistics", hint="add --statistics")
    given = RolesGiven(_roles(named), person)
    base = output.parent if output else Path(".")
    folder = f"{output.stem}_hierarchies" if output else None
    if interactive:
        given = _ask(draft_policy(database, table, base=base, given=given, k=k).roles)
    draft = draft_policy(database, table, base=base, given=given, k=k, folder=folder)
    _write_draft(draft, output, folder, force)


def _draft_tables(
    database: str, table: str | None, output: Path | None, force: bool,
    given: tuple[Sequence[str], Sequence[str], str | None],
) -> None:  # fmt: skip
    from sqlanon.evidence.draft_statistics import StatisticsGiven, draft_statistics

    base = output.parent if output else Path(".")
    folder = f"{output.stem}_hierarchies" if output else None
    _write_draft(
        draft_statistics(database, table, base=base, given=StatisticsGiven(*given), folder=folder),
        output,
        folder,
        force,
    )


def _write_draft(draft: PolicyDraft | StatisticsDraft, output: Path | None, folder: str | None, force: bool) -> None:
    if output is None:
        click.echo(draft.text, nl=False)
        return
    base = output.parent
    for path in draft.files:
        if (base / path).exists() and not force:
            raise PolicyError(
                f"'{base / path}' exists already", hint="choose another name for the policy, or add --force"
            )
    for path, content in draft.files.items():
        (base / path).parent.mkdir(exist_ok=True)
        (base / path).write_text(content, encoding="utf-8", newline="")
    output.write_text(draft.text, encoding="utf-8")
    click.echo(f"wrote {output}; {draft.summary}")
    if draft.files:
        click.echo(
            f"wrote {len(draft.files)} of its hierarchies, which list values of the table, to {base / str(folder)}"
        )
    click.echo(f"read it through, then: sqlanon publish {output}")


def _listed(texts: Sequence[str]) -> list[str]:
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _draft_gateway(database: str, unit: str | None, output: Path | None, force: bool) -> None:
    from sqlanon.gateway.draft_gateway import draft_gateway

    _require_new(output, force)
    draft = draft_gateway(database, unit, base=output.parent if output else Path("."))
    if output is None:
        click.echo(draft.text, nl=False)
        return
    output.write_text(draft.text, encoding="utf-8")
    click.echo(f"wrote {output}; {draft.summary}")
    click.echo(f"read it through, then: sqlanon budget init {output}")


def _require_new(file: Path | None, force: bool) -> None:
    if file is not None and not file.parent.is_dir():
        raise PolicyError(f"there is no folder '{file.parent}'", hint=f"create it first, for '{file.name}'")
    if file is not None and file.exists() and not force:
        raise PolicyError(f"'{file}' exists already", hint="choose another name, or add --force")


def _roles(named: dict[str, Sequence[str]]) -> dict[str, Role]:
    """The roles that options give; a column has one."""
    roles: dict[str, Role] = {}
    places: dict[str, str] = {}
    for option, texts in named.items():
        for name in (part.strip() for text in texts for part in text.split(",")):
            if name and places.setdefault(name, option) != option:
                raise PolicyError(
                    f"column '{name}' is given twice, in --{places[name]} and --{option}", hint="keep one"
                )
            if name:
                roles[name] = OPTIONS[option]
    return roles


def _ask(draft: RoleDraft) -> RolesGiven:
    """Go through the columns one by one; an empty answer takes the guess."""
    from sqlanon.evidence.suggest_roles import RolesGiven

    letters = {role: letter for letter, role in LETTERS.items()}
    click.echo("q quasi-identifier, s sensitive, i identifier (left out), n none of these (as it is)", err=True)
    roles: dict[str, Role] = {}
    for facts in draft.columns:
        guess = draft.roles[facts.name]
        shown = f"{facts.name} ({facts.shape}, {facts.distinct:,} values; {guess.reason})"
        letter = click.prompt(shown, type=click.Choice(list(LETTERS)), default=letters[guess.role], err=True)
        roles[facts.name] = LETTERS[letter]
    names = [facts.name for facts in draft.columns]
    person = click.prompt(
        "column that tells persons apart, '-' for none",
        type=click.Choice(["-", *names]),
        default=draft.person or "-",
        show_choices=False,
        err=True,
    )
    return RolesGiven(roles, None if person == "-" else person, guess_person=False)
