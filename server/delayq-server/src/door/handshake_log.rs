//! Logs failed TLS handshakes. Anybody can cause one, so log lines are rationed.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use delayq_service::limits::TokenBucket;
use tokio::time::Instant;
use tracing::{debug, warn};

/// The number of warnings in a burst; after that one every `SECONDS`.
const AT_ONCE: f64 = 5.0;
const SECONDS: f64 = 10.0;

/// The handshake log shared by all TLS listeners.
#[derive(Debug)]
pub(super) struct HandshakeLog(Mutex<Ration>);

#[derive(Debug)]
struct Ration {
    warnings: TokenBucket,
    /// The number of failures since the last warning that were not logged as warnings.
    withheld: u64,
}

impl HandshakeLog {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Ration {
            warnings: TokenBucket::new(1.0 / SECONDS, AT_ONCE, Instant::now()),
            withheld: 0,
        }))
    }

    /// Logs that a handshake with `peer` failed.
    pub(super) fn failed(&self, peer: SocketAddr, reason: &impl Display) {
        if let Some(withheld) = self.turn(Instant::now()) {
            warn!(%peer, %reason, withheld, "a TLS handshake failed");
        } else {
            debug!(%peer, %reason, "a TLS handshake failed");
        }
    }

    /// The number of failures withheld so far, if a warning is allowed now.
    fn turn(&self, now: Instant) -> Option<u64> {
        let mut ration = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !ration.warnings.wait(1, now).is_zero() {
            ration.withheld += 1;
            return None;
        }
        ration.warnings.take(1, now);
        Some(std::mem::take(&mut ration.withheld))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_and_the_next_one_has_the_number_of_the_others() {
        let (log, start) = (HandshakeLog::new(), Instant::now());
        let warned = (0..1_000).filter_map(|_| log.turn(start));
        assert_eq!(warned.collect::<Vec<_>>(), [0; 5]);
        assert_eq!(log.turn(start + Duration::from_secs(11)), Some(995));
    }
}
