"""Read SQL that strangers wrote: PostgreSQL's tokens and literals, and the dialects of the parser."""
