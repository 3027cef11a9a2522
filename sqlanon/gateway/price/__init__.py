"""What a statement costs: noise with its budget, bound to the statements that will read data."""
