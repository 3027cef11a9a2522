"""Python as people write it: DataFrames, Arrow tables, relations, files and tables in; releases and answers out.

`arrow_tables` checks and converts rows, `open_data` gives an engine that reads them, `policy_arguments` makes a policy
of keywords, a dict or an object. Rows go through Arrow; none becomes an object of Python.
"""
