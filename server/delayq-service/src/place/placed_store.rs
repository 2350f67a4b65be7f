//! The store of a namespace: one store, or two during a move.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use delayq_plugin::store::{Bucket, StoreOptions, TypeSettings, Wakeup};
use delayq_plugin::{Error, Namespace, Result, TaskType, open_store_once};
use tokio::sync::broadcast;
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

use super::PlaceBook;
use super::home::{Home, split};
use super::record::{Phase, PlaceRecord};
use super::side::Side;
use crate::config::Config;
use crate::push::Seals;

/// The number of wake-ups that a slow listener may lag behind.
const WAKEUP_BUFFER: usize = 1_024;

/// The store of a namespace as seen from one side. It follows moves while in use.
#[derive(Debug)]
pub struct PlacedStore {
    place: Arc<Place>,
    pub(super) side: Side,
}

impl Deref for PlacedStore {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

/// A namespace and the stores that hold it.
#[derive(Debug)]
pub struct Place {
    pub(super) namespace: Namespace,
    options: StoreOptions,
    config: Arc<Config>,
    book: Arc<PlaceBook>,
    view: RwLock<Result<Arc<View>>>,
    /// Serialises changes of the view.
    turn: tokio::sync::Mutex<()>,
    pub(super) wakeups: broadcast::Sender<Wakeup>,
}

/// The stores of a namespace, as far as this server knows.
#[derive(Debug)]
pub(super) struct View {
    pub(super) place: PlaceRecord,
    /// The store that the namespace is leaving, during a move.
    pub(super) old: Option<Home>,
    /// The store that holds the namespace or receives it.
    pub(super) new: Home,
    /// Types of the old store that this server has closed for new tasks.
    closed: Mutex<HashSet<TaskType>>,
    _pumps: Vec<AbortOnDropHandle<()>>,
}

/// Closes a type: from now on it refuses every id that it does not know.
pub(super) async fn close(old: &Home, task_type: &TaskType) -> Result<()> {
    let closed = TypeSettings::default().max_pending(Some(0));
    old.store.configure_type(task_type, &closed).await
}

impl View {
    /// The stores, the old one first.
    pub(super) fn homes(&self) -> impl Iterator<Item = &Home> {
        self.old.iter().chain([&self.new])
    }

    /// The store of a bucket, and the store's own name for it; `None` if the namespace has left
    /// that store.
    pub(super) fn home(&self, bucket: &Bucket) -> Option<(&Home, Bucket)> {
        let (generation, own) = split(bucket);
        let home = self.homes().find(|home| home.generation == generation)?;
        Some((home, own))
    }

    /// The stores that may hold a lock of a bucket, and their own names for the bucket. A lock
    /// without a bucket, such as that of a task settled later, may be in any of them.
    pub(super) fn homes_of(&self, bucket: &Bucket) -> Vec<(&Home, Bucket)> {
        let mut homes: Vec<_> = self.home(bucket).into_iter().collect();
        if bucket.shard_name().is_empty() {
            let others = self.homes().filter(|home| home.generation != 0);
            homes.extend(others.map(|home| (home, bucket.clone())));
        }
        homes
    }

    /// The store for new tasks, settings and documents.
    pub(super) fn main(&self) -> &Home {
        match (&self.old, self.place.phase) {
            (Some(old), Phase::Preparing) => old,
            _ => &self.new,
        }
    }

    /// Closes a type of the old store, unless this server has already done so.
    pub(super) async fn close_type(&self, old: &Home, task_type: &TaskType) -> Result<()> {
        let is_closed = |view: &Self| view.closed().contains(task_type);
        if is_closed(self) {
            return Ok(());
        }
        close(old, task_type).await?;
        self.closed().insert(task_type.clone());
        Ok(())
    }

    fn closed(&self) -> std::sync::MutexGuard<'_, HashSet<TaskType>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PlacedStore {
    pub(super) fn unopened(
        options: StoreOptions,
        config: Arc<Config>,
        book: Arc<PlaceBook>,
    ) -> Self {
        let place = Place {
            view: RwLock::new(Err(Error::Closed("the namespace"))),
            namespace: options.namespace.clone(),
            options,
            config,
            book,
            turn: tokio::sync::Mutex::default(),
            wakeups: broadcast::Sender::new(WAKEUP_BUFFER),
        };
        Self {
            place: Arc::new(place),
            side: Side::Within,
        }
    }

    /// The same store as seen by clients.
    pub fn door(&self, seals: Arc<Seals>) -> Arc<Self> {
        Arc::new(Self {
            place: Arc::clone(&self.place),
            side: Side::Door(seals),
        })
    }

    /// Opens the store or stores of the namespace in `options`.
    pub async fn open(
        options: StoreOptions,
        config: Arc<Config>,
        book: Arc<PlaceBook>,
    ) -> Result<Arc<Self>> {
        let store = Self::unopened(options, config, book);
        store.follow().await;
        store.view()?;
        Ok(Arc::new(store))
    }

    /// Uses a store that is already open as the place of a namespace.
    pub(crate) fn of(
        namespace: Namespace,
        store: Arc<dyn delayq_plugin::Store>,
        config: Arc<Config>,
        book: Arc<PlaceBook>,
    ) -> Arc<Self> {
        let options = StoreOptions {
            namespace,
            ..config.store_options()
        };
        let placed = Self::unopened(options, config, book);
        let place = placed.place();
        let home = Home {
            generation: 0,
            pool: place.to.clone(),
            store,
        };
        placed.between(place, None, home)
    }

    /// Puts a namespace into the given stores, regardless of the registry.
    pub(super) fn between(self, place: PlaceRecord, old: Option<Home>, new: Home) -> Arc<Self> {
        let next = self.view_on(place, old, new);
        if let Ok(mut view) = self.view.write() {
            *view = Ok(Arc::new(next));
        }
        Arc::new(self)
    }
}

impl Place {
    /// The current view.
    pub(super) fn view(&self) -> Result<Arc<View>> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        view.clone()
    }

    /// True if tasks of the far future are in another store than the others.
    pub(super) fn has_cold_store(&self, pool: Option<&str>) -> bool {
        self.config.cold_store(pool).is_some()
    }

    /// True if the records of ended tasks are shipped.
    pub(super) fn keeps_history(&self) -> bool {
        self.config.history.is_some()
    }

    /// How long an ended task is remembered.
    pub(super) fn retention(&self) -> Duration {
        self.options.retention
    }

    /// The store that a place names as its destination.
    pub(super) async fn home_of(&self, place: &PlaceRecord) -> Result<Home> {
        self.home(place.generation, place.to.as_deref(), None).await
    }

    /// Writes the new place `place`, unless another server has changed `present` meanwhile, and
    /// follows it. Returns true if written.
    pub(super) async fn write(&self, present: &PlaceRecord, place: &PlaceRecord) -> Result<bool> {
        let known = self.book.place(&self.namespace);
        if known.as_ref().is_some_and(|known| known.place != *present) {
            return Ok(false);
        }
        let before = known.map(|known| known.revision);
        let is_written = self.book.write(&self.namespace, place, before).await?;
        self.follow().await;
        Ok(is_written)
    }

    /// The generation of the store that holds the documents. Each store has its own revisions.
    pub fn generation(&self) -> Result<u64> {
        Ok(self.view()?.main().generation)
    }

    /// Refuses a change of settings or documents while they are being copied, which takes a few
    /// seconds.
    pub(super) fn refuse_while_copied(&self) -> Result<()> {
        if self.view()?.place.phase != Phase::Preparing {
            return Ok(());
        }
        let reason = "settings and documents are copied to its next store: repeat it in 5 s";
        Err(Error::unavailable(
            format!("namespace {}", self.namespace),
            reason,
        ))
    }

    /// The place in the registry, or the configured pool if there is none.
    pub(super) fn place(&self) -> PlaceRecord {
        let written = self.book.place(&self.namespace);
        written.map_or_else(
            || PlaceRecord::first(self.config.pool_of(&self.namespace)),
            |written| written.place,
        )
    }

    /// Reads the registry and follows it.
    pub(super) async fn hear(&self) -> Result<()> {
        self.book.refresh().await?;
        self.follow().await;
        Ok(())
    }

    /// Switches to the place in the registry. If a store cannot be opened, the whole namespace is
    /// unavailable, so that nobody sees only half of it.
    pub async fn follow(&self) {
        let _turn = self.turn.lock().await;
        let place = self.place();
        let before = self.view();
        if before.as_ref().is_ok_and(|view| view.place == place) {
            return;
        }
        let next = self.view_of(place, before.as_ref().ok()).await;
        if let (Ok(view), Ok(_)) = (&next, &before) {
            let place = &view.place;
            info!(namespace = %self.namespace, from = place.from, to = place.to,
                phase = ?place.phase, "the namespace has a new place");
        }
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        *view = next.map(Arc::new);
        drop(view);
        // Claimers ask for the list of buckets again.
        self.wakeups.send(Wakeup::All).ok();
    }

    async fn view_of(&self, place: PlaceRecord, before: Option<&Arc<View>>) -> Result<View> {
        let generation = place.generation;
        let new = self.home(generation, place.to.as_deref(), before).await?;
        let old = if place.phase == Phase::Done {
            None
        } else {
            let earlier = generation.saturating_sub(1);
            Some(self.home(earlier, place.from.as_deref(), before).await?)
        };
        Ok(self.view_on(place, old, new))
    }

    fn view_on(&self, place: PlaceRecord, old: Option<Home>, new: Home) -> View {
        let pumps = old.iter().chain([&new]).map(|home| self.pump(home.clone()));
        View {
            _pumps: pumps.collect(),
            place,
            old,
            new,
            closed: Mutex::default(),
        }
    }

    async fn home(
        &self,
        generation: u64,
        pool: Option<&str>,
        before: Option<&Arc<View>>,
    ) -> Result<Home> {
        let mut known = before.into_iter().flat_map(|view| view.homes());
        let is_it = |home: &&Home| home.generation == generation && home.pool.as_deref() == pool;
        if let Some(home) = known.find(is_it) {
            return Ok(home.clone());
        }
        let url = self.config.url_of(pool).ok_or_else(|| {
            let pool = pool.unwrap_or_default();
            let reason = format!("the namespace is in the pool {pool}: add pools.{pool} = \"URL\"");
            Error::misconfigured(self.namespace.to_string(), reason, "and start again")
        })?;
        // A request waits for it, so it does not wait for a store that loads its data.
        let options = self.options.clone();
        let store = match self.config.cold_store(pool) {
            Some(cold) => cold.open_once(url, options).await?,
            None => open_store_once(url, options).await?,
        };
        let pool = pool.map(str::to_owned);
        Ok(Home {
            generation,
            pool,
            store,
        })
    }

    /// Forwards the wake-ups of a store as long as the view uses the store.
    fn pump(&self, home: Home) -> AbortOnDropHandle<()> {
        let (mut wakeups, sender) = (home.store.wakeups(), self.wakeups.clone());
        AbortOnDropHandle::new(tokio::spawn(async move {
            while let Some(wakeup) = wakeups.next().await {
                sender.send(home.wakeup(wakeup)).ok();
            }
        }))
    }
}
