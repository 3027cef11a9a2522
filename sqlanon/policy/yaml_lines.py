"""YAML with line numbers: plain data, where each part of it stands, and what is wrong with it.

Three readings of YAML would weaken a policy silently and are closed here: of two equal keys the last one
wins, `no` and `on` turn into booleans, and a column called 2024 or 1e3 turns into a number. Keys are always
the text that was written; so are the values for which the caller says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.policy.dates import DATE, date_of

KeyPath = tuple[str | int, ...]

# Far above any policy, far below what makes a reader of 1 MB of YAML, or of its expanded aliases, hang.
MAX_CHARACTERS = 1_000_000
MAX_ALIASES = 100
MAX_VALUES = 50_000
MAX_DEPTH = 40


@dataclass(frozen=True)
class PolicyProblem:
    """What is wrong, and what to do; it stands at a line, or at a path whose line is looked up."""

    message: str
    hint: str | None = None
    path: KeyPath = ()
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True)
class Origin:
    """Where a policy was written: file and lines, or command line options.

    No field takes part in comparison: two policies that ask for the same are equal wherever they stand.
    """

    name: str = field(default="policy", compare=False)
    base: Path = field(default=Path("."), compare=False)
    places: Mapping[KeyPath, int | str] = field(default_factory=dict, compare=False)

    def place(self, path: KeyPath) -> int | str | None:
        """The line, or the option, of the longest known part of a path."""
        for size in range(len(path), -1, -1):
            if path[:size] in self.places:
                return self.places[path[:size]]
        return None

    def line_of(self, *path: str | int) -> int | None:
        place = self.place(path)
        return place if isinstance(place, int) else None


@dataclass(frozen=True)
class YamlDocument:
    data: Any
    lines: Mapping[KeyPath, int]
    problems: tuple[PolicyProblem, ...]


def report(problems: Iterable[PolicyProblem], origin: Origin) -> PolicyError:
    """One error for all problems, in the order of the lines."""
    placed = [(problem.line or origin.line_of(*problem.path) or 0, problem) for problem in problems]
    placed.sort(key=lambda pair: (pair[0], pair[1].column or 0))
    errors = [
        PolicyError(
            _prefix(problem, line, origin) + _on_one_line(problem.message),
            hint=_on_one_line(problem.hint) if problem.hint else None,
        )
        for line, problem in placed
    ]
    if len(errors) == 1:
        return errors[0]
    lines = [str(error) for error in errors]
    return PolicyError("\n".join([*lines, f"{len(errors)} problems in {origin.name}"]))


def _prefix(problem: PolicyProblem, line: int, origin: Origin) -> str:
    if line:
        return f"{origin.name}:{line}:{problem.column}: " if problem.column else f"{origin.name}:{line}: "
    place = origin.place(problem.path)
    return f"{place}: " if place else ""


def _on_one_line(text: str) -> str:
    # A key may hold line breaks or terminal codes: an error must not be able to forge another one.
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= 400 else shown[:397] + "..."


def text_of(file: Path) -> str:
    """The text of a policy file."""
    try:
        content = file.read_bytes()
    except (OSError, ValueError) as error:
        raise _unreadable(file, error) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"the byte 0x{content[error.start]:02x} is not UTF-8"
        problem = PolicyProblem(message, "save the file as UTF-8", line=content.count(b"\n", 0, error.start) + 1)
        raise report([problem], Origin(file.name)) from None


def _unreadable(file: Path, error: Exception) -> PolicyError:
    hint = "give the path of a policy file"
    match error:
        case FileNotFoundError() | NotADirectoryError():
            said, near = f"there is no file '{file}'", did_you_mean(file.name, _policies_in(file.parent))
        case IsADirectoryError():
            inside = _policies_in(file)
            said, near = f"'{file}' is a folder", f"did you mean '{file / inside[0]}'?" if inside else None
        case PermissionError():
            said, near = f"'{file}' may not be read", "check the permissions of the file"
        case _:
            said, near = f"'{file}' cannot be read", None
    return PolicyError(_on_one_line(said), hint=_on_one_line(near or hint))


def _policies_in(folder: Path) -> list[str]:
    try:
        return sorted(file.name for file in folder.iterdir() if file.suffix in (".yml", ".yaml"))
    except (OSError, ValueError):
        return []


class _Loader(yaml.SafeLoader):
    """Composes nodes only; nothing is ever constructed from a tag."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own name, filled below

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.aliases = 0
        self.depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.aliases += self.check_event(yaml.AliasEvent)
        self.depth += 1
        if self.aliases > MAX_ALIASES:
            raise _refusal(
                f"more than {MAX_ALIASES} aliases ('*name')",
                "write the values out",
                self.current_event.start_mark,
            )
        if self.depth > MAX_DEPTH:
            raise _refusal(
                f"more than {MAX_DEPTH} levels of nesting",
                "close the brackets",
                self.current_event.start_mark,
            )
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


_TAG = "tag:yaml.org,2002:"
# The core schema of YAML 1.2, but decimal only: 0x1F, 0o17 and 007 are more often codes than numbers.
_SCALARS: tuple[tuple[str, str, list[str]], ...] = (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^[-+]?(?:0|[1-9][0-9]{0,17})$", list("-+0123456789")),
    (
        "float",
        r"^(?:[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|[-+]?\.[0-9]+(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        list("-+.0123456789"),
    ),
)
for _name, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(_pattern), _first)
# Not YAML's own tag, for a date is a date only where the caller says so, and between quotes it is text.
_DATE_TAG = "sqlanon:date"
_Loader.add_implicit_resolver(_DATE_TAG, re.compile(f"^(?:{DATE.pattern})$"), list("0123456789"))


def _never(path: KeyPath) -> bool:
    return False


def read_yaml(
    text: str, verbatim: Callable[[KeyPath], bool] = _never, dated: Callable[[KeyPath], bool] = _never
) -> YamlDocument:
    """Read one document; `verbatim` says at which paths a scalar stays the text that was written.

    `dated` says at which paths a plain 2024-01-31 is a date; elsewhere it is text.

    >>> read_yaml("on: yes\\n2024: 1e3").data
    {'on': 'yes', '2024': 1000.0}
    """
    if len(text) > MAX_CHARACTERS:
        return _failed(
            PolicyProblem(f"the file is longer than {MAX_CHARACTERS:,} characters", "leave data out of it", line=1)
        )
    if found := yaml.reader.Reader.NON_PRINTABLE.search(text):
        before = text[: found.start()]
        code = f"U+{ord(found.group()):04X}"
        return _failed(
            PolicyProblem(
                f"the character {code} is not allowed",
                "remove it, or write it as an escape between double quotes",
                line=before.count("\n") + 1,
                column=len(before) - before.rfind("\n"),
            )
        )
    reader = _Reader(verbatim, dated)
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
        except (ValueError, OverflowError):
            # PyYAML passes an escape such as "\UFFFFFFFF" to chr() unchecked.
            raise _refusal("an escape or number out of range", "use single quotes", loader.get_mark()) from None
        data = None if node is None else reader.value(node, ())
    except yaml.MarkedYAMLError as error:
        return _failed(_syntax_problem(error))
    return YamlDocument(data, {(): 1, **reader.lines}, tuple(reader.problems))


def _failed(problem: PolicyProblem) -> YamlDocument:
    return YamlDocument(None, {(): 1}, (problem,))


class _Reader:
    """Turns nodes into plain data, and remembers the line of each path."""

    def __init__(self, verbatim: Callable[[KeyPath], bool], dated: Callable[[KeyPath], bool]) -> None:
        self.verbatim = verbatim
        self.dated = dated
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[PolicyProblem] = []
        self.values = 0
        self.open: list[yaml.Node] = []

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        self.values += 1
        if self.values > MAX_VALUES:
            raise _refusal(
                f"more than {MAX_VALUES:,} values, counting aliases", "write the values out", node.start_mark
            )
        if any(node is parent for parent in self.open):
            raise _refusal("an alias that contains itself", "write the values out", node.start_mark)
        self.lines.setdefault(path, _line(node))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        self._check_tag(node, "map" if isinstance(node, yaml.MappingNode) else "seq")
        self.open.append(node)
        if isinstance(node, yaml.MappingNode):
            data: Any = self._mapping(node, path)
        else:
            data = [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        self.open.pop()
        return data

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key is None:
                continue
            here = (*path, key)
            if key in data:
                first = self.lines[here]
                self._add(f"'{key}' is given twice", f"the first is on line {first}; keep one", key_node)
                continue
            self.lines[here] = _line(key_node)
            data[key] = self.value(value_node, here)
        return data

    def _key(self, node: yaml.Node) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            hint = "quote text that begins with { or ["
            self._add("a key must be text, not a list or a mapping", hint, node)
        elif not node.value:
            self._add("a key is empty", "write a name before the ':'", node)
        elif node.value == "<<" and node.style is None:
            self._add("merge keys ('<<') are not read", "write the keys out", node)
        else:
            return str(node.value)
        return None

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        text: str = node.value
        kind = node.tag.removeprefix(_TAG)
        if kind == "null":
            return None
        if kind == "str" or (kind in ("bool", "int", "float") and self.verbatim(path)):
            return text
        if kind == _DATE_TAG:
            return self._date(node) if self.dated(path) else text
        try:
            if kind == "bool":
                return {"true": True, "false": False}[text.lower()]
            if kind in ("int", "float"):
                return int(text) if kind == "int" else float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
        except (KeyError, ValueError):
            pass
        self._refuse_tag(node)
        return text

    def _date(self, node: yaml.ScalarNode) -> Any:
        found = date_of(node.value)
        if found is None:
            self._add(f"there is no date {node.value}", "check the day and the month; quotes make it text", node)
        return found or node.value

    def _check_tag(self, node: yaml.Node, kind: str) -> None:
        if node.tag != _TAG + kind:
            self._refuse_tag(node)

    def _refuse_tag(self, node: yaml.Node) -> None:
        shown = node.tag.replace(_TAG, "!!")
        self._add(f"the tag '{shown}' does not fit here", "remove the tag, or quote the text", node)

    def _add(self, message: str, hint: str, node: yaml.Node) -> None:
        self.problems.append(PolicyProblem(message, hint, line=_line(node)))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _refusal(what: str, hint: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=f"the file has {what}", problem_mark=mark, note=hint)


# What PyYAML says, what we say, and what to do.
_PLAIN: tuple[tuple[str, str, str], ...] = (
    (r"character '\t'", "a tab cannot indent or begin a value", "use spaces"),
    ("cannot start any token", "a value cannot begin with this character", "put the value in quotes"),
    (
        "mapping values are",
        "a ':' is not allowed here",
        "quote ': ' in text, or add a ':' to the line before",
    ),
    ("find expected ':'", "a ':' is missing after this key", "write 'key: value'"),
    (
        "expected <block end>",
        "the indentation does not fit the lines above",
        "indent keys of a mapping alike",
    ),
    ("entries are not allowed", "a '-' is not allowed here", "begin each item of a list on its own line"),
    ("expected ',' or ']'", "a list in '[' is not closed or lacks a ','", "close it with ']'"),
    ("expected ',' or '}'", "a mapping in '{' is not closed or lacks a ','", "close it with '}'"),
    ("unexpected end of stream", "a quoted text is not closed", "close it with the same quote"),
    ("unknown escape", "unknown escape after a backslash", "use single quotes, or write the backslash twice"),
    ("undefined alias", "this alias ('*name') has no anchor ('&name')", "quote text that begins with *"),
    ("second occurrence", "this anchor ('&name') is given twice", "rename one of them"),
    ("another document", "the file holds more than one document", "keep one policy in a file, without '---'"),
    ("undefined tag handle", "this tag is not known", "quote text that begins with !"),
    ("document start", "the text after the policy cannot be read", "indent keys of a mapping alike"),
)
# For these the useful place is where the construct began, not where the reader gave up.
_BEGAN_EARLIER = (
    "find expected ':'",
    "expected ',' or ']'",
    "expected ',' or '}'",
    "unexpected end of stream",
)


def _syntax_problem(error: yaml.MarkedYAMLError) -> PolicyProblem:
    said = error.problem or error.context or ""
    message, hint = said, error.note
    if hint is None:
        message, hint = f"this is not YAML: {re.sub('[<>]', '', said)}", "compare with the lines above"
    for words, plain, advice in _PLAIN:
        if words in said:
            message, hint = plain, advice
            break
    marks = [error.problem_mark, error.context_mark]
    if any(words in said for words in _BEGAN_EARLIER):
        marks.reverse()
    mark = marks[0] or marks[1]
    if mark is None:
        return PolicyProblem(message, hint, line=1)
    return PolicyProblem(message, hint, line=mark.line + 1, column=mark.column + 1)
