"""Answer a priced statement: read data, add noise once, compute from noisy values, release in time."""
