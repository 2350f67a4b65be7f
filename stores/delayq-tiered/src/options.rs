//! Options of a tier.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::StoreOptions;
use delayq_core::{Clock, Error, Result, SystemClock, hours, minutes, seconds};

/// How long before its due time a task is moved to hot. Part of the stored format: the due time of
/// a task in cold is this much earlier than its real one.
pub const LEAD: Duration = seconds(60);

/// The horizon unless another one is given.
pub const DEFAULT_HORIZON: Duration = hours(1);

/// The shortest horizon.
pub const MIN_HORIZON: Duration = minutes(5);

/// How long the lock of a promoter lasts.
const LOCK: Duration = seconds(10);

/// The longest time between two looks of a promoter at a type.
const POLL: Duration = seconds(5);

/// How long hot has to remember an ended task, beside the lead.
const MARGIN: Duration = seconds(60);

/// The options of a tier.
#[derive(Clone, Debug)]
pub struct TierOptions {
    pub(crate) horizon: Duration,
    pub(crate) retention: Duration,
    /// The time limit of a call.
    pub(crate) patience: Duration,
    pub(crate) lead: Duration,
    pub(crate) lock: Duration,
    pub(crate) poll: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) moves_nothing: bool,
    is_checked: bool,
}

impl TierOptions {
    /// Tasks due later than `horizon` from now wait in cold. `stores` are the options with which
    /// both stores were opened.
    #[must_use]
    pub fn new(horizon: Duration, stores: &StoreOptions) -> Self {
        Self {
            horizon,
            retention: stores.retention,
            patience: stores.call_timeout,
            lead: LEAD,
            lock: LOCK,
            poll: POLL,
            clock: Arc::new(SystemClock),
            moves_nothing: false,
            is_checked: true,
        }
    }

    /// Other times than those of the format, and no check of the retention. For tests: the tasks in
    /// cold cannot be read with another lead.
    #[doc(hidden)]
    #[must_use]
    pub fn for_tests(self, lead: Duration, lock: Duration, clock: Arc<dyn Clock>) -> Self {
        Self {
            lead,
            lock,
            poll: (lead / 10).max(Duration::from_millis(10)),
            clock,
            is_checked: false,
            ..self
        }
    }

    /// Leaves it to other processes to move tasks to hot. A program whose retention is not that of
    /// the application cannot tell what hot still remembers.
    #[must_use]
    pub fn moving_nothing(self) -> Self {
        Self {
            moves_nothing: true,
            ..self
        }
    }

    /// Refuses a horizon that is too short, and a retention with which a task could run twice: an
    /// instance that repeats a move asks hot whether the task has ended meanwhile.
    ///
    /// # Errors
    /// `InvalidInput`.
    pub fn check(&self) -> Result<()> {
        if !self.is_checked {
            return Ok(());
        }
        if self.horizon < MIN_HORIZON {
            let horizon = self.horizon;
            let reason = format!("{horizon:?} is too short: give at least 5 minutes");
            return Err(Error::invalid("horizon", reason));
        }
        let least = LEAD + MARGIN;
        if self.retention <= least {
            let retention = self.retention;
            let reason = format!(
                "{retention:?} is too short for a cold store: give more than {least:?}, so that a \
                 task that is moved twice is recognised"
            );
            return Err(Error::invalid("retention", reason));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_horizon_or_a_retention_that_is_too_short_is_refused() {
        let options = |horizon, retention| {
            let stores = StoreOptions {
                retention,
                ..StoreOptions::default()
            };
            TierOptions::new(horizon, &stores).check()
        };
        assert_eq!(options(MIN_HORIZON, seconds(121)), Ok(()));
        let short = options(Duration::from_millis(299_999), seconds(121));
        assert!(
            short
                .unwrap_err()
                .to_string()
                .contains("at least 5 minutes")
        );
        let forgets = options(MIN_HORIZON, seconds(120));
        assert!(forgets.unwrap_err().to_string().contains("more than 120s"));
    }
}
