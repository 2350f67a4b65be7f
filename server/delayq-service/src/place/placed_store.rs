//! The store of a namespace, wherever that is: one store, or two while it is moved.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use delayq_plugin::store::{Bucket, StoreOptions, TypeSettings, Wakeup};
use delayq_plugin::{Error, Namespace, Result, TaskType, open_store};
use tokio::sync::broadcast;
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

use super::PlaceBook;
use super::home::{Home, split};
use super::record::{Phase, PlaceRecord};
use super::side::Side;
use crate::config::Config;
use crate::push::Seals;

/// Wake-ups that a slow listener may be behind.
const WAKEUP_BUFFER: usize = 1_024;

/// The store of a namespace, as one side sees it. It follows a move while it is in use.
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

/// A namespace, wherever it is.
#[derive(Debug)]
pub struct Place {
    pub(super) namespace: Namespace,
    options: StoreOptions,
    config: Arc<Config>,
    book: Arc<PlaceBook>,
    view: RwLock<Result<Arc<View>>>,
    /// One change of the view at a time.
    turn: tokio::sync::Mutex<()>,
    pub(super) wakeups: broadcast::Sender<Wakeup>,
}

/// Where the namespace is, as this server has heard.
#[derive(Debug)]
pub(super) struct View {
    pub(super) place: PlaceRecord,
    /// The store that it leaves, while it is moved.
    pub(super) old: Option<Home>,
    /// Where it is, or is going.
    pub(super) new: Home,
    /// Types of the old store that were closed for new tasks.
    closed: Mutex<HashSet<TaskType>>,
    _pumps: Vec<AbortOnDropHandle<()>>,
}

/// Closes a type: from now on it refuses each id that it does not know.
pub(super) async fn close(old: &Home, task_type: &TaskType) -> Result<()> {
    let closed = TypeSettings::default().max_pending(Some(0));
    old.store.configure_type(task_type, &closed).await
}

impl View {
    /// The stores, that which it leaves first.
    pub(super) fn homes(&self) -> impl Iterator<Item = &Home> {
        self.old.iter().chain([&self.new])
    }

    /// The store of a bucket, and its own name of it; `None` for a store that the namespace has
    /// left.
    pub(super) fn home(&self, bucket: &Bucket) -> Option<(&Home, Bucket)> {
        let (generation, own) = split(bucket);
        let home = self.homes().find(|home| home.generation == generation)?;
        Some((home, own))
    }

    /// The stores that may have a lock of a bucket, and their own names of the bucket. A lock
    /// without a bucket, as that of a task which is settled later, may be of any of them.
    pub(super) fn homes_of(&self, bucket: &Bucket) -> Vec<(&Home, Bucket)> {
        let mut homes: Vec<_> = self.home(bucket).into_iter().collect();
        if bucket.shard_name().is_empty() {
            let others = self.homes().filter(|home| home.generation != 0);
            homes.extend(others.map(|home| (home, bucket.clone())));
        }
        homes
    }

    /// Where new tasks, settings and documents go.
    pub(super) fn main(&self) -> &Home {
        match (&self.old, self.place.phase) {
            (Some(old), Phase::Preparing) => old,
            _ => &self.new,
        }
    }

    /// Closes a type of the old store, unless this server did.
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

    /// The same store for clients.
    pub fn door(&self, seals: Arc<Seals>) -> Arc<Self> {
        Arc::new(Self {
            place: Arc::clone(&self.place),
            side: Side::Door(seals),
        })
    }

    /// Opens the store, or the stores, that the namespace of `options` is in.
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

    /// A store that is open already, as the place of a namespace.
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

    /// A namespace that is in these stores, whatever the book says.
    pub(super) fn between(self, place: PlaceRecord, old: Option<Home>, new: Home) -> Arc<Self> {
        let next = self.view_on(place, old, new);
        if let Ok(mut view) = self.view.write() {
            *view = Ok(Arc::new(next));
        }
        Arc::new(self)
    }
}

impl Place {
    /// The present view.
    pub(super) fn view(&self) -> Result<Arc<View>> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        view.clone()
    }

    /// How long an ended task is remembered.
    pub(super) fn retention(&self) -> Duration {
        self.options.retention
    }

    /// The store that a place would lead to.
    pub(super) async fn home_of(&self, place: &PlaceRecord) -> Result<Home> {
        self.home(place.generation, place.to.as_deref(), None).await
    }

    /// Writes another place than `present`, unless somebody did meanwhile; and goes there.
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

    /// Of the store that documents are in: each one has revisions of its own.
    pub fn generation(&self) -> Result<u64> {
        Ok(self.view()?.main().generation)
    }

    /// Refuses a change of settings or documents while they are copied: some seconds.
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

    /// The place that the book tells of.
    pub(super) fn place(&self) -> PlaceRecord {
        let written = self.book.place(&self.namespace);
        written.map_or_else(
            || PlaceRecord::first(self.config.pool_of(&self.namespace)),
            |written| written.place,
        )
    }

    /// Reads the book, and goes where it says.
    pub(super) async fn hear(&self) -> Result<()> {
        self.book.refresh().await?;
        self.follow().await;
        Ok(())
    }

    /// Goes where the book says. Where a store cannot be opened the namespace is not to be had: it
    /// would be seen in part.
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
                phase = ?place.phase, "the place of the namespace");
        }
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        *view = next.map(Arc::new);
        drop(view);
        // Whoever claims asks for the buckets anew.
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
        let store = open_store(url, self.options.clone()).await?;
        let pool = pool.map(str::to_owned);
        Ok(Home {
            generation,
            pool,
            store,
        })
    }

    /// Passes the wake-ups of a store on, while the view has it.
    fn pump(&self, home: Home) -> AbortOnDropHandle<()> {
        let (mut wakeups, sender) = (home.store.wakeups(), self.wakeups.clone());
        AbortOnDropHandle::new(tokio::spawn(async move {
            while let Some(wakeup) = wakeups.next().await {
                sender.send(home.wakeup(wakeup)).ok();
            }
        }))
    }
}
