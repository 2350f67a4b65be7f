//! Breaks delayq on purpose, records what happens, and checks the promises against the record.
//!
//! Every process of a run appends [`event`]s to a file of its own through a [`record::Recorder`]; wrap
//! your store in a [`record::RecordedStore`] and your workers in [`record::RecordedWorker`]s.
//! [`history`] reads the files of a run, and [`check`] holds them against each promise.
//! [`sim`] attacks a model of the state machine instead, millions of lifecycles at a time.

pub mod check;
pub mod event;
pub mod fault;
pub mod history;
mod proxy;
pub mod record;
pub mod run;
pub mod sim;
