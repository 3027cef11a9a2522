"""What a statement asks of a session: a command that the server itself obeys, or a question for a worker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sqlanon.server.work_messages import CopyOptions


@dataclass(frozen=True)
class Question:
    """A SELECT, or EXPLAIN of one: the text as it was written."""

    text: str
    route: Literal["query", "catalog"]
    intervals: bool = False  # error bars are wanted, as columns of their own


@dataclass(frozen=True)
class Copy:
    question: Question
    options: CopyOptions
    header: bool = False


@dataclass(frozen=True)
class Transaction:
    """begin, commit, rollback, savepoint, release, rollback to; `chain` begins anew at once."""

    verb: str
    name: str = ""  # of a savepoint; of a beginning its tag, if it has one of its own
    chain: bool = False
    isolation: str = ""


@dataclass(frozen=True)
class Set:
    name: str
    value: str | None  # None: the default
    local: bool = False


@dataclass(frozen=True)
class SettingCall:
    """One column of a SELECT of settings: set_config(name, value, local), or current_setting(name, missing_ok)."""

    function: str
    arguments: tuple[str | int, ...]  # an integer is the number of a parameter
    label: str  # of the column


@dataclass(frozen=True)
class SelectSettings:
    """A SELECT that changes settings: its only row has their values, read and changed from the left to the right."""

    calls: tuple[SettingCall, ...]
    values: tuple[str | bool | None, ...] = ()  # of the parameters

    @property
    def parameters(self) -> tuple[str, ...]:
        """The types of the parameters: the last argument is a boolean, all others are text."""
        found: dict[int, str] = {}
        for call in self.calls:
            for place, argument in enumerate(call.arguments):
                if isinstance(argument, int):
                    last = place == (2 if call.function == "set_config" else 1)
                    found[argument] = "bool" if last and found.get(argument) != "text" else "text"
        return tuple(found.get(number, "text") for number in range(1, max(found, default=0) + 1))

    def given(self, call: SettingCall) -> list[str | bool | None]:
        """The arguments of a call, with the values of parameters in them."""
        return [self.values[each - 1] if isinstance(each, int) else each for each in call.arguments]


@dataclass(frozen=True)
class Reset:
    name: str  # or "all"


@dataclass(frozen=True)
class Show:
    name: str


@dataclass(frozen=True)
class Discard:
    what: str


@dataclass(frozen=True)
class Declare:
    cursor: str
    question: Question
    hold: bool
    binary: bool


@dataclass(frozen=True)
class Fetch:
    cursor: str
    count: int | None  # None: all
    move: bool = False


@dataclass(frozen=True)
class CloseCommand:
    cursor: str | None  # None: all


@dataclass(frozen=True)
class Prepare:
    name: str
    types: tuple[str, ...]
    question: Question


@dataclass(frozen=True)
class ExecuteCommand:
    name: str
    arguments: tuple[str | None, ...]


@dataclass(frozen=True)
class Deallocate:
    name: str | None  # None: all


@dataclass(frozen=True)
class Nothing:
    """A command that changes nothing here and that clients send all the same."""

    tag: str


@dataclass(frozen=True)
class OwnerCommand:
    """A statement of an owner: policies as SQL, and the relations of the schema sqlanon."""

    text: str
    options: tuple[str, ...] = ()  # SET statements that hold for it
    rows: bool = False
    looks_up: bool = False


@dataclass(frozen=True)
class OwnerOption:
    """SET or RESET of an option of the views that an owner creates in this session."""

    name: str
    text: str | None  # the statement; None takes the option back


Command = (
    OwnerCommand | OwnerOption | Question | Copy | Transaction | Set | SelectSettings | Reset | Show | Discard | Declare
    | Fetch | CloseCommand | Prepare | ExecuteCommand | Deallocate | Nothing
)  # fmt: skip


def with_intervals(command: Command) -> Command:
    """The same with error bars, where a question is about data."""
    if isinstance(command, Question):
        return replace(command, intervals=command.route == "query")
    if isinstance(command, Copy | Declare | Prepare):
        asked = command.question
        return replace(command, question=replace(asked, intervals=asked.route == "query"))
    return command
