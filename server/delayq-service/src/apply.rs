//! The declared state of a server: types, targets, recurring tasks and tokens, as files say it.
//!
//! A [`State`] is read and checked, a [`Plan`] holds it against what the stores have, and carrying
//! it out calls the [operations](crate::operation) that every entry calls.

mod content;
mod document;
mod item;
mod note;
mod plan;
mod present;
mod refusal;
mod report;
mod run;
mod secret_folder;
mod sharding;
mod source;
mod token_state;
mod wanted;

pub use document::State;
pub use item::{Change, Item, Key, Kind};
pub use plan::{Plan, PlanOptions};
pub use refusal::Refusal;
pub use report::Report;
pub use run::carry_out;
pub use secret_folder::SecretFolder;
