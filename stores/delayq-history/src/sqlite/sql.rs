//! The SQL of a history in SQLite.

/// The tables. Times are milliseconds since the epoch.
pub(super) const TABLES: &str = "
-- How long each namespace keeps its lives, in ms, and when somebody last said so or longer.
CREATE TABLE IF NOT EXISTS namespaces (
    name TEXT PRIMARY KEY,
    keep_ms INTEGER NOT NULL,
    kept_at INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS types (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    -- How long its lives are kept, in ms, and when somebody last said so or longer; NULL: as all
    -- of its namespace.
    keep_ms INTEGER,
    kept_at INTEGER NOT NULL DEFAULT 0,
    UNIQUE (namespace, name)
) STRICT;

-- One row for each life of a task. outcome: 0 done, 1 dead, 2 expired, 3 cancelled, 4 discarded.
CREATE TABLE IF NOT EXISTS lives (
    seq INTEGER PRIMARY KEY,
    type INTEGER NOT NULL,
    id TEXT NOT NULL,
    outcome INTEGER NOT NULL,
    submitted_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER NOT NULL,
    run_ms INTEGER,
    late_ms INTEGER,
    fence INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    grp TEXT,
    project TEXT,
    holder TEXT,
    error TEXT,
    errors TEXT,
    message_bytes INTEGER NOT NULL,
    message BLOB
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS lives_key
    ON lives (type, id, ended_at, fence, submitted_at, outcome);
CREATE INDEX IF NOT EXISTS lives_ended ON lives (ended_at);
CREATE INDEX IF NOT EXISTS lives_group ON lives (grp, ended_at) WHERE grp IS NOT NULL;
CREATE INDEX IF NOT EXISTS lives_type ON lives (type, ended_at);

-- Whose lives were forgotten, for those that are recorded later.
CREATE TABLE IF NOT EXISTS forgets (
    namespace TEXT NOT NULL,
    at INTEGER NOT NULL,
    id TEXT,
    grp TEXT,
    type TEXT
) STRICT;

CREATE INDEX IF NOT EXISTS forgets_at ON forgets (namespace, at);

-- The columns of a table of tasks as schedulers on a database have it.
CREATE VIEW IF NOT EXISTS tasks AS
SELECT l.id AS task_id, t.name AS task_type, l.grp AS group_name, l.project,
    CAST(l.message AS TEXT) AS payload, datetime(l.due_at / 1000.0, 'unixepoch') AS trigger_at,
    max(l.attempts - 1, 0) AS retry_count, NULL AS retry_interval,
    CASE l.outcome WHEN 0 THEN 'done' WHEN 1 THEN 'dead' WHEN 2 THEN 'expired'
        WHEN 3 THEN 'cancelled' ELSE 'discarded' END AS task_status,
    datetime(l.submitted_at / 1000.0, 'unixepoch') AS created_at, t.namespace
FROM lives l JOIN types t ON t.id = l.type;
";

/// The columns that version 1 did not have.
pub(super) const COLUMNS_OF_2: [(&str, &str); 3] = [
    ("namespaces", "kept_at INTEGER NOT NULL DEFAULT 0"),
    ("types", "keep_ms INTEGER"),
    ("types", "kept_at INTEGER NOT NULL DEFAULT 0"),
];

pub(super) const ADD_TYPE: &str =
    "INSERT INTO types (namespace, name) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
pub(super) const ADD: &str = "INSERT INTO lives (type, id, outcome, submitted_at, due_at, \
     started_at, ended_at, run_ms, late_ms, fence, attempts, grp, project, holder, error, errors, \
     message_bytes, message) SELECT id, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, \
     ?16, ?17, ?18, ?19 FROM types WHERE namespace = ?1 AND name = ?2 ON CONFLICT DO NOTHING";
/// An index, conditions and the limit follow. The index is named, because without statistics the
/// engine reads all lives of a type.
pub(super) const SEARCH: &str = "SELECT l.seq, t.name, l.id, l.outcome, l.submitted_at, l.due_at, \
     l.started_at, l.ended_at, l.run_ms, l.fence, l.attempts, l.grp, l.project, l.holder, \
     l.error, l.errors, l.message_bytes, l.message FROM lives l INDEXED BY ";
pub(super) const OF_TYPES: &str = " JOIN types t ON t.id = l.type WHERE ";
pub(super) const LATEST_FIRST: &str = " ORDER BY l.ended_at DESC, l.seq DESC LIMIT ";
pub(super) const FORGET: &str = "DELETE FROM lives WHERE seq IN (SELECT l.seq FROM lives l \
     INDEXED BY ";
pub(super) const NOTE_FORGET: &str =
    "INSERT INTO forgets (namespace, at, id, grp, type) VALUES (?1, ?2, ?3, ?4, ?5)";
pub(super) const FORGETS: &str =
    "SELECT at, id, grp, type FROM forgets WHERE namespace = ?1 AND at > ?2";
pub(super) const OLD_FORGETS: &str = "DELETE FROM forgets WHERE namespace = ?1 AND at <= ?2";
/// Notes a retention. A shorter one than is noted counts once nobody has said the longer one since
/// the last value.
pub(super) const KEEP: &str = "INSERT INTO namespaces AS n (name, keep_ms, kept_at) \
     VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE \
     SET keep_ms = excluded.keep_ms, kept_at = excluded.kept_at \
     WHERE excluded.keep_ms >= n.keep_ms OR n.kept_at <= ?4";
/// The retention that counts.
pub(super) const KEPT: &str = "SELECT keep_ms FROM namespaces WHERE name = ?1";
pub(super) const TYPES: &str = "SELECT id, name, keep_ms FROM types WHERE namespace = ?1";
/// The same of a type.
pub(super) const KEEP_TYPE: &str = "UPDATE types SET keep_ms = ?2, kept_at = ?3 WHERE id = ?1 \
     AND (keep_ms IS NULL OR ?2 >= keep_ms OR kept_at <= ?4)";
/// How long each type of the namespace is kept, and of those that nobody has run since the second
/// value.
pub(super) const SPANS: &str = "SELECT t.id, coalesce(t.keep_ms, n.keep_ms) FROM types t \
    JOIN namespaces n ON n.name = t.namespace WHERE n.name = ?1 OR n.kept_at <= ?2";
pub(super) const EXPIRE: &str = "DELETE FROM lives WHERE seq IN \
     (SELECT seq FROM lives WHERE type = ?1 AND ended_at < ?2 LIMIT ?3)";
pub(super) const STATUS: &str = "SELECT min(oldest), max(newest) FROM (SELECT \
     (SELECT l.ended_at FROM lives l INDEXED BY lives_type WHERE l.type = t.id \
     ORDER BY l.ended_at LIMIT 1) AS oldest, \
     (SELECT l.ended_at FROM lives l INDEXED BY lives_type WHERE l.type = t.id \
     ORDER BY l.ended_at DESC LIMIT 1) AS newest FROM types t WHERE t.namespace = ?1)";
pub(super) const BYTES: &str = "SELECT page_count * page_size \
     FROM pragma_page_count, pragma_page_size";
