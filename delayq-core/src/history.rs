//! History: what became of every task, for as long as somebody wants to know.
//!
//! A store that records the ends of a type writes one [`Life`] for each end, in the same step in
//! which the task ends, into a queue: its [`Ends`]. A shipper moves them from there into a history
//! database, which holds each of them once, however often it is shipped.

mod ends;
mod kept_message;
mod life;
mod life_outcome;

pub use ends::{DEFAULT_HISTORY_BUFFER, EndPosition, Ends, EndsStatus, MAX_ENDS, WaitingEnd};
pub use kept_message::{KeptMessage, Recording};
pub use life::{Life, MAX_LABEL, PROJECT_HEADER, label};
pub use life_outcome::LifeOutcome;
