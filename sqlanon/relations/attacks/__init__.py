"""The canonical relations that attacks read."""
