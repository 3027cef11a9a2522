"""TLS of both doors: one context, and the hash of the certificate that channel binding uses (RFC 5929)."""

from __future__ import annotations

import hashlib
import os
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path

from sqlanon.errors import PolicyError

# Signature algorithms by their object identifier, and the hash that tls-server-end-point takes for each: that of the
# signature, but SHA-256 where that would be MD5 or SHA-1. Others (Ed25519, RSA-PSS) have none that clients agree on.
_HASHES = {
    "2a864886f70d010104": "sha256",  # md5WithRSA
    "2a864886f70d010105": "sha256",  # sha1WithRSA
    "2a864886f70d01010b": "sha256",
    "2a864886f70d01010c": "sha384",
    "2a864886f70d01010d": "sha512",
    "2a864886f70d01010e": "sha224",
    "2a8648ce3d0401": "sha256",  # ecdsa-with-SHA1
    "2a8648ce3d040301": "sha224",
    "2a8648ce3d040302": "sha256",
    "2a8648ce3d040303": "sha384",
    "2a8648ce3d040304": "sha512",
}


@dataclass(frozen=True)
class TlsContext:
    context: ssl.SSLContext
    binding: bytes | None  # what SCRAM-SHA-256-PLUS binds to; None: not offered


def load(certificate: Path, key: Path) -> TlsContext:
    """Read certificate and key; a key that others may read is refused, as PostgreSQL does."""
    try:
        mode = os.stat(key).st_mode
        pem = certificate.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise PolicyError(
            f"'{error.filename}' cannot be read: {error.strerror}", hint="look at 'tls' of serve"
        ) from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise PolicyError(f"others may read the private key '{key}'", hint=f"run 'chmod 600 {key}'")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        # A key with a passphrase would ask for it on the terminal, and a server has none.
        context.load_cert_chain(certificate, key, password=lambda: "")
        first = pem[pem.index(ssl.PEM_HEADER) : pem.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)]
        der = ssl.PEM_cert_to_DER_cert(first)
    except (ssl.SSLError, OSError, ValueError):
        said = f"'{certificate}' and '{key}' are not a certificate and its private key"
        raise PolicyError(said, hint="both are PEM files, and the key has no passphrase") from None
    return TlsContext(context, end_point(der))


def end_point(der: bytes) -> bytes | None:
    """The hash of a certificate in DER; None if its signature has no hash that is agreed on."""
    try:
        body, _ = _value(der, 0)  # Certificate: tbsCertificate, signatureAlgorithm, signature
        _, after = _value(body, 0)
        algorithm, _ = _value(body, after)
        oid, _ = _value(algorithm, 0)
    except (IndexError, ValueError):
        return None
    name = _HASHES.get(oid.hex())
    return hashlib.new(name, der).digest() if name else None


def _value(data: bytes, at: int) -> tuple[bytes, int]:
    """The content of the DER value at a place, and where the next one begins."""
    size, start = data[at + 1], at + 2
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(data[at + 2 : start], "big")
    if start + size > len(data):
        raise ValueError
    return data[start : start + size], start + size
