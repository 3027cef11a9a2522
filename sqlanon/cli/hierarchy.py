"""`sqlanon hierarchy`: build, show and change the hierarchy of a column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from sqlanon.errors import HierarchyError, PolicyError

if TYPE_CHECKING:
    from sqlanon.evidence.value_tree import Row


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--from", "source", help="Build it from a Parquet or CSV file or folder, or from a database with --table."
)
@click.option("--table", help="The table of the database.")
@click.option("--column", "name", help="The column whose values are grouped.")
@click.option(
    "--groups", help="How many groups each level has, such as 8,3; chosen by the number of values if not given."
)
@click.option("--levels", type=click.IntRange(1, 9), help="How many levels of groups, where --groups does not say it.")
@click.option(
    "--by",
    "method",
    type=click.Choice(["likeness", "frequency"]),
    default="likeness",
    show_default=True,
    help="Group values whose rows are alike in the other columns, or neighbours in groups of about as many rows.",
)
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="Give a group another label. May be repeated.")
@click.option("--move", multiple=True, metavar="VALUE=GROUP", help="Put a value into another group. May be repeated.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write it to a file.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def hierarchy(
    file: Path | None,
    source: str | None,
    table: str | None,
    name: str | None,
    groups: str | None,
    levels: int | None,
    method: Literal["likeness", "frequency"],
    rename: Sequence[str],
    move: Sequence[str],
    output: Path | None,
    force: bool,
) -> None:
    """Build a hierarchy from the values of a column, or show and change one, as a tree.

    FILE is a hierarchy file, as the kind 'csv' reads it: one line for each value, from the value to the root. Without
    -o nothing is written. The tree shows values of the table.
    """
    from sqlanon.evidence.value_tree import move_value, print_tree, rename_group, write_rows

    if (file is None) == (source is None):
        raise PolicyError("give a hierarchy file, or --from", hint="sqlanon hierarchy --from data.csv --column city")
    if file is not None and (table or name or groups or levels):
        raise PolicyError("--table, --column, --groups and --levels build a hierarchy anew", hint="add --from")
    if output is not None and output.exists() and not force:
        raise PolicyError(f"'{output}' exists already", hint="choose another name, or add --force")
    if output is not None and not output.parent.is_dir():
        raise PolicyError(f"there is no folder '{output.parent}'", hint=f"create it first, for '{output.name}'")
    rows = _read(file) if file is not None else _grow(str(source), table, name, _numbers(groups), levels, method)
    for text in move:
        rows = move_value(rows, *_pair("--move", text, [row[0] for row in rows]))
    for text in rename:
        rows = rename_group(rows, *_pair("--rename", text, [label for row in rows for label in row[1:]]))
    if output is None:
        click.echo(print_tree(rows), nl=False)
        return
    output.write_text(write_rows(rows), encoding="utf-8", newline="")
    click.echo(f"wrote {output}: {len(rows):,} values, {len(rows[0]) - 1} levels")


def _read(file: Path) -> list[Row]:
    from sqlanon.hierarchies import build

    return list(build("csv", {"path": str(file.absolute())}, Path()).rows)


def _grow(
    source: str,
    table: str | None,
    name: str | None,
    numbers: list[int] | None,
    levels: int | None,
    method: Literal["likeness", "frequency"],
) -> list[Row]:
    from sqlanon.evidence.build_hierarchy import grow_hierarchy
    from sqlanon.evidence.draft_policy import open_table
    from sqlanon.evidence.profile_table import profile
    from sqlanon.evidence.suggest_roles import RolesGiven

    if not name:
        raise PolicyError("which column?", hint="name it with --column")
    with open_table(source, table) as (engine, rows):
        draft = profile(engine, rows, table or source, RolesGiven({name: "quasi_identifier"}))
        target = next(facts for facts in draft.columns if facts.name == name)
        if not target.comparable:
            raise HierarchyError(f"values of '{name}' cannot be compared", hint="cast the column to text in a view")
        others = [facts for facts in draft.columns if draft.roles[facts.name].role != "identifier"]
        return grow_hierarchy(engine, rows, target, others, numbers=numbers, levels=levels, method=method)


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise PolicyError(f"--groups '{text}' is not a list of numbers", hint="as in --groups 8,3") from None


def _pair(option: str, text: str, known: Sequence[str]) -> tuple[str, str]:
    """The two sides of a sign of equality; the left one may hold such signs itself."""
    places = [place for place, sign in enumerate(text) if sign == "="]
    if not places:
        raise PolicyError(f"{option} '{text}' has no '='", hint=f"as in {option} 'old=new'")
    place = next((place for place in places if text[:place] in known), places[0])
    if not text[place + 1 :]:
        raise PolicyError(f"{option} '{text}' has nothing after '='", hint=f"as in {option} 'old=new'")
    return text[:place], text[place + 1 :]
