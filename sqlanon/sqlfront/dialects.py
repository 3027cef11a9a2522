"""The dialects that statements are read in, stricter than the parser is by itself."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.postgres import Postgres
from sqlglot.parser import Parser
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import TokenType


class Joined(Parser):
    """Reads no JOIN without its condition: it would count as a comma, and `a POSITIONAL JOIN b` as two names."""

    def _parse_join(
        self,
        skip_join_token: bool = False,
        parse_bracket: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
    ) -> exp.Join | None:
        comma = self._curr is not None and self._curr.token_type == TokenType.COMMA
        join = super()._parse_join(skip_join_token, parse_bracket, alias_tokens)
        method = join.args.get("method") if join is not None else None
        if join is not None and not comma and method in (None, "NATURAL"):
            alone = method is not None or join.args.get("kind") == "CROSS"
            if alone == bool(join.args.get("on") or join.args.get("using")):
                self.raise_error("CROSS and NATURAL JOIN have no condition, all others have one")
        return join


class ReadPostgres(Postgres):
    class Parser(Joined, PostgresParser):
        pass


class ReadDuckDB(DuckDB):
    class Parser(Joined, DuckDBParser):
        pass


READ = {"postgres": ReadPostgres, "duckdb": ReadDuckDB}
