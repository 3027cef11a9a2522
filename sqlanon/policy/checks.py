"""What the parts of a policy say about each other: roles, qids, hierarchies, models and the release.

The checks read the policy as it was written, broken parts included, so that one wrong key does not hide the
next problem. A part that cannot be read is left out; its own error is reported elsewhere.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from pydantic import ValidationError

from sqlanon import hierarchies
from sqlanon.errors import did_you_mean
from sqlanon.families import SHAPES, Plugin, family, load_module, module_names
from sqlanon.policy import shape
from sqlanon.policy.file_formats import ENDINGS, SOURCES, describe_other_format, ending_of
from sqlanon.policy.yaml_lines import KeyPath, Origin, PolicyProblem

Role = Literal["identifier", "quasi_identifier", "sensitive", "insensitive", "item", "time", "place", "stay"]
ROLES: tuple[str, ...] = get_args(Role)


@dataclass(frozen=True)
class Draft:
    """A policy as written; each method gives an empty answer for a part that cannot be read."""

    data: Mapping[str, Any]
    origin: Origin

    def mapping(self, *path: str) -> Mapping[str, Any]:
        found: Any = self.data
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found if isinstance(found, Mapping) else {}

    def roles(self) -> dict[str, str | None]:
        """Declared columns; None where the role cannot be read."""
        columns = self.mapping("columns").items()
        given = {name: value.get("role") if isinstance(value, Mapping) else value for name, value in columns}
        return {name: role if role in ROLES else None for name, role in given.items()}

    def with_role(self, role: str) -> list[str]:
        """Columns that have the role, or could have it once their role is spelled right."""
        return [name for name, given in self.roles().items() if given in (role, None)]

    def person(self) -> str | None:
        person = self.data.get("person")
        return person if isinstance(person, str) else None

    def shape(self) -> str:
        """What the rows of a person are together; "rows" where that cannot be read, which another check tells."""
        given = self.data.get("shape", SHAPES[0])
        return given if given in SHAPES else SHAPES[0]

    def model_items(self) -> list[Any]:
        models = self.data.get("models")
        return models if isinstance(models, list) else []


def problems(draft: Draft) -> Iterator[PolicyProblem]:
    for check in CHECKS:
        yield from check(draft)


def empty_values(draft: Draft) -> Iterator[PolicyProblem]:
    """An empty 'person:' reads as if it were not there, and would weaken the policy."""
    for key, value in draft.data.items():
        yield from _empty_below(value, (key,))


def _empty_below(value: Any, path: KeyPath) -> Iterator[PolicyProblem]:
    if value is None:
        hint = f"give it a role: {', '.join(ROLES)}" if path[0] == "columns" else "give it a value, or remove it"
        if len(path) == 3 and path[:2] in (("gateway", "tables"), ("gateway", "principals")):
            hint = "write '{}' if there is nothing to say about it"
        yield PolicyProblem(f"{shape.label_of(path)} has no value", hint, path)
    elif path[0] in ("models", "hierarchies", "transformations"):
        return  # below these, nothing stands for "no parameters"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _empty_below(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _empty_below(item, (*path, index))


def check_population(draft: Draft) -> Iterator[PolicyProblem]:
    if "database" in draft.mapping("population"):
        message = "the population is in the database of the source"
        yield PolicyProblem(message, "leave 'database' out", ("population", "database"))


def check_person(draft: Draft) -> Iterator[PolicyProblem]:
    role = draft.roles().get(draft.person() or "")
    if role not in (None, "identifier"):
        hint = "make it an identifier, or leave it out of columns"
        yield PolicyProblem(f"the person column '{draft.person()}' cannot be {role}", hint, ("person",))


def check_pseudonyms(draft: Draft) -> Iterator[PolicyProblem]:
    for name, given in draft.mapping("columns").items():
        hashed = isinstance(given, Mapping) and given.get("pseudonym") is True
        if hashed and given.get("role") != "identifier":
            yield PolicyProblem(
                f"column '{name}' has a pseudonym but is no identifier",
                "give it the role identifier, or leave 'pseudonym' out",
                ("columns", name, "pseudonym"),
            )


def check_qids(draft: Draft) -> Iterator[PolicyProblem]:
    qids = draft.mapping("qids")
    found: list[PolicyProblem] = []
    for name, columns in qids.items():
        if isinstance(columns, list):
            found += _check_qid(draft, columns, f"qid '{name}'", ("qids", name))
    yield from found
    if qids and all(isinstance(columns, list) and columns for columns in qids.values()) and not found:
        yield from _check_uncovered(draft)


def _check_qid(draft: Draft, columns: Sequence[Any], owner: str, path: KeyPath) -> Iterator[PolicyProblem]:
    roles = draft.roles()
    for index, column in enumerate(columns):
        here = (*path, index)
        if not isinstance(column, str):
            continue  # the shape of the list is checked elsewhere
        if column in columns[:index]:
            yield PolicyProblem(f"{owner} has the column '{column}' twice", "keep one", here)
        elif roles and column not in roles:
            hint = did_you_mean(column, draft.with_role("quasi_identifier"))
            hint = hint or "declare it under columns as quasi_identifier"
            yield PolicyProblem(f"{owner} has the column '{column}', which is not declared", hint, here)
        elif (role := roles.get(column)) not in (None, "quasi_identifier"):
            hint = "make it a quasi_identifier, or take it out"
            yield PolicyProblem(f"{owner} has the column '{column}', which is {role}", hint, here)


def _check_uncovered(draft: Draft) -> Iterator[PolicyProblem]:
    """With named qids, a quasi-identifier that is in none of them would be released unprotected."""
    covered: set[Any] = set()
    uses = [use for item in draft.model_items() if isinstance(item, Mapping) for use in item.values()]
    lists = [value for use in uses if isinstance(use, Mapping) for value in use.values()]
    for columns in (*draft.mapping("qids").values(), *lists):
        covered |= {c for c in columns if isinstance(c, str)} if isinstance(columns, list) else set()
    for column, role in draft.roles().items():
        if role == "quasi_identifier" and column not in covered:
            hint = "add it to a qid, or give it another role"
            yield PolicyProblem(f"the quasi_identifier '{column}' is in no qid", hint, ("columns", column))


def check_hierarchies(draft: Draft) -> Iterator[PolicyProblem]:
    roles = draft.roles()
    for column, given in draft.mapping("hierarchies").items():
        path = ("hierarchies", column)
        if roles and column not in roles:
            hint = did_you_mean(column, roles) or "declare it under columns"
            yield PolicyProblem(f"hierarchy for '{column}', which is not a declared column", hint, path)
        elif roles.get(column) == "identifier":
            hint = "remove the hierarchy, or change the role"
            yield PolicyProblem(f"hierarchy for '{column}', but an identifier is never released", hint, path)
        yield from _check_hierarchy(given, path)


def _check_hierarchy(given: Any, path: KeyPath) -> Iterator[PolicyProblem]:
    kinds = hierarchies.names()
    names = ", ".join(kinds)
    if not isinstance(given, Mapping) or len(given) != 1:
        many = f"{len(given)} kinds" if isinstance(given, Mapping) and given else shape.describe(given)
        message = f"a hierarchy is one kind with its parameters, not {'nothing' if given == {} else many}"
        yield PolicyProblem(message, f"write 'kind: {{…}}'; the kinds are {names}", path)
        return
    kind, params = next(iter(given.items()))
    if kind not in kinds:
        hint = did_you_mean(kind, kinds) or f"the kinds are {names}"
        yield PolicyProblem(f"unknown kind of hierarchy '{kind}'", hint, (*path, kind))
        return
    model = hierarchies.kind(kind).Params
    try:
        model.model_validate({} if params is None else params)
    except ValidationError as error:
        yield from shape.problems(error, model, params, (*path, kind))


def check_minimize(draft: Draft) -> Iterator[PolicyProblem]:
    name, known = draft.data.get("minimize"), family("loss")
    if isinstance(name, str) and known and name not in known:
        hint = did_you_mean(name, known) or f"it is one of {', '.join(known)}"
        yield PolicyProblem(f"unknown loss metric '{name}'", hint, ("minimize",))


def check_file_formats(draft: Draft) -> Iterator[PolicyProblem]:
    """A file in a format that is not read or written: better now than after the search."""
    for part in ("source", "population"):
        path = draft.mapping(part).get("path")
        if not isinstance(path, str) or ending_of(path) in ("", *SOURCES) or (draft.origin.base / path).is_dir():
            continue
        message, hint = describe_other_format(path)
        yield PolicyProblem(message, hint, (part, "path"))
    path = draft.mapping("release").get("path")
    if isinstance(path, str) and "://" in path:
        hint = "give a path on this machine, and copy the release from there"
        yield PolicyProblem(
            f"the release '{path}' would lie elsewhere: a file is written on this machine", hint, ("release", "path")
        )
    elif isinstance(path, str) and not path.endswith("/") and not path.lower().endswith(ENDINGS):
        hint = f"end it in {' or '.join(ENDINGS)}, or in / for a folder with one file a version"
        yield PolicyProblem(
            f"the release '{path}' would be neither a Parquet nor a CSV file", hint, ("release", "path")
        )


def check_algorithm(draft: Draft) -> Iterator[PolicyProblem]:
    """A misspelt algorithm, or one of its parameters: also for commands that do not run it."""
    given = draft.data.get("algorithm")
    if isinstance(given, Mapping) and len(given) == 1:
        name, params = next(iter(given.items()))
    else:
        name, params = given, None
    if not isinstance(name, str):
        return
    path: KeyPath = ("algorithm", name) if isinstance(given, Mapping) else ("algorithm",)
    known = module_names("algorithms")
    if name not in known:
        hint = did_you_mean(name, known) or f"the algorithms are {', '.join(known)}"
        yield PolicyProblem(f"unknown algorithm '{name}'", hint, path)
        return
    params = params or {}  # some have parameters that must be given
    if not isinstance(params, Mapping):
        yield PolicyProblem(f"{name}: the parameters must be a mapping, not {shape.describe(params)}", None, path)
        return
    module = load_module("algorithms", name)
    try:
        read = module.Params.model_validate(params)
    except ValidationError as error:
        yield from shape.problems(error, module.Params, params, path)
        return
    target = read.model_dump().get(module.TRAITS.target)
    if target and draft.roles() and target not in draft.roles():
        hint = did_you_mean(target, draft.roles()) or "give it a role under 'columns'"
        yield PolicyProblem(f"the class attribute '{target}' is no column of the policy", hint, path)


def check_release(draft: Draft) -> Iterator[PolicyProblem]:
    """Writing over what is read would destroy the original, and check a release against itself."""
    joins = draft.mapping("source").get("joins")
    read = [draft.mapping("source"), draft.mapping("population")]
    read += [join for join in joins if isinstance(join, Mapping)] if isinstance(joins, list) else []
    tables = {table_key(part[key]) for part in read for key in ("table", "view") if isinstance(part.get(key), str)}
    paths = [part["path"] for part in read if isinstance(part.get("path"), str)]
    for key, target in draft.mapping("release").items():
        if not isinstance(target, str):
            continue
        if key in ("table", "view") and table_key(target) in tables:
            hint = "give the release a name of its own"
            yield PolicyProblem(f"the release '{target}' would replace a table that is read", hint, ("release", key))
        elif key == "path" and any(_covers(path, target) for path in paths):
            hint = "write to another folder"
            yield PolicyProblem(f"the release '{target}' would replace a file that is read", hint, ("release", key))


def table_key(name: str) -> str:
    """What two names of one table have in common."""
    # Unquoted names are folded, and the default schema may be left out: take two names for one when in doubt.
    folded = name.replace('"', "").casefold()
    return folded.removeprefix("main.").removeprefix("public.")


def _covers(source: str, target: str) -> bool:
    """Whether a path that is read (file, folder or glob) takes in the target.

    >>> _covers("data/*.csv", "./data/out.csv"), _covers("data", "data/out.csv"), _covers("data", "out.csv")
    (True, True, False)
    >>> _covers("data/**/*.csv", "data/out.csv"), _covers("data/**/*.csv", "data/a/b/out.csv")
    (True, True)
    >>> _covers("out/data.csv", "out/"), _covers("output.csv", "out/")
    (True, False)
    """
    read, written = posixpath.normpath(source), posixpath.normpath(target)
    matches = fnmatchcase(written, read) or fnmatchcase(written, read.replace("**/", ""))
    inside = target.endswith("/") and read.startswith(written + "/")
    return written == read or written.startswith(read + "/") or inside or matches


def check_models(draft: Draft) -> Iterator[PolicyProblem]:
    seen: dict[str, int] = {}
    for index, item in enumerate(draft.model_items()):
        found = list(_check_model(draft, item, index))
        yield from found
        if found:
            continue
        name, given = next(iter(item.items()))
        filled = family("models")[name].filled(given or {})
        key = json.dumps([name, filled, _reserved(given)], sort_keys=True, default=str)
        if key in seen:
            line = draft.origin.line_of("models", seen[key], name)
            hint = f"the first is on line {line}; keep one" if line else "keep one"
            yield PolicyProblem(f"{name} is asked for twice in the same way", hint, ("models", index, name))
        seen.setdefault(key, index)


def _reserved(given: Any) -> dict[str, Any]:
    return {key: given[key] for key in ("attribute", "qid") if key in (given or {})}


def _check_model(draft: Draft, item: Any, index: int) -> Iterator[PolicyProblem]:
    path: KeyPath = ("models", index)
    if not isinstance(item, Mapping):
        hint = "write a model as '- k_anonymity: {k: 5}'"
        yield PolicyProblem(f"a model is a name with its parameters, not {shape.describe(item)}", hint, path)
        return
    if len(item) != 1:
        hint = "begin each model with '- ', and indent its parameters below it"
        names = f": it has {', '.join(map(repr, item))}" if item else ", it is empty"
        yield PolicyProblem(f"item {index + 1} of 'models' must have one model{names}", hint, path)
        return
    name, given = next(iter(item.items()))
    path = (*path, name)
    known = family("models")
    if name not in known:
        hint = did_you_mean(name, known) or "'sqlanon models' lists every privacy model"
        yield PolicyProblem(f"unknown privacy model '{name}'", hint, path)
    elif given is not None and not isinstance(given, Mapping):
        hint = f"write '- {name}: {{parameter: value}}'"
        yield PolicyProblem(f"{name} takes a mapping of parameters, not {shape.describe(given)}", hint, path)
    else:
        plugin = known[name]
        params = {key: value for key, value in (given or {}).items() if key not in ("attribute", "qid")}
        yield from _check_params(plugin, params, path)
        yield from _check_reserved(draft, name, given or {}, path)
        yield from _check_column_params(draft, plugin, params, path)
        yield from _check_needs(draft, plugin, given or {}, path)


def _check_params(plugin: Plugin, params: Mapping[str, Any], path: KeyPath) -> Iterator[PolicyProblem]:
    takes = [*(param.name for param in plugin.params), "attribute", "qid"]
    for key, message, hint in plugin.problems(params):
        if key and plugin.param(key) is None:
            hint = did_you_mean(key, takes) or f"it takes {', '.join(takes)}"
        yield PolicyProblem(message, hint, (*path, key) if key else path)


def _check_reserved(draft: Draft, name: str, given: Mapping[str, Any], path: KeyPath) -> Iterator[PolicyProblem]:
    attribute, here = given.get("attribute"), (*path, "attribute")
    sensitive = draft.with_role("sensitive")
    if "attribute" in given and not isinstance(attribute, str):
        message = f"{name}: 'attribute' must be a sensitive column, not {shape.describe(attribute)}"
        yield PolicyProblem(message, "for several columns, ask for the model several times", here)
    elif isinstance(attribute, str) and draft.roles() and attribute not in sensitive:
        role = draft.roles().get(attribute)
        is_not = f"is {role}, not sensitive" if role else "is not a declared column"
        hint = did_you_mean(attribute, sensitive) or (
            f"the sensitive columns are {', '.join(sensitive)}" if sensitive else "no column is sensitive"
        )
        yield PolicyProblem(f"{name}: attribute '{attribute}' {is_not}", hint, here)
    if "qid" in given:
        yield from _check_model_qid(draft, name, given["qid"], (*path, "qid"))


def _check_model_qid(draft: Draft, name: str, qid: Any, path: KeyPath) -> Iterator[PolicyProblem]:
    known = draft.mapping("qids")
    if isinstance(qid, list) and qid and all(isinstance(column, str) for column in qid):
        yield from _check_qid(draft, qid, f"{name}: qid", path)
    elif not isinstance(qid, str):
        message = f"{name}: 'qid' must be a name under qids or a list of columns"
        yield PolicyProblem(f"{message}, not {'an empty list' if qid == [] else shape.describe(qid)}", None, path)
    elif qid not in known:
        hint = f"for one column write 'qid: [{qid}]'" if qid in draft.roles() else did_you_mean(qid, known)
        hint = hint or (f"the qids are {', '.join(known)}" if known else "declare it under qids, or list its columns")
        yield PolicyProblem(f"{name}: unknown qid '{qid}'", hint, path)


def _check_column_params(
    draft: Draft, plugin: Plugin, params: Mapping[str, Any], path: KeyPath
) -> Iterator[PolicyProblem]:
    declared = [*draft.roles(), *filter(None, [draft.person()])]
    for param in plugin.params:
        given = params.get(param.name)
        if given is None or param.problem(given) or not draft.roles():
            continue
        for index, column in enumerate(param.columns_in(given)):
            if column not in declared:
                hint = did_you_mean(str(column), declared) or "declare it under columns"
                message = f"{plugin.name}: column '{column}' of '{param.name}' is not declared"
                below: KeyPath = (index,) if param.type == "columns" else ()
                yield PolicyProblem(message, hint, (*path, param.name, *below))


def _check_needs(draft: Draft, plugin: Plugin, given: Mapping[str, Any], path: KeyPath) -> Iterator[PolicyProblem]:
    if not draft.roles():
        return
    sensitive = draft.with_role("sensitive")
    lacks: Iterable[tuple[str, bool, str, str]] = (
        ("sensitive", not sensitive, "a sensitive column", "give a column the role sensitive"),
        ("population", "population" not in draft.data, "a population", "add 'population: {table: …}'"),
        ("person", "person" not in draft.data, "a person column", "add 'person: …'"),
        (
            "joins",
            not draft.mapping("source").get("joins"),
            "child tables",
            "list them under 'joins' of source",
        ),
    )
    for need, lacking, what, hint in lacks:
        if need in plugin.needs and lacking:
            yield PolicyProblem(f"{plugin.name} needs {what}, none is declared", hint, path)
    if "hierarchy" in plugin.needs:
        attributes = [given["attribute"]] if isinstance(given.get("attribute"), str) else sensitive
        for name in attributes:
            if name in sensitive and name not in draft.mapping("hierarchies"):
                yield PolicyProblem(f"{plugin.name} needs a hierarchy for '{name}'", "add it under hierarchies", path)
    # Without quasi-identifiers all rows are one class, and every model holds without protecting anybody.
    own_classes = "combinations" in plugin.needs or any(param.type == "columns" for param in plugin.params)
    if draft.shape() == SHAPES[0] in plugin.shapes and not own_classes and not draft.with_role("quasi_identifier"):
        hint = "give the columns that an attacker may know the role quasi_identifier"
        yield PolicyProblem(f"{plugin.name} needs a quasi_identifier column, none is declared", hint, path)


CHECKS: tuple[Callable[[Draft], Iterator[PolicyProblem]], ...] = (
    check_population,
    check_person,
    check_pseudonyms,
    check_qids,
    check_hierarchies,
    check_models,
    check_minimize,
    check_algorithm,
    check_file_formats,
    check_release,
)
