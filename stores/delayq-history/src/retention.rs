//! How long lives are kept.

use std::time::Duration;

use delayq_core::time::{days, duration_ms};
use delayq_core::{TaskType, Timestamp, TypePattern};

/// The retention of what is never removed.
pub const FOREVER: Duration = Duration::MAX;

/// How long a longer retention of another instance counts after it was said.
const HELD: Duration = days(1);

/// What the removal of lives has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expired {
    /// Lives that were removed one by one. Those that went with their month are not counted.
    pub lives: u64,
    /// How long the lives of the namespace are kept; [`FOREVER`] if they are not removed. A
    /// retention that is shorter than before counts after a day in which no instance has said the
    /// longer one.
    pub kept_for: Duration,
}

impl Expired {
    pub(crate) fn of(lives: u64, kept_ms: i64) -> Self {
        let kept_for = match kept_ms {
            i64::MAX => FOREVER,
            ms => Duration::from_millis(ms.unsigned_abs()),
        };
        Self { lives, kept_for }
    }

    /// What was said since this time counts.
    pub(crate) fn held_since(now: Timestamp) -> i64 {
        now.minus(HELD).as_millis()
    }
}

/// How long the lives of a namespace are kept after their ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryRetention {
    /// The retention of all types that have none of their own; `None`: for ever.
    pub all: Option<Duration>,
    /// The retention of the types of a pattern; [`FOREVER`]: they are never removed. Of several
    /// patterns that match a type, the closest counts. It is kept in the database, and holds for
    /// the type until another one is said: a longer one from then on, a shorter one a day after
    /// the longer one was said for the last time.
    pub types: Vec<(TypePattern, Duration)>,
}

impl HistoryRetention {
    /// Keeps all lives for this long; `None`: for ever.
    #[must_use]
    pub fn of_all(all: Option<Duration>) -> Self {
        Self {
            all,
            types: Vec::new(),
        }
    }

    /// The same, but keeps the lives of a type, or of the types of a pattern, for this long.
    #[must_use]
    pub fn of_types(mut self, types: TypePattern, retention: Duration) -> Self {
        self.types.push((types, retention));
        self
    }

    /// The retention of all, in milliseconds.
    pub(crate) fn all_ms(&self) -> i64 {
        duration_ms(self.all.unwrap_or(FOREVER))
    }

    /// The retention of a type by its name, in milliseconds; `None`: nothing is said of it.
    pub(crate) fn of_type(&self, name: &str) -> Option<i64> {
        let task_type = TaskType::new(name).ok()?;
        let matching = self.types.iter();
        let matching = matching.filter(|(pattern, _)| pattern.matches(&task_type));
        let closest = matching.max_by_key(|(pattern, _)| pattern.rank());
        closest.map(|(_, own)| duration_ms(*own))
    }
}

#[cfg(test)]
mod tests {
    use delayq_core::days;

    use super::*;

    #[test]
    fn the_closest_pattern_says_how_long_a_type_is_kept() {
        let pattern = |text: &str| TypePattern::new(text).unwrap();
        let keep = HistoryRetention::of_all(Some(days(400)))
            .of_types(pattern("*"), days(3))
            .of_types(pattern("mail.*"), days(2))
            .of_types(pattern("mail.bill"), FOREVER);
        let day = duration_ms(days(1));
        for (name, kept) in [
            ("order", 3 * day),
            ("mail.ad", 2 * day),
            ("mail.bill", i64::MAX),
        ] {
            assert_eq!(keep.of_type(name), Some(kept), "{name}");
        }
        assert_eq!(HistoryRetention::default().of_type("order"), None);
    }
}
