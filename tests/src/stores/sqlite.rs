//! Stores in `SQLite` files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::store::StoreOptions;
use delayq_core::{Store, TaskId, TaskType, Timestamp};
use delayq_sqlite::{SqliteStore, SqliteSync};
use delayq_testing::VirtualClock;
use rusqlite::Connection;
use tempfile::TempDir;

use delayq_testing::contract::{Damage, Damageable, SettableClock, StoreUnderTest};

/// Stores on one file, on a virtual clock.
#[derive(Debug)]
pub struct Sqlite {
    folder: TempDir,
    clock: VirtualClock,
    sync: SqliteSync,
}

impl Default for Sqlite {
    fn default() -> Self {
        Self::synced(SqliteSync::Full)
    }
}

impl Sqlite {
    /// A new file that is not synced for each answer.
    #[must_use]
    pub fn unsynced() -> Self {
        Self::synced(SqliteSync::Normal)
    }

    /// A new file, synced as `sync` says: thousands of cases need not wait for the disk.
    #[must_use]
    pub fn synced(sync: SqliteSync) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            clock: VirtualClock::default(),
            sync,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("tasks.sqlite")
    }
}

#[async_trait]
impl StoreUnderTest for Sqlite {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        let clock = Arc::new(self.clock.clone());
        SqliteStore::open_with(self.path(), clock, options, self.sync)
            .await
            .unwrap()
    }

    async fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }
}

/// Runs `change` while the index of places is hidden, so that it is not kept up to date.
fn behind_the_index(connection: &Connection, change: &str) {
    let hidden = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema \
         WHERE name = 'tasks_place'";
    connection
        .execute_batch(&format!(
            "PRAGMA writable_schema = ON;
             CREATE TEMP TABLE hidden AS {hidden};
             DELETE FROM sqlite_schema WHERE name = 'tasks_place';
             PRAGMA writable_schema = RESET;
             {change}
             PRAGMA writable_schema = ON;
             INSERT INTO sqlite_schema SELECT * FROM hidden;
             PRAGMA writable_schema = RESET;
             DROP TABLE hidden;"
        ))
        .unwrap();
}

#[async_trait]
impl Damageable for Sqlite {
    async fn damage(&self, _: &StoreOptions, _: &TaskType, id: &TaskId, damage: Damage) {
        let connection = Connection::open(self.path()).unwrap();
        let id = id.as_str();
        match damage {
            Damage::Message => {
                let flip = "UPDATE tasks SET message = CAST('n' || substr(message, 2) AS BLOB) \
                     WHERE id = ?1";
                assert_eq!(connection.execute(flip, [id]), Ok(1));
            }
            Damage::Record => {
                behind_the_index(
                    &connection,
                    &format!("DELETE FROM tasks WHERE id = '{id}';"),
                );
            }
            Damage::Place => {
                let copy = format!(
                    "CREATE TEMP TABLE copy AS SELECT * FROM tasks WHERE id = '{id}';
                     DELETE FROM tasks WHERE id = '{id}';"
                );
                connection.execute_batch(&copy).unwrap();
                behind_the_index(&connection, "INSERT INTO tasks SELECT * FROM copy;");
            }
        }
    }
}

impl SettableClock for Sqlite {
    fn set_clock(&self, time: Timestamp) {
        self.clock.set(time);
    }
}
