"""Where a release goes: a table, a view, a file, or a folder of versions."""
