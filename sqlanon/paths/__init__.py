"""Paths: where persons were, in the order of time. A person is a number here, and so are places and times."""
