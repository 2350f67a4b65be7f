//! The row of a type.

use std::time::Duration;

use delayq_core::fleet::{FleetLimits, Rate};
use delayq_core::history::KeptMessage;
use delayq_core::machine::Gate;
use delayq_core::operate::TypeTotals;
use delayq_core::task::TaskInfo;
use delayq_core::time::{Reading, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::{Session, Values};
use crate::error::Outcome;
use crate::row::TaskRow;
use crate::statements::Statements;

/// A type in statements.
#[derive(Clone, Debug)]
pub(crate) struct TypeKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The row of a type, its counts, and the store's clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeRow {
    pub(crate) id: i32,
    pub(crate) reading: Reading,
    pub(crate) paused_until: Timestamp,
    pub(crate) max_pending: Option<u64>,
    pub(crate) fleet: FleetLimits,
    pub(crate) tat: i64,
    pub(crate) is_limited: bool,
    pub(crate) is_held_back: bool,
    pub(crate) scheduled: u64,
    pub(crate) running: u64,
    pub(crate) dead: u64,
    pub(crate) ended: u64,
    pub(crate) refused: u64,
    pub(crate) totals: TypeTotals,
    pub(crate) fence: u64,
    pub(crate) forgotten: Timestamp,
    /// The part of the message that the record of an end keeps; `None`: ends are not recorded.
    pub(crate) history: Option<KeptMessage>,
}

const OPEN: &str = "SELECT o_now_us, (o_type).id, (o_type).paused_until, (o_type).max_pending, \
    (o_type).fleet_concurrency, (o_type).rate_starts, (o_type).rate_per_us, (o_type).rate_burst, \
    (o_type).tat, (o_type).is_limited, (o_type).is_held_back, (o_type).history, (o_counts).scheduled, \
    (o_counts).running, (o_counts).dead, (o_counts).ended, (o_counts).done, (o_counts).died, \
    (o_counts).cancelled, (o_counts).expired, (o_counts).failed, (o_counts).refused, \
    (o_counts).fence, (o_counts).forgotten FROM {s}.open_v1($1, $2, $3)";

fn number(row: &Row, column: &str) -> Outcome<u64> {
    let number: Option<i64> = row.try_get(column)?;
    Ok(u64::try_from(number.unwrap_or(0)).unwrap_or(0))
}

fn small(number: Option<i64>) -> Option<u32> {
    number.and_then(|number| u32::try_from(number).ok())
}

/// A reading of the store's clock in microseconds.
pub(crate) fn reading(now_us: i64) -> Reading {
    Reading {
        now: Timestamp::from_millis(now_us.div_euclid(1_000)),
        sub_ms: Duration::from_micros(now_us.rem_euclid(1_000).unsigned_abs()),
    }
}

impl TypeRow {
    /// Reads a type; the clock alone for an unknown one, whose number is 0.
    pub(crate) async fn read(
        session: &mut Session,
        sql: &Statements,
        key: &TypeKey,
        locks: bool,
    ) -> Outcome<Self> {
        let values: Values<'_> = &[
            (&key.namespace, Type::TEXT),
            (&key.name, Type::TEXT),
            (&locks, Type::BOOL),
        ];
        let rows = session.ask(&sql.sql(OPEN), values).await?;
        rows.first().map_or(Ok(Self::default()), Self::of)
    }

    fn of(row: &Row) -> Outcome<Self> {
        let reading = reading(row.try_get("o_now_us")?);
        let id: Option<i32> = row.try_get("id")?;
        let Some(id) = id else {
            return Ok(Self {
                reading,
                ..Self::default()
            });
        };
        let rate = (
            small(row.try_get("rate_starts")?),
            row.try_get::<_, Option<i64>>("rate_per_us")?,
            small(row.try_get("rate_burst")?),
        );
        let rate = match rate {
            (Some(starts), Some(per), Some(burst)) => Some(Rate {
                starts,
                per: Duration::from_micros(per.unsigned_abs()),
                burst,
            }),
            _ => None,
        };
        let mut totals = TypeTotals::default();
        totals.done = number(row, "done")?;
        totals.dead = number(row, "died")?;
        totals.cancelled = number(row, "cancelled")?;
        totals.expired = number(row, "expired")?;
        totals.failed = number(row, "failed")?;
        let max_pending: Option<i64> = row.try_get("max_pending")?;
        let history: Option<i64> = row.try_get("history")?;
        Ok(Self {
            id,
            reading,
            paused_until: Timestamp::from_millis(row.try_get("paused_until")?),
            max_pending: max_pending.map(i64::unsigned_abs),
            fleet: FleetLimits {
                concurrency: small(row.try_get("fleet_concurrency")?),
                rate,
            },
            tat: row.try_get("tat")?,
            is_limited: row.try_get("is_limited")?,
            is_held_back: row.try_get("is_held_back")?,
            scheduled: number(row, "scheduled")?,
            running: number(row, "running")?,
            dead: number(row, "dead")?,
            ended: number(row, "ended")?,
            refused: number(row, "refused")?,
            totals,
            fence: number(row, "fence")?,
            forgotten: Timestamp::from_millis(row.try_get("forgotten")?),
            history: history
                .and_then(|bytes| u32::try_from(bytes).ok())
                .map(KeptMessage::from_limit),
        })
    }

    pub(crate) fn is_known(&self) -> bool {
        self.id != 0
    }

    /// The end of the pause, while paused.
    pub(crate) fn pause(&self) -> Option<Timestamp> {
        (self.paused_until > self.reading.now).then_some(self.paused_until)
    }

    pub(crate) fn gate(&self) -> Gate {
        Gate {
            reading: self.reading,
            paused_until: self.pause(),
            running: usize::try_from(self.running).unwrap_or(usize::MAX),
            held_back: self.is_held_back,
            fleet: self.fleet,
            tat: self.tat,
        }
    }

    /// A row for people, unless it is damaged or forgotten.
    pub(crate) fn info(
        &self,
        row: &TaskRow,
        retention: Duration,
        again_at: Option<Timestamp>,
    ) -> Option<TaskInfo> {
        if row.is_over(retention, self.reading.now) {
            return None;
        }
        row.info(self.gate(), again_at)
    }
}
