"""`sqlanon verdict`: what a release means in the words of regulations: met, not met, not assessed."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from sqlanon import __version__
from sqlanon.cli.policy_options import policy_of, source_named
from sqlanon.cli.terminal import join_texts, open_console, plain_text
from sqlanon.errors import PolicyError, did_you_mean

if TYPE_CHECKING:
    from sqlanon.verdict import RegulationVerdict

STYLES = {"met": "green", "not met": "red", "not assessed": "yellow"}
READING = "each criterion with its measured test; never a finding that data are anonymous"


@click.command()
@click.argument("policy_file", metavar="POLICY")
@click.option("--release", help="Judge this table or file in place of the policy's release.")
@click.option(
    "--regulation", "names", multiple=True, metavar="NAME",
    help="Judge by this one only, such as safe_harbor; exit code 1 if it is not met. May be repeated.",
)  # fmt: skip
@click.option("--control", help="Table or file of persons who are not in the source: attacks are compared with them.")
@click.option("--no-attacks", is_flag=True, help="Try no attacks: what depends on them is not assessed.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def verdict(
    policy_file: str,
    release: str | None,
    names: tuple[str, ...],
    control: str | None,
    no_attacks: bool,
    as_json: bool,
) -> None:
    """Tell for each criterion of a regulation whether the release meets it, by a test that is measured now.

    A criterion is met, not met, or not assessed. Its threshold is set by law, by guidance, or is our default. Nothing
    here says that data are anonymous: that is for those who answer for the release.
    """
    from sqlanon.verdict import OF_GATEWAY, OF_RELEASE
    from sqlanon.verdict.criteria import as_data

    known = [item.ident for item in (*OF_RELEASE, *OF_GATEWAY)]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
            raise PolicyError(f"there is no regulation called '{name}'", hint=hint)
    if control is not None and no_attacks:
        raise PolicyError("a control group is given, but no attacks are tried", hint="leave --no-attacks out")
    found = _judge(policy_file, release, control, attacked=not no_attacks)
    found = [item for item in found if not names or item.ident in names]
    if as_json:
        head = {"sqlanon": __version__, "policy": policy_file, "release": release, "reading": READING}
        click.echo(json.dumps({**head, "regulations": as_data(found)}, indent=2, ensure_ascii=False))
    else:
        print_verdicts(found)
    if names and any(item.count("not met") for item in found):
        sys.exit(1)


def _judge(policy_file: str, release: str | None, control: str | None, *, attacked: bool) -> list[RegulationVerdict]:
    from sqlanon.engines import connect
    from sqlanon.policy.files import has_section, load_gateway
    from sqlanon.release.gather_verdict import count_persons, verdict_of_release
    from sqlanon.verdict import GatewayFacts, judge_gateway

    if not policy_file.lower().endswith((".yml", ".yaml")):
        raise PolicyError(f"'{policy_file}' is no policy file", hint="name a file that ends in .yml")
    gateway = load_gateway(policy_file) if has_section(policy_file, "gateway") else None
    found: list[RegulationVerdict] = []
    if gateway is None or has_section(policy_file, "source"):
        policy, url = policy_of(policy_file, None, {})
        engine = connect(url)
        try:
            source: Any = source_named(release) if release is not None else None
            beside = source_named(control) if control is not None else None
            found += verdict_of_release(policy, engine, release=source, attacked=attacked, control=beside)
        finally:
            engine.close()
    elif release is not None or control is not None:
        option = "--release" if release is not None else "--control"
        raise PolicyError("the file has no policy to publish, so that it has no release", hint=f"leave {option} out")
    persons = count_persons(gateway) if gateway is not None else None
    return [*found, *judge_gateway(GatewayFacts(gateway, persons))]


def print_verdicts(found: list[RegulationVerdict]) -> None:
    from sqlanon.verdict.criteria import STATES

    console = open_console()
    console.print(plain_text(READING, style="dim"), soft_wrap=True)
    for item in found:
        counts = [f"{item.count(state)} {state}" for state in STATES if item.count(state)]
        console.print()
        console.print(join_texts((item.title, "bold"), f" ({item.ident}): {', '.join(counts)}"), soft_wrap=True)
        if item.note:
            console.print(plain_text(item.note, style="dim"), soft_wrap=True)
        for each in item.criteria:
            console.print(
                join_texts((f"{each.state:<12}", STYLES[each.state]), "  ", (each.title, "bold")), soft_wrap=True
            )
            console.print(plain_text(f"              {each.measured}"), soft_wrap=True)
            asked = f"{each.test}; threshold ({each.origin}): {each.threshold}; {each.cite}"
            console.print(plain_text(f"              {asked}", style="dim"), soft_wrap=True)
