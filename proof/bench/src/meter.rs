//! What a PostgreSQL server tells of itself: its processor time, what it has written, its
//! transactions, its tables.

use std::fs;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

use crate::Failure;
use crate::bare_postgres::connect;
use crate::process;

/// How long the connections of a database may take to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_millis(10);

const WAL: &str = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
const COMMITS: &str = "SELECT xact_commit FROM pg_stat_database WHERE datname = $1";
const CLIENTS: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1";
const SIZES: &str = "SELECT pg_relation_size($1::text::regclass), \
    pg_indexes_size($1::text::regclass)";

/// A connection to look through, to another database than the one that is looked at.
#[derive(Debug)]
pub(crate) struct Meter {
    client: Client,
    /// The postmaster.
    pid: u32,
}

/// Bytes of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) heap: u64,
    pub(crate) indexes: u64,
}

impl Sizes {
    pub(crate) fn total(self) -> u64 {
        self.heap + self.indexes
    }
}

impl Meter {
    /// `url` is that of the database `postgres`.
    pub(crate) async fn connect(url: &str, pid: u32) -> Result<Self, Failure> {
        let client = connect(url).await?;
        Ok(Self { client, pid })
    }

    /// How long all processes of the server have run.
    pub(crate) fn cpu_time(&self) -> Result<Duration, Failure> {
        let pid = self.pid;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let ended = ended_children(&stat).ok_or("/proc/PID/stat has another form")?;
        let mut time = process::cpu_time(pid)? + ended;
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        for child in children.split_whitespace() {
            // One that has ended meanwhile is among the others the next time.
            time += process::cpu_time(child.parse()?).unwrap_or_default();
        }
        Ok(time)
    }

    /// Bytes of the log that have been written.
    pub(crate) async fn wal(&self) -> Result<u64, Failure> {
        let row = self.client.query_one(WAL, &[]).await?;
        Ok(u64::try_from(row.get::<_, i64>(0))?)
    }

    /// Transactions of a database, once all its connections have ended: they tell theirs at the
    /// latest then.
    pub(crate) async fn commits(&self, database: &str) -> Result<u64, Failure> {
        let ended = async {
            loop {
                let row = self.client.query_one(CLIENTS, &[&database]).await?;
                if row.get::<_, i64>(0) == 0 {
                    return Ok::<_, Failure>(());
                }
                sleep(LOOK).await;
            }
        };
        timeout(PATIENCE, ended)
            .await
            .map_err(|_| format!("connections to {database} do not end"))??;
        let row = self.client.query_one(COMMITS, &[&database]).await?;
        Ok(u64::try_from(row.get::<_, i64>(0))?)
    }

    /// Makes an empty database; `old` is dropped, with whoever is in there.
    pub(crate) async fn renew(&self, old: &str, new: &str) -> Result<(), Failure> {
        let drop = format!("DROP DATABASE IF EXISTS {old} WITH (FORCE)");
        let create = format!("CREATE DATABASE {new}");
        for text in [drop.as_str(), &create, "CHECKPOINT"] {
            self.client.batch_execute(text).await?;
        }
        Ok(())
    }

    /// The version of the server.
    pub(crate) async fn version(&self) -> Result<String, Failure> {
        let row = self.client.query_one("SHOW server_version", &[]).await?;
        let version: String = row.get(0);
        Ok(version.split(' ').next().unwrap_or_default().to_owned())
    }
}

/// The size of a table, through a connection to its own database.
pub(crate) async fn sizes(client: &Client, table: &str) -> Result<Sizes, Failure> {
    let row = client.query_one(SIZES, &[&table]).await?;
    let [heap, indexes] = [0, 1].map(|column| u64::try_from(row.get::<_, i64>(column)));
    Ok(Sizes {
        heap: heap?,
        indexes: indexes?,
    })
}

/// How long children have run that have ended, from `/proc/PID/stat`: its fields 16 and 17, in
/// ticks of the clock.
fn ended_children(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<_> = rest.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let ticks = ticks(13)? + ticks(14)?;
    let nanos = ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second();
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_ended_children_is_read_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4 1 2 3 4 10 20 100 150 20 0 1 0 5";
        let seconds = 250 * 1_000 / rustix::param::clock_ticks_per_second();
        assert_eq!(ended_children(stat), Some(Duration::from_millis(seconds)));
        assert_eq!(ended_children("7 (a) S"), None);
    }
}
