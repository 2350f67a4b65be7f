//! One connection, in use by one call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use delayq_core::Error;
use tokio::time::Instant;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, CancelToken, Client, Row};

use super::line::Driver;
use crate::error::{Fault, Outcome, is_unreplicated};

/// The values of a statement, with their types: nothing is prepared, so that a statement takes one
/// round trip and works behind a pooler in transaction mode.
pub(crate) type Values<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// True while a write was sent, and its answer has not arrived. The caller shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubt(Arc<AtomicBool>);

impl Doubt {
    pub(crate) fn is_there(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, is_there: bool) {
        self.0.store(is_there, Ordering::Relaxed);
    }
}

/// Set once the server no longer waits for a standby that was to have a write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unreplicated(Arc<AtomicBool>);

impl Unreplicated {
    /// Hears what the server says by itself.
    pub(crate) fn hear(&self, message: &AsyncMessage) {
        if matches!(message, AsyncMessage::Notice(notice) if is_unreplicated(notice)) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// One connection, in use by one call.
pub(crate) struct Session {
    client: Client,
    driver: Driver,
    used_at: Instant,
    doubt: Doubt,
    unreplicated: Unreplicated,
}

impl Session {
    pub(crate) fn new(client: Client, driver: Driver, unreplicated: Unreplicated) -> Self {
        Self {
            client,
            driver,
            used_at: Instant::now(),
            doubt: Doubt::default(),
            unreplicated,
        }
    }

    /// Gives the session to a call.
    pub(crate) fn lend(&mut self, doubt: &Doubt) {
        doubt.set(false);
        self.doubt = doubt.clone();
    }

    /// Notes that a call has given it back.
    pub(crate) fn rest(&mut self) {
        self.used_at = Instant::now();
    }

    pub(crate) fn idle_for(&self) -> Duration {
        self.used_at.elapsed()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(crate) fn cancel_token(&self) -> CancelToken {
        self.client.cancel_token()
    }

    /// Runs a statement that changes something, in a transaction of its own.
    pub(crate) async fn write(&mut self, sql: &str, values: Values<'_>) -> Outcome<Vec<Row>> {
        self.doubt.set(true);
        self.unreplicated.take();
        let answer = self.client.query_typed(sql, values).await;
        self.answered(answer.map_err(Fault::Sql))
    }

    /// Runs a statement that changes nothing, or one within a transaction.
    pub(crate) async fn ask(&mut self, sql: &str, values: Values<'_>) -> Outcome<Vec<Row>> {
        Ok(self.client.query_typed(sql, values).await?)
    }

    /// The same, within a time.
    pub(crate) async fn ask_within(
        &mut self,
        limit: Duration,
        sql: &str,
        values: Values<'_>,
    ) -> Outcome<Vec<Row>> {
        let answer = tokio::time::timeout(limit, self.ask(sql, values)).await;
        let late = |_| Error::unavailable("the server", format!("no answer within {limit:?}"));
        answer.map_err(late)?
    }

    /// Runs statements without values.
    pub(crate) async fn run(&mut self, sql: &str) -> Outcome<()> {
        Ok(self.client.batch_execute(sql).await?)
    }

    /// Begins a transaction. A call that ends with an error takes it back.
    pub(crate) async fn begin(&mut self) -> Outcome<()> {
        self.run("BEGIN ISOLATION LEVEL READ COMMITTED").await
    }

    /// Ends the transaction.
    pub(crate) async fn commit(&mut self) -> Outcome<()> {
        self.doubt.set(true);
        self.unreplicated.take();
        let answer = self.run("COMMIT").await;
        self.answered(answer)
    }

    /// Ends the connection, once the statement on the way is over.
    pub(crate) async fn end(self) {
        let Self {
            client, mut driver, ..
        } = self;
        drop(client);
        driver.ended().await;
    }

    fn answered<T>(&self, answer: Outcome<T>) -> Outcome<T> {
        let answer = match answer {
            Ok(_) if self.unreplicated.take() => Err(Fault::Unreplicated),
            answer => answer,
        };
        self.doubt
            .set(answer.as_ref().is_err_and(Fault::leaves_doubt));
        answer
    }
}
