//! Places: the store that a namespace is in, and its move to another one while it is in use.
//!
//! ```text
//!   preparing   tasks go to the old store; settings and documents are copied to the new one
//!   moving      each type of the old store takes no new task (a bound of 0); what it does not know
//!               goes to the new one, and what it has ends there
//!   done        the old store has been empty for the retention: the new one is the place
//! ```
//!
//! A submit asks the old store first. Closed, it answers for every id that it knows and refuses the
//! others in the same atomic step, so no id is ever in both, whatever any server has heard so far.

mod book;
mod chronicle;
mod documents;
mod home;
mod mover;
mod operate;
mod placed_store;
mod presence;
mod record;
mod replies;
mod side;
mod store;
#[cfg(test)]
mod tests;

pub use book::PlaceBook;
pub use mover::{MoveStatus, Mover, Patience};
pub use placed_store::PlacedStore;
pub use record::Phase;
