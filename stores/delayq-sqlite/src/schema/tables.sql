-- Tables beside the versions of delayq's file, for people: no operation on tasks reads them.

-- Figures of each type, in a ring of slots: m0 to m24 of an hour each, h0 to h30 of a day each.
CREATE TABLE IF NOT EXISTS figures (
    type INTEGER NOT NULL,                    -- types.id
    slot TEXT NOT NULL,
    chunk BLOB NOT NULL,                      -- as delayq_core::chronicle writes it
    PRIMARY KEY (type, slot)
) STRICT, WITHOUT ROWID;

-- What operators did: the last 10,000 actions of each namespace.
CREATE TABLE IF NOT EXISTS actions (
    namespace TEXT NOT NULL,
    number INTEGER NOT NULL,                  -- grows by one
    at INTEGER NOT NULL,                      -- when it was logged
    action TEXT NOT NULL,                     -- JSON object, as delayq_core::chronicle writes it
    PRIMARY KEY (namespace, number)
) STRICT, WITHOUT ROWID;

-- Small records of whoever runs the store, and how often each folder of them was changed.
CREATE TABLE IF NOT EXISTS folders (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS documents (
    namespace TEXT NOT NULL,
    folder TEXT NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,                -- of the folder, when it was written
    body TEXT NOT NULL,
    PRIMARY KEY (namespace, folder, name)
) STRICT, WITHOUT ROWID;

-- What workers answered: one reply a task, each until its retention is over.
CREATE TABLE IF NOT EXISTS replies (
    type INTEGER NOT NULL,                    -- types.id
    id TEXT NOT NULL,                         -- of the task
    fence INTEGER NOT NULL,                   -- of the attempt that gave it
    at INTEGER NOT NULL,                      -- when it was kept
    until INTEGER NOT NULL,                   -- when it may be removed
    content_type TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (type, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS replies_until ON replies (until, type, id);

-- The records of tasks that have ended, of types that keep a history, until they are shipped.
CREATE TABLE IF NOT EXISTS ends (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,    -- no number is given twice
    namespace TEXT NOT NULL,
    type INTEGER NOT NULL,                    -- types.id
    id TEXT NOT NULL,                         -- of the task
    outcome INTEGER NOT NULL,                 -- 0 done, 1 dead, 2 expired, 3 cancelled, 4 discarded
    submitted INTEGER NOT NULL,
    due INTEGER NOT NULL,                     -- when it was last asked for
    ended INTEGER NOT NULL,
    fence INTEGER NOT NULL,                   -- of its last lock
    running INTEGER NOT NULL,                 -- 1: an attempt ended with it
    attempts INTEGER NOT NULL,
    grp TEXT,                                 -- from its headers
    project TEXT,
    holder TEXT,                              -- as in tasks
    error TEXT,
    errors TEXT,                              -- as in tasks
    size INTEGER NOT NULL,                    -- of its message
    message BLOB,                             -- the part that is kept
    bytes INTEGER NOT NULL                    -- what the record counts in the bound
) STRICT;

CREATE INDEX IF NOT EXISTS ends_place ON ends (namespace, seq);

-- What waits in ends, what was dropped at its bound, and the bound.
CREATE TABLE IF NOT EXISTS ends_state (
    namespace TEXT PRIMARY KEY,
    waiting INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    lost INTEGER NOT NULL DEFAULT 0,
    most INTEGER                              -- maximum of bytes; NULL: the default
) STRICT, WITHOUT ROWID;
