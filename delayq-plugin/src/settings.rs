//! Settings that all handlers of a plugin share.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::{Clock, SystemClock};

use crate::slots::Slots;
use crate::telemetry::Telemetry;

/// A task whose lock has expired this often is poison.
const MAX_LOCK_EXPIRIES: u32 = 3;

/// Bounds of the dead tasks of each served type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeadBounds {
    /// How long one is kept; `None`: until somebody requeues or discards it.
    pub(crate) retention: Option<Duration>,
    /// The most; `None`: any number.
    pub(crate) most: Option<u64>,
}

/// What the builder says about handlers, and what they report with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) poll: Duration,
    /// Scheduler threads that all types share; `None`: one for each of the first types.
    pub(crate) threads: Option<usize>,
    /// Handlers run on the application's runtime, beside the workers.
    pub(crate) on_app_runtime: bool,
    pub(crate) max_lock_expiries: u32,
    pub(crate) dead: DeadBounds,
    pub(crate) slots: Slots,
    pub(crate) telemetry: Telemetry,
    /// The gauges of the store are set here, where there are metrics.
    pub(crate) has_gauges: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            poll: Duration::from_secs(1),
            threads: None,
            on_app_runtime: false,
            max_lock_expiries: MAX_LOCK_EXPIRIES,
            dead: DeadBounds::default(),
            slots: Slots::default(),
            telemetry: Telemetry::new(&(Arc::new(SystemClock) as Arc<dyn Clock>)),
            has_gauges: true,
        }
    }
}
