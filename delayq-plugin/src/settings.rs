//! Settings that all handlers of a plugin share.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::history::Recording;
use delayq_core::{Clock, SystemClock};

use crate::company::Company;
use crate::slots::Slots;
use crate::telemetry::Telemetry;

/// A task whose lock has expired this many times is poison, if it ran alone at last.
const MAX_LOCK_EXPIRIES: u32 = 3;

/// Limits on the dead tasks of each served type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeadBounds {
    /// How long a dead task is kept; `None`: until somebody requeues or discards it.
    pub(crate) retention: Option<Duration>,
    /// The maximum number; `None`: no limit.
    pub(crate) most: Option<u64>,
}

/// The builder's settings for handlers, and the handlers' reporting.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) poll: Duration,
    /// Number of scheduler threads that all types share; `None`: a thread for each of the first
    /// types.
    pub(crate) threads: Option<usize>,
    /// Handlers run on the application's runtime, alongside the workers.
    pub(crate) on_app_runtime: bool,
    pub(crate) max_lock_expiries: u32,
    pub(crate) company: Company,
    pub(crate) dead: DeadBounds,
    /// Whether the ends of types are recorded whose workers do not say.
    pub(crate) recording: Option<Recording>,
    pub(crate) slots: Slots,
    pub(crate) telemetry: Telemetry,
    /// With metrics, the store's gauges are set by this process.
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
            company: Company::default(),
            dead: DeadBounds::default(),
            recording: None,
            slots: Slots::default(),
            telemetry: Telemetry::new(&(Arc::new(SystemClock) as Arc<dyn Clock>)),
            has_gauges: true,
        }
    }
}
