//! The executable specification passes its own suite.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::memory::MemoryStore;
use delayq_core::store::StoreOptions;
use delayq_core::{Store, Timestamp};
use delayq_testing::VirtualClock;
use delayq_testing::contract::{SettableClock, StoreUnderTest};

/// Memory stores on a virtual clock.
#[derive(Clone, Debug, Default)]
struct Memory {
    clock: VirtualClock,
}

#[async_trait]
impl StoreUnderTest for Memory {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new(Arc::new(self.clock.clone()), options))
    }

    async fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }
}

impl SettableClock for Memory {
    fn set_clock(&self, time: Timestamp) {
        self.clock.set(time);
    }
}

delayq_testing::contract_suite!(Memory::default());
delayq_testing::id_suite!(Memory::default());
delayq_testing::limit_suite!(Memory::default());
delayq_testing::clock_suite!(Memory::default());
