//! The longest store calls, as the metrics of delayq tell them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

use crate::Failure;

/// The time of a store call, by its name.
const CALL_TIME: &str = "delayq_store_call_seconds";
/// Calls that somebody makes who looks; all others are those of handlers and senders.
const READS: [&str; 9] = [
    "stats",
    "list",
    "find",
    "types",
    "due_histogram",
    "instances",
    "figures",
    "actions",
    "check",
];
/// Nobody reads any more when no call has ended for so long.
const QUIET: Duration = Duration::from_millis(400);

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) ms: f64,
}

/// Keeps the longest reading call. A recorder of the crate `metrics`.
#[derive(Clone, Debug)]
pub(crate) struct CallTimes(Arc<Mutex<Seen>>);

#[derive(Debug)]
struct Seen {
    slowest: Option<Call>,
    last_at: Instant,
}

impl CallTimes {
    /// The recorder of this process from now on.
    pub(crate) fn install() -> Result<Self, Failure> {
        let seen = Seen {
            slowest: None,
            last_at: Instant::now(),
        };
        let times = Self(Arc::new(Mutex::new(seen)));
        metrics::set_global_recorder(times.clone()).map_err(|error| error.to_string())?;
        Ok(times)
    }

    /// The longest one since this was asked last.
    pub(crate) fn take_slowest(&self) -> Option<Call> {
        self.lock().slowest.take()
    }

    /// Waits until nobody reads: what a page goes on to read after its answer counts, too.
    pub(crate) async fn quiet(&self) {
        loop {
            let since = self.lock().last_at.elapsed();
            let Some(rest) = QUIET.checked_sub(since) else {
                return;
            };
            tokio::time::sleep(rest).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The times of one kind of call.
struct OfCall {
    name: String,
    times: CallTimes,
}

impl HistogramFn for OfCall {
    fn record(&self, seconds: f64) {
        let ms = seconds * 1_000.0;
        let mut seen = self.times.lock();
        seen.last_at = Instant::now();
        if seen.slowest.as_ref().is_none_or(|call| call.ms < ms) {
            let name = self.name.clone();
            seen.slowest = Some(Call { name, ms });
        }
    }
}

impl Recorder for CallTimes {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let call = key.labels().find(|label| label.key() == "call");
        let call = call.filter(|call| key.name() == CALL_TIME && READS.contains(&call.value()));
        call.map_or_else(Histogram::noop, |call| {
            Histogram::from_arc(Arc::new(OfCall {
                name: call.value().to_owned(),
                times: self.clone(),
            }))
        })
    }
}
