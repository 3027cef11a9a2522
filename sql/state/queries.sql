-- The exact queries of trusted principals, by the SHA-256 of their text, which a charge carries as its fingerprint:
-- overlap control and `sqlanon audit` run them again. They are never changed and never removed.
CREATE TABLE queries (
    fingerprint TEXT PRIMARY KEY,
    query TEXT NOT NULL
) WITHOUT ROWID;

CREATE TRIGGER queries_unchanged BEFORE UPDATE ON queries
BEGIN SELECT RAISE(ABORT, 'queries are never changed'); END;

CREATE TRIGGER queries_kept BEFORE DELETE ON queries
BEGIN SELECT RAISE(ABORT, 'queries are never removed'); END;
