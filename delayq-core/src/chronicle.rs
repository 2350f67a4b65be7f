//! The chronicle: figures of each type, minute by minute, and a log of operators' actions. For
//! people; no operation on tasks reads it.

use async_trait::async_trait;

mod action;
mod chunk;
mod figures;
mod lateness;

pub use action::{
    Action, ActionEnd, LoggedAction, MAX_ACTION_PAGE, MAX_ACTION_TEXT, MAX_ACTIONS, decode_action,
    encode_action,
};
pub use chunk::{ChunkChange, changes, merge, read_chunks, slots};
pub use figures::{
    Figures, HOUR_CHUNK_BYTES, HOUR_SLOTS, MINUTE_CHUNK_BYTES, MINUTE_SLOTS, Spell, Step,
};
pub use lateness::{LATENESS_BUCKETS, Lateness};

use crate::error::{Error, Result};
use crate::name::TaskType;
use crate::time::Timestamp;

/// Records that a store keeps for people to look at later. Both kinds are limited: figures to less
/// than 100 KiB a type, actions to [`MAX_ACTIONS`] a namespace. The methods are optional: a store
/// without one answers [`Error::Unsupported`].
#[async_trait]
pub trait Chronicle: Send + Sync {
    /// Adds the counts of an instance for each of these minutes to the store's figures for them.
    /// The store keeps minutes for 24 hours and hours for 30 days, by its own clock or by the
    /// newest minute it was given. Older figures are dropped.
    ///
    /// A repeated call counts twice, so a caller in doubt drops the figures instead.
    async fn add_figures(&self, task_type: &TaskType, minutes: &[Spell]) -> Result<()> {
        let _ = (task_type, minutes);
        Err(Error::Unsupported("add_figures"))
    }

    /// The figures of a type since `since`, including the span that contains it, in order of time.
    /// Minutes or hours without events are left out. Those of [`Step::Minute`] reach 24 hours back,
    /// those of [`Step::Hour`] 30 days.
    async fn figures(
        &self,
        task_type: &TaskType,
        step: Step,
        since: Timestamp,
    ) -> Result<Vec<Spell>> {
        let _ = (task_type, step, since);
        Err(Error::Unsupported("figures"))
    }

    /// Adds an operator's action to the log, at the store's present time. A full store also takes
    /// it. The oldest action beyond [`MAX_ACTIONS`] is forgotten. No operation changes or removes
    /// one.
    async fn log_action(&self, action: &Action) -> Result<()> {
        let _ = action;
        Err(Error::Unsupported("log_action"))
    }

    /// Up to `limit` (at most [`MAX_ACTION_PAGE`]) actions, latest first; with `before`, only those
    /// before the one with that number.
    async fn actions(&self, before: Option<u64>, limit: usize) -> Result<Vec<LoggedAction>> {
        let _ = (before, limit);
        Err(Error::Unsupported("actions"))
    }
}
