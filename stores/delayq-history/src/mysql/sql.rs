//! The SQL of a history in MySQL and MariaDB.

/// What a connection sets. `{s}`: seconds, `{ms}`: milliseconds of a call. Comments with a version
/// are statements for MySQL (`!80000`) and for MariaDB (`M!`) alone.
pub(super) const SESSION: [&str; 3] = [
    "SET NAMES utf8mb4",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
    "SET SESSION time_zone = '+00:00', \
     SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', SESSION autocommit = 1, \
     SESSION innodb_lock_wait_timeout = {s}, SESSION lock_wait_timeout = {s} \
     /*M! , SESSION max_statement_time = {s} */ \
     /*!80000 , SESSION max_execution_time = {ms}, SESSION information_schema_stats_expiry = 0 */",
];
/// Lifts the limit of time, but for locks on tables.
pub(super) const UNLIMITED: &str =
    "SET SESSION lock_wait_timeout = 2 /*M! , SESSION max_statement_time = 0 */";
pub(super) const SERVER: &str =
    "SELECT VERSION(), @@sql_mode, @@max_allowed_packet, @@innodb_flush_log_at_trx_commit";

/// One process at a time changes the tables.
pub(super) const LOCK: &str = "SELECT GET_LOCK(CONCAT('delayq_', MD5(DATABASE())), 2)";
pub(super) const UNLOCK: &str = "DO RELEASE_LOCK(CONCAT('delayq_', MD5(DATABASE())))";

/// The number of tables with the name of the first one, and with those of the others.
pub(super) const HAS_TABLES: &str = "SELECT \
    COALESCE(SUM(table_name = 'delayq_history'), 0), COALESCE(SUM(table_name <> 'delayq_history'), 0) \
    FROM information_schema.tables WHERE table_schema = DATABASE() \
    AND table_name IN ('delayq_history', 'namespaces', 'types', 'lives', 'tasks', 'forgets')";
pub(super) const VERSION: &str = "SELECT MAX(version) FROM delayq_history";

/// The tables. Times are milliseconds since the epoch. Names are bytes, so that they differ by
/// their case and by blanks at their ends; sizes are the limits of delayq-core. `{x}`: the
/// beginning of the present month.
pub(super) const TABLES: [&str; 6] = [
    "CREATE TABLE IF NOT EXISTS delayq_history (version INT NOT NULL PRIMARY KEY) ENGINE = InnoDB",
    // How long each namespace keeps its lives, in ms, and when somebody last said so or longer.
    "CREATE TABLE IF NOT EXISTS namespaces (name VARBINARY(64) NOT NULL PRIMARY KEY, \
     keep_ms BIGINT NOT NULL DEFAULT 9223372036854775807, kept_at BIGINT NOT NULL DEFAULT 0) \
     ENGINE = InnoDB",
    "CREATE TABLE IF NOT EXISTS types (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, \
     namespace VARBINARY(64) NOT NULL, name VARBINARY(100) NOT NULL, keep_ms BIGINT, \
     kept_at BIGINT NOT NULL DEFAULT 0, \
     UNIQUE KEY types_name (namespace, name)) ENGINE = InnoDB",
    // One row for each life of a task, by the month of its end. outcome: 0 done, 1 dead, 2 expired,
    // 3 cancelled, 4 discarded. A month is dropped as a whole. What no month takes is in the first
    // or the last partition, which months are split from.
    "CREATE TABLE IF NOT EXISTS lives (
        ended_at BIGINT NOT NULL,
        seq BIGINT NOT NULL AUTO_INCREMENT,
        submitted_at BIGINT NOT NULL,
        due_at BIGINT NOT NULL,
        started_at BIGINT,
        run_ms BIGINT,
        late_ms BIGINT,
        fence BIGINT NOT NULL,
        message_bytes BIGINT NOT NULL,
        type INT NOT NULL,
        attempts INT NOT NULL,
        outcome TINYINT NOT NULL,
        id VARBINARY(128) NOT NULL,
        grp VARBINARY(8192),
        project VARBINARY(8192),
        holder TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
        error MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
        errors MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
        message LONGBLOB,
        PRIMARY KEY (ended_at, seq),
        KEY lives_seq (seq),
        UNIQUE KEY lives_key (type, id, ended_at, fence, submitted_at, outcome),
        KEY lives_type (type, ended_at, seq),
        KEY lives_group (grp(128), ended_at)
    ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC PARTITION BY RANGE (ended_at) (
        PARTITION lives_before VALUES LESS THAN ({x}),
        PARTITION lives_rest VALUES LESS THAN MAXVALUE)",
    // Whose lives were forgotten, for those that are recorded later.
    "CREATE TABLE IF NOT EXISTS forgets (namespace VARBINARY(64) NOT NULL, at BIGINT NOT NULL, \
     id VARBINARY(128), grp VARBINARY(512), type VARBINARY(100), \
     KEY forgets_at (namespace, at)) ENGINE = InnoDB",
    // The columns of a table of tasks as schedulers on a database have it.
    "CREATE OR REPLACE SQL SECURITY INVOKER VIEW tasks AS
     SELECT CONVERT(l.id USING utf8mb4) AS task_id, CONVERT(t.name USING utf8mb4) AS task_type, \
     CONVERT(l.grp USING utf8mb4) AS group_name, CONVERT(l.project USING utf8mb4) AS project, \
     l.message AS payload, \
     TIMESTAMP '1970-01-01 00:00:00' + INTERVAL l.due_at * 1000 MICROSECOND AS trigger_at, \
     GREATEST(l.attempts - 1, 0) AS retry_count, CAST(NULL AS SIGNED) AS retry_interval, \
     ELT(l.outcome + 1, 'done', 'dead', 'expired', 'cancelled', 'discarded') AS task_status, \
     TIMESTAMP '1970-01-01 00:00:00' + INTERVAL l.submitted_at * 1000 MICROSECOND AS created_at, \
     CONVERT(t.namespace USING utf8mb4) AS namespace \
     FROM lives l JOIN types t ON t.id = l.type",
];
/// The columns that version 1 did not have.
pub(super) const COLUMNS_OF_2: [(&str, &str); 3] = [
    ("namespaces", "kept_at BIGINT NOT NULL DEFAULT 0"),
    ("types", "keep_ms BIGINT"),
    ("types", "kept_at BIGINT NOT NULL DEFAULT 0"),
];
/// Version 1 had NULL for a namespace that keeps its lives for ever.
pub(super) const KEPT_FOR_EVER: [&str; 2] = [
    "UPDATE namespaces SET keep_ms = 9223372036854775807 WHERE keep_ms IS NULL",
    "ALTER TABLE namespaces MODIFY keep_ms BIGINT NOT NULL DEFAULT 9223372036854775807",
];
/// The name of a table follows.
pub(super) const HAS_COLUMN: &str = "SELECT COUNT(*) FROM information_schema.columns \
    WHERE table_schema = DATABASE() AND table_name =";
/// The last step: the tables are complete.
pub(super) const IS_COMPLETE: &str =
    "INSERT INTO delayq_history (version) VALUES (2) ON DUPLICATE KEY UPDATE version = version";

/// The partitions, each with its end.
pub(super) const PARTITIONS: &str = "SELECT partition_name, partition_description \
    FROM information_schema.partitions WHERE table_schema = DATABASE() AND table_name = 'lives' \
    ORDER BY partition_ordinal_position";

pub(super) const ADD_NAMESPACE: &str =
    "INSERT INTO namespaces (name) VALUES (?) ON DUPLICATE KEY UPDATE name = name";
pub(super) const ADD_TYPE: &str =
    "INSERT INTO types (namespace, name) VALUES (?, ?) ON DUPLICATE KEY UPDATE name = name";
pub(super) const TYPES: &str = "SELECT id, name, keep_ms FROM types WHERE namespace = ?";
/// As [`KEEP`], for a type.
pub(super) const KEEP_TYPE: &str = "UPDATE types SET \
    keep_ms = IF(keep_ms IS NULL OR ? >= keep_ms OR kept_at <= ?, ?, keep_ms), \
    kept_at = IF(keep_ms = ?, ?, kept_at) WHERE id = ?";

/// The places of rows follow, each [`ROW`]; then [`KEEP_OLD`].
pub(super) const ADD: &str = "INSERT INTO lives (type, ended_at, submitted_at, due_at, \
    started_at, run_ms, late_ms, fence, message_bytes, attempts, outcome, id, grp, project, \
    holder, error, errors, message) VALUES ";
pub(super) const ROW: &str = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
/// A row that is there already stays as it is. `INSERT IGNORE` would also store a part of a value
/// that is too long.
pub(super) const KEEP_OLD: &str = " ON DUPLICATE KEY UPDATE type = type";

/// An index, numbers of types, conditions and the limit follow. The index is named, because without
/// statistics servers read all lives of a namespace.
pub(super) const SEARCH: &str = "SELECT l.seq, l.type, l.id, l.outcome, l.submitted_at, l.due_at, \
    l.started_at, l.ended_at, l.run_ms, l.fence, l.attempts, l.grp, l.project, l.holder, l.error, \
    l.errors, l.message_bytes, l.message FROM lives l FORCE INDEX (";
pub(super) const OF_TYPES: &str = ") WHERE l.type IN (";
pub(super) const LATEST_FIRST: &str = " ORDER BY l.ended_at DESC, l.seq DESC LIMIT ";
/// The first and the last end of a namespace.
pub(super) const ENDS: &str = "SELECT MIN(oldest), MAX(newest) FROM (SELECT \
    (SELECT l.ended_at FROM lives l FORCE INDEX (lives_type) WHERE l.type = t.id \
    ORDER BY l.ended_at LIMIT 1) AS oldest, \
    (SELECT l.ended_at FROM lives l FORCE INDEX (lives_type) WHERE l.type = t.id \
    ORDER BY l.ended_at DESC LIMIT 1) AS newest FROM types t WHERE t.namespace = ?) AS ends";
pub(super) const BYTES: &str = "SELECT CAST(COALESCE(SUM(data_length + index_length), 0) AS SIGNED) \
    FROM information_schema.partitions WHERE table_schema = DATABASE() AND table_name = 'lives'";

/// Numbers of types follow, and a condition.
pub(super) const FORGET: &str = "DELETE FROM lives WHERE type IN (";
pub(super) const UNTIL: &str = " = ? AND ended_at BETWEEN ? AND ? LIMIT ?";
pub(super) const NOTE_FORGET: &str =
    "INSERT INTO forgets (namespace, at, id, grp, type) VALUES (?, ?, ?, ?, ?)";
pub(super) const FORGETS: &str =
    "SELECT at, id, grp, type FROM forgets WHERE namespace = ? AND at > ?";
pub(super) const OLD_FORGETS: &str = "DELETE FROM forgets WHERE namespace = ? AND at <= ?";
/// Notes a retention. A shorter one than is noted counts once nobody has said the longer one since
/// the last value. Assignments are made from left to right.
pub(super) const KEEP: &str = "INSERT INTO namespaces (name, keep_ms, kept_at) VALUES (?, ?, ?) \
    ON DUPLICATE KEY UPDATE \
    keep_ms = IF(VALUES(keep_ms) >= keep_ms OR kept_at <= ?, VALUES(keep_ms), keep_ms), \
    kept_at = IF(VALUES(keep_ms) = keep_ms, VALUES(kept_at), kept_at)";
/// The retention that counts.
pub(super) const KEPT: &str = "SELECT keep_ms FROM namespaces WHERE name = ?";
/// The longest of all.
pub(super) const LONGEST: &str = "SELECT GREATEST(MAX(keep_ms), \
    (SELECT COALESCE(MAX(keep_ms), 0) FROM types)) FROM namespaces";
/// How long each type of the namespace is kept, and of those that nobody has run since the second
/// value.
pub(super) const SPANS: &str = "SELECT t.id, coalesce(t.keep_ms, n.keep_ms) FROM types t \
    JOIN namespaces n ON n.name = t.namespace WHERE n.name = ? OR n.kept_at <= ?";
pub(super) const EXPIRE: &str = "DELETE FROM lives WHERE type = ? AND ended_at < ? LIMIT ?";
