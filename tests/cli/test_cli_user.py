"""`sqlanon user …`: passwords by prompt or standard input only, names of the policy only, and nothing secret shown."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import Result
from clinic import TWO, run

from sqlanon.cli.user import user
from sqlanon.server.users import Users

PASSWORD = "correct horse battery"


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "policy.yml"
    path.write_text(TWO, encoding="utf-8")
    return path


def of_user(*args: str, stdin: str | bytes = PASSWORD + "\n") -> Result:
    return run("user", args[0], "policy.yml", *args[1:], stdin=stdin)


def loaded() -> Users:
    return Users.load("policy.users")


def test_a_user_is_added_and_gets_another_password(policy: Path) -> None:
    done = of_user("add", "alice", "--stdin")
    assert (done.exit_code, done.output) == (0, f"added alice to {policy.with_suffix('.users').name}\n")
    found = loaded().verifier("alice")
    assert found is not None and found.accepts(PASSWORD)
    assert of_user("passwd", "alice", "--stdin", stdin="another password\r\n").output == "set the password of alice\n"
    found = loaded().verifier("alice")
    assert found is not None and found.accepts("another password")


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_spaces_of_a_password_are_kept(policy: Path, ending: str) -> None:
    text = "  spaces stay  \t"
    assert of_user("add", "bob", "--stdin", stdin=text + ending).exit_code == 0
    found = loaded().verifier("bob")
    assert found is not None and found.accepts(text)


def test_the_file_of_the_policy_is_used(policy: Path) -> None:
    policy.write_text(TWO + "serve: {users: people.json}\n", encoding="utf-8")
    assert of_user("add", "alice", "--stdin").exit_code == 0
    assert Users.load("people.json").verifier("alice") is not None


@pytest.mark.full
@pytest.mark.parametrize(
    ("args", "stdin", "said"),
    [
        (("add", "alcie", "--stdin"), PASSWORD, "the policy names no principal 'alcie'\n  hint: did you mean 'alice'?"),
        (("add", "zorro", "--stdin"), PASSWORD, "hint: there are alice, bob"),
        (("add", "alice", "--stdin"), "short", "a password has at least 12 characters"),
        (("add", "alice", "--stdin"), "", "a password has at least 12 characters"),
        (("add", "alice", "--stdin"), "x" * 1025, "a password has at most 1024 characters"),
        (("add", "alice", "--stdin"), "x" * 20_000, "a password has at most 1024 characters"),
        (("add", "alice", "--stdin"), "nul in it \0 is not good", "none of them is NUL"),
        (("add", "alice", "--stdin"), "first line of two\nsecond line\n", "standard input has more than one line"),
        (("add", "alice", "--stdin"), b"\xff" * 12, "the password is not UTF-8 text"),
        (("add", "alice"), PASSWORD, "there is no terminal to ask for the password\n  hint: add --stdin"),
        (("passwd", "alice", "--stdin"), PASSWORD, "there is no file of users"),
        (("remove", "alice"), "", "there is no file of users"),
        (("token", "alice"), "", "there is no file of users"),
    ],
)
def test_what_is_refused(policy: Path, args: tuple[str, ...], stdin: str | bytes, said: str) -> None:
    done = of_user(*args, stdin=stdin)
    assert done.exit_code == 2 and said in done.output
    assert not Path("policy.users").exists()
    assert PASSWORD not in done.output


def test_who_is_there_is_not_added_and_who_is_not_gets_no_password(policy: Path) -> None:
    of_user("add", "alice", "--stdin")
    before = Path("policy.users").read_bytes()
    for args, said in (
        (("add", "alice", "--stdin"), "user 'alice' is there already"),
        (("passwd", "bob", "--stdin"), "there is no user 'bob'"),
        (("token", "bob"), "there is no user 'bob'"),
        (("remove", "alcie"), "did you mean 'alice'?"),
        (("token", "alice", "--revoke", "12345678"), "has no token '12345678'"),
    ):
        done = of_user(*args)
        assert done.exit_code == 2 and said in done.output, args
    assert Path("policy.users").read_bytes() == before


def test_there_is_no_way_to_give_a_password_as_an_argument(policy: Path) -> None:
    for args in (("--password", PASSWORD), (PASSWORD,), (f"--password={PASSWORD}",), ("-p", PASSWORD)):
        assert of_user("add", "alice", *args).exit_code == 2
        assert not Path("policy.users").exists()
    options = {option for command in user.commands.values() for each in command.params for option in each.opts}
    assert not [option for option in options if "pass" in option or "secret" in option]


def test_a_wrong_policy_is_told_first(policy: Path) -> None:
    policy.write_text(TWO + "serve: {host: 0.0.0.0}\n", encoding="utf-8")
    assert "needs tls" in of_user("add", "alice", "--stdin").output


def test_a_token_is_shown_once(policy: Path) -> None:
    of_user("add", "alice", "--stdin")
    done = of_user("token", "alice", "--days", "10")
    text = done.stdout.strip()
    assert re.fullmatch("sqlanon_[A-Za-z0-9_-]{43}", text)
    assert "it is not shown again" in done.stderr and text not in done.stderr
    assert loaded().owner(text) == "alice"
    listed = of_user("list").output
    (id_,) = re.findall("  token ([0-9a-f]{8}), until ", listed)
    assert text not in listed
    assert of_user("token", "alice", "--revoke", id_).output == f"revoked token {id_} of alice\n"
    assert loaded().owner(text) is None
    for days in ("0", "366", "-1", "x"):
        assert of_user("token", "alice", "--days", days).exit_code == 2


def test_users_are_listed_with_those_who_cannot_log_in(policy: Path) -> None:
    assert "alice: cannot log in: 'sqlanon user add' gives a password" in of_user("list").output
    for name in ("alice", "bob"):
        of_user("add", name, "--stdin")
    of_user("token", "bob")
    policy.write_text(TWO.replace("bob: {tables: [visits]}", "carol: {}"), encoding="utf-8")
    listed = of_user("list").output
    assert re.fullmatch(
        "alice: password\n"
        "bob: cannot log in: no principal of the policy\n"
        "  token [0-9a-f]{8}, until [0-9-]{10}\n"
        "carol: cannot log in: 'sqlanon user add' gives a password\n",
        listed,
    )
    entries = json.loads(of_user("list", "--json").output)
    assert [(each["user"], each["principal"], each["password"]) for each in entries] == [
        ("alice", True, True), ("bob", False, True), ("carol", True, False),
    ]  # fmt: skip
    assert "SCRAM" not in json.dumps(entries) and set(entries[1]["tokens"][0]) == {"id", "expires", "valid"}
    assert of_user("remove", "bob").exit_code == 0  # who has left the policy can be removed
    assert set(loaded().users) == {"alice"}


def test_a_file_that_others_may_read_is_refused(policy: Path) -> None:
    of_user("add", "alice", "--stdin")
    Path("policy.users").chmod(0o644)
    for args in (("add", "bob", "--stdin"), ("passwd", "alice", "--stdin"), ("list",), ("remove", "alice")):
        done = of_user(*args)
        assert done.exit_code == 2 and "users other than its owner may read or change" in done.output, args


# With a terminal


def on_a_terminal(args: list[str], typed: list[str]) -> tuple[int, str]:
    """Run a command on a terminal of its own; each prompt is answered with the next text."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "sqlanon", *args]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True) as process:
        os.close(slave)
        shown, answers = b"", list(typed)
        while True:
            try:
                more = os.read(master, 1024)
            except OSError:  # Linux says so when the other side has closed it
                break
            if not more:
                break
            shown += more
            if answers and shown.endswith(b": "):
                time.sleep(0.2)  # until the letters are hidden
                os.write(master, answers.pop(0).encode() + b"\n")
        os.close(master)
        return process.wait(30), shown.decode()


def test_a_password_is_asked_for_twice_and_not_shown(policy: Path) -> None:
    code, shown = on_a_terminal(["user", "add", "policy.yml", "alice"], [PASSWORD, PASSWORD])
    assert code == 0, shown
    assert "Password of alice: " in shown and "Again: " in shown and PASSWORD not in shown
    found = loaded().verifier("alice")
    assert found is not None and found.accepts(PASSWORD)


def test_two_different_passwords_are_asked_for_again(policy: Path) -> None:
    typed = [PASSWORD, "something else", PASSWORD, PASSWORD]
    code, shown = on_a_terminal(["user", "add", "policy.yml", "alice"], typed)
    assert code == 0 and "do not match" in shown and "something else" not in shown
    found = loaded().verifier("alice")
    assert found is not None and found.accepts(PASSWORD)
