"""Magics for notebooks: `%load_ext sqlanon` gives `%sqlanon`, the command, and `%%sqlanon`, a policy or SQL in a cell.

    %sqlanon check visits.parquet --qi age,zip --k 5

    %%sqlanon df -> release
    columns: {age: quasi_identifier, zip: quasi_identifier, disease: sensitive}
    models: [{k_anonymity: {k: 5}}]

    %%sqlanon gate -> counts
    SELECT city, count(*) FROM df GROUP BY city

The name after `%%sqlanon` is a variable of the notebook: rows are anonymized under the policy of the cell, a gateway
answers its SQL. What comes out is shown, and kept under the name after `->`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from sqlanon.dataframes.anonymize_data import anonymize
from sqlanon.dataframes.answer_sql import TableGateway
from sqlanon.errors import PolicyError, SqlanonError, did_you_mean

_CELL = re.compile(r"\s*([^\W\d]\w*)\s*(?:->\s*([^\W\d]\w*)\s*)?")


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext sqlanon` calls."""
    from IPython.core.error import UsageError

    def run_line(line: str) -> None:
        _run_command(line)

    def run_cell(line: str, cell: str) -> Any:
        try:
            result, name = answer_cell(line, cell, shell.user_ns)
        except SqlanonError as error:
            raise UsageError(str(error)) from None  # shown as it is, without a trace through sqlanon
        if name is not None:
            shell.user_ns[name] = result
        return result

    shell.register_magic_function(run_line, "line", "sqlanon")
    shell.register_magic_function(run_cell, "cell", "sqlanon")


def answer_cell(line: str, cell: str, variables: Mapping[str, Any]) -> tuple[Any, str | None]:
    """What a cell asks for, and the name that it shall have."""
    named = _CELL.fullmatch(line)
    if named is None:
        raise PolicyError("'%%sqlanon' names what is asked", hint="%%sqlanon df, or %%sqlanon df -> release")
    name, kept = named[1], named[2]
    if name not in variables:
        shown = [key for key in variables if not key.startswith("_")]
        raise PolicyError(
            f"there is no variable '{name}'", hint=did_you_mean(name, shown) or "assign it in a cell above"
        )
    asked = variables[name]
    if isinstance(asked, TableGateway):
        return asked.sql(cell), kept
    return anonymize(asked, f"{cell}\n"), kept


def _run_command(line: str) -> None:
    """The command `sqlanon` inside of this process: what it prints is the output of the cell."""
    from sqlanon.cli import main

    try:
        main(shlex.split(line), prog_name="sqlanon")
    except SystemExit:  # its code tells a shell what the text says already
        return
