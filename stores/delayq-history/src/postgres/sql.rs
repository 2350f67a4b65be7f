//! The SQL of a history in PostgreSQL, with the schema in the place of `{s}`.

/// The tables. Times are milliseconds since the epoch. Texts sort by their bytes.
pub(super) const TABLES: &str = r#"
SET LOCAL lock_timeout = '2s';
SELECT pg_advisory_xact_lock(hashtextextended('delayq history {s}', 0));
CREATE SCHEMA IF NOT EXISTS {s};
CREATE TABLE IF NOT EXISTS {s}.meta (version int NOT NULL);
INSERT INTO {s}.meta SELECT 2 WHERE NOT EXISTS (SELECT 1 FROM {s}.meta);

-- How long each namespace keeps its lives, in ms, and when somebody last said so or longer.
CREATE TABLE IF NOT EXISTS {s}.namespaces (
    name text COLLATE "C" PRIMARY KEY,
    keep_ms bigint NOT NULL DEFAULT 9223372036854775807,
    kept_at bigint NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS {s}.types (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    -- How long its lives are kept, in ms, and when somebody last said so or longer; NULL: as the
    -- namespace says.
    keep_ms bigint,
    kept_at bigint NOT NULL DEFAULT 0,
    UNIQUE (namespace, name)
);

-- One row for each life of a task, by the month of its end. outcome: 0 done, 1 dead, 2 expired,
-- 3 cancelled, 4 discarded. A month is dropped as a whole.
CREATE SEQUENCE IF NOT EXISTS {s}.lives_seq;
CREATE TABLE IF NOT EXISTS {s}.lives (
    seq bigint NOT NULL DEFAULT nextval('{s}.lives_seq'),
    submitted_at bigint NOT NULL,
    due_at bigint NOT NULL,
    started_at bigint,
    ended_at bigint NOT NULL,
    run_ms bigint,
    late_ms bigint,
    fence bigint NOT NULL,
    message_bytes bigint NOT NULL,
    type int NOT NULL,
    attempts int NOT NULL,
    outcome smallint NOT NULL,
    id text COLLATE "C" NOT NULL,
    grp text COLLATE "C",
    project text COLLATE "C",
    holder text COLLATE "C",
    error text COLLATE "C",
    errors text COLLATE "C",
    message bytea
) PARTITION BY RANGE (ended_at);
CREATE UNIQUE INDEX IF NOT EXISTS lives_key
    ON {s}.lives (type, id, ended_at, fence, submitted_at, outcome);
CREATE INDEX IF NOT EXISTS lives_ended ON {s}.lives USING brin (ended_at);
CREATE INDEX IF NOT EXISTS lives_group ON {s}.lives (grp, ended_at) WHERE grp IS NOT NULL;
CREATE INDEX IF NOT EXISTS lives_type ON {s}.lives (type, ended_at);

-- Whose lives were forgotten, for those that are recorded later.
CREATE TABLE IF NOT EXISTS {s}.forgets (
    namespace text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    id text COLLATE "C",
    grp text COLLATE "C",
    type text COLLATE "C"
);
CREATE INDEX IF NOT EXISTS forgets_at ON {s}.forgets (namespace, at);

-- The columns of a table of tasks as schedulers on a database have it.
CREATE OR REPLACE VIEW {s}.tasks AS
SELECT l.id AS task_id, t.name AS task_type, l.grp AS group_name, l.project, l.message AS payload,
    to_timestamp(l.due_at / 1000.0) AS trigger_at, greatest(l.attempts - 1, 0) AS retry_count,
    NULL::interval AS retry_interval,
    (ARRAY['done', 'dead', 'expired', 'cancelled', 'discarded'])[l.outcome + 1] AS task_status,
    to_timestamp(l.submitted_at / 1000.0) AS created_at, t.namespace
FROM {s}.lives l JOIN {s}.types t ON t.id = l.type;

-- Columns that version 1 did not have.
ALTER TABLE {s}.namespaces ADD COLUMN IF NOT EXISTS kept_at bigint NOT NULL DEFAULT 0;
ALTER TABLE {s}.types ADD COLUMN IF NOT EXISTS keep_ms bigint;
ALTER TABLE {s}.types ADD COLUMN IF NOT EXISTS kept_at bigint NOT NULL DEFAULT 0;
-- Version 1 had NULL for a namespace that keeps its lives for ever.
UPDATE {s}.namespaces SET keep_ms = 9223372036854775807 WHERE keep_ms IS NULL;
ALTER TABLE {s}.namespaces ALTER keep_ms SET DEFAULT 9223372036854775807,
    ALTER keep_ms SET NOT NULL;
UPDATE {s}.meta SET version = 2 WHERE version < 2;
"#;

pub(super) const HAS_TABLES: &str = "SELECT EXISTS (SELECT 1 FROM pg_class c \
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = '{s}' AND c.relname = 'tasks' \
    AND c.relkind = 'v')";
pub(super) const VERSION: &str = "SELECT version FROM {s}.meta";
/// Makes a month, `{p}`, from `{a}` up to `{z}`. To attach it locks out no reader and no writer.
pub(super) const MONTH: &str = "SET LOCAL lock_timeout = '2s';
SELECT pg_advisory_xact_lock(hashtextextended('delayq history {s}', 0));
DO $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = '{s}.lives'::regclass AND c.relname = '{p}') THEN
        CREATE TABLE IF NOT EXISTS {s}.{p} (LIKE {s}.lives INCLUDING ALL);
        ALTER TABLE {s}.lives ATTACH PARTITION {s}.{p} FOR VALUES FROM ({a}) TO ({z});
    END IF;
END $$;";
pub(super) const MONTHS: &str = "SELECT c.relname, i.inhdetachpending FROM pg_inherits i \
    JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = '{s}.lives'::regclass ORDER BY 1";
pub(super) const ADD_NAMESPACE: &str = "INSERT INTO {s}.namespaces (name) VALUES ($1) \
    ON CONFLICT DO NOTHING";
pub(super) const ADD_TYPES: &str = "INSERT INTO {s}.types (namespace, name) \
    SELECT $1, u.name FROM unnest($2) AS u(name) WHERE NOT EXISTS (SELECT 1 FROM {s}.types t \
    WHERE t.namespace = $1 AND t.name = u.name) ON CONFLICT DO NOTHING";
/// A type that is not there any more, as after a restore, fails the statement.
pub(super) const ADD: &str = "WITH added AS (INSERT INTO {s}.lives (type, submitted_at, due_at, \
    started_at, ended_at, run_ms, late_ms, fence, message_bytes, attempts, outcome, id, grp, \
    project, holder, error, errors, message) SELECT t.id, u.submitted_at, u.due_at, u.started_at, \
    u.ended_at, u.run_ms, u.late_ms, u.fence, u.message_bytes, u.attempts::int, \
    u.outcome::smallint, u.id, u.grp, u.project, u.holder, u.error, u.errors, u.message \
    FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) \
    AS u(name, submitted_at, due_at, started_at, ended_at, run_ms, late_ms, fence, message_bytes, \
    attempts, outcome, id, grp, project, holder, error, errors, message) \
    LEFT JOIN {s}.types t ON t.namespace = $1 AND t.name = u.name ON CONFLICT DO NOTHING RETURNING 1) \
    SELECT count(*) FROM added";
/// The conditions and the limit follow.
pub(super) const SEARCH: &str = "SELECT l.seq, t.name, l.id, l.outcome, l.submitted_at, \
    l.due_at, l.started_at, l.ended_at, l.run_ms, l.fence, l.attempts, l.grp, l.project, \
    l.holder, l.error, l.errors, l.message_bytes, l.message \
    FROM {s}.lives l JOIN {s}.types t ON t.id = l.type WHERE ";
pub(super) const LATEST_FIRST: &str = " ORDER BY l.ended_at DESC, l.seq DESC LIMIT ";
/// Conditions and the limit follow, then [`REMOVE_WITHIN`].
pub(super) const FORGET: &str = "WITH found AS MATERIALIZED (SELECT l.tableoid AS part, \
    l.ctid AS place FROM {s}.lives l JOIN {s}.types t ON t.id = l.type WHERE ";
/// The first two values are the span, which leads to the months. Answers the numbers of rows that
/// were removed and that were found.
pub(super) const REMOVE_WITHIN: &str = "), gone AS (DELETE FROM {s}.lives \
    WHERE ended_at >= $1 AND ended_at <= $2 \
    AND (tableoid, ctid) IN (SELECT part, place FROM found) RETURNING 1) \
    SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM found)";
pub(super) const NOTE_FORGET: &str = "INSERT INTO {s}.forgets (namespace, at, id, grp, type) \
    VALUES ($1, $2, $3, $4, $5)";
pub(super) const FORGETS: &str = "SELECT at, id, grp, type FROM {s}.forgets \
    WHERE namespace = $1 AND at > $2";
pub(super) const OLD_FORGETS: &str = "DELETE FROM {s}.forgets WHERE namespace = $1 AND at <= $2";
/// Months that a crash has left between their removal and their end.
pub(super) const LEFT_MONTHS: &str = "SELECT c.relname FROM pg_class c \
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = '{s}' AND c.relkind = 'r' \
    AND c.relname LIKE 'lives\\_%' \
    AND NOT EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhrelid = c.oid)";
/// Notes a retention. A shorter one than is noted counts once nobody has said the longer one since
/// `$4`.
pub(super) const KEEP: &str = "INSERT INTO {s}.namespaces AS n (name, keep_ms, kept_at) \
    VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE \
    SET keep_ms = excluded.keep_ms, kept_at = excluded.kept_at \
    WHERE excluded.keep_ms >= n.keep_ms OR n.kept_at <= $4";
/// The retention that counts.
pub(super) const KEPT: &str = "SELECT keep_ms FROM {s}.namespaces WHERE name = $1";
/// The same of a type.
pub(super) const KEEP_TYPE: &str = "UPDATE {s}.types SET keep_ms = $2, kept_at = $3 WHERE id = $1 \
    AND (keep_ms IS NULL OR $2 >= keep_ms OR kept_at <= $4)";
/// The longest of all.
pub(super) const LONGEST: &str = "SELECT greatest(max(keep_ms), \
    (SELECT max(keep_ms) FROM {s}.types)) FROM {s}.namespaces";
pub(super) const TYPES: &str = "SELECT id, name, keep_ms FROM {s}.types WHERE namespace = $1";
/// How long each type of the namespace is kept, and of those that nobody has run since the second
/// value.
pub(super) const SPANS: &str = "SELECT t.id, coalesce(t.keep_ms, n.keep_ms) FROM {s}.types t \
    JOIN {s}.namespaces n ON n.name = t.namespace WHERE n.name = $1 OR n.kept_at <= $2";
/// Answers the numbers of rows that were removed and that were found.
pub(super) const EXPIRE: &str = "WITH found AS MATERIALIZED (SELECT l.tableoid AS part, \
    l.ctid AS place FROM {s}.lives l WHERE l.type = $1 AND l.ended_at < $2 LIMIT $3), \
    gone AS (DELETE FROM {s}.lives \
    WHERE (tableoid, ctid) IN (SELECT part, place FROM found) RETURNING 1) \
    SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM found)";
/// The first and the last end of a namespace.
pub(super) const ENDS: &str = "SELECT min(x.oldest), max(x.newest) FROM {s}.types t \
    CROSS JOIN LATERAL (SELECT (SELECT l.ended_at FROM {s}.lives l WHERE l.type = t.id \
    ORDER BY l.ended_at LIMIT 1) AS oldest, (SELECT l.ended_at FROM {s}.lives l \
    WHERE l.type = t.id ORDER BY l.ended_at DESC LIMIT 1) AS newest) x WHERE t.namespace = $1";
pub(super) const BYTES: &str = "SELECT coalesce(sum(pg_total_relation_size(i.inhrelid)), 0)::int8 \
    FROM pg_inherits i WHERE i.inhparent = '{s}.lives'::regclass";
