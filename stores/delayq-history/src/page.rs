//! A page of lives.

use std::fmt;
use std::str::FromStr;

use delayq_core::Timestamp;
use delayq_core::error::{Error, Result};
use delayq_core::history::Life;
use serde::{Serialize, Serializer};

/// The place of a life in the order of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a time, and a number in it")]
pub struct HistoryCursor {
    /// The end of the life.
    pub ended_at: Timestamp,
    /// Its number in the database.
    pub number: i64,
}

impl fmt::Display for HistoryCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.ended_at.as_millis(), self.number)
    }
}

impl FromStr for HistoryCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once('.');
        let parts = parts.and_then(|(at, number)| Some((at.parse().ok()?, number.parse().ok()?)));
        let (at, number) = parts.ok_or_else(|| {
            let reason = format!("{text:?}: give the `next` of the page before, as it is");
            Error::invalid("cursor", reason)
        })?;
        Ok(Self {
            ended_at: Timestamp::from_millis(at),
            number,
        })
    }
}

impl Serialize for HistoryCursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A page of lives, latest end first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(clippy::exhaustive_structs, reason = "lives, and the next page")]
pub struct HistoryPage {
    /// The lives.
    pub lives: Vec<Life>,
    /// The end of this page, if there is another.
    pub next: Option<HistoryCursor>,
}

/// A row that a search has found.
#[derive(Clone, Debug)]
pub(crate) struct FoundLife {
    pub(crate) cursor: HistoryCursor,
    /// `None` if a name in it is none.
    pub(crate) life: Option<Life>,
    /// Its message is missing, because those of the rows before fill a page.
    pub(crate) is_cut: bool,
}

impl HistoryPage {
    /// The page of rows, of which one more than `limit` was asked for. A row without a life is
    /// damaged, and left out.
    pub(crate) fn of(mut found: Vec<FoundLife>, limit: usize) -> Self {
        let fit = found.iter().position(|row| row.is_cut);
        let most = limit.min(fit.unwrap_or(limit));
        let has_more = found.len() > most;
        found.truncate(most);
        let next = found.last().map(|row| row.cursor);
        let lives = found.into_iter().filter_map(|row| row.life).collect();
        Self {
            lives,
            next: next.filter(|_| has_more),
        }
    }
}
