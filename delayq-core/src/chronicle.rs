//! The chronicle: figures of each type, minute by minute, and what operators did. For people; no
//! operation on tasks reads it.

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

/// What a store keeps for people to look at afterwards. Both are bounded: figures to less than 100
/// KiB a type, actions to [`MAX_ACTIONS`] a namespace. The methods are optional: a store that does
/// not have one answers [`Error::Unsupported`].
#[async_trait]
pub trait Chronicle: Send + Sync {
    /// Adds what an instance has counted in each of these minutes to what the store has of them.
    /// The store keeps minutes for 24 hours and hours for 30 days, by its own clock or by the
    /// newest minute it was given. What is older is dropped.
    ///
    /// Repeating it counts twice: a caller in doubt drops the figures instead.
    async fn add_figures(&self, task_type: &TaskType, minutes: &[Spell]) -> Result<()> {
        let _ = (task_type, minutes);
        Err(Error::Unsupported("add_figures"))
    }

    /// The figures of a type since `since`, the span that holds it included, by their time; minutes
    /// or hours in which nothing happened are left out. Those of [`Step::Minute`] reach 24 hours
    /// back, those of [`Step::Hour`] 30 days.
    async fn figures(
        &self,
        task_type: &TaskType,
        step: Step,
        since: Timestamp,
    ) -> Result<Vec<Spell>> {
        let _ = (task_type, step, since);
        Err(Error::Unsupported("figures"))
    }

    /// Adds an operator's action to the log, at the store's now. Also a full store takes it. The
    /// oldest one beyond [`MAX_ACTIONS`] is forgotten. No operation changes or removes one.
    async fn log_action(&self, action: &Action) -> Result<()> {
        let _ = action;
        Err(Error::Unsupported("log_action"))
    }

    /// Up to `limit` (at most [`MAX_ACTION_PAGE`]) actions, the latest first; those before the one
    /// numbered `before`, if that is given.
    async fn actions(&self, before: Option<u64>, limit: usize) -> Result<Vec<LoggedAction>> {
        let _ = (before, limit);
        Err(Error::Unsupported("actions"))
    }
}
