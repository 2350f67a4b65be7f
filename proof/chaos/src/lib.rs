//! Breaks delayq on purpose, records what happens, and checks the promises against the record.
//!
//! Four ways to use it:
//!
//! - **As a program.** `delayq-chaos run` does faults to processes of its own, `power` takes the
//!   power away from a store; `check` judges a record again, `plot` draws it.
//! - **On your own workers.** Implement [`run::Application`] (your plugin, and a task to send), and
//!   give it to [`run::run`]: your program is started again as worker and submitter processes,
//!   which are killed, stopped and cut off. The guide in `docs/guide/chaos.md` and the example
//!   `own_workers` show it.
//! - **Piece by piece.** Every process of a run appends [`event`]s to a file of its own through a
//!   [`record::Recorder`]; a [`record::RecordedStore`] wraps a store, a [`record::RecordedWorker`]
//!   a worker.
//! - **As a judge.** [`history`] reads the files of a run, whoever wrote them, and [`check`] holds
//!   them against each promise.
//!
//! ```no_run
//! use delayq_chaos::run::{AnyError, Application, Args, Place, run};
//! use delayq_plugin::{DelayQueueJob, DelayQueuePlugin, DelayQueuePluginBuilder, Result};
//!
//! struct Shop;
//!
//! impl Application for Shop {
//!     async fn plugin(&self, _place: &Place) -> Result<DelayQueuePluginBuilder, AnyError> {
//!         Ok(DelayQueuePlugin::builder()) // registered workers are in it
//!     }
//!
//!     fn job(&self, number: u64) -> Result<DelayQueueJob> {
//!         DelayQueueJob::new("order.charge", &number)
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     run(Shop, &Args::default()).into() // 0: held, 1: broken, 2: proves nothing
//! }
//! ```

pub mod check;
#[cfg(doctest)]
mod documents;
pub mod event;
pub mod fault;
pub mod history;
pub mod plot;
pub mod power;
mod proxy;
pub mod record;
pub mod run;
