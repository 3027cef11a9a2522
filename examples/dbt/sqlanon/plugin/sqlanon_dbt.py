"""sqlanon as a plugin of dbt-duckdb: the command line, run inside dbt's own process.

DuckDB lets one process at a time write a file, and dbt holds it as long as it runs: a command in a process of its own
would be turned away. In one process several connections to one file are allowed, so here the command opens a second one
beside dbt's. It sees what dbt has committed; no row is copied or leaves the database.
"""

import threading
from pathlib import Path

from click.testing import CliRunner
from dbt.adapters.duckdb.plugins import BasePlugin
from dbt_common.exceptions import DbtRuntimeError

from sqlanon.cli import main

ONE_AT_A_TIME = threading.Lock()  # what a command prints is caught for the whole process


class Plugin(BasePlugin):
    def store(self, target_config):
        """What the macro `sqlanon.run` calls: runs a command, and keeps what it prints in a file for SQL to read."""
        words = [str(word) for word in target_config.config["words"]]
        with ONE_AT_A_TIME:
            done = CliRunner().invoke(main, words)
        if done.exit_code not in target_config.config["expected"]:
            said = done.stderr.strip() or done.stdout.strip() or repr(done.exception)
            raise DbtRuntimeError(f"sqlanon {words[0]}: {said}")
        path = Path(target_config.location.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(done.stdout, encoding="utf-8")
