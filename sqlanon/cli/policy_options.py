"""A policy from the command line: TARGET [TABLE] and the options that stand for a policy file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import click

from sqlanon.errors import PolicyError

# Risks are measured, and attacks tried, whatever is promised; but no policy is without a model.
PLACEHOLDER = "k_anonymity k=2"

Command = Callable[..., Any]
TABLE: list[Callable[[Command], Command]] = [
    click.argument("target"),
    click.argument("table", required=False),
    click.option("--qi", help="Quasi-identifiers: columns that an attacker may know, separated by commas."),
    click.option("--sensitive", help="Sensitive columns, separated by commas."),
    click.option("--person", help="Column that identifies a person; persons are counted, not rows."),
    click.option("--nulls", type=click.Choice(["value", "unique"]), help="How NULLs match; 'value' by default."),
]
MODELS: list[Callable[[Command], Command]] = [
    click.option("--k", help="Ask for k-anonymity."),
    click.option("--l", help="Ask for distinct l-diversity of each sensitive column."),
    click.option("--t", help="Ask for t-closeness of each sensitive column (equal distance)."),
    click.option(
        "--model",
        "models",
        multiple=True,
        metavar="'NAME KEY=VALUE …'",
        help="Ask for any model, as in --model 'recursive_cl_diversity c=3 l=2'. May be repeated.",
    ),
]


def table_options(command: Command) -> Command:
    """TARGET [TABLE], and what its columns are."""
    for decorator in reversed(TABLE):
        command = decorator(command)
    return command


def policy_options(command: Command) -> Command:
    """TARGET [TABLE] and the options that stand for a policy file."""
    for decorator in reversed([*TABLE[:-1], *MODELS, TABLE[-1]]):
        command = decorator(command)
    return command


def policy_to_look_at(
    target: str, table: str | None, release: str | None, options: dict[str, Any]
) -> tuple[Any, str | None, str | None]:
    """The policy, the database and the release of a command that asks for no model."""
    known = policy_of_release(target, table, release, options)
    if known is not None:
        return known
    if not target.lower().endswith((".yml", ".yaml")):
        options = {**options, "models": (PLACEHOLDER,), "k": None, "l": None, "t": None}
    return (*policy_of(target, table, options), release)


def source_named(text: str) -> Any:
    """A table or a file, as an option names it."""
    from sqlanon.policy import Source
    from sqlanon.policy.options import source_of

    if not text.strip():
        raise PolicyError("a table or file must have a name")
    return Source(**source_of(text))


def policy_of(target: str, table: str | None, options: dict[str, Any]) -> tuple[Any, str | None]:
    """The policy and the database: from a policy file, or from options where a command has some."""
    from sqlanon.policy import load

    if target.lower().endswith((".yml", ".yaml")):
        given = [f"--{name}" for name, value in options.items() if value]
        if given or table:
            raise PolicyError(
                f"a policy file takes no {' or '.join(given) or 'table'}",
                hint="write it into the policy, or leave the policy file out",
            )
        policy = load(Path(target))
        database = policy.source.database
        return policy.located(), policy.locate(database) if database else None
    if not options:
        raise PolicyError(f"'{target}' is no policy file", hint="name a file that ends in .yml")
    return _from_options(target, table, options)


def open_database(
    policy: Any, url: str | None, *, writes: bool, memory_limit: str | None
) -> AbstractContextManager[Any]:
    """The database of a policy. Rows of a file may go to one that is made for them; others must lie in it already."""
    from sqlanon.engines import connect
    from sqlanon.engines.open_writable import open_writable

    if writes:
        return open_writable(url, memory_limit=memory_limit, new=policy.source.path is not None)
    return closing(connect(database_to_read(policy, url), memory_limit=memory_limit))


def database_to_read(policy: Any, url: str | None) -> str | None:
    """The database of a policy. Where its rows lie in a file, the first publish makes it: until then there is none."""
    from sqlanon.policy.database_names import is_url

    new = url is not None and not is_url(url) and policy.source.path is not None and not Path(url).exists()
    return None if new else url


def policy_of_release(
    target: str, table: str | None, release: str | None, options: dict[str, Any]
) -> tuple[Any, str, str] | None:
    """The policy that a release was published under, for a table of a database that is named without further words."""
    if table is None or release is not None or any(options.values()) or target.lower().endswith((".yml", ".yaml")):
        return None
    from sqlanon.engines import connect
    from sqlanon.policy import parse
    from sqlanon.policy.options import require_database
    from sqlanon.release.stored_evidence import of_release

    require_database(target, table)
    engine = connect(target)
    try:
        document = of_release(engine, table)
    except PolicyError:
        return None
    finally:
        engine.close()
    if "differential_privacy" in document:
        raise PolicyError(
            f"'{table}' holds counts with differential privacy: it has no classes to check",
            hint="'sqlanon releases show POLICY VERSION' shows how much noise they have, and what it protects",
        )
    return parse(document["policy"]["text"], document["policy"]["name"]), target, table


def _from_options(target: str, table: str | None, options: dict[str, Any]) -> tuple[Any, str | None]:
    from sqlanon.policy import from_options
    from sqlanon.policy.options import SHORTHANDS, split_target

    asked = [_model(text) for text in options["models"]]
    for short, (name, key) in SHORTHANDS.items():
        if options[short] is not None:
            asked.append((name, {key: options[short]}))
    if not asked:
        raise PolicyError(
            "nothing to check", hint="ask for a model, for example --k 5; or give a policy, which ends in .yml"
        )
    if not options["qi"] and not any("x" in params for _, params in asked):
        raise PolicyError("no quasi-identifier is given", hint="say which columns an attacker may know: --qi age,zip")
    url, source = split_target(target, table)
    policy = from_options(
        source,
        qi=_names(options["qi"]),
        sensitive=_names(options["sensitive"]),
        person=options["person"],
        models=asked,
        **({"nulls": options["nulls"]} if options["nulls"] else {}),
    )
    return policy, url


def _model(text: str) -> tuple[str, dict[str, str]]:
    name, *pairs = text.split()
    params = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign:
            raise PolicyError(
                f"--model '{text}': '{pair}' is not KEY=VALUE", hint="as in 'alpha_k_anonymity alpha=0.5 k=3'"
            )
        params[key] = value
    return name, params


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()] if text else []
