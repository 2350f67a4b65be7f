//! The store contract through the remote store, on servers over real stores: the proof that the
//! protocol is complete.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::store::StoreOptions;
use delayq_plugin::Store;
use delayq_remote::RemoteStore;
use delayq_testing::contract::{SettableClock, StoreUnderTest};

use super::{Site, remote_options};

/// The stores of a place, each behind a server of its own.
struct Remote<S> {
    place: S,
    sites: Mutex<Vec<Site>>,
}

impl<S> Remote<S> {
    fn to(place: S) -> Self {
        Self {
            place,
            sites: Mutex::default(),
        }
    }
}

#[async_trait]
impl<S: StoreUnderTest> StoreUnderTest for Remote<S> {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        let remote = remote_options(&options);
        let namespace = options.namespace.clone();
        let store = self.place.open(options).await;
        let site = Site::over(&namespace, store).await;
        let url = site.url(&namespace);
        self.sites.lock().unwrap().push(site);
        RemoteStore::connect(&url, remote).await.unwrap()
    }

    async fn advance(&self, span: Duration) {
        self.place.advance(span).await;
    }
}

impl<S: SettableClock> SettableClock for Remote<S> {
    fn set_clock(&self, time: delayq_plugin::Timestamp) {
        self.place.set_clock(time);
    }
}

/// On a clock of its own: no time passes but what a test lets pass.
mod over_memory {
    use super::Remote;
    use delayq_tests::stores::Memory;

    delayq_testing::contract_suite!(Remote::to(Memory::default()));
    delayq_testing::id_suite!(Remote::to(Memory::default()));
    delayq_testing::limit_suite!(Remote::to(Memory::default()));
    delayq_testing::clock_suite!(Remote::to(Memory::default()));
}

/// What several programs on one file do to each other.
mod over_sqlite {
    use super::Remote;
    use delayq_tests::stores::Sqlite;

    delayq_testing::shared_suite!(Remote::to(Sqlite::unsynced()));
}

/// What depends on the store behind the server: shards, limits and several instances. The rest is
/// the protocol's, which does not know the store.
mod over_redis {
    use super::Remote;
    use delayq_tests::stores::Redis;

    delayq_testing::limit_suite!(Remote::to(Redis));
    delayq_testing::sharded_suite!(Remote::to(Redis));
    delayq_testing::shared_suite!(Remote::to(Redis));
}

#[cfg(feature = "soak")]
mod over_redis_at_length {
    use super::Remote;
    use delayq_tests::stores::Redis;

    delayq_testing::contract_suite!(Remote::to(Redis));
    delayq_testing::id_suite!(Remote::to(Redis));
}
