//! The charge of a request, and the response headers that report it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::BucketOwner;
use super::bucket::Reading;
use crate::problem::Problem;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The charge of a request, or the reason why it was refused.
#[derive(Clone, Debug)]
pub struct Charge {
    cost: u32,
    wait: Duration,
    lines: Vec<ChargedBucket>,
}

/// One bucket of a charge.
#[derive(Clone, Debug)]
struct ChargedBucket {
    holder: BucketOwner,
    rate: u32,
    reading: Reading,
}

impl Charge {
    pub(super) fn new(cost: u32) -> Self {
        Self {
            cost,
            wait: Duration::ZERO,
            lines: Vec::new(),
        }
    }

    /// Delays the grant by at least `wait`.
    pub(super) fn require(&mut self, wait: Duration) {
        self.wait = self.wait.max(wait);
    }

    pub(super) fn note(&mut self, holder: BucketOwner, rate: u32, reading: Reading) {
        self.lines.push(ChargedBucket {
            holder,
            rate,
            reading,
        });
    }

    /// Returns true if the request may proceed.
    pub fn is_granted(&self) -> bool {
        self.wait.is_zero()
    }

    /// The time until it would be granted.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// The refusal of a charge that was not granted.
    pub fn refusal(&self) -> Problem {
        let whose: Vec<_> = self
            .lines
            .iter()
            .map(|line| format!("{} a second for the {}", line.rate, line.holder.policy()))
            .collect();
        let text = format!("more requests than {}: send fewer", whose.join(", "));
        Problem::too_many_requests(text, seconds(self.wait).max(1))
    }

    /// Refunds `requests`, or the whole charge if it is smaller.
    pub(super) fn give_back(
        &mut self,
        requests: u32,
        mut to: impl FnMut(&BucketOwner, u32) -> Option<Reading>,
    ) {
        if !self.is_granted() {
            return;
        }
        let back = requests.min(self.cost);
        for line in &mut self.lines {
            if let Some(reading) = to(&line.holder, back) {
                line.reading = reading;
            }
        }
        self.cost -= back;
    }

    /// Writes the headers `RateLimit-Policy` and `RateLimit`
    /// (draft-ietf-httpapi-ratelimit-headers).
    pub fn write(&self, headers: &mut HeaderMap) {
        let policy = self.lines.iter().map(|line| {
            let quota = line.rate.max(1);
            format!("\"{}\";q={quota};w=1", line.holder.policy())
        });
        let limit = self.lines.iter().map(|line| {
            let reset = seconds(line.reading.full_in);
            let remaining = line.reading.remaining.floor();
            format!("\"{}\";r={remaining:.0};t={reset}", line.holder.policy())
        });
        set(headers, POLICY, &policy.collect::<Vec<_>>());
        set(headers, LIMIT, &limit.collect::<Vec<_>>());
    }
}

fn set(headers: &mut HeaderMap, name: HeaderName, items: &[String]) {
    if items.is_empty() {
        return;
    }
    if let Ok(value) = HeaderValue::try_from(items.join(", ")) {
        headers.insert(name, value);
    }
}

/// Whole seconds, rounded up.
fn seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

/// Holds the charge of a request for the headers of its answer.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Option<Charge>>>);

impl Ledger {
    /// Records the charge.
    pub fn put(&self, charge: Charge) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(charge);
    }

    /// Takes the recorded charge.
    pub fn take(&self) -> Option<Charge> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
