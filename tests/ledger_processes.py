"""Processes that use one ledger at a time, or are killed while they do; run by test_ledger_damage.py as a program.

It forks, so that a process is there in a millisecond: `race PROCESSES` and `kill TIMES SEED charge|answer`, which says
what a process does first. `full` lets the disk run out of room.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

from sqlanon.errors import BudgetExhausted, LedgerError
from sqlanon.ledger import Cost, Ledger, Left, Limits

LIMITS = Limits(epsilon=1.0, delta=1e-6)
WIDE = Limits(epsilon=1e6, delta=1.0)


def reserve(ledger: Ledger, epsilon: float, limits: Limits = LIMITS) -> Left:
    return ledger.reserve("ada", Cost(epsilon), limits, shape="s", fingerprint="f", policy="p")


def race(path: Path, processes: int) -> dict[str, int]:
    """All want what is there for one. Each opens the ledger itself, and waits for the others before it asks."""
    waiting, go = os.pipe(), os.pipe()
    children = []
    for _ in range(processes):
        if (child := os.fork()) == 0:
            code = 3
            try:
                ledger = Ledger.open(path)
                os.write(waiting[1], b"x")
                os.close(go[1])
                os.read(go[0], 1)  # until the last writer has closed it
                reserve(ledger, 0.6)
                code = 0
            except BudgetExhausted:
                code = 1
            finally:
                os._exit(code)
        children.append(child)
    for _ in children:
        os.read(waiting[0], 1)
    os.close(go[1])
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return {"won": codes.count(0), "refused": codes.count(1), "broken": len(codes) - codes.count(0) - codes.count(1)}


def work(path: Path, answers: int, first: str) -> None:
    """Charge and answer, on and on. An answer is a line in a file, on the disk."""
    ledger = Ledger.open(path)
    place = ledger.verify().events
    while True:
        if first == "answer":
            os.write(answers, f"{place + 1}\n".encode())
            os.fsync(answers)
        place = reserve(ledger, 0.25, WIDE).event
        if first == "charge":
            os.write(answers, f"{place}\n".encode())
            os.fsync(answers)
        elif first == "answer":
            continue
        ledger.settle(place, "answered")
        place += 1


def kill(path: Path, times: int, seed: int, first: str) -> dict[str, int]:
    """Kill workers at random moments; after each the ledger opens, and has charged whatever was answered."""
    pick = random.Random(seed)
    lines = path.with_suffix(".answers")
    free = busy = 0
    for _ in range(times):
        answers = os.open(lines, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        if (child := os.fork()) == 0:
            try:
                work(path, answers, first)
            finally:
                os._exit(3)
        time.sleep(pick.uniform(0.005, 0.15))
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        assert os.WIFSIGNALED(status), "the worker ended by itself"
        os.close(answers)
        answered = {int(line) for line in lines.read_text().split()}
        with Ledger.open(path) as ledger:
            charged = {event.id for event in ledger.history() if event.kind == "charge"}
            assert ledger.left("ada", WIDE).spent.epsilon == 0.25 * len(charged)
        free += len(answered - charged)
        busy += len(charged) > len(answered)
        if first == "answer":  # a place that was answered for free is taken by the next charge
            lines.write_text("".join(f"{place}\n" for place in answered & charged))
    return {"answers": len(answered), "charges": len(charged), "free": free, "between": busy}


def full(path: Path) -> dict[str, object]:
    """No file may grow: a charge is refused, and is not there afterwards; with room again all goes on."""
    with Ledger.open(path) as ledger:
        reserve(ledger, 0.25, WIDE)
        largest = max(found.stat().st_size for found in path.parent.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
        charged, error = 1, None
        for _ in range(1000):
            try:
                reserve(ledger, 0.25, WIDE)
                charged += 1
            except LedgerError as refused:
                error = refused
                break
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        reserve(ledger, 0.25, WIDE)
        charged += 1
        events = ledger.verify().events
    return {"charged": charged, "events": events, "error": error and error.message, "hint": error and error.hint}


if __name__ == "__main__":
    what, where, *more = sys.argv[1:]
    target = Path(where)
    if what == "race":
        print(json.dumps(race(target, int(more[0]))))
    elif what == "kill":
        print(json.dumps(kill(target, int(more[0]), int(more[1]), more[2])))
    else:
        print(json.dumps(full(target)))
