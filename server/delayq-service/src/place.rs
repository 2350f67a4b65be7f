//! Places: the store of each namespace, and its move to another store while in use.
//!
//! ```text
//!   preparing   tasks go to the old store; settings and documents are copied to the new one
//!   moving      each type of the old store takes no new task (a bound of 0); what it does not know
//!               goes to the new one, and what it has ends there
//!   done        the old store has been empty for the retention: the new one is the place
//! ```
//!
//! A submit asks the old store first. A closed type there answers for every id that it knows and
//! refuses the others in the same atomic step. So no id is ever in both stores, even if a server
//! has not yet heard of the move.

mod book;
mod chronicle;
mod documents;
mod ends;
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
