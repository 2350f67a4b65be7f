//! For tests on delayq, without a server and without waiting.
//!
//! - [`TestQueue`]: a queue for the tests of an application, with [`assert_scheduled!`],
//!   [`assert_dead!`] and their siblings.
//! - [`contract`]: the contract suite, which every store has to pass, including those of third
//!   parties.
//! - [`FaultyStore`]: a store that fails on request.
//! - [`VirtualClock`]: a clock that a test moves by hand.
//! - [`assert_state`] and its siblings: assertions on the state of a task.
//!
//! # A custom store
//!
//! A store implements [`Store`](delayq_core::Store), [`Operate`](delayq_core::Operate) and
//! [`Presence`](delayq_core::Presence). Its author defines how to open it and how its time passes,
//! and names the suites:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use delayq_core::Store;
//! use delayq_core::memory::MemoryStore;
//! use delayq_core::store::StoreOptions;
//! use delayq_testing::VirtualClock;
//! use delayq_testing::contract::StoreUnderTest;
//!
//! #[derive(Default)]
//! struct Mine {
//!     clock: VirtualClock,
//! }
//!
//! #[async_trait::async_trait]
//! impl StoreUnderTest for Mine {
//!     async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
//!         Arc::new(MemoryStore::new(Arc::new(self.clock.clone()), options))
//!     }
//!
//!     async fn advance(&self, span: Duration) {
//!         self.clock.advance(span);
//!     }
//! }
//!
//! delayq_testing::contract_suite!(Mine::default());
//! delayq_testing::id_suite!(Mine::default());
//! delayq_testing::limit_suite!(Mine::default());
//! # fn main() {}
//! ```
//!
//! `examples/own_store.rs` is a complete store that depends only on this crate and `delayq-core`.

mod assert;
pub mod contract;
mod faulty;
mod kit;

pub use assert::{assert_not_found, assert_scheduled, assert_state};
pub use delayq_core::VirtualClock;
pub use faulty::{Crash, Fault, FaultyStore, Observed};
pub use kit::TestQueue;

/// Items used by the expanded assertions.
#[doc(hidden)]
pub mod __kit {
    pub use crate::kit::{Due, check_dead, check_done, check_not_scheduled, check_scheduled};
}
