"""The settings of a session: the few that mean something here, and those that clients send without a need."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from zoneinfo import available_timezones

from sqlanon import __version__
from sqlanon.errors import Refused, did_you_mean
from sqlanon.gateway.read_error import read_error

# As clients read it: what PostgreSQL 15 understands. The rest says who answers.
SERVER_VERSION = f"15.0 (sqlanon {__version__})"
# Settings whose changes PostgreSQL tells the client at once.
REPORTED = (
    "application_name", "client_encoding", "DateStyle", "default_transaction_read_only", "in_hot_standby",
    "integer_datetimes", "IntervalStyle", "is_superuser", "server_encoding", "server_version",
    "session_authorization", "standard_conforming_strings", "TimeZone",
)  # fmt: skip
FIXED = {
    "server_version": SERVER_VERSION, "server_version_num": "150000", "server_encoding": "UTF8",
    "integer_datetimes": "on", "in_hot_standby": "off", "is_superuser": "off", "max_identifier_length": "63",
    "lc_collate": "C", "lc_ctype": "C", "block_size": "8192", "transaction_deferrable": "off", "ssl": "on",
    "max_index_keys": "32", "wal_level": "minimal", "data_checksums": "on",
}  # fmt: skip
# Accepted as they come: here they change nothing, or nothing that a client could miss.
FREE = {
    "application_name": "", "extra_float_digits": "1", "search_path": '"$user", public', "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0", "client_min_messages": "notice",
    "default_transaction_deferrable": "off", "default_transaction_read_only": "on", "transaction_read_only": "on",
    "row_security": "on", "lc_messages": "C", "lc_monetary": "C", "lc_numeric": "C", "lc_time": "C",
    "synchronous_commit": "on", "jit": "off", "geqo": "on", "enable_seqscan": "on", "work_mem": "4MB",
    "default_table_access_method": "heap", "default_tablespace": "", "xmloption": "content",
    "backslash_quote": "safe_encoding", "gin_fuzzy_search_limit": "0", "force_parallel_mode": "off",
    "check_function_bodies": "on", "tcp_keepalives_idle": "0", "idle_session_timeout": "0",
    "plan_cache_mode": "auto", "max_parallel_workers_per_gather": "0", "cursor_tuple_fraction": "0.1",
    "synchronize_seqscans": "on", "quote_all_identifiers": "off", "restrict_nonsystem_relation_kind": "",
}  # fmt: skip
_SPELLING = {name.lower(): name for name in REPORTED}
_UNITS = {"": 0.001, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


def _one_of(*known: str) -> Callable[[str], str]:
    def checked(value: str) -> str:
        wanted = value.strip("'\" ").lower().replace("-", "").replace("_", "")
        for name in known:
            if wanted == name.lower().replace("-", "").replace("_", ""):
                return known[0]
        raise _invalid(f"here it is always {known[0]}")

    return checked


def _date_style(value: str) -> str:
    parts = [part.strip().lower() for part in value.split(",")]
    orders = {"mdy": "MDY", "us": "MDY", "noneuro": "MDY", "dmy": "DMY", "euro": "DMY", "european": "DMY", "ymd": "YMD"}
    if len(parts) > 2 or any(part not in ("iso", *orders) for part in parts):
        raise _invalid("dates are written in ISO style")
    return "ISO, " + next((orders[part] for part in parts if part in orders), "MDY")


def milliseconds(value: str) -> str:
    """
    >>> milliseconds("2s"), milliseconds(" 1500 "), milliseconds("1min")
    ('2000', '1500', '60000')
    """
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,3})?)\s*(ms|s|min|h|d)?\s*", value)
    if match is None:
        raise _invalid("write for example 5000, '5s' or '1min'")
    return str(round(float(match.group(1)) * _UNITS[match.group(2) or ""] * 1000))


def with_unit(value: str) -> str:
    """Milliseconds as PostgreSQL shows them.

    >>> with_unit("0"), with_unit("1234"), with_unit("5000"), with_unit("60000")
    ('0', '1234ms', '5s', '1min')
    """
    number = int(value)
    units = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000, "ms": 1}
    return "0" if number == 0 else next(f"{number // size}{unit}" for unit, size in units.items() if number % size == 0)


def _time_zone(value: str) -> str:
    """All times are shown and read in UTC; a zone that exists is not an error, for clients send their own."""
    plain = value.strip("'\" ")
    if re.fullmatch(r"[+-]?\d{1,2}(:\d{2})?(\.\d+)?|(UTC|GMT|Z|UCT|Zulu)([+-]\d{1,2})?", plain, re.IGNORECASE):
        return "UTC"
    if re.fullmatch(r"[A-Za-z_]+(/[A-Za-z0-9_+-]+){0,2}", plain) is None or plain not in available_timezones():
        raise _invalid("time zones are those of the IANA list, such as Europe/Athens")
    return "UTC"


def _isolation(value: str) -> str:
    if value.lower() not in ("serializable", "repeatable read", "read committed", "read uncommitted"):
        raise _invalid("there are serializable, repeatable read, read committed and read uncommitted")
    return value.lower()


def _epsilon(value: str) -> str:
    if re.fullmatch(r"\d{1,4}(\.\d{1,12})?|\.\d{1,12}|\d(\.\d{1,6})?e-\d{1,2}", value.lower()) is None:
        raise _invalid("write a number such as 0.5")
    if not float(value) > 0:
        raise _invalid("it must be above 0")
    return value


def _error(value: str) -> str:
    try:
        read_error(value)
    except Refused as error:
        raise _invalid(f"{error.message}; {error.hint}" if "percent" in error.message else str(error.hint)) from None
    return value.strip()


def switch(value: str) -> str:
    if value.lower() in ("on", "true", "yes", "1", "t", "y"):
        return "on"
    if value.lower() in ("off", "false", "no", "0", "f", "n"):
        return "off"
    raise _invalid("it is on or off")


CHECKED: dict[str, tuple[str, Callable[[str], str]]] = {
    "client_encoding": ("UTF8", _one_of("UTF8", "unicode")),
    "datestyle": ("ISO, MDY", _date_style),
    "intervalstyle": ("postgres", _one_of("postgres")),
    "bytea_output": ("hex", _one_of("hex")),
    "standard_conforming_strings": ("on", _one_of("on", "true", "yes", "1")),
    "escape_string_warning": ("on", switch),
    "array_nulls": ("on", _one_of("on", "true")),
    "timezone": ("UTC", _time_zone),
    "default_transaction_isolation": ("read committed", _isolation),
    "transaction_isolation": ("read committed", _isolation),
    "statement_timeout": ("0", milliseconds),
    "sqlanon.epsilon": ("", _epsilon),
    "sqlanon.error": ("", _error),
    "sqlanon.dry_run": ("off", switch),
    "sqlanon.intervals": ("off", switch),
}
SIMULATE = "sqlanon.simulate"


@dataclass
class Settings:
    """What a session has set. A transaction that is rolled back takes its settings back."""

    principal: str
    may_simulate: Callable[[str], bool] = lambda _: False
    most_epsilon: Callable[[], float] = lambda: float("inf")
    usual_epsilon: Callable[[], float | None] = lambda: None  # of a statement, where nothing is set
    values: dict[str, str] = field(default_factory=dict)
    starting: dict[str, str] = field(default_factory=dict)  # from the start of the connection: what RESET goes back to
    _before: dict[str, str] | None = None  # of the transaction
    _local: dict[str, str] = field(default_factory=dict)  # what SET LOCAL hides until the transaction ends
    _shown: tuple[dict[str, str], tuple[tuple[str, str], ...]] | None = None  # all of them, as they were last told

    def get(self, name: str) -> str:
        key = name.lower()
        if key in self.values:
            return self.values[key]
        if key == "session_authorization":
            return self.principal
        if key in FIXED:
            return FIXED[key]
        default = self._default(key)
        if default is None:
            raise _unknown(name)
        return default

    def show(self, name: str) -> str:
        """As SHOW writes it."""
        value = self.get(name)
        if name.lower() == "sqlanon.epsilon" and not value and (usual := self.usual_epsilon()) is not None:
            return f"{usual:g}"
        return with_unit(value) if name.lower() == "statement_timeout" else value

    def put(self, name: str, value: str | None, *, local: bool = False) -> None:
        key = name.lower()
        if len(value or "") > 1000:
            raise _invalid("it is too long")
        if value is not None and any(ord(sign) < 32 for sign in value):
            raise _invalid("it holds a control character")
        if local and self._before is None:
            return  # outside of a transaction it holds for no statement, as in PostgreSQL
        if key in FIXED or key == "session_authorization":
            raise Refused(f'parameter "{name[:60]}" cannot be changed', sqlstate="55P02")
        if self._default(key) is None:
            raise _unknown(name)
        if local:
            self._local.setdefault(key, self.values.get(key, ""))
        if value is None:
            self.values.pop(key, None)
            if key in self.starting:
                self.values[key] = self.starting[key]
        else:
            self.values[key] = self._checked(key, name, value)

    def _checked(self, key: str, name: str, value: str) -> str:
        if key == SIMULATE and not (value == "" or self.may_simulate(value)):
            raise Refused("only administrators may simulate a role of the policy", sqlstate="42501")
        if key == "sqlanon.epsilon" and _number(value) > self.most_epsilon():
            said = f"a statement may spend at most {self.most_epsilon():g}"
            raise Refused(f'invalid value for parameter "{name[:60]}"', hint=said, sqlstate="22023")
        if key not in CHECKED:
            return value
        try:
            return CHECKED[key][1](value)
        except Refused as error:
            said = f'invalid value for parameter "{name[:60]}"'
            raise Refused(said, hint=error.hint, sqlstate="22023") from None

    def _default(self, key: str) -> str | None:
        if key in self.starting:
            return self.starting[key]
        if key in CHECKED:
            return CHECKED[key][0]
        return "" if key == SIMULATE else FREE.get(key)

    def reset(self) -> None:
        self.values = dict(self.starting)

    def begin(self) -> None:
        self._before = dict(self.values)
        self._local = {}

    def commit(self) -> None:
        for key, old in self._local.items():
            if old:
                self.values[key] = old
            else:
                self.values.pop(key, None)
        self._before, self._local = None, {}

    def rollback(self) -> None:
        if self._before is not None:
            self.values = self._before
        self._before, self._local = None, {}

    def reported(self) -> dict[str, str]:
        return {name: self.get(name) for name in REPORTED}

    def all(self) -> tuple[tuple[str, str], ...]:
        now = self.values | {"sqlanon.epsilon": self.show("sqlanon.epsilon")}  # which a new policy may change
        if self._shown is None or self._shown[0] != now:
            names = {*FIXED, *FREE, *CHECKED, SIMULATE, "session_authorization"}
            self._shown = now, tuple(sorted((spell_setting(name), self.show(name)) for name in names))
        return self._shown[1]


def spell_setting(name: str) -> str:
    """A setting as PostgreSQL spells it: TimeZone, DateStyle, and most in small letters."""
    return _SPELLING.get(name.lower(), name.lower())


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return 0.0  # what it is told to be, its own check says


def _invalid(hint: str) -> Refused:
    return Refused("invalid value", hint=hint, sqlstate="22023")


def _unknown(name: str) -> Refused:
    known = [*FIXED, *FREE, *CHECKED]
    return Refused(
        f'unrecognized configuration parameter "{name[:60]}"', hint=did_you_mean(name, known), sqlstate="42704"
    )
