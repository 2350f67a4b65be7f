//! Counts of one kind of store call.

use std::sync::OnceLock;
use std::time::Duration;

use delayq_core::Error;
use metrics::{Counter, Histogram, SharedString, counter, histogram};

use super::table::{CALL_TIME, CALLS, NAMESPACE};

/// Handles of one kind of call, created on the first call: few processes use all kinds.
#[derive(Debug)]
pub(crate) struct CallCounts {
    name: &'static str,
    namespace: SharedString,
    common: OnceLock<Common>,
}

#[derive(Debug)]
struct Common {
    ok: Counter,
    time: Histogram,
}

impl CallCounts {
    pub(crate) fn new(name: &'static str, namespace: &SharedString) -> Self {
        Self {
            name,
            namespace: namespace.clone(),
            common: OnceLock::new(),
        }
    }

    /// A call was answered, or failed, after `took`.
    pub(crate) fn answered(&self, error: Option<&Error>, took: Duration) {
        let common = self.common.get_or_init(|| Common {
            ok: self.counter("ok"),
            time: histogram!(CALL_TIME, NAMESPACE => self.namespace.clone(), "call" => self.name),
        });
        common.time.record(took);
        match error {
            None => common.ok.increment(1),
            Some(error) => self.counter(outcome(error)).increment(1),
        }
    }

    fn counter(&self, outcome: &'static str) -> Counter {
        counter!(
            CALLS,
            NAMESPACE => self.namespace.clone(),
            "call" => self.name,
            "outcome" => outcome
        )
    }
}

fn outcome(error: &Error) -> &'static str {
    match error {
        Error::Unavailable { .. } => "unavailable",
        Error::Indeterminate { .. } => "in_doubt",
        Error::Full { .. } => "full",
        Error::ReadOnly { .. } => "read_only",
        Error::Corrupt { .. } | Error::Incompatible { .. } => "damaged",
        Error::Closed(_) => "closed",
        _ => "refused",
    }
}
