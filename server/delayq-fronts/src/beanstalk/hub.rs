//! The tubes of a namespace, shared by all connections of this server, and the server's counters.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_plugin::store::Expected;
use delayq_plugin::{Clock, Result, Store, SystemClock, TaskType, Timestamp};
use delayq_service::access::Caller;
use delayq_service::app::App;
use delayq_service::config::BeanstalkConfig;
use delayq_service::context::Context;
use delayq_service::draining::Draining;
use delayq_service::space::Space;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::numbers::Numbers;
use super::state::State;
use super::tube::{Lane, PREFIX, Pause, TubeName, tube_of, tube_part};

/// The folder with the names of tubes that are too long for a type.
const NAMES: &str = "beanstalk-tubes";
/// The largest number of lanes of a tube. A job of another priority goes to the next less urgent
/// lane.
const MAX_LANES: usize = 1_024;

/// The shared state of all connections.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) space: Arc<Space>,
    pub(super) store: Arc<dyn Store>,
    pub(super) numbers: Numbers,
    pub(super) counters: Counters,
    pub(super) config: BeanstalkConfig,
    pub(super) draining: Draining,
    /// Notified when a lane has something for a waiting client, or when another client waits.
    pub(super) changed: Notify,
    /// Notified when a job was reserved; its time to run may be the first to end.
    pub(super) reserved: Notify,
    pub(super) started: Instant,
    /// The id of this server in the statistics.
    pub(super) id: String,
    pub(super) holders: Counter,
    app: App,
    state: Mutex<State>,
}

impl Hub {
    pub(super) fn new(app: &App, space: Arc<Space>, config: BeanstalkConfig) -> Self {
        let store = Arc::clone(space.tasks.store());
        let id = delayq_plugin::TaskId::generate().to_string();
        let id = id.chars().filter(char::is_ascii_hexdigit).take(16);
        let mut state = State::default();
        state.tube(&TubeName::first());
        Self {
            numbers: Numbers::start(Arc::clone(&space.place)),
            space,
            store,
            counters: Counters::default(),
            config,
            draining: app.draining.clone(),
            app: app.clone(),
            changed: Notify::new(),
            reserved: Notify::new(),
            started: Instant::now(),
            id: id.collect::<String>().to_ascii_lowercase(),
            holders: Counter::default(),
            state: Mutex::new(state),
        }
    }

    /// The state of tubes and held jobs. Lock it only briefly.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a client has paused or resumed a tube.
    pub(super) fn note_pause(&self, tube: &TubeName, pause: Option<Pause>) {
        let mut state = self.state();
        let known = state.tube(tube);
        known.pauses += 1;
        known.pause = pause;
    }

    /// The context of a client.
    pub(super) fn context(&self, origin: String) -> Context {
        let (space, name) = (Arc::clone(&self.space), "beanstalkd client");
        let caller = Caller::of_front(Caller::ANYBODY, name, space.namespace.as_str(), origin);
        let mut context = Context::within(&self.app, caller, space);
        context.max_message_bytes = self.config.max_job_bytes;
        context.checks_times = false;
        context
    }

    /// The current time of this host.
    pub(super) fn now() -> Timestamp {
        SystemClock.now()
    }

    /// Returns true if a client waits for a job.
    fn has_waiters(&self) -> bool {
        !self.state().waiters.is_empty()
    }

    /// Records that a lane may have a job after `delay`.
    pub(super) fn lane_changed(&self, tube: &TubeName, lane: &Lane, delay: Duration) {
        let at = (!delay.is_zero()).then(|| Instant::now().checked_add(delay));
        // An infinite delay needs no wake-up.
        if let Some(None) = at {
            return;
        }
        let mut state = self.state();
        state.tube(tube).changed(lane, at.flatten());
        drop(state);
        if self.has_waiters() {
            self.changed.notify_one();
        }
    }

    /// The known lanes of a tube, most urgent first.
    pub(super) fn lanes(&self, tube: &TubeName) -> Vec<Lane> {
        let state = self.state();
        let tube = state.tubes.get(tube);
        tube.map_or(Vec::new(), |tube| tube.lanes.keys().cloned().collect())
    }

    /// The lane of a tube for a priority. A lane new to this server is paused like its tube.
    pub(super) async fn lane(&self, tube: &TubeName, pri: u32) -> Result<Lane> {
        let (lane, is_known) = {
            let mut state = self.state();
            let tube = state.tube(tube);
            let lane = Lane::new(&tube.part, pri)?;
            let is_known = tube.lanes.contains_key(&lane);
            let is_full = !is_known && tube.shared_lanes() >= MAX_LANES;
            let shared = is_full.then(|| tube.shared_lane(&lane)).flatten();
            match shared {
                Some(shared) => (shared, true),
                None => (lane, is_known),
            }
        };
        if !is_known {
            self.name_tube(tube).await?;
            self.pause_as_tube(tube, &lane).await?;
            // Counted from now on, so that concurrent puts share it.
            let mut state = self.state();
            state.tube(tube).lanes.entry(lane.clone()).or_default();
        }
        Ok(lane)
    }

    /// Stores the name of a tube that is too long for a type.
    async fn name_tube(&self, tube: &TubeName) -> Result<()> {
        let part = tube_part(tube);
        if tube_of(&part).as_ref() == Some(tube) {
            return Ok(());
        }
        let written = self.store.write_document(
            NAMES,
            part.trim_start_matches('-'),
            tube.as_str(),
            Expected::Any,
        );
        written.await.map(|_| ())
    }

    /// Pauses a lane if its tube is paused.
    pub(super) async fn pause_as_tube(&self, tube: &TubeName, lane: &Lane) -> Result<()> {
        let marker = self.store.stats(&pause_type(tube)?).await?;
        if let Some(until) = marker.paused_until {
            self.store.pause(&lane.task_type, Some(until)).await?;
        }
        Ok(())
    }

    /// Reads the tubes and lanes from the store.
    pub(super) async fn refresh(&self) -> Result<()> {
        let types = self.store.types().await?;
        let lanes = types.iter().filter_map(Lane::read);
        let mut unknown = BTreeSet::new();
        for (part, lane) in lanes {
            if !self.note_lane(&part, &lane) {
                unknown.insert((part, lane));
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        for document in self.store.folder(NAMES).await?.documents {
            if let Some(name) = TubeName::read(document.body.as_bytes()) {
                self.state()
                    .parts
                    .insert(format!("-{}", document.name), name);
            }
        }
        for (part, lane) in unknown {
            self.note_lane(&part, &lane);
        }
        Ok(())
    }

    /// Records a lane; returns true if the name of its tube is known.
    fn note_lane(&self, part: &str, lane: &Lane) -> bool {
        let mut state = self.state();
        let known = state.parts.get(part).cloned();
        let Some(name) = known.or_else(|| tube_of(part)) else {
            return false;
        };
        state.tube(&name).lanes.entry(lane.clone()).or_default();
        true
    }

    /// Handles a wake-up of the store for one type.
    pub(super) fn heard_of(&self, task_type: &TaskType) {
        let Some((part, lane)) = Lane::read(task_type) else {
            return;
        };
        let name = {
            let state = self.state();
            let known = state.parts.get(&part).cloned();
            known.or_else(|| tube_of(&part))
        };
        if let Some(name) = name {
            self.lane_changed(&name, &lane, Duration::ZERO);
        }
    }

    /// Handles a wake-up of the store for all types.
    pub(super) fn heard_of_all(&self) {
        let mut state = self.state();
        for tube in state.tubes.values_mut() {
            for outlook in tube.lanes.values_mut() {
                outlook.changes += 1;
                outlook.head = None;
                outlook.not_before = None;
            }
        }
        drop(state);
        self.changed.notify_one();
    }
}

/// The type that carries the pause of the tube; it has no tasks.
pub(super) fn pause_type(tube: &TubeName) -> Result<TaskType> {
    TaskType::new(format!("{PREFIX}{}", tube_part(tube)))
}

/// A counter.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn sub(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters in the statistics: commands and connections.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) put: Counter,
    pub(super) peek: Counter,
    pub(super) peek_ready: Counter,
    pub(super) peek_delayed: Counter,
    pub(super) peek_buried: Counter,
    pub(super) reserve: Counter,
    pub(super) reserve_with_timeout: Counter,
    pub(super) delete: Counter,
    pub(super) release: Counter,
    pub(super) use_tube: Counter,
    pub(super) watch: Counter,
    pub(super) ignore: Counter,
    pub(super) bury: Counter,
    pub(super) kick: Counter,
    pub(super) touch: Counter,
    pub(super) stats: Counter,
    pub(super) stats_job: Counter,
    pub(super) stats_tube: Counter,
    pub(super) list_tubes: Counter,
    pub(super) list_tube_used: Counter,
    pub(super) list_tubes_watched: Counter,
    pub(super) pause_tube: Counter,
    pub(super) timeouts: Counter,
    pub(super) jobs: Counter,
    pub(super) connections: Counter,
    pub(super) connections_ever: Counter,
    pub(super) producers: Counter,
    pub(super) workers: Counter,
    pub(super) waiting: Counter,
}
