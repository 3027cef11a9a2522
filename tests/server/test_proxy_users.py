"""The file of users: for its owner alone, whole at any time, and seen anew when it changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlanon.errors import PolicyError
from sqlanon.pgwire.scram import Verifier
from sqlanon.server import users
from sqlanon.server.users import Users, UsersError

PASSWORD = "correct horse battery"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "clinic.users"
    users.set_password(path, "alice", PASSWORD, new=True)
    return path


def test_a_user_is_kept_without_the_password(file: Path) -> None:
    text = file.read_text()
    assert PASSWORD not in text and PASSWORD not in repr(Users.load(file))
    found = Users.load(file).verifier("alice")
    assert found is not None and found.accepts(PASSWORD) and not found.accepts("wrong")
    assert found.text in text and found.text not in repr(Users.load(file))
    assert Users.load(file).verifier("bob") is None
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_the_file_is_for_its_owner_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        users.set_password(tmp_path / "u", "alice", PASSWORD, new=True)
        assert (tmp_path / "u").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_users_come_change_and_go(file: Path) -> None:
    with pytest.raises(PolicyError, match="is there already"):
        users.set_password(file, "alice", "x", new=True)
    with pytest.raises(PolicyError, match="there is no user 'bob'"):
        users.set_password(file, "bob", "x", new=False)
    secret = Users.load(file).secret
    users.set_password(file, "bob", "another one", new=True)
    users.set_password(file, "alice", "a new one", new=False)
    found = Users.load(file)
    assert set(found.users) == {"alice", "bob"}
    assert found.users["alice"].verifier.accepts("a new one")
    assert found.users["bob"].verifier.accepts("another one")
    users.remove(file, "alice")
    assert set(Users.load(file).users) == {"bob"}
    with pytest.raises(PolicyError, match="there is no user 'alice'"):
        users.remove(file, "alice")
    assert Users.load(file).secret == secret and len(secret) == 32  # or mock salts would tell who is new


def test_a_token_is_known_by_its_hash(file: Path) -> None:
    text, made = users.add_token(file, "alice", 30)
    assert text not in file.read_text() and made.id not in text and made.hash not in repr(made)
    found = Users.load(file)
    assert found.owner(text) == "alice"
    changed = text[:-1] + ("A" if text[-1] != "A" else "B")
    for other in (
        "",
        "x",
        text[:-1],
        text + "x",
        text.upper(),
        changed,
        made.hash,
        made.id,
        text + "\n",
        "Bearer " + text,
    ):
        assert found.owner(other) is None
    later = datetime.now(UTC) + timedelta(days=30, seconds=1)
    assert found.owner(text, later) is None
    assert found.owner(text, later - timedelta(seconds=5)) == "alice"
    other, second = users.add_token(file, "alice", 1)
    assert other != text
    users.revoke(file, "alice", made.id)
    assert (Users.load(file).owner(text), Users.load(file).owner(other)) == (None, "alice")
    with pytest.raises(PolicyError, match=f"there are {second.id}"):
        users.revoke(file, "alice", made.id)
    users.remove(file, "alice")
    assert Users.load(file).owner(other) is None


def test_tokens_are_few_and_old_ones_make_room(file: Path) -> None:
    past = datetime.now(UTC) - timedelta(days=10)
    users.add_token(file, "alice", 1, past)
    for _ in range(users.MAX_TOKENS):
        users.add_token(file, "alice", 1)
    with pytest.raises(PolicyError, match="has 20 tokens"):
        users.add_token(file, "alice", 1)
    assert len(Users.load(file).users["alice"].tokens) == users.MAX_TOKENS


def test_a_new_password_leaves_tokens(file: Path) -> None:
    text, _ = users.add_token(file, "alice", 1)
    users.set_password(file, "alice", "another password", new=False)
    assert Users.load(file).owner(text) == "alice"


# What a server sees


def test_a_change_is_seen_and_nothing_is_read_twice(file: Path) -> None:
    first = Users.load(file)
    assert first.current() is first
    users.set_password(file, "bob", PASSWORD, new=True)
    second = first.current()
    assert second is not first and second.verifier("bob") is not None
    assert first.verifier("bob") is None
    assert second.current() is second


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666, 0o602, 0o610])
def test_a_file_that_is_open_to_others_lets_nobody_in(file: Path, mode: int) -> None:
    loaded = Users.load(file)
    file.chmod(mode)
    with pytest.raises(UsersError, match="users other than its owner") as caught:
        loaded.current()
    assert "chmod 600" in str(caught.value)
    with pytest.raises(UsersError):
        users.set_password(file, "bob", PASSWORD, new=True)
    file.chmod(0o600)
    assert set(loaded.current().users) == {"alice"}


def test_a_file_that_is_gone_or_none_lets_nobody_in(file: Path, tmp_path: Path) -> None:
    loaded = Users.load(file)
    file.unlink()
    with pytest.raises(UsersError, match="there is no file of users"):
        loaded.current()
    file.mkdir(mode=0o700)
    with pytest.raises(UsersError):
        loaded.current()
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(UsersError, match="is not a file"):
        Users.load(tmp_path / "pipe")
    with pytest.raises(UsersError):
        users.set_password(tmp_path / "nowhere" / "u", "alice", PASSWORD, new=True)


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)
    users.set_password(link, "bob", PASSWORD, new=True)
    assert link.is_symlink() and set(Users.load(file).users) == {"alice", "bob"}


BROKEN: list[Any] = [
    [], {}, {"version": 2}, None, "x", 5,
    {"version": 1, "secret": "", "users": {}},
    {"version": 1, "secret": "!", "users": {}},
    {"version": 1, "secret": "AAAA" * 20, "users": []},
    {"version": 1, "secret": "AAAA" * 20, "users": {"a": {}}},
    {"version": 1, "secret": "AAAA" * 20, "users": {"a": {"password": "secret", "tokens": []}}},
    {"version": 1, "secret": "AAAA" * 20, "users": {"a": {"password": None, "tokens": []}}},
    {"version": 1, "secret": "AAAA" * 20, "users": {}, "more": 1},
]  # fmt: skip


@pytest.mark.parametrize("data", BROKEN, ids=str)
def test_a_broken_file_lets_nobody_in(file: Path, data: Any) -> None:
    file.write_text(json.dumps(data))
    with pytest.raises(UsersError, match="is damaged") as caught:
        Users.load(file)
    assert "secret" not in str(caught.value)


def test_a_token_without_an_end_is_not_read(file: Path) -> None:
    users.add_token(file, "alice", 1)
    for key, value in (("expires", "2999-01-01"), ("expires", None), ("hash", "x"), ("id", "")):
        data = json.loads(file.read_text())
        data["users"]["alice"]["tokens"][0][key] = value
        broken = file.with_name("broken")
        broken.touch(0o600)
        broken.write_text(json.dumps(data))
        with pytest.raises(UsersError):
            Users.load(broken)


@settings(max_examples=examples(150))
@given(st.data())
def test_any_damage_is_an_error_or_the_same_users(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "u"
    if not path.exists():
        users.set_password(path, "alice", PASSWORD, new=True)
        users.add_token(path, "alice", 1)
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole)))
    broken = tmp_path / "broken"
    broken.touch(0o600)
    broken.write_bytes(whole[:at] + data.draw(st.binary(max_size=5)) + whole[at + data.draw(st.integers(0, 20)) :])
    try:
        found = Users.load(broken)
    except UsersError:
        return
    for user in found.users.values():
        assert isinstance(user.verifier, Verifier)


# Crashes, and several at once

KILLED = """
import os, signal, sys
from pathlib import Path
from sqlanon.server import users
step = {step!r}
real = getattr(os, step)
def die(*args, **options):
    if step == "replace" or (step == "fsync"):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **options)
setattr(os, step, die)
users.set_password(Path(sys.argv[1]), "mallory", "x" * 12, new=True)
"""


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_killed_process_leaves_the_old_file(file: Path, step: str) -> None:
    before = file.read_bytes()
    done = subprocess.run([sys.executable, "-c", KILLED.format(step=step), str(file)], capture_output=True)
    assert done.returncode == -9, done.stderr
    assert file.read_bytes() == before
    left = [each for each in file.parent.iterdir() if each != file]
    assert len(left) == 1 and left[0].stat().st_mode & 0o777 == 0o600
    users.set_password(file, "bob", PASSWORD, new=True)
    assert set(Users.load(file).users) == {"alice", "bob"}
    assert list(file.parent.iterdir()) == [file]  # and it has cleared up


def test_changes_at_the_same_time_are_all_kept(file: Path) -> None:
    code = "import sys; from pathlib import Path; from sqlanon.server import users\n"
    code += "for i in range(5): users.set_password(Path(sys.argv[1]), f'{sys.argv[2]}{i}', 'x' * 12, new=True)"
    started = [subprocess.Popen([sys.executable, "-c", code, str(file), who]) for who in "pqr"]
    seen, stop = [0], threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.append(len(Users.load(file).users))  # never a part of a file
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    codes = [each.wait() for each in started]
    stop.set()
    watcher.join()
    assert codes == [0, 0, 0]
    assert len(Users.load(file).users) == 16
    assert seen == sorted(seen)


def test_a_full_disk_changes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsersError, match="No space left on device"):
        users.set_password(file, "bob", PASSWORD, new=True)
    assert file.read_bytes() == before and list(file.parent.iterdir()) == [file]
