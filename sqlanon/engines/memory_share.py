"""How much memory a database takes where nobody says: a share of the machine, and not most of it by surprise."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

SHARE = 4  # a quarter of the machine
LEAST = 1 << 30
GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
UNITS = {"bytes": 0, "byte": 0, "kib": 1, "mib": 2, "gib": 3, "tib": 4}


def share_of_memory() -> int:
    """Bytes: a quarter of what this machine or container has, and a gigabyte at least."""
    return max(memory_of_machine() // SHARE, LEAST)


def memory_of_machine() -> int:
    """Bytes that this process may use at most, as its machine and its container allow."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in GROUPS:
        with suppress(OSError, ValueError):
            found = min(found, int(Path(name).read_text(encoding="ascii")))
    return found


def bytes_of(text: str) -> int:
    """An amount of memory as DuckDB prints it.

    >>> bytes_of("18.8 GiB"), bytes_of("512.0 MiB")
    (20186346291, 536870912)
    """
    match = re.fullmatch(r"([0-9.]+) *(\w+)", text.strip())
    if match is None or match[2].lower() not in UNITS:
        return 1 << 62
    return int(float(match[1]) * 1024 ** UNITS[match[2].lower()])
