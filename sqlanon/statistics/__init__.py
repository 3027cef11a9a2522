"""Tables of statistics: their cells and equations, which cells are unsafe, and how these are protected."""
