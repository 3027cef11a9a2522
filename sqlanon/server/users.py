"""The file of users: who may log in, with which password, and the tokens of the HTTP door.

It holds no password and no token, only what they are checked with, and yet it is for its owner alone. It is written
anew as a whole and put in the place of the old one, so that a crash leaves one or the other. A server looks at it
again when it has changed; a file that is damaged lets nobody in.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.pgwire.scram import Verifier

VERSION = 1
PREFIX = "sqlanon_"  # so that scanners for leaked secrets know one
TOKEN = re.compile(PREFIX + r"[A-Za-z0-9_-]{43}")
MAX_TOKENS = 20
MAX_BYTES = 16 * 2**20
WHOLE = "put back its backup, or remove it and add the users anew with 'sqlanon user add'"


class UsersError(SqlanonError):
    """The file of users cannot be read, or may be read by others: nobody logs in."""

    sqlstate = "58030"


@dataclass(frozen=True)
class BearerToken:
    """What is kept of a bearer token."""

    id: str  # to name it by; no part of the token
    hash: str = field(repr=False)
    created: datetime
    expires: datetime


@dataclass(frozen=True)
class User:
    verifier: Verifier
    tokens: tuple[BearerToken, ...] = ()


@dataclass(frozen=True)
class Users:
    """All users, as the file had them when it was read."""

    path: Path
    users: Mapping[str, User]
    secret: bytes = field(repr=False)  # of mock verifiers: the same after a restart
    _state: tuple[int, ...] = field(default=(), repr=False, compare=False)
    _owners: Mapping[str, tuple[str, BearerToken]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Users:
        """Read the file; one that is not there, not whole, or open to others is an error."""
        file = Path(path)
        data, state = _read(file)
        try:
            made = _parsed(file, json.loads(data), state)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, PolicyError):
            raise UsersError(f"the file of users {file} is damaged", hint=WHOLE) from None
        return made

    def current(self) -> Users:
        """These, or those of the file if it has changed since."""
        try:
            if _state_of(os.stat(self.path)) == self._state:
                return self
        except OSError:
            pass  # `load` says what is wrong
        return Users.load(self.path)

    def verifier(self, name: str) -> Verifier | None:
        found = self.users.get(name)
        return found.verifier if found else None

    def owner(self, token: str, at: datetime | None = None) -> str | None:
        """Whose bearer token this is; None if it is nobody's, or not valid any more."""
        if not TOKEN.fullmatch(token):
            return None
        found = self._owners.get(_hash(token))
        if found is None or found[1].expires <= (at or datetime.now(UTC)):
            return None
        return found[0]


# ---- changes: each reads the file, and puts a new one in its place


def set_password(path: Path, name: str, password: str, *, new: bool) -> None:
    """Add a user, or give one who is there another password; the tokens of the user stay."""
    verifier = Verifier.of(password)
    with _changing(path, create=new) as users:
        if new and name in users:
            raise PolicyError(f"user '{name}' is there already", hint="'sqlanon user passwd' sets another password")
        if not new:
            _require(users, name)
        users[name] = replace(users[name], verifier=verifier) if name in users else User(verifier)


def remove(path: Path, name: str) -> None:
    with _changing(path) as users:
        _require(users, name)
        del users[name]


def add_token(path: Path, name: str, days: int, at: datetime | None = None) -> tuple[str, BearerToken]:
    """A new bearer token, which is nowhere kept, and what is kept of it."""
    now = (at or datetime.now(UTC)).replace(microsecond=0)
    text = PREFIX + secrets.token_urlsafe(32)
    made = BearerToken(secrets.token_hex(4), _hash(text), now, now + timedelta(days=days))
    with _changing(path) as users:
        _require(users, name)
        kept = tuple(token for token in users[name].tokens if token.expires > now)
        if len(kept) >= MAX_TOKENS:
            raise PolicyError(f"user '{name}' has {MAX_TOKENS} tokens", hint="revoke one with --revoke")
        users[name] = replace(users[name], tokens=(*kept, made))
    return text, made


def revoke(path: Path, name: str, token: str) -> None:
    with _changing(path) as users:
        _require(users, name)
        kept = tuple(each for each in users[name].tokens if each.id != token)
        if len(kept) == len(users[name].tokens):
            known = ", ".join(each.id for each in kept) or "none"
            raise PolicyError(f"user '{name}' has no token '{token}'", hint=f"there are {known}")
        users[name] = replace(users[name], tokens=kept)


def _require(users: Mapping[str, User], name: str) -> None:
    if name not in users:
        raise PolicyError(f"there is no user '{name}'", hint="'sqlanon user add' adds one")


# ---- the file


def _hash(token: str) -> str:
    # A token has 256 random bits: there is nothing to guess, and one round of a hash is enough.
    return hashlib.sha256(token.encode()).hexdigest()


def _state_of(found: os.stat_result) -> tuple[int, ...]:
    return found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode, found.st_uid


def _read(file: Path) -> tuple[bytes, tuple[int, ...]]:
    try:
        # Without O_NONBLOCK a pipe in place of the file would hold a server for ever.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UsersError(f"there is no file of users {file}", hint="'sqlanon user add' makes it") from None
    except OSError as error:
        raise UsersError(f"the file of users {file} cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UsersError(f"{file} is not a file")
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            said = f"users other than its owner may read or change the file of users {file}"
            raise UsersError(said, hint=f"run 'chmod 600 {file}', and set new passwords if it was read")
        if found.st_uid not in (os.geteuid(), 0):
            raise UsersError(f"the file of users {file} belongs to somebody else", hint="change its owner")
        if found.st_size > MAX_BYTES:
            raise UsersError(f"the file of users {file} is too large", hint=WHOLE)
        # One byte more: a file that grows meanwhile is damaged, and is not read as if it were.
        return os.read(descriptor, found.st_size + 1), _state_of(found)
    finally:
        os.close(descriptor)


def _parsed(file: Path, data: Any, state: tuple[int, ...]) -> Users:
    if set(data) != {"version", "secret", "users"} or data["version"] != VERSION:
        raise ValueError
    secret = base64.b64decode(data["secret"], validate=True)
    if len(secret) < 32:
        raise ValueError
    users: dict[str, User] = {}
    owners: dict[str, tuple[str, BearerToken]] = {}
    for name, entry in data["users"].items():
        if set(entry) != {"password", "tokens"}:
            raise ValueError
        tokens = tuple(_token(each) for each in entry["tokens"])
        users[name] = User(Verifier.parse(entry["password"]), tokens)
        owners |= {token.hash: (name, token) for token in tokens}
    return Users(file, users, secret, state, owners)


def _token(data: Any) -> BearerToken:
    created, expires = (datetime.fromisoformat(data[key]) for key in ("created", "expires"))
    if len(data) != 4 or created.tzinfo is None or expires.tzinfo is None:
        raise ValueError
    if not re.fullmatch("[0-9a-f]{64}", data["hash"]) or not re.fullmatch("[0-9a-f]{8}", data["id"]):
        raise ValueError
    return BearerToken(data["id"], data["hash"], created, expires)


def _written(users: Mapping[str, User], secret: bytes) -> bytes:
    entries = {
        name: {
            "password": user.verifier.text,
            "tokens": [
                {
                    "id": each.id,
                    "hash": each.hash,
                    "created": each.created.isoformat(),
                    "expires": each.expires.isoformat(),
                }
                for each in user.tokens
            ],
        }
        for name, user in sorted(users.items())
    }
    document = {"version": VERSION, "secret": base64.b64encode(secret).decode(), "users": entries}
    return (json.dumps(document, indent=1) + "\n").encode()


@contextmanager
def _changing(path: Path, create: bool = False) -> Iterator[dict[str, User]]:
    """The users to change; what they are at the end is written. One process at a time."""
    file = path.resolve()  # behind a link it is the file that is replaced, not the link
    with _locked(file.parent):
        if create and not file.exists():
            users: dict[str, User] = {}
            secret = secrets.token_bytes(32)
        else:
            found = Users.load(file)
            users, secret = dict(found.users), found.secret
        yield users
        _replace(file, _written(users, secret))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    import fcntl

    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsersError(f"the folder {folder} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(file: Path, data: bytes) -> None:
    for left_over in file.parent.glob(f".{file.name}.*.new"):  # of a process that was killed: we hold the lock
        with suppress(OSError):
            left_over.unlink()
    new = file.parent / f".{file.name}.{secrets.token_hex(8)}.new"
    try:
        with open(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(new, file)
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        said = f"the file of users {file} cannot be written: {error.strerror}"
        raise UsersError(said, hint="nothing was changed; look at the disk and at who may write the folder") from None
