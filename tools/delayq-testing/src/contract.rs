//! The contract suite: a test for each sentence of the documentation of [`Store`].
//!
//! A store's author implements [`StoreUnderTest`] (two methods) and names the suites that apply:
//!
//! | suite | for |
//! |---|---|
//! | [`contract_suite!`](crate::contract_suite) | every store |
//! | [`id_suite!`](crate::id_suite) | every store |
//! | [`limit_suite!`](crate::limit_suite) | bounds and fleet limits of types with one bucket |
//! | [`sharded_suite!`](crate::sharded_suite) | stores that shard types |
//! | [`shared_suite!`](crate::shared_suite) | stores whose data other processes can open |
//! | [`damage_suite!`](crate::damage_suite) | data that a test can damage: [`Damageable`] |
//! | [`clock_suite!`](crate::clock_suite) | clocks that a test sets: [`SettableClock`] |
//!
//! Each sentence becomes a `#[tokio::test]` of that name, in its own namespace, and ends with an
//! audit. Tests of one suite run in parallel.
//!
//! The suites claim from every bucket of a type in turn and settle each lock where it was claimed.
//! Order is asserted within a bucket.

#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests: their names are the sentences, a panic is a failure"
)]

mod again;
mod bound;
mod cancel;
mod change;
mod chronicle;
mod claim;
mod clock;
mod damage;
mod data;
mod dead;
mod debounce;
mod defects;
mod documents;
mod drop;
mod duplicate;
mod ended;
mod expiry;
mod explain;
mod fleet;
mod history;
mod instances;
mod list;
mod lock;
mod micros;
mod note;
mod origins;
mod pause;
mod query;
mod repeat;
mod replies;
mod rig;
mod round;
mod samples;
mod settings;
mod settle;
mod sharded;
mod shared;
mod submit;
mod suites;
mod wakeup;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::store::StoreOptions;
use delayq_core::{Store, TaskId, TaskType, Timestamp};

pub use clock::Timed;
pub use damage::Damaged;
pub use rig::Rig;
pub use suites::*;

/// A place for opening stores, and the clock that they use.
#[async_trait]
pub trait StoreUnderTest: Send + Sync + 'static {
    /// Opens the store with the namespace and retention of `options`; the durability depends on the
    /// place.
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store>;

    /// Lets `span` pass on the stores' clock: advances a virtual clock, or waits.
    async fn advance(&self, span: Duration);

    /// True for a sentence that its author says the store does not keep. By default it keeps all.
    fn leaves_out(&self, sentence: &str) -> bool {
        let _ = sentence;
        false
    }
}

/// A damage to the stored data of one task, behind the store's back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A bit of its message flips.
    Message,
    /// Its index entry is lost: no index leads to the record any more.
    Place,
    /// Its record is lost: an index entry leads to nothing.
    Record,
}

/// A place where a test can damage stored data.
#[async_trait]
pub trait Damageable: StoreUnderTest {
    /// Damages the task `id`, which is scheduled in a store opened with `options`.
    async fn damage(
        &self,
        options: &StoreOptions,
        task_type: &TaskType,
        id: &TaskId,
        damage: Damage,
    );
}

/// A place whose clock a test can set.
pub trait SettableClock: StoreUnderTest {
    /// Sets the time of day, as an operator or NTP does.
    fn set_clock(&self, time: Timestamp);
}
