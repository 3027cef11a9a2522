"""The command `sqlanon`; `python -m sqlanon` is the same."""

from __future__ import annotations

import atexit
import os
import sys
import threading

from sqlanon.cli import main


def run() -> None:
    """Run the command, and end at once: taking down piece by piece all that was loaded took a tenth of its time."""
    try:
        main(prog_name="sqlanon")
    except SystemExit as end:
        code = 0 if end.code is None else end.code
        others = [item for item in threading.enumerate() if item is not threading.main_thread() and not item.daemon]
        if others or not isinstance(code, int):
            raise  # Python waits for the ones, and shows the other
        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            code = code or 2
        os._exit(code)


if __name__ == "__main__":
    run()
