//! Settings of a type kept in the store, so that they apply to all processes.

use crate::error::{Error, Result};
use crate::fleet::{FleetLimits, Rate};
use crate::history::KeptMessage;

/// Maximum number of shards of a type. Each instance polls each shard about once a second.
pub const MAX_SHARDS: u32 = 256;

/// The change of one setting of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Setting<T> {
    /// Unchanged, whatever its value. The default.
    #[default]
    Keep,
    /// Removed: the type has none, as at first.
    Unset,
    /// Set to this value.
    To(T),
}

impl<T> Setting<T> {
    /// Applies the change to `place`.
    pub fn apply(self, place: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Unset => *place = None,
            Self::To(value) => *place = Some(value),
        }
    }
}

impl<T> From<Option<T>> for Setting<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Unset, Self::To)
    }
}

/// A change of a type's settings, for [`Operate::configure_type`](super::Operate::configure_type).
/// Settings that are not named are not changed, so that two processes that set different ones do
/// not undo each other's change.
///
/// ```
/// use delayq_core::operate::TypeSettings;
///
/// let bound = TypeSettings::default().max_pending(Some(100_000));
/// let lifted = TypeSettings::default().max_pending(None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeSettings {
    /// Maximum number of scheduled tasks; see [`max_pending`](Self::max_pending).
    pub max_pending: Setting<u64>,
    /// Minimum number of shards; see [`shards`](Self::shards).
    pub shards: Option<u32>,
    /// Maximum number of running tasks in the fleet; see
    /// [`fleet_concurrency`](Self::fleet_concurrency).
    pub fleet_concurrency: Setting<u32>,
    /// Starts per span; see [`fleet_rate`](Self::fleet_rate).
    pub fleet_rate: Setting<Rate>,
    /// The record of each end; see [`history`](Self::history).
    pub history: Setting<KeptMessage>,
}

impl TypeSettings {
    /// Refuses submits of new tasks with [`Error::QueueFull`](crate::Error::QueueFull) while this
    /// many are scheduled; `None` removes the limit.
    #[must_use]
    pub fn max_pending(self, most: Option<u64>) -> Self {
        Self {
            max_pending: most.into(),
            ..self
        }
    }

    /// Maximum number of tasks of the type that run at the same time in the whole fleet, at least
    /// 1, for every claim from now on. It overrides the workers' option, whether stricter or
    /// looser; with `None` the workers' option applies. It counts locks, which an at-most-once type
    /// gives up before its tasks start. A type with several shards cannot have this limit.
    #[must_use]
    pub fn fleet_concurrency(self, most: Option<u32>) -> Self {
        Self {
            fleet_concurrency: most.into(),
            ..self
        }
    }

    /// Limits the starts of tasks of the type per span in the whole fleet; otherwise as
    /// [`fleet_concurrency`](Self::fleet_concurrency).
    #[must_use]
    pub fn fleet_rate(self, rate: Option<Rate>) -> Self {
        Self {
            fleet_rate: rate.into(),
            ..self
        }
    }

    /// Records the end of every task of the type from now on, with this part of its message;
    /// `None` records none. See [`Ends`](crate::history::Ends).
    #[must_use]
    pub fn history(self, kept: Option<KeptMessage>) -> Self {
        Self {
            history: kept.into(),
            ..self
        }
    }

    /// Refuses invalid limits and numbers of shards. Called by stores.
    ///
    /// # Errors
    /// `InvalidInput`.
    pub fn check(&self) -> Result<()> {
        let mut fleet = FleetLimits::NONE;
        self.apply_fleet(&mut fleet);
        if let Some(problem) = fleet.problem() {
            return Err(Error::invalid("setting", problem));
        }
        match self.shards {
            Some(shards) if !(1..=MAX_SHARDS).contains(&shards) => {
                let reason = format!("{shards} shards: use 1 to {MAX_SHARDS}");
                Err(Error::invalid("setting", reason))
            }
            _ => Ok(()),
        }
    }

    /// True if it sets a fleet limit.
    #[must_use]
    pub fn limits_fleet(&self) -> bool {
        let mut fleet = FleetLimits::NONE;
        self.apply_fleet(&mut fleet);
        fleet != FleetLimits::NONE
    }

    /// Applies the change to the fleet limits. Called by stores.
    pub fn apply_fleet(&self, fleet: &mut FleetLimits) {
        self.fleet_concurrency.apply(&mut fleet.concurrency);
        self.fleet_rate.apply(&mut fleet.rate);
    }

    /// Gives the type at least this many shards (1 to [`MAX_SHARDS`]; 1 at first). Each is a bucket
    /// of its own; on a Redis cluster they are on different nodes. The number is never lowered: a
    /// smaller number changes nothing. A store with one writer ignores this. A type with a fleet
    /// limit has one shard.
    #[must_use]
    pub fn shards(self, shards: u32) -> Self {
        Self {
            shards: Some(shards),
            ..self
        }
    }
}
