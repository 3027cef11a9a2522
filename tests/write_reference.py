"""Write examples/REFERENCE.md from the headers of plug-ins, the help of commands and the schema of policies, and
examples/python/REFERENCE.md from the docstrings of the public names.

    make reference

`test_reference_is_current` fails when a file differs from what this module writes.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import click
from pydantic import BaseModel

import sqlanon
from sqlanon import algorithms, hierarchies, transformations
from sqlanon.cli import main
from sqlanon.families import Plugin, family
from sqlanon.policy import json_schema
from sqlanon.policy.table_protection import METHODS

FILE = Path(__file__).parents[1] / "examples" / "REFERENCE.md"
PYTHON_FILE = FILE.parent / "python" / "REFERENCE.md"
FAMILIES = {
    "models": ("Privacy models", "Written under `models` in a policy. All of them must hold."),
    "history": ("Privacy models across releases", "Written under `models` in the section `history`."),
    "rules": ("Rules for unsafe cells", "Written under `rules` of a table in the section `statistics`."),
    "loss": ("Loss metrics", "Written as `minimize` in a policy; `sqlanon check --release` measures all of them."),
    "risk": ("Risk measures", "Measured by `sqlanon risk` and shown in the report."),
    "attacks": ("Attacks", "Run by `sqlanon attack` and shown in the report."),
    "utility": ("Measures of utility", "Measured by `sqlanon compare`."),
}
PROTECTION = (
    "Protection of tables",
    "Written under `protect` beside `statistics`; a policy takes one of them for all its tables.",
)
SECTIONS = ("statistics", "protect", "gateway", "serve", "marginals")
INTRODUCTION = """# Reference

Written by `make reference` from the headers of plug-ins, the help of commands and the schema of policies; a test fails
when it is not current. `sqlanon explain NAME` prints one page, with its SQL.
"""


def reference() -> str:
    """The whole file."""
    parts = [INTRODUCTION, *contents(), *commands(), *policy_keys()]
    for folder, (title, how) in FAMILIES.items():
        parts += [f"## {title}", how]
        # What makes a relation for other files of its family is no measure or attack by itself.
        parts += [page for plugin in family(folder).values() if not plugin.makes for page in plugin_page(plugin)]
    parts += [f"## {PROTECTION[0]}", PROTECTION[1]]
    parts += [page for name, settings in METHODS.items() for page in settings_page(name, settings)]
    parts += ["## Algorithms", "Written as `algorithm` in a policy."]
    parts += [page for name in algorithms.names() for page in module_page(name, algorithms.algorithm(name))]
    parts += ["## Transformations", "Written under `transformations` in a policy, in the order in which they run."]
    parts += [page for name in transformations.names() for page in module_page(name, transformations.method(name))]
    parts += ["## Hierarchies", "Written under `hierarchies` in a policy, one for each column."]
    parts += [page for name in hierarchies.names() for page in module_page(name, hierarchies.kind(name))]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def contents() -> Iterator[str]:
    titles = ["Commands", "Policy keys", *(title for title, _ in FAMILIES.values())]
    titles += [PROTECTION[0], "Algorithms", "Transformations", "Hierarchies"]
    yield "\n".join(f"- [{title}](#{title.lower().replace(' ', '-')})" for title in titles)


# ---- plug-ins


def plugin_page(plugin: Plugin) -> Iterator[str]:
    yield f"### {plugin.name}"
    yield plugin.summary
    facts = {"defined in": plugin.cite, "measures": plugin.measures, "monotone": plugin.monotone}
    facts["needs"] = ", ".join(plugin.needs)
    yield "\n".join(f"- {key}: {value}" for key, value in facts.items() if value)
    rows = []
    for param in plugin.params:
        given = "required" if param.required else "" if param.default is None else f"`{param.default}`"
        rows.append((f"`{param.name}`", f"{param.type} {param.bound_text()}".strip(), given, param.meaning))
    yield table(("parameter", "type", "default", "meaning"), rows)


def module_page(name: str, module: ModuleType) -> Iterator[str]:
    yield from text_page(name, (module.__doc__ or "").strip(), module.Params)


def settings_page(name: str, settings: type[BaseModel]) -> Iterator[str]:
    yield from text_page(f"{name} (tables)" if name in transformations.names() else name,
                         inspect.cleandoc(settings.__doc__ or ""), settings)  # fmt: skip


def text_page(name: str, text: str, params: type[BaseModel]) -> Iterator[str]:
    yield f"### {name}"
    yield code_blocks(text.replace("\ncite: ", "\n\n- defined in: "))
    schema = params.model_json_schema()
    rows = []
    for key, field in schema.get("properties", {}).items():
        given = "required" if key in schema.get("required", ()) else default(field)
        rows.append((f"`{key}`", given, field.get("description", "")))
    yield table(("parameter", "default", "meaning"), rows)


def code_blocks(text: str) -> str:
    """Lines that are indented become blocks of code: the text is a docstring, not Markdown."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        "```yaml\n" + "\n".join(line.removeprefix("    ") for line in paragraph.splitlines()) + "\n```"
        if paragraph.startswith("    ")
        else paragraph
        for paragraph in paragraphs
    )


def default(field: Mapping[str, Any]) -> str:
    return f"`{json.dumps(field['default'], ensure_ascii=False)}`" if field.get("default") is not None else ""


# ---- commands


def commands() -> Iterator[str]:
    yield "## Commands"
    yield (
        "`TARGET` is a policy file, a file of rows (Parquet, CSV, JSON, Excel, Feather) or a folder of them, a DuckDB "
        "file, or a `postgresql://` URL."
    )
    context = click.Context(main, info_name="sqlanon")
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        yield from command_page(command, f"sqlanon {name}")


def command_page(command: click.Command, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    yield f"### {name}"
    if not isinstance(command, click.Group):
        yield f"`{' '.join([name, *command.collect_usage_pieces(context)])}`"
    yield "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    records = [param.get_help_record(context) for param in command.params]
    yield table(
        ("option", "meaning"),
        [(f"`{record[0]}`", record[1]) for record in records if record is not None and record[0].startswith("-")],
    )
    if isinstance(command, click.Group):
        for part in command.list_commands(context):
            yield from command_page(command.commands[part], f"{name} {part}")


# ---- policies


def policy_keys() -> Iterator[str]:
    schema = json_schema()
    yield "## Policy keys"
    yield "`sqlanon schema` prints them as JSON Schema. `…` is a name that you choose, `[]` is each item of a list."
    sections = {"What is published": [name for name in schema["properties"] if name not in SECTIONS]}
    for title, names in (sections | {f"The section {name}": [name] for name in SECTIONS}).items():
        yield f"### {title}"
        rows = [row for name in names for row in keys(name, schema["properties"][name], schema["$defs"])]
        yield table(("key", "values", "default", "meaning"), rows)


def keys(path: str, field: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """A key of a policy, and those below it."""
    said = field.get("description", "")
    yield f"`{path}`", values(field), default(field), said
    for inner, below in parts(field, known):
        yield from keys(path + inner, below, known)


def parts(field: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What a key holds: the keys of a mapping, the items of a list."""
    if reference := field.get("$ref"):
        name = reference.rsplit("/", 1)[1]
        if not name.endswith("Use"):  # a plug-in with its parameters: they have pages of their own
            yield from parts(known[name], known)
        return
    for choice in field.get("anyOf", ()):
        yield from parts(choice, known)
    for name, below in field.get("properties", {}).items():
        yield f".{name}", below
    if isinstance(below := field.get("additionalProperties"), Mapping):
        yield from ((f".…{inner}", deeper) for inner, deeper in parts(below, known))
    if isinstance(below := field.get("items"), Mapping):
        yield from ((f"[]{inner}", deeper) for inner, deeper in parts(below, known))


def values(field: Mapping[str, Any]) -> str:
    choices = field.get("enum", [field["const"]] if "const" in field else [])
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    kinds = [field, *field.get("anyOf", ())]
    found = dict.fromkeys(str(kind["type"]) for kind in kinds if kind.get("type") not in (None, "null"))
    names = {"object": "mapping", "array": "list", "string": "text"}
    return ", ".join(names.get(kind, kind) for kind in found)


def table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table of Markdown; nothing for no rows."""
    if not rows:
        return ""
    lines = [titles, tuple("---" for _ in titles), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


# ---- Python

PYTHON_INTRODUCTION = """# Reference of the Python functions

Written by `make reference` from the docstrings; a test fails when it is not current. `help(sqlanon.anonymize)` shows
the same. The [guide](README.md) shows how they go together.
"""


def python_reference() -> str:
    """The public names of the package: functions first, then classes with what they offer."""
    objects = {name: getattr(sqlanon, name) for name in sqlanon.__all__ if name != "__version__"}
    # The package of that name passes calls on to the function.
    objects["gateway"] = import_module("sqlanon.dataframes.answer_sql").gateway
    parts = [PYTHON_INTRODUCTION, "## Functions"]
    parts += [page for name, item in objects.items() if not inspect.isclass(item) for page in function_page(name, item)]
    parts.append("## Classes")
    parts += [page for name, item in objects.items() if inspect.isclass(item) for page in class_page(name, item)]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def function_page(name: str, item: Any) -> Iterator[str]:
    yield f"### {name}"
    yield f"```python\n{signature(name, item)}\n```"
    yield docstring(item)


def class_page(name: str, item: type) -> Iterator[str]:
    yield f"### {name}"
    yield docstring(item)
    held = [key for key in getattr(item, "model_fields", getattr(item, "__dataclass_fields__", ())) if key[0] != "_"]
    if held:
        yield "It holds " + ", ".join(f"`{key}`" for key in held) + "."
    rows = []
    for key, member in vars(item).items():
        if key.startswith(("_", "model_")) or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        inner = member.fget if isinstance(member, property) else member
        said = " ".join((inspect.getdoc(inner) or "").split())
        if said:
            shown = key if isinstance(member, property) else signature(key, inner, short=True)
            rows.append((f"`{shown}`", said))
    yield table(("member", "meaning"), rows)


def signature(name: str, item: Any, *, short: bool = False) -> str:
    """How a function is called; the types are in its docstring, as far as they matter."""
    given = []
    star = False
    for param in inspect.signature(item).parameters.values():
        if param.name in ("self", "cls"):
            continue
        if param.kind is param.KEYWORD_ONLY and not star:
            given, star = [*given, "*"], True
        shown = {param.VAR_KEYWORD: "**", param.VAR_POSITIONAL: "*"}.get(param.kind, "") + param.name
        star = star or param.kind is param.VAR_POSITIONAL
        given.append(shown if param.default is param.empty else f"{shown}={param.default!r}")
    line = f"{name}({', '.join(given)})"
    if short or len(line) <= 100:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in given) + ")"


def docstring(item: Any) -> str:
    """Paragraphs as one line each; doctests are left to the tests."""
    paragraphs = (inspect.getdoc(item) or "").split("\n\n")
    plain = [" ".join(part.split()) for part in paragraphs if not part.lstrip().startswith(">>>")]
    return "\n\n".join(re.sub(r"<(?=[a-z])", "&lt;", part) for part in plain)


if __name__ == "__main__":
    for file, written in ((FILE, reference()), (PYTHON_FILE, python_reference())):
        file.write_text(written, encoding="utf-8")
        print(f"wrote {file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file}")
