-- What was charged, granted and answered: rows are added, never changed and never removed.
-- Amounts are decimal text, exact; `hash` is the SHA-256 of the hash before it and the row.
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('charge', 'answered', 'failed', 'grant')),
    principal TEXT NOT NULL,
    epsilon TEXT NOT NULL,
    delta TEXT NOT NULL,
    rho TEXT NOT NULL,
    shape TEXT,
    fingerprint TEXT,
    policy TEXT,
    "by" TEXT,
    reason TEXT,
    settles INTEGER,
    hash TEXT NOT NULL
);

-- A charge has one outcome.
CREATE UNIQUE INDEX settled ON events (settles) WHERE settles IS NOT NULL;

-- One row: how many events there are, and the hash of the last. Rows that are missing at the end show here.
CREATE TABLE head (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    ledger TEXT NOT NULL,
    events INTEGER NOT NULL,
    hash TEXT NOT NULL,
    secret TEXT NOT NULL -- which rows of a person are read when there are too many hangs on it; it is never exported
);

CREATE TRIGGER events_follow BEFORE INSERT ON events
WHEN NEW.id IS NOT (SELECT events + 1 FROM head)
BEGIN SELECT RAISE(ABORT, 'an event follows the last one'); END;

CREATE TRIGGER events_counted AFTER INSERT ON events
BEGIN UPDATE head SET events = NEW.id, hash = NEW.hash; END;

CREATE TRIGGER events_unchanged BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;

CREATE TRIGGER events_kept BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are never removed'); END;

CREATE TRIGGER head_advances BEFORE UPDATE ON head
WHEN NEW.events IS NOT OLD.events + 1 OR NEW.ledger IS NOT OLD.ledger OR NEW.secret IS NOT OLD.secret
BEGIN SELECT RAISE(ABORT, 'the head only advances'); END;

CREATE TRIGGER head_kept BEFORE DELETE ON head
BEGIN SELECT RAISE(ABORT, 'the head is never removed'); END;
