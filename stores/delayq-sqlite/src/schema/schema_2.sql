-- Version 2 of delayq's file: limits of the fleet, a bound on what waits, and the running instances.

ALTER TABLE types ADD COLUMN tat INTEGER NOT NULL DEFAULT 0;       -- when the rate's next start is due, microseconds
ALTER TABLE types ADD COLUMN held_back INTEGER NOT NULL DEFAULT 0; -- 1: a claim found no free place for a due task
ALTER TABLE types ADD COLUMN max_pending INTEGER;                  -- most scheduled tasks; NULL: no bound
ALTER TABLE types ADD COLUMN refused INTEGER NOT NULL DEFAULT 0;   -- submits that this bound has refused

-- Who works here, for people: no edge reads it.
CREATE TABLE instances (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    seen INTEGER NOT NULL,                    -- when it was last heard of
    expires INTEGER NOT NULL,                 -- when it counts as gone
    info TEXT NOT NULL,                       -- JSON object: host, pid, version, types, start
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;
