-- The tables. Times are milliseconds since the epoch. Texts sort by their bytes.

CREATE TABLE meta (
    version int NOT NULL,
    -- A release that knows only earlier versions than this one must not use the schema.
    min_version int NOT NULL
);

-- What the functions for applications need to know of a namespace.
CREATE TABLE namespaces (
    name text COLLATE "C" PRIMARY KEY,
    -- How long ended tasks are remembered, in ms: as the last instance of a plugin had it.
    retention bigint NOT NULL DEFAULT 600000,
    -- Its tasks are in another store: calls wait in the outbox for a relay.
    is_relayed boolean NOT NULL DEFAULT false
);

-- A row stays for ever, so that its number and its largest fence do.
CREATE TABLE types (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    is_listed boolean NOT NULL DEFAULT false,
    paused_until bigint NOT NULL DEFAULT 0,
    max_pending bigint,
    fleet_concurrency bigint,
    rate_starts bigint,
    rate_per_us bigint,
    rate_burst bigint,
    -- The state of the rate, in microseconds.
    tat bigint NOT NULL DEFAULT 0,
    -- A claim had a fleet limit: whoever frees a slot looks whether tasks wait for it.
    is_limited boolean NOT NULL DEFAULT false,
    is_held_back boolean NOT NULL DEFAULT false,
    UNIQUE (namespace, name)
);

-- Changes of the counts of a type. Rows are only added, so that no two calls wait for each other.
CREATE TABLE ledger (
    type int NOT NULL,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    scheduled int NOT NULL DEFAULT 0,
    running int NOT NULL DEFAULT 0,
    dead int NOT NULL DEFAULT 0,
    ended int NOT NULL DEFAULT 0,
    done int NOT NULL DEFAULT 0,
    died int NOT NULL DEFAULT 0,
    cancelled int NOT NULL DEFAULT 0,
    expired int NOT NULL DEFAULT 0,
    failed int NOT NULL DEFAULT 0,
    refused int NOT NULL DEFAULT 0,
    -- The largest fence of a claim.
    fence bigint
);
CREATE INDEX ledger_order ON ledger (type, xid);
CREATE INDEX ledger_fence ON ledger (type, fence) WHERE fence IS NOT NULL;

-- The sums of the rows that were taken out of the ledger.
CREATE TABLE counts (
    type int PRIMARY KEY,
    scheduled bigint NOT NULL DEFAULT 0,
    running bigint NOT NULL DEFAULT 0,
    dead bigint NOT NULL DEFAULT 0,
    ended bigint NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    died bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    expired bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    fence bigint NOT NULL DEFAULT 0,
    -- The end of the latest task that was forgotten before its retention was over.
    forgotten bigint NOT NULL DEFAULT 0,
    -- The ledger has no rows of earlier transactions.
    folded xid8 NOT NULL DEFAULT '0'
);

-- state: 0 scheduled, 1 running, 2 dead, 3 done, 4 cancelled, 5 expired.
-- at: by state, when it is due, its lock expires, it died or ended.
-- due: the requested due time. fence: of the lock, NULL unless it runs.
-- flags: 1 cancel requested, 2 its holder runs nothing else, 4 a follow-up waits.
CREATE TABLE tasks (
    at bigint NOT NULL,
    due bigint,
    submitted bigint,
    checksum bigint NOT NULL,
    delay bigint,
    expires_at bigint,
    expires_after bigint,
    fence bigint,
    settled bigint,
    type int NOT NULL,
    failures int,
    lock_expiries int,
    releases int,
    requeues int,
    state smallint NOT NULL DEFAULT 0,
    flags smallint NOT NULL DEFAULT 0,
    settled_by smallint,
    id text COLLATE "C" NOT NULL,
    holder text,
    succeeded text,
    errors text,
    -- These two may hold a zero character, which a text cannot.
    last_error bytea,
    note bytea,
    headers text,
    message bytea,
    PRIMARY KEY (type, id)
) WITH (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05,
    vacuum_truncate = off
);
ALTER TABLE tasks ALTER COLUMN message SET STORAGE EXTERNAL;
CREATE INDEX tasks_due ON tasks (type, at, id) WHERE state = 0;
CREATE INDEX tasks_held ON tasks (type, at, id) WHERE state = 1;
CREATE INDEX tasks_rest ON tasks (type, state, at, id) WHERE state > 1;

-- The request that becomes the task once the running one has ended.
CREATE TABLE follow_ups (
    type int NOT NULL,
    id text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    delay bigint,
    submitted bigint NOT NULL,
    expires_at bigint,
    expires_after bigint,
    checksum bigint NOT NULL,
    headers text,
    message bytea NOT NULL,
    PRIMARY KEY (type, id)
);

CREATE TABLE figures (
    type int NOT NULL,
    slot text COLLATE "C" NOT NULL,
    chunk bytea NOT NULL,
    PRIMARY KEY (type, slot)
);
CREATE TABLE actions (
    namespace text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    at bigint NOT NULL,
    action bytea NOT NULL,
    PRIMARY KEY (namespace, number)
);
CREATE TABLE folders (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    PRIMARY KEY (namespace, name)
);
CREATE TABLE documents (
    namespace text COLLATE "C" NOT NULL,
    folder text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (namespace, folder, name)
);
CREATE TABLE instances (
    namespace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    seen bigint NOT NULL,
    expires bigint NOT NULL,
    info bytea NOT NULL,
    PRIMARY KEY (namespace, id)
);
CREATE TABLE replies (
    type int NOT NULL,
    id text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    at bigint NOT NULL,
    until bigint NOT NULL,
    content_type text NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (type, id)
);
CREATE INDEX replies_until ON replies (until);

-- Calls of applications for a namespace that is relayed, in the order of each task.
-- call: 0 send, 1 cancel, 2 reschedule, 3 update.
CREATE TABLE outbox (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    -- A relay tries it again after this time.
    not_before bigint NOT NULL DEFAULT 0,
    due bigint,
    delay bigint,
    expires_at bigint,
    expires_after bigint,
    max_wait bigint,
    -- Since when it is set aside, because it can never be applied.
    aside bigint,
    tries int NOT NULL DEFAULT 0,
    lane smallint NOT NULL,
    call smallint NOT NULL,
    conflict smallint NOT NULL DEFAULT 0,
    again boolean NOT NULL DEFAULT false,
    -- The other store has the task, with a due time far away: it has only to be moved.
    is_parked boolean NOT NULL DEFAULT false,
    namespace text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    error text,
    headers text,
    message bytea
);
CREATE INDEX outbox_lane ON outbox (namespace, lane, not_before, seq) WHERE aside IS NULL;
CREATE INDEX outbox_task ON outbox (namespace, type, id, seq) WHERE aside IS NULL;
CREATE INDEX outbox_aside ON outbox (namespace, aside, seq) WHERE aside IS NOT NULL;

-- The relay that works on a lane.
CREATE TABLE relays (
    namespace text COLLATE "C" NOT NULL,
    lane smallint NOT NULL,
    holder text COLLATE "C" NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (namespace, lane)
);

-- A task to send. It has a delay or a due time.
CREATE TYPE request_v1 AS (
    namespace text,
    type text,
    id text,
    message bytea,
    headers text,
    delay bigint,
    due bigint,
    expires_at bigint,
    expires_after bigint,
    conflict smallint,
    max_wait bigint,
    again boolean,
    notify boolean
);
