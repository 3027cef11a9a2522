"""Policies as SQL: what owners write in place of YAML, and policies written back as SQL.

    text -> read_statement -> a statement -> policy_document -> the document of a policy -> the checks of every policy
    document -> write_statements -> SQL that reads back as the same document

Nothing here runs anything and nothing reaches an engine; `run_statements` keeps the documents in a folder and calls
what the commands of `sqlanon` call.
"""
