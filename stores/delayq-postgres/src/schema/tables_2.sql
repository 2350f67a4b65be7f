-- Version 2: the records of tasks that have ended, until they are shipped to a history.

-- The bytes of a message that the record of an end keeps; NULL: ends are not recorded.
ALTER TABLE types ADD COLUMN history bigint;

-- outcome: 0 done, 1 dead, 2 expired, 3 cancelled, 4 discarded.
CREATE TABLE ends (
    seq bigint GENERATED ALWAYS AS IDENTITY,
    submitted bigint NOT NULL,
    due bigint NOT NULL,
    ended bigint NOT NULL,
    -- Of the last lock; 0 for none.
    fence bigint NOT NULL,
    type int NOT NULL,
    attempts int NOT NULL,
    -- The size of the message, and what the record counts in the bound.
    size int NOT NULL,
    bytes int NOT NULL,
    outcome smallint NOT NULL,
    -- An attempt ended with the task.
    is_running boolean NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    headers text,
    holder text,
    errors text,
    error bytea,
    message bytea,
    PRIMARY KEY (namespace, seq)
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE ends ALTER COLUMN message SET STORAGE EXTERNAL;

-- What waits in ends, what was dropped at its bound, and the bound, where NULL is the default:
-- sums of the rows that were taken out of ends_ledger.
CREATE TABLE ends_state (
    namespace text COLLATE "C" PRIMARY KEY,
    waiting bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    lost bigint NOT NULL DEFAULT 0,
    most bigint
);

-- Changes of ends_state. Rows are only added, so that no two calls wait for each other.
CREATE TABLE ends_ledger (
    namespace text COLLATE "C" NOT NULL,
    waiting bigint NOT NULL,
    bytes bigint NOT NULL,
    lost bigint NOT NULL DEFAULT 0
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX ends_ledger_of ON ends_ledger (namespace);
