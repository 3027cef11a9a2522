"""Cell suppression: the tables in which single cells are suppressed."""
