-- The refreshes of releases: which were due, who ran them, and how they ended. In SQLite.
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY,
    release TEXT NOT NULL,
    due TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('running', 'done', 'refused', 'failed', 'lost')),
    owner TEXT NOT NULL,
    started TEXT NOT NULL,
    alive TEXT NOT NULL, -- until when the owner is taken to be alive; it says so again and again
    ended TEXT,
    message TEXT,
    version INTEGER,
    plan_hash TEXT,
    UNIQUE (release, due, attempt)
);
