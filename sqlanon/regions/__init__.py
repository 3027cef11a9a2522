"""Local recoding: Mondrian's regions, and classes with levels of their own."""
