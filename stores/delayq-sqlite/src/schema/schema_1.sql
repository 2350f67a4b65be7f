-- Version 1 of delayq's file. Times are milliseconds since the epoch (UTC), spans are milliseconds.

-- The task types of every namespace, and what is counted per type.
CREATE TABLE types (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    listed INTEGER NOT NULL DEFAULT 0,       -- 1: registered or submitted to; 0: only paused so far
    paused_until INTEGER NOT NULL DEFAULT 0, -- no claims before this time
    fence INTEGER NOT NULL DEFAULT 0,        -- the largest fence given so far
    scheduled INTEGER NOT NULL DEFAULT 0,    -- tasks per state
    running INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    ended INTEGER NOT NULL DEFAULT 0,
    UNIQUE (namespace, name)
) STRICT;

-- One row a task, so that an id is in one state only. Ended tasks stay for the retention, emptied.
CREATE TABLE tasks (
    seq INTEGER PRIMARY KEY,
    type INTEGER NOT NULL,                    -- types.id
    id TEXT NOT NULL,
    state INTEGER NOT NULL,                   -- 0 scheduled, 1 running, 2 dead, 3 done, 4 cancelled, 5 expired
    at INTEGER NOT NULL,                      -- when it is due, its lock expires, it died, it ended
    due INTEGER NOT NULL,                     -- when it was last asked for
    delay INTEGER,                            -- the delay it was asked for with; NULL: a time
    submitted INTEGER NOT NULL,
    expires_at INTEGER,
    expires_after INTEGER,                    -- counted from due
    fence INTEGER NOT NULL DEFAULT 0,         -- of the lock, while running
    settled INTEGER NOT NULL DEFAULT 0,       -- the fence of the lock settled last
    cancel INTEGER NOT NULL DEFAULT 0,        -- 1: a cancel was requested while running
    failures INTEGER NOT NULL DEFAULT 0,
    lock_expiries INTEGER NOT NULL DEFAULT 0,
    releases INTEGER NOT NULL DEFAULT 0,
    requeues INTEGER NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL DEFAULT 0,       -- attempts made, once ended
    checksum INTEGER NOT NULL,                -- of message, headers and expiry; CRC-32 + 2^32 * message length
    last_error TEXT,
    succeeded TEXT,                           -- JSON array of worker names
    headers TEXT,                             -- JSON object; NULL: none
    message BLOB                              -- NULL: in bodies, or ended
) STRICT;

-- Finds a task by its id.
CREATE UNIQUE INDEX tasks_id ON tasks (type, id);

-- The order of every claim and listing.
CREATE INDEX tasks_place ON tasks (type, state, at, id);

-- Messages that are too large to be rewritten with every change of their task.
CREATE TABLE bodies (
    seq INTEGER PRIMARY KEY,                  -- tasks.seq
    message BLOB NOT NULL
) STRICT;
