"""Entities: persons with several rows, or with trees of rows along foreign keys, generalized and released together."""
