"""Replays statements on neighbouring databases of made-up data: with one person, and without."""
