"""Privacy as SQL: checks, releases and private answers that run inside your database."""

__version__ = "0.1.0"
