//! The state machine of tasks, locks, fences, clocks and crashes, as a simulation without I/O.
//!
//! A world is a store, up to three handlers, four submitters, an operator, and what is between them.
//! Every step of it is a value (`step`), so a world is repeated by its seed, and cut down to the
//! steps that matter. The judge knows what the store answered, not what it holds, and compares.

#![allow(
    clippy::indexing_slicing,
    reason = "the model's places are small numbers that it makes itself; a wrong one is a defect of \
              the model and has to end the run"
)]

mod bug;
mod call;
mod command;
mod driver;
mod handler;
mod judge;
mod network;
mod recovery;
mod row;
mod run;
mod scope;
mod step;
mod store;
mod strike;
mod tally;
mod trace;
mod truth;
mod violation;
mod world;

pub use bug::Bug;
pub use command::SimArgs;
pub use run::{Plan, Report, run};
pub use scope::{Exhausted, exhaust};
pub use trace::Finding;
pub use violation::Violation;
