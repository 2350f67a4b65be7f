//! Shipper: moves the records of ended tasks from the store into the history database.
//!
//! Every instance ships. A record is stored once however often it is shipped, and removed from the
//! store after that. An instance whose records another one has shipped waits longer, so that
//! usually one of them does the work.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::history::MAX_ENDS;
use delayq_core::{Clock, Error, Result, Store, TaskType, TypePattern};
use delayq_history::{Expired, FOREVER, HistoryRetention, HistoryStore};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::health::HistoryHealth;
use super::kept_history::KeptHistory;
use super::shipping::{Shipped, ship};
use crate::metric::HistorySamples;

/// The wait after records were shipped.
const BUSY: Duration = Duration::from_millis(500);
/// The wait after none were found. It doubles up to [`BESIDE`].
const IDLE: Duration = Duration::from_secs(2);
/// The wait of an instance whose records another one has shipped.
const BESIDE: Duration = Duration::from_secs(10);
/// Fewer records than this, with less than this of messages, wait for the next round: a busy store
/// always has some.
const FEW: usize = MAX_ENDS / 4;
const FEW_BYTES: usize = 1 << 20;
/// How long a round ships before the state of the queue is looked at.
const ROUND: Duration = Duration::from_secs(1);
/// The waits after an error: the first, and the longest.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_mins(1);
/// The time between two questions for the state of the queue.
const STATUS_EVERY: Duration = Duration::from_secs(10);
/// The time between two removals of lives whose retention is over.
const EXPIRE_EVERY: Duration = Duration::from_hours(1);

/// What the builder says of the history.
#[derive(Clone, Debug, Default)]
pub(crate) struct HistoryPlan {
    pub(crate) url: Option<String>,
    pub(crate) retention: Option<Duration>,
}

/// The retention of a type.
type OfType = dyn Fn(&TaskType) -> Option<Duration> + Send + Sync;

/// What the workers of this process say of the retention of a type, if they do.
pub(crate) struct TypeRetention(pub(crate) Box<OfType>);

impl fmt::Debug for TypeRetention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TypeRetention")
    }
}

/// What a round has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    /// Records, which are shipped.
    Records,
    /// Records, and more of them wait.
    More,
    /// Records that another instance has shipped.
    Shipped,
}

/// Ships the records of a store.
#[derive(Debug)]
pub(crate) struct Shipper {
    store: Arc<dyn Store>,
    kept: KeptHistory,
    history: Arc<HistoryStore>,
    clock: Arc<dyn Clock>,
    retention: HistoryRetention,
    of_type: Option<TypeRetention>,
    samples: Option<HistorySamples>,
}

impl Shipper {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        kept: KeptHistory,
        clock: Arc<dyn Clock>,
        retention: HistoryRetention,
    ) -> Self {
        // From now on somebody ships.
        kept.update(|_| ());
        Self {
            store,
            history: Arc::clone(&kept.store),
            kept,
            clock,
            retention,
            of_type: None,
            samples: None,
        }
    }

    /// Also sets the metrics of the history.
    pub(crate) fn with_metrics(mut self, samples: Option<HistorySamples>) -> Self {
        self.samples = samples;
        self
    }

    /// Also keeps types for as long as workers say.
    pub(crate) fn with_types(mut self, of_type: TypeRetention) -> Self {
        self.of_type = Some(of_type);
        self
    }

    pub(crate) fn health(&self) -> HistoryHealth {
        self.kept.update(|health| health.clone())
    }

    /// Ships for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        let (mut backoff, mut idle) = (FIRST_BACKOFF, IDLE);
        let mut next = self.in_about(BUSY);
        let (mut next_status, mut next_expiry) = (Duration::ZERO, self.in_about(STATUS_EVERY));
        let mut expiring: Option<AbortOnDropHandle<()>> = None;
        loop {
            self.clock.sleep_until(next).await;
            let round = self.round().await;
            let wait = match &round {
                Ok(Found::More) => Duration::ZERO,
                Ok(Found::Records) => BUSY,
                Ok(Found::Nothing) => idle,
                Ok(Found::Shipped) => BESIDE,
                Err(_) => backoff,
            };
            idle = match &round {
                Ok(Found::Nothing) => (idle * 2).min(BESIDE),
                _ => IDLE,
            };
            backoff = match &round {
                Ok(_) => FIRST_BACKOFF,
                Err(_) => (backoff * 2).min(LONGEST_BACKOFF),
            };
            self.report(round);
            if next_status <= self.clock.elapsed() {
                next_status = self.clock.elapsed().saturating_add(STATUS_EVERY);
                self.ask_status().await;
            }
            if next_expiry <= self.clock.elapsed() {
                next_expiry = self.in_about(EXPIRE_EVERY);
                // The removal of a month waits for all who read it: nothing waits for that.
                if expiring.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
                    let own = Arc::clone(&self);
                    let expire = tokio::spawn(async move { own.expire().await });
                    expiring = Some(AbortOnDropHandle::new(expire));
                }
            }
            next = self.in_about(wait);
        }
    }

    /// Ships what waits, for up to `limit`: at the end of a process, which loses nothing otherwise
    /// either.
    pub(crate) async fn flush(&self, limit: Duration) {
        let until = self.clock.elapsed().saturating_add(limit);
        tokio::select! {
            biased;
            round = self.round() => self.report(round),
            () = self.clock.sleep_until(until) => {}
        }
    }

    /// A time about `span` from now. Instances that were started together drift apart.
    fn in_about(&self, span: Duration) -> Duration {
        let part = fastrand::u32(75..125);
        let span = span.saturating_mul(part) / 100;
        self.clock.elapsed().saturating_add(span)
    }

    /// Ships until little waits, for up to [`ROUND`].
    async fn round(&self) -> Result<Found> {
        let until = self.clock.elapsed().saturating_add(ROUND);
        loop {
            let shipped = ship(&*self.store, &self.history).await?;
            let Shipped {
                taken, bytes, new, ..
            } = shipped;
            let now = self.clock.now();
            self.kept.update(|health| health.note_shipped(shipped, now));
            if let Some(samples) = &self.samples {
                samples.shipped(new);
            }
            match (taken, new) {
                (0, _) => return Ok(Found::Nothing),
                (_, 0) if shipped.refused == 0 => return Ok(Found::Shipped),
                _ if taken < FEW && bytes < FEW_BYTES => return Ok(Found::Records),
                _ if self.clock.elapsed() >= until => return Ok(Found::More),
                _ => {}
            }
        }
    }

    /// Logs an outage when it begins, and when it is over.
    fn report(&self, round: Result<Found>) {
        let error = round.err();
        let noted = error.clone();
        let before = self
            .kept
            .update(|health| std::mem::replace(&mut health.last_error, noted));
        let place = self.history.place();
        match (before, error) {
            (None, Some(error)) => {
                warn!(history = place, %error,
                    "the history is not written; the records wait in the store");
            }
            (Some(_), Some(error)) => debug!(history = place, %error, "still not written"),
            (Some(_), None) => info!(history = place, "the history is written again"),
            (None, None) => {}
        }
    }

    async fn ask_status(&self) {
        let waiting = match self.store.ends_status().await {
            Ok(waiting) => waiting,
            Err(error) => {
                debug!(%error, "cannot read how much waits for the history");
                return;
            }
        };
        let now = self.clock.now();
        let lost = self.kept.update(|health| {
            let lost = health.note(waiting, now);
            if let Some(samples) = &self.samples {
                let behind = Duration::from_millis(health.behind_ms);
                samples.waiting(&waiting, health.refused, behind);
            }
            lost
        });
        if lost > 0 {
            warn!(
                lost,
                "records of ended tasks were dropped: they had waited for the history \
                  until the bound was reached; raise `history_buffer`"
            );
        }
    }

    /// The retention, with that of the types that workers here run.
    async fn retention(&self) -> Result<HistoryRetention> {
        let mut retention = self.retention.clone();
        let Some(TypeRetention(of_type)) = &self.of_type else {
            return Ok(retention);
        };
        for task_type in self.store.types().await? {
            if let Some(own) = of_type(&task_type) {
                retention = retention.of_types(TypePattern::Exact(task_type), own);
            }
        }
        Ok(retention)
    }

    async fn expire(&self) {
        let now = self.clock.now();
        let expired = match self.retention().await {
            Ok(retention) => self.history.expire(&retention, now).await,
            Err(error) => Err(error),
        };
        let wanted = self.retention.all.unwrap_or(FOREVER);
        let is_held = self
            .kept
            .update(|health| health.note_expired(&expired, wanted, now));
        let (history, kept_for) = (self.history.place(), wanted);
        if is_held {
            warn!(
                history,
                ?kept_for,
                "lives are kept longer than `history_retention` here: another \
                instance has said so within a day"
            );
        }
        match expired {
            Ok(expired) if expired.lives == 0 => {}
            Ok(Expired { lives, .. }) => {
                debug!(lives, "lives whose retention is over were removed");
            }
            Err(error) => warn!(history, %error, "lives whose retention is over are removed later"),
        }
    }
}

/// Refuses a store that cannot record the ends of its tasks.
pub(crate) async fn check_store(store: &dyn Store) -> Result<()> {
    match store.ends_status().await {
        Err(Error::Unsupported(_)) => Err(Error::misconfigured(
            store.name(),
            "it does not record the ends of its tasks, which `history` needs",
            "leave `history` out; a server has the option itself",
        )),
        // It is tried again.
        _ => Ok(()),
    }
}
