"""Bucketization: rows are put into groups, and the values of a group are shown without saying whose they are."""
