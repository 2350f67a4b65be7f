//! The contract through a tier: all that is due later than a second goes through cold.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::memory::MemoryStore;
use delayq_core::store::StoreOptions;
use delayq_core::{Clock, Store, Timestamp, hours, millis, seconds};
use delayq_testing::VirtualClock;
use delayq_testing::contract::{SettableClock, StoreUnderTest};
use delayq_tiered::{TierOptions, TieredStore};

/// Tasks are moved so long before they are due.
const LEAD: Duration = millis(200);
const HORIZON: Duration = seconds(1);

/// What a tier does not keep, each for a reason that its documentation gives.
const LEFT_OUT: [&str; 0] = [];

/// Tiers over two memory stores, on a virtual clock.
#[derive(Clone, Debug, Default)]
struct Tiered {
    clock: VirtualClock,
    opened: Arc<Mutex<Vec<Arc<TieredStore>>>>,
}

impl Tiered {
    async fn has_moved_all(&self) {
        let opened = self.opened.lock().unwrap().clone();
        for store in opened {
            store.has_moved_all().await.unwrap();
        }
    }
}

#[async_trait]
impl StoreUnderTest for Tiered {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        let memory = || {
            let clock = Arc::new(self.clock.clone());
            Arc::new(MemoryStore::new(clock, options.clone()))
        };
        let clock = Arc::new(self.clock.clone());
        let tier = TierOptions::new(HORIZON, &options);
        let tier = tier.for_tests(LEAD, seconds(10), clock);
        let store = TieredStore::open(memory(), memory(), tier).unwrap();
        self.opened.lock().unwrap().push(store.clone());
        store
    }

    /// Moves the clock in steps, so that each task is moved ahead of its due time.
    async fn advance(&self, span: Duration) {
        let end = self.clock.elapsed() + span;
        let is_long = span > hours(2);
        let step = if is_long { span } else { LEAD / 2 };
        while self.clock.elapsed() < end {
            let rest = end - self.clock.elapsed();
            self.clock.advance(rest.min(step));
            self.has_moved_all().await;
        }
    }

    fn leaves_out(&self, sentence: &str) -> bool {
        LEFT_OUT.contains(&sentence)
    }
}

impl SettableClock for Tiered {
    fn set_clock(&self, time: Timestamp) {
        self.clock.set(time);
    }
}

delayq_testing::contract_suite!(Tiered::default());
delayq_testing::id_suite!(Tiered::default());
delayq_testing::limit_suite!(Tiered::default());
delayq_testing::clock_suite!(Tiered::default());
