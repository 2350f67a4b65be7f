//! Settings of a type that are kept in the store, so that everybody obeys them.

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
