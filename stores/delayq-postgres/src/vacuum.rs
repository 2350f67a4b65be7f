//! Dead rows are cleaned up, on a connection of its own: it takes minutes on a big table.

use std::time::Duration;

use delayq_core::Result;
use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::types::Type;
use tracing::debug;

use crate::connection::{Connections, Session};
use crate::error::Outcome;
use crate::statements::Statements;

/// Dead rows from which on the table is vacuumed: the server itself looks once a minute, and a busy
/// type leaves more than that in a second.
const MIN_DEAD_ROWS: i64 = 20_000;

/// The pause after a vacuum that failed or had no effect, as while a transaction keeps the rows.
/// It doubles each time.
const PAUSE: Duration = Duration::from_secs(10);
const MAX_PAUSE: Duration = Duration::from_mins(10);

/// How long a server may take to count what a vacuum has left.
const COUNTED: Duration = Duration::from_secs(1);

const DEAD_ROWS: &str = "SELECT n_dead_tup, n_live_tup, n_tup_upd + n_tup_del \
    FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'tasks'";

/// The vacuums of an instance, one after the other.
#[derive(Debug)]
pub(crate) struct Vacuum {
    sql: Statements,
    /// The present one. It answers whether it had an effect.
    running: Option<JoinHandle<Result<bool>>>,
    pause: Duration,
    not_before: Instant,
}

impl Vacuum {
    pub(crate) fn new(sql: &Statements) -> Self {
        Self {
            sql: sql.clone(),
            running: None,
            pause: PAUSE,
            not_before: Instant::now(),
        }
    }

    /// Starts one if there are many dead rows.
    pub(crate) async fn look(&mut self, open: &Connections) -> Result<()> {
        if !self.is_free() || Instant::now() < self.not_before {
            return Ok(());
        }
        let schema = self.sql.schema().to_owned();
        let call = open.attempt_here(move |session: &mut Session| {
            let schema = schema.clone();
            Box::pin(async move { dead_rows(session, &schema).await })
        });
        let found = call.await?;
        if !found.are_many() {
            return Ok(());
        }
        let schema = self.sql.schema().to_owned();
        let work = open.alone(move |session: &mut Session| {
            Box::pin(async move {
                let vacuum =
                    format!("VACUUM (SKIP_LOCKED, INDEX_CLEANUP ON, TRUNCATE OFF) {schema}.tasks");
                session.run(&vacuum).await?;
                tokio::time::sleep(COUNTED).await;
                let left = dead_rows(session, &schema).await?;
                Ok(found.are_mostly_gone(left))
            })
        });
        self.running = Some(open.runtime().spawn(work));
        Ok(())
    }

    /// True if none is running. The end of the last one says when the next one may begin.
    fn is_free(&mut self) -> bool {
        let Some(running) = &mut self.running else {
            return true;
        };
        let Some(ended) = running.now_or_never() else {
            return false;
        };
        self.running = None;
        if matches!(ended, Ok(Ok(true))) {
            self.pause = PAUSE;
            return true;
        }
        debug!(?ended, pause = ?self.pause, "a vacuum had no effect");
        self.not_before = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        true
    }
}

/// The rows of the table as the server counts them.
#[derive(Clone, Copy, Debug, Default)]
struct Rows {
    dead: i64,
    live: i64,
    /// All that have ever become dead.
    made: i64,
}

impl Rows {
    fn are_many(self) -> bool {
        self.dead > MIN_DEAD_ROWS.max(self.live / 5)
    }

    /// True if a vacuum between the two has removed at least half of the dead rows. A busy type
    /// leaves as many new ones meanwhile.
    fn are_mostly_gone(self, left: Self) -> bool {
        let removed = self.dead + (left.made - self.made) - left.dead;
        removed > self.dead / 2
    }
}

async fn dead_rows(session: &mut Session, schema: &str) -> Outcome<Rows> {
    let rows = session.ask(DEAD_ROWS, &[(&schema, Type::TEXT)]).await?;
    let Some(row) = rows.first() else {
        return Ok(Rows::default());
    };
    Ok(Rows {
        dead: row.try_get(0)?,
        live: row.try_get(1)?,
        made: row.try_get(2)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vacuum_is_judged_by_what_it_removed_and_not_by_what_came_since() {
        let rows = |dead, made| Rows {
            dead,
            live: 100_000,
            made,
        };
        let found = rows(40_000, 1_000_000);
        assert!(found.are_mostly_gone(rows(0, 1_000_000)));
        assert!(
            found.are_mostly_gone(rows(60_000, 1_060_000)),
            "all are new"
        );
        let held = rows(100_000, 1_060_000);
        assert!(!found.are_mostly_gone(held), "a transaction keeps them");
    }
}
