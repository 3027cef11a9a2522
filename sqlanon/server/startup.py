"""The settings that a client gives when it connects."""

from __future__ import annotations

from sqlanon.pgwire.frontend import ProtocolError


def startup_settings(parameters: dict[str, str]) -> list[tuple[str, str]]:
    """The settings in a startup message, those in `options` (-c name=value) among them."""
    found = []
    for name, value in parameters.items():
        if name in ("user", "database", "replication") or name.startswith("_pq_."):
            continue
        if name == "options":
            found += _options(value)
        else:
            found.append((name, value))
    return found


def _options(text: str) -> list[tuple[str, str]]:
    words, found = _words(text), []
    while words:
        word = words.pop(0)
        if word == "-c" and words:
            word = words.pop(0)
        elif word.startswith(("-c", "--")):
            word = word[2:]
        else:
            raise ProtocolError("22023", "options take -c name=value alone", fatal=True)
        name, sign, value = word.partition("=")
        if not sign:
            raise ProtocolError("22023", "options take -c name=value alone", fatal=True)
        found.append((name.replace("-", "_"), value))
    return found


def _words(text: str) -> list[str]:
    """Words at spaces; a backslash keeps the next sign.

    >>> _words(r"-c a=b\\ c  -c d=e")
    ['-c', 'a=b c', '-c', 'd=e']
    """
    words: list[str] = []
    word, kept = "", False
    for sign in text:
        if kept:
            word, kept = word + sign, False
        elif sign == "\\":
            kept = True
        elif sign.isspace():
            words, word = ([*words, word] if word else words), ""
        else:
            word += sign
    return [*words, word] if word else words
