//! The whole contract holds for a namespace that is being moved.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_plugin::Store;
use delayq_plugin::store::{MemoryStore, StoreOptions};
use delayq_testing::VirtualClock;
use delayq_testing::contract::StoreUnderTest;

use crate::config::Config;
use crate::place::home::Home;
use crate::place::record::{Phase, PlaceRecord};
use crate::place::{PlaceBook, PlacedStore};

/// Namespaces between two memory stores on a virtual clock, or in the second one.
#[derive(Clone, Debug)]
struct In {
    phase: Phase,
    clock: VirtualClock,
}

fn stores(phase: Phase) -> In {
    let clock = VirtualClock::default();
    In { phase, clock }
}

#[async_trait]
impl StoreUnderTest for In {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        let home = |generation| Home {
            generation,
            pool: None,
            store: Arc::new(MemoryStore::new(
                Arc::new(self.clock.clone()),
                options.clone(),
            )),
        };
        let (old, new) = (home(0), home(1));
        let book = PlaceBook::open(Arc::new(MemoryStore::default())).await;
        let config = Arc::new(Config::default());
        let place = PlacedStore::unopened(options, config, book.unwrap());
        let record = PlaceRecord {
            generation: 1,
            phase: self.phase,
            ..PlaceRecord::first(None)
        };
        let old = (self.phase != Phase::Done).then_some(old);
        place.between(record, old, new)
    }

    async fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }
}

mod while_it_is_moved {
    use super::{Phase, stores};

    delayq_testing::contract_suite!(stores(Phase::Moving));
    delayq_testing::id_suite!(stores(Phase::Moving));
    delayq_testing::limit_suite!(stores(Phase::Moving));
}

mod once_it_was_moved {
    use super::{Phase, stores};

    delayq_testing::contract_suite!(stores(Phase::Done));
    delayq_testing::limit_suite!(stores(Phase::Done));
}
