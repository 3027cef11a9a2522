"""The commands for users: who may log in to `sqlanon serve`, with a password or with a token."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from sqlanon.errors import PolicyError, did_you_mean

if TYPE_CHECKING:
    from sqlanon.policy.serve import Serve

POLICY = click.argument("policy_file", metavar="POLICY")
NAME = click.argument("name")
STDIN = click.option("--stdin", "from_stdin", is_flag=True, help="Read the password from standard input, one line.")
SHORTEST, LONGEST = 12, 1024


@click.group()
def user() -> None:
    """Look after the users of 'sqlanon serve'. Each is a principal of the policy, with a password of its own.

    A password is asked for, or read from standard input; there is no option for it, for a command line can be read by
    others and is kept in histories. Only what a password is checked with is stored. A running server sees changes at
    once; sessions that are open go on.
    """


@user.command()
@POLICY
@NAME
@STDIN
def add(policy_file: str, name: str, from_stdin: bool) -> None:
    """Let the principal NAME log in, with a password of at least 12 characters."""
    from sqlanon.server import users

    path = _principal(policy_file, name).located_users
    if path.exists() and name in users.Users.load(path).users:
        raise PolicyError(f"user '{name}' is there already", hint="'sqlanon user passwd' sets another password")
    users.set_password(path, name, _password(name, from_stdin), new=True)
    click.echo(f"added {_shown(name)} to {path}")


@user.command()
@POLICY
@NAME
@STDIN
def passwd(policy_file: str, name: str, from_stdin: bool) -> None:
    """Set another password for NAME. Tokens of the user stay valid: revoke them with 'token --revoke'."""
    from sqlanon.server import users

    path = _principal(policy_file, name).located_users
    found = users.Users.load(path)
    if name not in found.users:
        raise PolicyError(f"there is no user '{name}'", hint="'sqlanon user add' adds one")
    users.set_password(path, name, _password(name, from_stdin), new=False)
    valid = sum(token.expires > datetime.now(UTC) for token in found.users[name].tokens)
    click.echo(f"set the password of {_shown(name)}" + (f"; {valid} tokens stay valid" if valid else ""))


@user.command("list")
@POLICY
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def list_users(policy_file: str, as_json: bool) -> None:
    """List the users with their tokens, and principals who cannot log in."""
    from sqlanon.server.users import Users

    serve = _serve(policy_file)
    path = serve.located_users
    found = Users.load(path).users if path.exists() else {}
    principals = serve.gateway.principals
    entries: list[dict[str, Any]] = [
        {
            "user": name,
            "principal": name in principals,
            "password": name in found,
            "tokens": [
                {"id": token.id, "expires": token.expires.isoformat(), "valid": token.expires > datetime.now(UTC)}
                for token in (found[name].tokens if name in found else ())
            ],
        }
        for name in sorted({*found, *principals})
    ]
    if as_json:
        click.echo(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    for entry in entries:
        said = "password" if entry["password"] else "cannot log in: 'sqlanon user add' gives a password"
        said = said if entry["principal"] else "cannot log in: no principal of the policy"
        click.echo(f"{_shown(entry['user'])}: {said}")
        for token in entry["tokens"]:
            until = "until" if token["valid"] else "expired"
            click.echo(f"  token {token['id']}, {until} {token['expires'][:10]}")


@user.command()
@POLICY
@NAME
def remove(policy_file: str, name: str) -> None:
    """Take password and tokens of NAME away, who need no longer be a principal of the policy."""
    from sqlanon.server import users

    path = _serve(policy_file).located_users
    known = users.Users.load(path).users
    if name not in known:
        raise PolicyError(f"there is no user '{name}'", hint=did_you_mean(name, known) or _few(list(known)))
    users.remove(path, name)
    click.echo(f"removed {_shown(name)} from {path}")


@user.command()
@POLICY
@NAME
@click.option("--days", type=click.IntRange(1, 365), default=90, show_default=True, help="How long it is valid.")
@click.option("--revoke", metavar="ID", help="Make no token, but take the one with this ID away.")
def token(policy_file: str, name: str, days: int, revoke: str | None) -> None:
    """Make a bearer token for the HTTP door, and print it once. It is stored nowhere: only its hash is."""
    from sqlanon.server import users

    path = _principal(policy_file, name).located_users
    if revoke is not None:
        users.revoke(path, name, revoke)
        click.echo(f"revoked token {_shown(revoke)} of {_shown(name)}")
        return
    text, made = users.add_token(path, name, days)
    click.echo(text)
    click.echo(f"token {made.id} of {_shown(name)}, until {made.expires:%Y-%m-%d}; it is not shown again", err=True)


def _serve(policy_file: str) -> Serve:
    from sqlanon.policy.files import load_serve

    return load_serve(policy_file)


def _principal(policy_file: str, name: str) -> Serve:
    serve = _serve(policy_file)
    known = list(serve.gateway.principals)
    if name not in known:
        raise PolicyError(f"the policy names no principal '{name}'", hint=did_you_mean(name, known) or _few(known))
    return serve


def _few(names: list[str]) -> str:
    return f"there are {', '.join(names[:8])}" if names else "there are none"


def _password(name: str, from_stdin: bool) -> str:
    if from_stdin:
        text = _line_of_stdin()
    elif sys.stdin.isatty():
        text = click.prompt(f"Password of {_shown(name)}", hide_input=True, confirmation_prompt="Again", type=str)
    else:
        # Without a terminal the letters could not be hidden.
        raise PolicyError("there is no terminal to ask for the password", hint="add --stdin to read it from a pipe")
    if len(text) < SHORTEST:
        raise PolicyError(
            f"a password has at least {SHORTEST} characters", hint="nothing was changed; take a longer one"
        )
    if len(text) > LONGEST or "\0" in text:
        raise PolicyError(f"a password has at most {LONGEST} characters, and none of them is NUL")
    return text


def _line_of_stdin() -> str:
    try:
        text = sys.stdin.buffer.read(8 * LONGEST).decode("utf-8")
    except UnicodeDecodeError:
        raise PolicyError("the password is not UTF-8 text") from None
    line = text.removesuffix("\n").removesuffix("\r")
    if "\n" in line or "\r" in line:
        raise PolicyError("standard input has more than one line", hint="give the password alone")
    return line


def _shown(name: str) -> str:
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in name)
