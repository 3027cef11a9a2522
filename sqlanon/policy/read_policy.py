"""Read a policy from a YAML file, from its text, or from options of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from sqlanon.errors import PolicyError
from sqlanon.families import family
from sqlanon.policy import options, schema, yaml_lines
from sqlanon.policy.policy import Policy
from sqlanon.policy.validate_file import validate_file
from sqlanon.policy.yaml_lines import KeyPath, Origin, PolicyProblem

# Of the gateway, in the same file: what reads them is loaded with them (`policy.sections`), since few files have any.
SECTIONS = ("gateway", "serve", "marginals")


def load(path: str | Path) -> Policy:
    """Read and check a policy file."""
    file = Path(path)
    return parse(yaml_lines.text_of(file), file.name, file.parent)


def parse(text: str, name: str = "policy.yml", base: Path = Path(".")) -> Policy:
    """Check the text of a policy file; all that is wrong with it is told at once."""
    document = yaml_lines.read_yaml(text, is_text, is_date)
    return build(document.data, Origin(name, base, document.lines), document.problems)


def from_options(
    source: str | Mapping[str, Any],
    *,
    qi: Sequence[str] = (),
    sensitive: Sequence[str] = (),
    identifiers: Sequence[str] = (),
    insensitive: Sequence[str] = (),
    person: str | None = None,
    models: Sequence[tuple[str, Mapping[str, Any]]] = (),
    base: Path = Path("."),
    **settings: Any,
) -> Policy:
    """The same policy from command line options; `settings` are further keys of a policy, None if not given.

    Errors have no line but name the option: `--source`, `--qi`, `--sensitive`, `--identifier`,
    `--insensitive`, `--person`, `--model`, and `--suppression-limit` for the setting `suppression_limit`.
    """
    roles = {
        "quasi_identifier": qi,
        "sensitive": sensitive,
        "identifier": identifiers,
        "insensitive": insensitive,
    }
    data, places, problems = options.as_written(source, roles, models, {"person": person, **settings})
    return build(data, Origin("the options", base, places), problems)


def build(data: Any, origin: Origin, found: Iterable[PolicyProblem]) -> Policy:
    """The policy in what was read from a file or from options."""
    if isinstance(data, Mapping) and any(name in data for name in SECTIONS):
        from sqlanon.policy import sections

        return sections.build(data, origin, found, sections.PolicyFile)
    if isinstance(data, Mapping) and "statistics" in data:
        from sqlanon.policy import statistics

        statistics.build(data, origin, found)
        raise PolicyError(
            f"{origin.name} makes tables of statistics, and this command works on policies that release rows",
            hint="publish, refresh, check, risk, attack and releases read it",
        )
    policy = validate_file(data, origin, found, Policy, keys_from=_whole_file)
    policy._origin = origin
    return policy


def _whole_file() -> type[BaseModel]:
    from sqlanon.policy.sections import PolicyFile

    return PolicyFile


def is_text(path: KeyPath) -> bool:
    """Where a number or boolean is meant as text: names of columns and tables, and text parameters."""
    match path:
        case (name, *_) if name in SECTIONS:
            from sqlanon.policy import sections

            return sections.is_text(path)
        case ("statistics", *_):
            from sqlanon.policy import statistics

            return statistics.is_text(path)
        case ("person" | "minimize" | "nulls" | "sensitive_nulls" | "linked_rows" | "algorithm" | "shape",):
            return True
        case ("suppressed_rows" | "suppressed_cells",):
            return True
        case ("release", "keep"):
            return False
        case ("source" | "population" | "release" | "qids", *_):
            return True
        case ("models", _, _, "attribute" | "qid", *_):
            return True
        case ("transformations", _, _, "columns" | "strata" | "within", *_):
            return True
        case ("models", _, str(name), str(key), *_) if name in family("models"):
            param = family("models")[name].param(key)
            return param is not None and param.type in ("text", "columns")
    return False


def is_date(path: KeyPath) -> bool:
    """Where a plain 2024-01-31 is a date."""
    match path:
        case ("gateway", "tables", _, "columns", _, "low" | "high") | ("gateway", "tables", _, "columns", _, "keys", _):
            return True
    return False


def json_schema() -> dict[str, Any]:
    """JSON Schema of a policy file, for completion and checks in editors."""
    return schema.of_policy(_whole_file())
