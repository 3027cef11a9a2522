"""A table or query of the database that a policy names."""

from __future__ import annotations

import re

import sqlglot
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from sqlglot import exp
from sqlglot.errors import SqlglotError

_PART = r'(?:"[^"]+"|[^".;\s]+)'
_WRITES = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Command, exp.Into)


class TableSource(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    table: str | None = Field(None, min_length=1, description="The table, or schema.table.")
    query: str | None = Field(None, min_length=1, description="A SELECT, instead of a table.")
    dialect: str = Field("duckdb", description="The SQL dialect that `query` is written in.")

    @field_validator("table")
    @classmethod
    def _is_a_name(cls, table: str | None) -> str | None:
        if table is not None:
            _table(table)
        return table

    @model_validator(mode="after")
    def _can_be_read(self) -> TableSource:
        if (self.table is None) == (self.query is None):
            raise ValueError("give exactly one of 'table' and 'query'")
        if self.query is not None:
            _query(self.query, self.dialect)
        return self

    def relation(self, alias: str) -> exp.Table | exp.Subquery:
        """What stands in FROM.

        >>> TableSource(table="geo.cities").relation("source").sql("postgres")
        '"geo"."cities" AS source'
        """
        if self.table is not None:
            table = _table(self.table)
            table.set("alias", _alias(alias))
            return table
        return exp.Subquery(this=_query(self.query or "", self.dialect), alias=_alias(alias))


def _alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name))


def column(name: str) -> exp.Column:
    """A column by its exact name; quoted, so that no name is a keyword."""
    return exp.column(name, quoted=True)


def _table(name: str) -> exp.Table:
    """A table by its exact name; a part that holds a point is written in double quotes."""
    if not re.fullmatch(rf"{_PART}([.]{_PART}){{0,2}}", name):
        raise ValueError(f"'{name}' is not a table name; write table or schema.table")
    parts = [part.strip('"') for part in re.findall(_PART, name)]
    return exp.table_(*(exp.to_identifier(part, quoted=True) for part in reversed(parts)))


def _query(text: str, dialect: str) -> exp.Query:
    try:
        statements = sqlglot.parse(text, dialect=dialect)
    except (SqlglotError, ValueError) as error:
        raise ValueError(f"the query cannot be parsed as {dialect}: {str(error).splitlines()[0]}") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise ValueError("the query must be one SELECT")
    if statements[0].find(*_WRITES):
        raise ValueError("the query must only read; write one SELECT")
    return statements[0]
