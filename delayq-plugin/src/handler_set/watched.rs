//! A kind of maintenance call, and its part of the log.

use delayq_core::Result;
use tracing::{debug, warn};

use crate::outage::OutageCaller;

/// One kind of call. An outage of the store is logged together with that of the handlers. Of
/// several refusals in a row, the first has a line of its own.
#[derive(Debug)]
pub(super) struct Watched {
    outage: OutageCaller,
    what: &'static str,
    is_refused: bool,
}

impl Watched {
    pub(super) fn new(outage: OutageCaller, what: &'static str) -> Self {
        let is_refused = false;
        Self {
            outage,
            what,
            is_refused,
        }
    }

    pub(super) fn report<T>(&mut self, result: &Result<T>) {
        let what = self.what;
        match result {
            Ok(_) => {
                self.outage.answered();
                self.is_refused = false;
            }
            Err(error) if error.is_transient() => self.outage.failed(error),
            Err(error) => {
                // A refusal is an answer, so there is no outage.
                self.outage.answered();
                if std::mem::replace(&mut self.is_refused, true) {
                    debug!(what, %error, "the store still refuses");
                } else {
                    warn!(what, %error, "the store refused; trying again");
                }
            }
        }
    }
}
