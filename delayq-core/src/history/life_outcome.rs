//! The way in which a life ended.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::state::TaskState;

/// The way in which a task ended.
///
/// A dead letter has ended, too. If it is requeued, it lives again, and its next end is a record of
/// its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LifeOutcome {
    /// Its worker succeeded.
    Done,
    /// It failed for good and became a dead letter.
    Dead,
    /// It expired before it was done.
    Expired,
    /// It was cancelled.
    Cancelled,
    /// An operator removed it: a dead letter that was discarded, or a purge.
    Discarded,
}

impl LifeOutcome {
    /// All outcomes, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Done,
        Self::Dead,
        Self::Expired,
        Self::Cancelled,
        Self::Discarded,
    ];

    /// Its name: `done`, `dead`, `expired`, `cancelled` or `discarded`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Discarded => "discarded",
        }
    }

    /// Its number in stored data: 0 for done, 1 to 4 for the others in their order.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The outcome with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|of| of.number() == number)
    }

    /// The outcome of a task that ended in `state`; `None` for a state that is no end.
    #[must_use]
    pub fn of(state: TaskState) -> Option<Self> {
        match state {
            TaskState::Done => Some(Self::Done),
            TaskState::Dead => Some(Self::Dead),
            TaskState::Expired => Some(Self::Expired),
            TaskState::Cancelled => Some(Self::Cancelled),
            TaskState::Scheduled | TaskState::Running => None,
        }
    }
}

impl fmt::Display for LifeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LifeOutcome {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|of| of.as_str() == name);
        found.ok_or_else(|| {
            let forms = "done, dead, expired, cancelled or discarded";
            Error::invalid("outcome", format!("{name:?} is not one of {forms}"))
        })
    }
}
