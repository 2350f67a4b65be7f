//! Upkeep in the background: the ledger is folded, ended tasks are forgotten, dead rows are cleaned
//! up.

use std::collections::HashMap;
use std::time::Duration;

use delayq_core::Result;
use delayq_core::time::duration_ms;
use tokio::time::Instant;
use tokio_postgres::types::Type;
use tracing::debug;

use crate::connection::{Connections, Session, Values, WeakConnections};
use crate::error::Outcome;
use crate::row::signed;
use crate::statements::Statements;
use crate::trim::trim;
use crate::vacuum::Vacuum;

/// The time between two rounds.
const INTERVAL: Duration = Duration::from_secs(1);

/// Tasks that one statement forgets.
const STEP: i32 = 1_000;

const FOLD: &str = "SELECT {s}.fold_v1($1)";
/// Rows of the ledger that one statement folds.
const FOLD_STEP: i32 = 50_000;
const FORGET: &str = "SELECT o_forgotten, o_last FROM {s}.forget_v1($1, $2, $3, $4, $5)";
const WITH_ENDS: &str = "SELECT t.id FROM {s}.types t JOIN {s}.counts c ON c.type = t.id \
    WHERE t.namespace = $1 AND c.ended > 0";
const NOW: &str = "SELECT {s}.clock_us() / 1000";
const OLD_REPLIES: &str = "DELETE FROM {s}.replies WHERE ctid = ANY (ARRAY(SELECT ctid \
    FROM {s}.replies WHERE until <= {s}.clock_us() / 1000 ORDER BY until LIMIT 1000))";

/// How long floors count. What lies below one by then was committed late, or ended after the clock
/// was set back.
const FLOORS_FOR: Duration = Duration::from_mins(1);

/// By type, the time below which no ended task is to be forgotten.
#[derive(Debug, Default)]
struct Floors {
    of: HashMap<i32, i64>,
    since: Option<Instant>,
}

impl Floors {
    fn renew(&mut self) {
        if self.since.is_none_or(|since| since.elapsed() >= FLOORS_FOR) {
            self.of.clear();
            self.since = Some(Instant::now());
        }
    }
}

/// What upkeep needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Upkeep {
    pub(crate) sql: Statements,
    pub(crate) namespace: String,
    pub(crate) retention: Duration,
    pub(crate) remembered: usize,
}

impl Upkeep {
    /// The retention as the functions of the schema take it.
    pub(crate) fn retention_ms(&self) -> i64 {
        duration_ms(self.retention).min(i64::MAX / 4)
    }

    /// Runs until the store is gone.
    pub(crate) async fn follow(self, connections: WeakConnections) {
        let mut floors = Floors::default();
        let mut vacuum = Vacuum::new(&self.sql);
        loop {
            tokio::time::sleep(INTERVAL).await;
            let Some(open) = connections.upgrade() else {
                return;
            };
            if let Err(error) = self.round(&open, &mut floors, &mut vacuum).await {
                debug!(%error, "the upkeep is behind");
            }
            if let Err(error) = trim(&open, &self.sql, &self.namespace).await {
                debug!(%error, "the bound of recorded ends is checked later");
            }
        }
    }

    async fn round(
        &self,
        open: &Connections,
        floors: &mut Floors,
        vacuum: &mut Vacuum,
    ) -> Result<()> {
        let sql = self.sql.clone();
        let folded = open.attempt_here(move |session: &mut Session| {
            let sql = sql.clone();
            Box::pin(async move {
                let rows = session
                    .write(&sql.sql(FOLD), &[(&FOLD_STEP, Type::INT4)])
                    .await?;
                let folded: Option<i64> = match rows.first() {
                    Some(row) => row.try_get(0)?,
                    None => None,
                };
                if folded.is_some() {
                    session.write(&sql.sql(OLD_REPLIES), &[]).await?;
                }
                Ok(folded)
            })
        });
        let is_ours = folded.await?.is_some();
        floors.renew();
        for id in self.types_with_ends(open).await? {
            let floor = floors.of.entry(id).or_insert(0);
            *floor = self.forget(open, id, *floor).await?;
        }
        if is_ours {
            vacuum.look(open).await?;
        }
        Ok(())
    }

    async fn types_with_ends(&self, open: &Connections) -> Result<Vec<i32>> {
        let (sql, namespace) = (self.sql.sql(WITH_ENDS), self.namespace.clone());
        let call = open.attempt_here(move |session: &mut Session| {
            let (sql, namespace) = (sql.clone(), namespace.clone());
            Box::pin(async move {
                let rows = session.ask(&sql, &[(&namespace, Type::TEXT)]).await?;
                let ids = rows.iter().map(|row| Ok(row.try_get(0)?));
                ids.collect::<Outcome<Vec<i32>>>()
            })
        });
        call.await
    }

    /// Forgets what is to be forgotten of a type. Returns the time below which nothing is left.
    pub(crate) async fn forget(&self, open: &Connections, id: i32, floor: i64) -> Result<i64> {
        let mut floor = floor;
        loop {
            let (sql, own, from) = (self.sql.clone(), self.clone(), floor);
            let call = open.attempt_here(move |session: &mut Session| {
                let (sql, own) = (sql.clone(), own.clone());
                Box::pin(async move {
                    let rows = session.ask(&sql.sql(NOW), &[]).await?;
                    let now: Option<i64> = rows.first().map(|row| row.try_get(0)).transpose()?;
                    let before =
                        now.unwrap_or(0) - duration_ms(own.retention).min(now.unwrap_or(0));
                    let most = signed(own.remembered as u64);
                    let values: Values<'_> = &[
                        (&id, Type::INT4),
                        (&before, Type::INT8),
                        (&most, Type::INT8),
                        (&STEP, Type::INT4),
                        (&from, Type::INT8),
                    ];
                    let rows = session.write(&sql.sql(FORGET), values).await?;
                    let Some(row) = rows.first() else {
                        return Ok((0, None));
                    };
                    let last: Option<i64> = row.try_get(1)?;
                    Ok((row.try_get::<_, i32>(0)?, last))
                })
            });
            let (forgotten, last) = call.await?;
            // Others that ended in the same millisecond may be left.
            floor = last.unwrap_or(floor);
            if forgotten < STEP {
                return Ok(floor);
            }
        }
    }
}
