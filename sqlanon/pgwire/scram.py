"""SCRAM-SHA-256, the side of the server (RFC 5802, RFC 7677), with the verifiers that PostgreSQL stores.

No sockets here: `Exchange` takes the client's two messages and gives the server's two. Nothing that it says, and no
step that it takes, depends on whether the user exists. Channel binding (SCRAM-SHA-256-PLUS) ties the password to the
certificate that the client sees, and is offered wherever there is one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import stringprep
import unicodedata
from dataclasses import dataclass, field

from sqlanon.errors import PolicyError, SqlanonError

PLAIN, PLUS = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
ITERATIONS, SALT = 4096, 16  # as PostgreSQL makes them; a mock verifier must not look different
LONGEST = 4096  # bytes of a message of the client

_VERIFIER = re.compile(r"SCRAM-SHA-256\$([1-9][0-9]{0,9}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]{44}):([A-Za-z0-9+/=]{44})")
_NONCE = re.compile(rb"[\x21-\x2b\x2d-\x7e]{1,256}")
_VALUE = re.compile(rb"[^,\x00]*")
_PROHIBITED = (
    stringprep.in_table_a1, stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3,
    stringprep.in_table_c4, stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7,
    stringprep.in_table_c8, stringprep.in_table_c9,
)  # fmt: skip


class AuthenticationFailed(SqlanonError):
    """The client did not show that it knows the password; one message for all reasons."""

    sqlstate = "28P01"


class Malformed(AuthenticationFailed):
    """A message of the client is not one of SCRAM."""

    sqlstate = "08P01"


@dataclass(frozen=True)
class Verifier:
    """What the server keeps of a password: enough to check it, not enough to log in with it."""

    iterations: int
    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @staticmethod
    def of(password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> Verifier:
        salt = secrets.token_bytes(SALT) if salt is None else salt
        salted = hashlib.pbkdf2_hmac("sha256", prepare_password(password), salt, iterations)
        client_key = _hmac(salted, b"Client Key")
        return Verifier(iterations, salt, hashlib.sha256(client_key).digest(), _hmac(salted, b"Server Key"))

    @staticmethod
    def parse(text: str) -> Verifier:
        """From PostgreSQL's own format, `SCRAM-SHA-256$4096:salt$StoredKey:ServerKey`."""
        found = _VERIFIER.fullmatch(text)
        try:
            if found is None:
                raise ValueError
            salt, stored, server = (base64.b64decode(part, validate=True) for part in found.groups()[1:])
            if not salt or len(stored) != 32 or len(server) != 32:
                raise ValueError
        except ValueError:
            raise PolicyError("a password is not stored as SCRAM-SHA-256", hint="set it anew") from None
        return Verifier(int(found[1]), salt, stored, server)

    @property
    def text(self) -> str:
        salt, stored, server = map(_b64, (self.salt, self.stored_key, self.server_key))
        return f"{PLAIN}${self.iterations}:{salt}${stored}:{server}"

    def accepts(self, password: str) -> bool:
        """Whether this is the password; for doors that are given it as it is."""
        return hmac.compare_digest(Verifier.of(password, self.salt, self.iterations).stored_key, self.stored_key)


def mock(user: str, secret: bytes) -> Verifier:
    """What a user who does not exist is shown: the same whenever it is asked for, and no password fits it."""
    name = user.encode(errors="surrogatepass")
    salt, stored, server = (_hmac(secret, kind + name) for kind in (b"salt ", b"stored ", b"server "))
    return Verifier(ITERATIONS, salt[:SALT], stored, server)


def prepare_password(password: str) -> bytes:
    """The bytes of a password that are hashed: SASLprep (RFC 4013), or as they are where that refuses the text.

    >>> [prepare_password(text) for text in ("I\\u00adX", "\\u2168", "a\\u00a0b", "\\u0627\\u0031")]
    [b'IX', b'IX', b'a b', b'\\xd8\\xa71']
    """
    raw = password.encode("utf-8", errors="surrogateescape")
    if password.isascii():
        return raw
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw
    spaced = (" " if stringprep.in_table_c12(each) else each for each in password)
    mapped = "".join(each for each in spaced if not stringprep.in_table_b1(each))
    # The RFC looks at the normalized text. PostgreSQL and libpq look at this one, and they are who we talk to.
    return unicodedata.normalize("NFKC", mapped).encode() if _is_allowed(mapped) else raw


def _is_allowed(text: str) -> bool:
    if not text or any(test(each) for each in text for test in _PROHIBITED):
        return False
    if not any(map(stringprep.in_table_d1, text)):
        return True
    # A text that runs from right to left does so from its first letter to its last.
    ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    return ends and not any(map(stringprep.in_table_d2, text))


class Exchange:
    """One attempt to log in. `verifier` is None for a user who does not exist, and must not be told from others.

    `secret` is the server's, the same after a restart. `binding` is the hash of the certificate over TLS
    (`tls.end_point`), None without. A failure ends the exchange.
    """

    def __init__(
        self, user: str, verifier: Verifier | None, *, secret: bytes, binding: bytes | None = None, nonce: str = ""
    ) -> None:
        self.user = user
        self._known = verifier is not None
        self._verifier = verifier or mock(user, secret)
        self._binding = binding
        self._own_nonce = nonce or _b64(secrets.token_bytes(18))
        self._state = "first"
        self._header = self._bare = self._nonce = self._sent = b""
        self._plus = False

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """What the server offers, the best first."""
        return (PLUS, PLAIN) if self._binding is not None else (PLAIN,)

    def first(self, data: bytes, mechanism: str = PLAIN) -> bytes:
        """The client's first message; gives the server's first."""
        self._step("first")
        if mechanism not in self.mechanisms:
            raise Malformed("client selected an invalid SASL authentication mechanism")
        if len(data) > LONGEST:
            raise _malformed()
        self._plus = mechanism == PLUS
        flag, comma, rest = data.partition(b",")
        authzid, second, bare = rest.partition(b",")
        if not comma or not second:
            raise _malformed()
        self._check_flag(flag)
        if authzid:
            raise Malformed("client uses authorization identity, but it is not supported")
        self._header = flag + b",,"
        attributes = bare.split(b",")
        if attributes[0].startswith(b"m="):
            raise Malformed("client requires an unsupported SCRAM extension")
        # The name is that of the startup message; what stands here is not looked at, as PostgreSQL does.
        if len(attributes) < 2 or not attributes[0].startswith(b"n=") or not attributes[1].startswith(b"r="):
            raise _malformed()
        nonce = attributes[1][2:]
        if not _NONCE.fullmatch(nonce) or not all(map(_is_attribute, (attributes[0], *attributes[2:]))):
            raise _malformed()
        self._bare = bare
        self._nonce = nonce + self._own_nonce.encode()
        shown = f"s={_b64(self._verifier.salt)},i={self._verifier.iterations}"
        self._sent = b"r=" + self._nonce + b"," + shown.encode()
        self._state = "final"
        return self._sent

    def _check_flag(self, flag: bytes) -> None:
        if flag == b"y" and self._binding is not None:
            # Someone in between has taken our offer away.
            raise Malformed(
                "SCRAM channel binding negotiation error",
                detail="The client supports SCRAM channel binding but thinks the server does not. "
                "However, this server does support channel binding.",
            )
        if flag.startswith(b"p=") and self._plus and flag != b"p=tls-server-end-point":
            raise Malformed("unsupported SCRAM channel-binding type")
        if flag not in ((b"p=tls-server-end-point",) if self._plus else (b"n", b"y")):
            raise _malformed("The channel binding flag does not fit the mechanism.")

    def final(self, data: bytes) -> bytes:
        """The client's final message; gives the server's, or raises AuthenticationFailed."""
        self._step("final")
        if len(data) > LONGEST:
            raise _malformed()
        before, found, last = data.rpartition(b",p=")
        attributes = before.split(b",")
        if not found or len(attributes) < 2 or not all(map(_is_attribute, attributes[2:])):
            raise _malformed()
        bound = self._header + (self._binding or b"") if self._plus else self._header
        if not hmac.compare_digest(attributes[0], b"c=" + base64.b64encode(bound)):
            if attributes[0].startswith(b"c=") and self._plus:
                raise Malformed("SCRAM channel binding check failed")
            raise _malformed()
        if not hmac.compare_digest(attributes[1], b"r=" + self._nonce):
            raise _malformed("Nonce does not match.")
        try:
            proof = base64.b64decode(last, validate=True)
        except (binascii.Error, ValueError):
            raise _malformed() from None
        if len(proof) != 32 or base64.b64encode(proof) != last:
            raise _malformed()
        message = b",".join((self._bare, self._sent, before))
        signature = _hmac(self._verifier.stored_key, message)
        key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        right = hmac.compare_digest(hashlib.sha256(key).digest(), self._verifier.stored_key)
        answer = b"v=" + base64.b64encode(_hmac(self._verifier.server_key, message))
        if not (right & self._known):
            raise login_failure(self.user)
        self._state = "done"
        return answer

    def _step(self, wanted: str) -> None:
        state, self._state = self._state, "failed"  # until the step is through
        if state != wanted:
            raise _malformed()


def login_failure(user: str) -> AuthenticationFailed:
    return AuthenticationFailed(f'password authentication failed for user "{user[:63]}"')


def _malformed(detail: str | None = None) -> Malformed:
    return Malformed("malformed SCRAM message", detail=detail)


def _is_attribute(part: bytes) -> bool:
    return part[:1].isalpha() and part[1:2] == b"=" and _VALUE.fullmatch(part[2:]) is not None


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
