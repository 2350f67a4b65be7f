//! Settings of a type that are kept in the store, so that everybody obeys them.

use crate::error::{Error, Result};
use crate::fleet::{FleetLimits, Rate};

/// Most shards of a type. Each instance polls each of them about once a second.
pub const MAX_SHARDS: u32 = 256;

/// What becomes of one setting of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Setting<T> {
    /// It stays as it is, whatever that is. The default.
    #[default]
    Keep,
    /// It is taken away: the type has none, as at first.
    Unset,
    /// It is set.
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
/// What is not named stays as it is, so that two processes that set different things do not undo
/// each other.
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
    /// Most scheduled tasks; see [`max_pending`](Self::max_pending).
    pub max_pending: Setting<u64>,
    /// How many shards the type has at least; see [`shards`](Self::shards).
    pub shards: Option<u32>,
    /// Most tasks that run in the fleet; see [`fleet_concurrency`](Self::fleet_concurrency).
    pub fleet_concurrency: Setting<u32>,
    /// Starts in a span; see [`fleet_rate`](Self::fleet_rate).
    pub fleet_rate: Setting<Rate>,
}

impl TypeSettings {
    /// Submits of new tasks are refused with [`Error::QueueFull`](crate::Error::QueueFull) while so
    /// many are scheduled; `None` lifts that.
    #[must_use]
    pub fn max_pending(self, most: Option<u64>) -> Self {
        Self {
            max_pending: most.into(),
            ..self
        }
    }

    /// Most tasks of the type that run at the same time in the whole fleet, at least 1, for every
    /// claim from now on. It takes the place of the workers' option, be it stricter or looser;
    /// `None` leaves them theirs. It counts locks, which an at-most-once type gives up before its
    /// tasks start. A type with several shards has none.
    #[must_use]
    pub fn fleet_concurrency(self, most: Option<u32>) -> Self {
        Self {
            fleet_concurrency: most.into(),
            ..self
        }
    }

    /// How many tasks of the type are started in a span in the whole fleet; otherwise as
    /// [`fleet_concurrency`](Self::fleet_concurrency).
    #[must_use]
    pub fn fleet_rate(self, rate: Option<Rate>) -> Self {
        Self {
            fleet_rate: rate.into(),
            ..self
        }
    }

    /// Refuses limits that cannot be kept, and numbers of shards that cannot be, for stores.
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

    /// Whether it sets a limit of the fleet.
    #[must_use]
    pub fn limits_fleet(&self) -> bool {
        let mut fleet = FleetLimits::NONE;
        self.apply_fleet(&mut fleet);
        fleet != FleetLimits::NONE
    }

    /// Applies the change to the limits of the fleet, for stores.
    pub fn apply_fleet(&self, fleet: &mut FleetLimits) {
        self.fleet_concurrency.apply(&mut fleet.concurrency);
        self.fleet_rate.apply(&mut fleet.rate);
    }

    /// Gives the type at least so many shards (1 to [`MAX_SHARDS`]; 1 at first), each of which is a
    /// bucket of its own: on a Redis cluster they lie on different nodes. The number is never
    /// lowered: fewer than there are change nothing. A store with one writer does nothing. A type
    /// with a fleet limit has one shard.
    #[must_use]
    pub fn shards(self, shards: u32) -> Self {
        Self {
            shards: Some(shards),
            ..self
        }
    }
}
