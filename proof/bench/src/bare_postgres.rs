//! The least that any delayed queue does on PostgreSQL, durably: the ceiling that delayq is
//! compared with. A task is handed out once at most: it is gone when it is taken.

use std::sync::Arc;
use std::time::Instant;

use delayq_plugin::{Clock, SystemClock};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls, Statement};

use crate::Failure;
use crate::bare_redis::{all_run, rate};
use crate::load::{BULK, IN_FLIGHT, Message, STEP, parts};

const TABLE: &str = "
    CREATE TABLE bare (id bigserial PRIMARY KEY, at bigint NOT NULL, message bytea NOT NULL);
    CREATE INDEX bare_at ON bare (at);";
const IN_BULK: &str = "INSERT INTO bare (at, message) \
    SELECT * FROM unnest($1::bigint[], $2::bytea[])";
const ONE: &str = "INSERT INTO bare (at, message) VALUES ($1, $2)";
const TAKE: &str = "DELETE FROM bare WHERE ctid IN (SELECT ctid FROM bare WHERE at <= $1 \
    ORDER BY at FOR UPDATE SKIP LOCKED LIMIT $2) RETURNING id, message";

/// Loops that drain beside each other, as delayq's claims and settlements are.
pub(crate) const LOOPS: usize = 2;
/// How far a bare task is from due: an hour.
const HOUR_MS: i64 = 3_600_000;

/// A database with the bare table.
#[derive(Debug)]
pub(crate) struct BarePostgres {
    url: String,
    client: Client,
}

/// A connection, which lives as long as the client.
pub(crate) async fn connect(url: &str) -> Result<Client, Failure> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

impl BarePostgres {
    /// Makes the table in an empty database.
    pub(crate) async fn make(url: String) -> Result<Self, Failure> {
        let made = Self::of(url).await?;
        made.client.batch_execute(TABLE).await?;
        Ok(made)
    }

    /// Connects to a database that has the table.
    pub(crate) async fn of(url: String) -> Result<Self, Failure> {
        let client = connect(&url).await?;
        Ok(Self { url, client })
    }

    /// Tasks a second, in statements of as many tasks as one `send_all`.
    pub(crate) async fn submit_in_bulk(&self, count: usize) -> Result<f64, Failure> {
        let started = Instant::now();
        self.submit_all(count, HOUR_MS).await?;
        Ok(rate(count, started))
    }

    /// Sends tasks that are due after a delay.
    pub(crate) async fn submit_all(&self, count: usize, delay_ms: i64) -> Result<(), Failure> {
        let insert = self.client.prepare(IN_BULK).await?;
        for bulk in parts(count, BULK) {
            let due = SystemClock.now().as_millis() + delay_ms;
            let messages = bulk.map(|number| serde_json::to_vec(&Message::new(number)));
            let messages = messages.collect::<Result<Vec<_>, _>>()?;
            let due = vec![due; messages.len()];
            self.client.execute(&insert, &[&due, &messages]).await?;
        }
        Ok(())
    }

    /// Tasks a second, each in a transaction of its own, by many callers with a connection each.
    pub(crate) async fn submit_singly(&self, count: usize) -> Result<f64, Failure> {
        let mut ready = Vec::new();
        for _ in 0..IN_FLIGHT {
            let client = connect(&self.url).await?;
            let insert = client.prepare(ONE).await?;
            ready.push((client, insert));
        }
        let started = Instant::now();
        let mut callers = JoinSet::new();
        for (numbers, (client, insert)) in parts(count, count.div_ceil(IN_FLIGHT)).zip(ready) {
            callers.spawn(async move {
                for number in numbers {
                    let due = SystemClock.now().as_millis() + HOUR_MS;
                    let message = serde_json::to_vec(&Message::new(number))?;
                    client.execute(&insert, &[&due, &message]).await?;
                }
                Ok::<_, Failure>(())
            });
        }
        while let Some(ended) = callers.join_next().await {
            ended??;
        }
        Ok(rate(count, started))
    }

    /// Tasks a second, taken.
    pub(crate) async fn drain(&self, count: usize) -> Result<f64, Failure> {
        self.submit_all(count, 0).await?;
        let started = Instant::now();
        all_run(self.take_all().await?, count)?;
        Ok(rate(count, started))
    }

    /// Takes until nothing is due, as many tasks at once as delayq claims, in loops of a connection
    /// each; returns how many it has taken.
    pub(crate) async fn take_all(&self) -> Result<usize, Failure> {
        let mut loops = JoinSet::new();
        for _ in 0..LOOPS {
            let client = Arc::new(connect(&self.url).await?);
            let take = client.prepare(TAKE).await?;
            loops.spawn(async move { drain(&client, &take).await });
        }
        let mut taken = 0;
        while let Some(ended) = loops.join_next().await {
            taken += ended??;
        }
        Ok(taken)
    }
}

async fn drain(client: &Client, take: &Statement) -> Result<usize, Failure> {
    let (most, mut taken) = (i64::try_from(STEP)?, 0);
    loop {
        let now = SystemClock.now().as_millis();
        let rows = client.query(take, &[&now, &most]).await?;
        if rows.is_empty() {
            return Ok(taken);
        }
        taken += rows.len();
    }
}
