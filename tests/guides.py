"""Guides are programs: reads the sessions of a guide, runs them, and compares what is printed with what is shown.

A block that is marked `console` is a session. A line that begins with `$ ` is a command, the lines below it are its
output. `…` stands for any text. A command must end with exit code 0, unless `$ echo $?` follows and shows the code.
A block that is marked `yaml` is a file of the guide's folder, and begins with its name. A block that is marked `yml` is
a part of one: its keys take the place of those of the file that its first line names.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from click.testing import CliRunner

from sqlanon.cli import main

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


@dataclass(frozen=True)
class Step:
    """A command of a session, and what the guide shows below it."""

    words: tuple[str, ...]
    shown: str
    place: str  # the guide, and the line of the command

    @property
    def program(self) -> str:
        return self.words[0]


def guide(topic: str) -> Path:
    """The page of a topic; the README of the project for an empty one."""
    return EXAMPLES / topic / "README.md" if topic else ROOT / "README.md"


def topics() -> list[str]:
    """The guides, by the names of their folders."""
    return sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())


def blocks(text: str, kind: str) -> list[tuple[int, str]]:
    """The blocks of a kind, each with the number of its first line."""
    found = re.finditer(rf"^```{kind}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, match.start(1)) + 1, match[1]) for match in found]


def steps(topic: str) -> list[Step]:
    """All commands of a guide, in their order."""
    found = []
    for first, block in blocks(guide(topic).read_text(encoding="utf-8"), "console"):
        for line, command, shown in _commands(block):
            words = tuple(shlex.split(command, comments=True))
            found.append(Step(words, shown, f"{topic or 'README'}, line {first + line}"))
    return found


def _commands(block: str) -> Iterator[tuple[int, str, str]]:
    lines = block.splitlines(keepends=True)
    assert lines and lines[0].startswith("$ "), f"a session begins with a command, not with {lines[:1]}"
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        after = start + 1
        while lines[after - 1].endswith("\\\n"):
            after += 1
        command = "".join(lines[start:after]).removeprefix("$ ").replace("\\\n", "")
        yield start, command, "".join(lines[after:end])


@dataclass
class Session:
    """Runs the commands of a guide in the working folder, one after the other."""

    demonstrated: tuple[Path, str]
    noisy: bool = False  # whether numbers depend on noise, and are not compared
    code: int = 0
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, step: Step, following: Step | None = None) -> None:
        """Run a command, and compare what it prints with what the guide shows."""
        printed = self.printed(step)
        told = following is not None and following.words == ("echo", "$?")
        assert self.code == 0 or told, f"{step.place}: exit code {self.code}\n{printed}"
        if step.shown:
            compare(step, printed, noisy=self.noisy or step.words[:2] == ("sqlanon", "query"))

    def printed(self, step: Step) -> str:
        match step.words:
            case ("cd", folder):
                assert folder == f"examples/{Path.cwd().name}", f"{step.place}: a guide stays in its own folder"
                return ""
            case ("export", assignment):
                name, _, value = assignment.partition("=")
                self.environment[name] = value
                return ""
            case ("echo", "$?"):
                code, self.code = self.code, 0
                return f"{code}\n"
            case ("sqlanon", "demo"):  # takes its time: run once for all guides
                shutil.copytree(self.demonstrated[0], "demo")
                return self.demonstrated[1].replace(str(self.demonstrated[0]), "demo")
            case ("sqlanon", *rest):
                return self.sqlanon(step, rest)
            case ("echo", text, "|", "sqlanon", *rest):
                return self.sqlanon(step, rest, given=text + "\n")
            case (assignment, *rest) if assignment.endswith("=$(sqlanon"):
                printed = self.sqlanon(step, [*rest[:-1], rest[-1].removesuffix(")")])
                # Standard output is taken, standard error is shown; a token is the first line.
                self.environment[assignment.partition("=")[0]], _, told = printed.partition("\n")
                return told
            case ("timeout", _, "sqlanon", *rest):
                return self.stopped(rest)
            case ("cp", source, target):
                shutil.copy(source, target)
                return ""
            case ("python", *rest):
                done = subprocess.run(
                    [sys.executable, *rest], capture_output=True, text=True, env=os.environ | self.environment
                )
                self.code = done.returncode
                return done.stdout + done.stderr
        raise AssertionError(f"{step.place}: no test runs '{step.program}'")

    def sqlanon(self, step: Step, words: list[str], given: str = "") -> str:
        done = CliRunner(env=self.environment).invoke(main, words, input=given)
        assert done.exception is None or isinstance(done.exception, SystemExit), (step.place, done.exc_info)
        self.code = done.exit_code
        return done.output

    def stopped(self, words: list[str]) -> str:
        """What a service prints that is stopped after its first line, however long that takes on this machine."""
        command = [sys.executable, "-m", "sqlanon", *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | self.environment) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            printed = first + process.stdout.read()
        self.code = process.returncode
        return printed


def compare(step: Step, printed: str, *, noisy: bool) -> None:
    """Fail if a guide shows something else than what was printed."""
    expected, found = (without_numbers(text) if noisy else plain(text) for text in (step.shown, printed))
    pattern = ".*?".join(re.escape(part) for part in expected.split("…"))
    place = f"{step.place}: {shlex.join(step.words)}"
    assert re.fullmatch(pattern, found, flags=re.DOTALL), f"{place}\n--- shown\n{expected}\n--- printed\n{found}"


def plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())


def without_numbers(text: str) -> str:
    """A text in which everything that depends on noise or on the date is made alike."""
    lines = (re.sub(r" +", " ", line).rstrip() for line in text.rstrip().splitlines())
    return "\n".join(re.sub(r"-{2,}", "-", re.sub(r"[\d.,:e-]*\d", "0", line)) for line in lines)
