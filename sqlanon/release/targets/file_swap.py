"""Replace files that belong together: all of them, or none if a step fails.

The new evidence goes first, and names every file that is ours; the main file goes last. What they replace is kept under
other names until all are in place. The evidence is kept last and given up first: where it is found after a process was
killed, everything else was kept too, and is put back.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from sqlanon.engines.companion_files import evidence_file, file_digest, recorded_digests


def replace_together(main: Path, new: Mapping[Path, Path], gone: Iterable[Path]) -> None:
    """Move each of the `new` files to its place, the evidence among them, and remove those that are `gone`. An error
    leaves what was there."""
    evidence = evidence_file(str(main))
    removed = [place for place in gone if place not in new]
    moved = [evidence, *(place for place in new if place not in (evidence, main)), main]
    first = not os.path.lexists(evidence)
    try:
        for place in (*reversed(moved[1:]), *removed, evidence):
            if os.path.lexists(place):
                _keep(place, _kept_name(main, place, os.getpid()))
        for place in moved:
            os.replace(new[place], place)
        for place in removed:
            place.unlink(missing_ok=True)
    except BaseException:
        if first:  # nothing was there
            for place in moved:
                place.unlink(missing_ok=True)
        clear_leftovers(main)
        raise
    _forget(main, os.getpid())


def clear_leftovers(main: Path) -> None:
    """Remove what a run left behind that was killed; where that was between two moves, put back what was there."""
    evidence = evidence_file(str(main))
    stem, suffix = re.escape(main.stem), re.escape(main.suffix)
    staged = re.compile(rf"\.{stem}\.\d+\.staged(_[a-z]+)?{suffix}|\.{re.escape(evidence.name)}\.\d+")
    kept = re.compile(rf"\.{re.escape(main.name)}\.(\d+)\.(.+)\.before")
    runs: set[int] = set()
    for item in list(main.parent.iterdir()):
        if staged.fullmatch(item.name):
            item.unlink(missing_ok=True)
        elif found := kept.fullmatch(item.name):
            runs.add(int(found[1]))
    for run in sorted(runs):
        if os.path.lexists(_kept_name(main, evidence, run)):
            _put_back(main, run)
        _forget(main, run)


def _put_back(main: Path, run: int) -> None:
    evidence = evidence_file(str(main))
    before = _kept_name(main, evidence, run)
    known, earlier = recorded_digests(evidence), recorded_digests(before)
    for name in set(known) - set(earlier) - {main.name}:  # companions that the earlier release did not have
        place = main.with_name(name)
        if place.is_file() and file_digest(place) == known[name]:
            place.unlink()
    for item in (*(item for item in _kept_of(main, run) if item != before), before):
        os.replace(item, main.with_name(_name_of(main, item, run)))
        item.unlink(missing_ok=True)  # two names of one file are both left as they are


def _forget(main: Path, run: int) -> None:
    """Give up what was kept, the evidence first."""
    _kept_name(main, evidence_file(str(main)), run).unlink(missing_ok=True)
    for item in _kept_of(main, run):
        item.unlink(missing_ok=True)


def _keep(place: Path, name: Path) -> None:
    """Under another name, so that the file is there all the time."""
    name.unlink(missing_ok=True)
    try:
        os.link(place, name, follow_symlinks=False)
    except OSError:  # a file system without links
        shutil.copy2(place, name, follow_symlinks=False)


def _kept_name(main: Path, place: Path, run: int) -> Path:
    return main.with_name(f".{main.name}.{run}.{place.name}.before")


def _kept_of(main: Path, run: int) -> list[Path]:
    begin = f".{main.name}.{run}."
    return [item for item in main.parent.iterdir() if item.name.startswith(begin) and item.name.endswith(".before")]


def _name_of(main: Path, kept: Path, run: int) -> str:
    return kept.name.removeprefix(f".{main.name}.{run}.").removesuffix(".before")
