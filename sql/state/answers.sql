-- Answers that were paid for: the same question gets the same bytes again, at no charge. They may be forgotten.
CREATE TABLE answers (
    key TEXT PRIMARY KEY,
    at TEXT NOT NULL,
    principal TEXT NOT NULL,
    answer TEXT NOT NULL,
    hash TEXT NOT NULL
);
