//! A cold store that is away when the tier is opened, and is opened later.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use delayq_core::memory::MemoryStore;
use delayq_core::store::{Durability, Layer, StoreCall, StoreOptions, Wakeups};
use delayq_core::{Error, Result, Store, SystemClock, seconds};
use tokio::sync::broadcast;
use tracing::{info, warn};

use crate::parts::pause;

/// The time between two attempts to open the store.
const AGAIN: Duration = seconds(1);

/// Opens a store.
pub type Opening = Pin<Box<dyn Future<Output = Result<Arc<dyn Store>>> + Send>>;

/// Makes one attempt to open a store.
pub type Opener = Box<dyn Fn() -> Opening + Send + Sync>;

/// A cold store that is away now: how it is opened.
pub struct Later {
    /// Its name, for errors.
    pub name: String,
    /// The options with which it will be opened.
    pub options: StoreOptions,
    /// Makes one attempt.
    pub opener: Opener,
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Later({})", self.name)
    }
}

/// A store that is `Unavailable` until it is opened.
#[derive(Debug)]
pub(crate) struct LateStore {
    opened: OnceLock<Arc<dyn Store>>,
    absent: Absent,
}

impl LateStore {
    pub(crate) fn new(name: String, options: StoreOptions) -> Self {
        let durability = options.durability;
        let absent = Absent {
            name,
            durability,
            why: Mutex::default(),
            stands_in: MemoryStore::new(Arc::new(SystemClock), options),
        };
        Self {
            opened: OnceLock::new(),
            absent,
        }
    }

    /// Opens the store, however long that takes.
    pub(crate) async fn open(&self, opener: Opener) {
        loop {
            match opener().await {
                Ok(store) => {
                    info!(store = store.name(), "the cold store is open now");
                    // It is opened once.
                    let _ = self.opened.set(store);
                    return;
                }
                Err(error) => {
                    let text = error.to_string();
                    let before = std::mem::replace(&mut *self.absent.why(), text.clone());
                    if before != text {
                        warn!(%error, "the cold store is not open; it is tried again");
                    }
                }
            }
            pause(AGAIN).await;
        }
    }
}

impl Layer for LateStore {
    fn inner(&self) -> &dyn Store {
        match self.opened.get() {
            Some(store) => &**store,
            None => &self.absent,
        }
    }
}

/// What stands in for the store: it has the name and the class, and fails every call.
#[derive(Debug)]
struct Absent {
    name: String,
    durability: Durability,
    /// Why it could not be opened.
    why: Mutex<String>,
    /// It is never called.
    stands_in: MemoryStore,
}

impl Absent {
    fn why(&self) -> MutexGuard<'_, String> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Layer for Absent {
    fn inner(&self) -> &dyn Store {
        &self.stands_in
    }

    async fn around<T: Send>(
        &self,
        _: StoreCall,
        _: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let why = self.why().clone();
        let detail = format!("it was away at the start, and is not open yet: {why}");
        Err(Error::unavailable(self.name.clone(), detail))
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    async fn close(&self) {}

    fn wakeups(&self) -> Wakeups {
        Wakeups::new(broadcast::channel(1).1)
    }
}
