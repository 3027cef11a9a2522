"""One console for all tests of the room: to start one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from console_world import Console, running_console


@pytest.fixture(scope="session")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    pytest.importorskip("starlette", reason="needs the package starlette")
    with running_console(tmp_path_factory.mktemp("console")) as found:
        yield found
