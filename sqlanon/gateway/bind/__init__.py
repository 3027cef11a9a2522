"""Read a statement: tables, columns and the unit by lineage, and how far one person can move each number."""
