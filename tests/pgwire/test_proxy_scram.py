"""SCRAM-SHA-256: the worked example, libpq, what PostgreSQL stores, and clients that cheat."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import socket
import subprocess
from pathlib import Path

import psycopg
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from proxy_login import SECRET, LoginServer, certificate

from sqlanon.errors import PolicyError
from sqlanon.pgwire import tls
from sqlanon.pgwire.scram import (
    PLAIN,
    PLUS,
    AuthenticationFailed,
    Exchange,
    Malformed,
    Verifier,
    mock,
    prepare_password,
)

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
PENCIL = Verifier.of("pencil", SALT)
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
BOUND = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
PROOF = b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
HASH = b"h" * 32


def exchange(verifier: Verifier | None = PENCIL, binding: bytes | None = None) -> Exchange:
    return Exchange("user", verifier, secret=SECRET, binding=binding, nonce=NONCE)


def client_final(password: str, first: bytes, said: bytes, bound: bytes | None = None) -> bytes:
    """What an honest client sends, written from RFC 5802 alone."""
    header, bare = re.match(rb"([^,]*,[^,]*,)(.*)", first, re.S).groups()  # type: ignore[union-attr]
    parts = dict(part.split(b"=", 1) for part in said.split(b","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(parts[b"s"]), int(parts[b"i"]))
    key = hmac.new(salted, b"Client Key", "sha256").digest()
    without = b"c=" + base64.b64encode(header + (bound or b"")) + b",r=" + parts[b"r"]
    signed = hmac.new(hashlib.sha256(key).digest(), b",".join((bare, said, without)), "sha256").digest()
    return without + b",p=" + base64.b64encode(bytes(a ^ b for a, b in zip(key, signed, strict=True)))


# What is right


def test_the_worked_example_of_rfc_7677() -> None:
    made = exchange()
    wanted = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert made.first(FIRST) == wanted
    assert made.final(BOUND + PROOF) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_nonces_are_the_servers_own_and_new_each_time() -> None:
    said = {Exchange("user", PENCIL, secret=SECRET).first(FIRST) for _ in range(20)}
    assert len(said) == 20
    assert all(re.match(rb"r=rOprNGfwEbeRWgbNEkqO[!-+\--~]{24},s=", each) for each in said)


@given(st.text(st.characters(codec="utf-8"), max_size=12))
def test_a_verifier_is_its_text(password: str) -> None:
    made = Verifier.of(password, iterations=2)
    assert Verifier.parse(made.text) == made
    assert made.accepts(password) and not made.accepts(password + "x")


def test_a_verifier_is_not_shown() -> None:
    assert base64.b64encode(PENCIL.stored_key).decode() in PENCIL.text
    assert "stored" not in repr(PENCIL) and "server_key" not in repr(PENCIL)


@pytest.mark.parametrize(
    "text",
    ["", "md5" + "0" * 32, PENCIL.text[:-1], PENCIL.text + "\n", PENCIL.text.replace("4096", "0"),
     PENCIL.text.replace("4096", "-1"), PENCIL.text.replace(":", "$"), PENCIL.text.replace("SHA-256", "SHA-1")],
)  # fmt: skip
def test_a_broken_verifier_is_refused(text: str) -> None:
    with pytest.raises(PolicyError):
        Verifier.parse(text)


PASSWORDS = [
    "pencil",
    "with space and 'quotes' \\ \"",
    "control \x01\x7f",
    "tab\tand newline\n",
    "Пароль-日本語",
    "I\u00adX soft hyphen",
    "\u2168 roman nine",
    "no\u00a0break\u3000space",
    "zero\u200bwidth",
    "\u00aa",
    "\u0627\u0031 arabic, then a digit",
    "\u0627\u0628\u0627",
    "a\u0627b",
    "\ue000 private use",
    "\ufffd",
    "\U0001f512 unassigned in 3.2",
    "\u0007é bell",
    "e\u0301",
    "ﬁne",
    "\u00ad",
    "\u1e9e",
    "\u0340",
    "\u00a8\u0627",
    "\ufb1d\u2168",
    "\u3300",
    "\u2028é",
    "\u06dd\u0627",
    "ǆ\u0345",
]


def stored(postgres: Database, password: str) -> str:
    connection = postgres.engine._connection  # type: ignore[attr-defined]
    postgres.run("DROP ROLE IF EXISTS scram_test")
    postgres.run("SET password_encryption = 'scram-sha-256'")
    connection.execute(psycopg.sql.SQL("CREATE ROLE scram_test PASSWORD {}").format(psycopg.sql.Literal(password)))
    ((found,),) = postgres.fetch("SELECT rolpassword FROM pg_authid WHERE rolname = 'scram_test'")
    postgres.run("DROP ROLE scram_test")
    return str(found)


@pytest.mark.parametrize("password", PASSWORDS, ids=ascii)
def test_the_verifier_is_the_one_that_postgresql_stores(postgres: Database, password: str) -> None:
    found = stored(postgres, password)
    salt = base64.b64decode(found.split(":")[1].split("$")[0])
    assert Verifier.of(password, salt).text == found
    assert Verifier.parse(found).accepts(password)


# Letters of all kinds that SASLprep treats in a way of its own, more often than chance would bring them.
LETTERS = st.characters(codec="utf-8", exclude_characters="\x00") | st.sampled_from(
    "\u00ad\u00a0\u200b\u0627\u05d0\u0661\u0340\u2168\u0301e\ufb01\u2028\ue000\ufffd\U000e0001\u0221\u1e9e aA1"
)


@settings(max_examples=examples(80))
@given(password=st.text(LETTERS, min_size=1, max_size=5))
def test_any_password_is_stored_as_postgresql_does(postgres: Database, password: str) -> None:
    assert Verifier.parse(stored(postgres, password)).accepts(password)


@given(st.text(st.characters(codec="utf-8"), max_size=8), st.text(st.characters(codec="utf-8"), max_size=8))
def test_who_knows_the_password_gets_in_and_nobody_else(right: str, tried: str) -> None:
    made = exchange(Verifier.of(right, SALT, 2))
    answer = client_final("", FIRST, made.first(FIRST))  # to have its shape
    assert answer.startswith(BOUND)
    for password in (right, tried):
        made = exchange(Verifier.of(right, SALT, 2))
        final = client_final(prepare_password(password).decode(), FIRST, made.first(FIRST))
        if prepare_password(password) == prepare_password(right):
            assert made.final(final).startswith(b"v=")
        else:
            with pytest.raises(AuthenticationFailed) as caught:
                made.final(final)
            assert caught.value.sqlstate == "28P01"


# Nobody can tell who exists


def test_an_unknown_user_is_asked_as_a_known_one_is() -> None:
    known, unknown, again, other = (
        Exchange(user, verifier, secret=SECRET, nonce=NONCE).first(FIRST)
        for user, verifier in (("a", Verifier.of("x")), ("b", None), ("b", None), ("c", None))
    )
    shape = re.compile(rb"r=[^,]+,s=[A-Za-z0-9+/]{22}==,i=4096")
    assert shape.fullmatch(known) and shape.fullmatch(unknown)
    assert unknown == again != other
    assert unknown != Exchange("b", None, secret=b"another", nonce=NONCE).first(FIRST)


def test_no_password_fits_an_unknown_user() -> None:
    made = exchange(None)
    said = made.first(FIRST)
    with pytest.raises(AuthenticationFailed) as caught:
        made.final(client_final("pencil", FIRST, said))
    wrong = exchange()
    wrong.first(FIRST)
    with pytest.raises(AuthenticationFailed) as other:
        wrong.final(client_final("wrong", FIRST, said))
    assert str(caught.value) == str(other.value) == 'password authentication failed for user "user"'
    assert caught.value.sqlstate == other.value.sqlstate == "28P01"


def test_an_unknown_user_stays_out_even_with_a_proof_that_fits_the_mock() -> None:
    """Whoever learned the server's secret could make one."""
    fake = mock("user", SECRET)
    made = exchange(None)
    said = made.first(FIRST)
    without = b"c=biws,r=rOprNGfwEbeRWgbNEkqO" + NONCE.encode()
    signed = hmac.new(fake.stored_key, b",".join((FIRST[3:], said, without)), "sha256").digest()
    with pytest.raises(AuthenticationFailed):
        made.final(without + b",p=" + base64.b64encode(signed))


# Channel binding

P = b"p=tls-server-end-point,,n=,r=abc"


def test_the_certificate_is_bound() -> None:
    assert exchange(binding=HASH).mechanisms == (PLUS, PLAIN)
    assert exchange().mechanisms == (PLAIN,)
    made = exchange(binding=HASH)
    assert made.final(client_final("pencil", P, made.first(P, PLUS), HASH)).startswith(b"v=")
    for other in (b"", b"x" * 32, HASH + b"h"):
        made = exchange(binding=HASH)
        final = client_final("pencil", P, made.first(P, PLUS), other)
        with pytest.raises(Malformed, match="channel binding check failed"):
            made.final(final)


@pytest.mark.parametrize(
    ("binding", "mechanism", "first"),
    [
        (HASH, PLAIN, b"y,,n=,r=abc"),  # the offer was taken away on the way
        (HASH, PLUS, b"y,,n=,r=abc"),
        (HASH, PLUS, b"n,,n=,r=abc"),
        (HASH, PLAIN, P),
        (None, PLAIN, P),
        (None, PLUS, P),
        (HASH, PLUS, b"p=tls-unique,,n=,r=abc"),
        (HASH, PLUS, b"p=,,n=,r=abc"),
        (None, "SCRAM-SHA-1", b"n,,n=,r=abc"),
        (None, "", b"n,,n=,r=abc"),
    ],
)
def test_a_downgrade_is_refused(binding: bytes | None, mechanism: str, first: bytes) -> None:
    with pytest.raises(Malformed) as caught:
        exchange(binding=binding).first(first, mechanism)
    assert caught.value.sqlstate == "08P01"


def test_a_client_without_channel_binding_may_come_in() -> None:
    for flag, binding in ((b"n", HASH), (b"n", None), (b"y", None)):
        first = flag + b",,n=,r=abc"
        made = exchange(binding=binding)
        assert made.final(client_final("pencil", first, made.first(first))).startswith(b"v=")


def test_the_flag_cannot_be_changed_afterwards() -> None:
    made = exchange()
    said = made.first(b"y,,n=,r=abc")
    with pytest.raises(Malformed):
        made.final(client_final("pencil", b"n,,n=,r=abc", said))


# Garbage


@pytest.mark.parametrize(
    "first",
    [b"", b"n", b"n,", b"n,,", b"n,,n=user", b"n,,r=abc", b"n,,n=user,r=", b"n,,n=u,r=a b", b"n,,n=u,r=\xff",
     b"n,,n=u,r=a\x00", b"n,a=admin,n=u,r=abc", b"n,,m=x,n=u,r=abc", b"x,,n=u,r=abc", b"nn,,n=u,r=abc",
     b"n,,n=u,r=abc,", b"n,,n=u,r=abc,x", b"n,,n=u,r=abc,x=\x00", b"n,,r=abc,n=u", b"n,,n=u,x=y,r=abc",
     b"n,,n=u,r=" + b"a" * 300, b"n,,n=u,r=abc,x=" + b"a" * 5000],
)  # fmt: skip
def test_a_broken_first_message_is_refused(first: bytes) -> None:
    made = exchange()
    with pytest.raises(Malformed) as caught:
        made.first(first)
    assert caught.value.sqlstate == "08P01" and b"abc" not in str(caught.value).encode()
    with pytest.raises(Malformed):
        made.first(FIRST)  # it is over


@pytest.mark.parametrize(
    "final",
    [b"", BOUND, BOUND + b",p=", BOUND + b",p=AAAA", BOUND + b",p=!" + PROOF[4:], BOUND + PROOF + b",x=y",
     PROOF[1:], b"c=biws" + PROOF, BOUND.replace(b"biws", b"eSws") + PROOF, BOUND.replace(b"biws", b"") + PROOF,
     BOUND[:-1] + PROOF, BOUND.replace(b"rOpr", b"ropr") + PROOF, BOUND + b"," + PROOF, BOUND + b",m" + PROOF,
     BOUND + PROOF + b"\n", BOUND + PROOF.replace(b"VQ=", b"VR="), BOUND + PROOF[:-1], b"x" * 5000],
)  # fmt: skip
def test_a_broken_final_message_is_refused(final: bytes) -> None:
    made = exchange()
    made.first(FIRST)
    with pytest.raises(Malformed):
        made.final(final)
    with pytest.raises(Malformed):
        made.final(BOUND + PROOF)  # one attempt only


def test_the_messages_have_an_order() -> None:
    with pytest.raises(Malformed):
        exchange().final(BOUND + PROOF)
    made = exchange()
    made.first(FIRST)
    with pytest.raises(Malformed):
        made.first(FIRST)
    made = exchange()
    made.first(FIRST)
    made.final(BOUND + PROOF)
    with pytest.raises(Malformed):
        made.final(BOUND + PROOF)


PIECES = st.sampled_from(
    [b"n", b"y", b",", b"p=tls-server-end-point", b"n=user", b"r=", b"abc", b"c=biws", b"p=", b"="]
)
NOISE = st.binary(max_size=60) | st.lists(PIECES, max_size=12).map(b"".join)


@given(NOISE, NOISE, st.sampled_from([PLAIN, PLUS, "x"]), st.booleans(), st.booleans())
def test_garbage_gets_nobody_in(first: bytes, final: bytes, mechanism: str, bound: bool, known: bool) -> None:
    made = exchange(PENCIL if known else None, HASH if bound else None)
    with pytest.raises(AuthenticationFailed):
        made.first(first, mechanism)
        made.final(final)


@given(st.data())
def test_no_change_of_a_right_answer_is_right(data: st.DataObject) -> None:
    whole = bytearray(BOUND + PROOF)
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    made = exchange()
    made.first(FIRST)
    with pytest.raises(AuthenticationFailed):
        made.final(bytes(whole))


# libpq


def connect(server: LoginServer, password: str, **options: str) -> str:
    """What libpq makes of the server: 'ok', or its message."""
    url = f"host=127.0.0.1 port={server.port} user=alice dbname=x connect_timeout=10"
    try:
        with psycopg.connect(url, password=password, **options) as connection:  # type: ignore[arg-type]
            connection.autocommit = True
            return "ok"
    except psycopg.OperationalError as error:
        return str(error)
    finally:
        server.close()


@pytest.mark.parametrize("password", ["pencil", "Пароль-日本語", "I\u00adX", "\u0627\u0031"], ids=ascii)
def test_libpq_logs_in(password: str) -> None:
    users = {"alice": Verifier.of(password)}
    server = LoginServer(users)
    assert connect(server, password, sslmode="disable") == "ok"
    assert (server.mechanism, server.outcome) == (PLAIN, "ok")
    server = LoginServer(users)
    assert "password authentication failed" in connect(server, password + "x", sslmode="disable")
    assert server.outcome == "28P01"


@pytest.mark.parametrize(
    "options",
    [(), ("-newkey", "rsa:2048", "-sha384"), ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
     ("-newkey", "rsa:2048", "-sha1")],
    ids=["rsa", "sha384", "ec", "sha1"],
)  # fmt: skip
def test_libpq_binds_the_channel(tmp_path: Path, options: tuple[str, ...]) -> None:
    """libpq computes the hash of the certificate on its own, and refuses a server that does not prove it."""
    made = tls.load(*certificate(tmp_path, *options))
    assert made.binding is not None
    users = {"alice": Verifier.of("pencil")}
    server = LoginServer(users, made.context, made.binding)
    assert connect(server, "pencil", sslmode="require", channel_binding="require") == "ok"
    assert (server.mechanism, server.outcome) == (PLUS, "ok")
    server = LoginServer(users, made.context, b"x" * 32)  # another certificate than the client sees
    assert connect(server, "pencil", sslmode="require", channel_binding="require") != "ok"
    assert server.outcome == "08P01"
    server = LoginServer(users, made.context, made.binding)
    server.offered = (PLAIN,)  # somebody in between
    assert connect(server, "pencil", sslmode="require", channel_binding="prefer") != "ok"
    assert server.outcome == "08P01"
    server = LoginServer(users, made.context, made.binding)
    assert connect(server, "pencil", sslmode="require", channel_binding="disable") == "ok"


def test_a_certificate_without_an_agreed_hash_offers_no_binding(tmp_path: Path) -> None:
    made = tls.load(*certificate(tmp_path, "-newkey", "ed25519"))
    assert made.binding is None
    server = LoginServer({"alice": Verifier.of("pencil")}, made.context, made.binding)
    assert connect(server, "pencil", sslmode="require") == "ok"
    assert server.mechanism == PLAIN


def test_a_certificate_is_checked_at_the_door(tmp_path: Path) -> None:
    made, key = certificate(tmp_path)
    key.chmod(0o640)
    with pytest.raises(PolicyError, match="others may read the private key"):
        tls.load(made, key)
    key.chmod(0o600)
    with pytest.raises(PolicyError, match="are not a certificate"):
        tls.load(key, key)
    locked = tmp_path / "locked.key"
    subprocess.run(
        ["openssl", "rsa", "-aes256", "-passout", "pass:secret", "-in", str(key), "-out", str(locked)],
        check=True, capture_output=True,
    )  # fmt: skip
    locked.chmod(0o600)
    with pytest.raises(PolicyError, match="are not a certificate"):
        tls.load(made, locked)
    with pytest.raises(PolicyError, match="cannot be read: No such file"):
        tls.load(tmp_path / "nowhere", key)


@given(st.binary(max_size=40))
def test_a_broken_certificate_has_no_hash(der: bytes) -> None:
    assert tls.end_point(der) is None or len(tls.end_point(der) or b"") >= 28


def test_a_server_that_hangs_up_is_told_as_such() -> None:
    server = LoginServer({})
    with socket.create_connection(("127.0.0.1", server.port)):
        pass
    server.close()
    assert server.outcome == ""
