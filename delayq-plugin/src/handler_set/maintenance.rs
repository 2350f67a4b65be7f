//! Maintenance: periodic work of a handler set. It runs beside the dispatcher, so that a slow store
//! delays no wake-up.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delayq_core::presence::{ANNOUNCE_INTERVAL, INSTANCE_EXPIRY, InstanceInfo};
use delayq_core::{Error, TaskType};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{debug, error, info, warn};

use super::dead_bounds;
use super::recording::Recording;
use super::sampling::Sampling;
use super::shared::Shared;
use super::watched::Watched;
use crate::handler::Phase;
use crate::submit::ensure_all;
use crate::unserved::unserved;

/// Interval, in polls, for reading the list of types to find new ones that a pattern matches.
/// Usually a wake-up comes earlier.
const POLLS_PER_LISTING: u32 = 5;
/// Interval, in polls, for the store's check of its own guarantees, and for reading the list of
/// types to find served ones that are missing, and new buckets. It is long, as an idle type should
/// cost the store no more than one call a poll.
const POLLS_PER_CHECK: u32 = 600;
/// Interval for checking the next occurrences of recurring tasks: a broken chain is mended within
/// this time.
const RECURRING_INTERVAL: Duration = Duration::from_mins(1);
/// Interval for sending figures to the store, with one call for each type that has some. They go
/// with every second announcement.
const FIGURES_INTERVAL: Duration = ANNOUNCE_INTERVAL.saturating_mul(2);
/// Maximum number of unserved types counted in one round.
const UNSERVED_PER_ROUND: usize = 100;
/// How long an instance that ends waits for the store to take it off the list. The entry expires
/// anyway.
const WITHDRAW_WITHIN: Duration = Duration::from_secs(1);
/// How long an instance waits, after its last handler has ended, for the store to take its last
/// figures: a shutdown has less than a second left by then.
const LAST_FIGURES_WITHIN: Duration = Duration::from_millis(400);

/// The rounds through the list of types, the store's check of itself, and the announcements of this
/// instance. Times are `Clock::elapsed`.
pub(super) struct Maintenance {
    shared: Arc<Shared>,
    /// Held from the start: a shutdown waits until this is dropped, even if the thread starts late.
    phase: watch::Receiver<Phase>,
    /// This instance with the types it announced last, without its recent work.
    instance: InstanceInfo,
    store_error: Option<Error>,
    announcing: Watched,
    refreshing: Watched,
    listing: Watched,
    recurring: Watched,
    next_announcement: Duration,
    next_figures: Duration,
    next_check: Duration,
    next_listing: Duration,
    next_unserved: Duration,
    next_recurring: Duration,
    next_dead: Duration,
    sampling: Sampling,
    recording: Recording,
}

impl Maintenance {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let watched =
            |who: &'static str| Watched::new(shared.settings.telemetry.outages.caller(who), who);
        let mut this = Self {
            announcing: watched("announcement of this instance"),
            refreshing: watched("settings and buckets of a type"),
            listing: watched("list of types"),
            recurring: watched("next occurrence of a recurring task"),
            instance: shared.instance.clone(),
            next_announcement: shared.elapsed(),
            sampling: Sampling::new(&shared),
            recording: Recording::new(&shared),
            phase: shared.phase.subscribe(),
            shared,
            store_error: None,
            next_figures: Duration::ZERO,
            next_check: Duration::MAX,
            next_listing: Duration::MAX,
            next_unserved: Duration::MAX,
            next_recurring: Duration::MAX,
            next_dead: Duration::MAX,
        };
        this.plan_recurring();
        this.plan_dead();
        // By then, instances that were started together have announced themselves.
        this.next_unserved = this.shared.elapsed().saturating_add(INSTANCE_EXPIRY);
        this.next_check = this.in_polls(POLLS_PER_CHECK);
        this.plan_listing();
        this
    }

    /// Runs until the set stops, then takes this instance off the store's list and sends the last
    /// figures of its handlers.
    pub(super) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut phase = self.phase.clone();
        tokio::select! {
            // Checked first, so that a set which was stopped before its thread started does
            // nothing.
            biased;
            _ = phase.wait_for(|phase| *phase != Phase::Running) => {}
            () = async { loop { self.next_round().await; } } => {}
        }
        let until = shared.elapsed().saturating_add(WITHDRAW_WITHIN);
        tokio::select! {
            // An answer counts, however late it is.
            biased;
            withdrawn = shared.store.withdraw(&shared.instance.id) => {
                if let Err(error) = withdrawn {
                    debug!(%error, "this instance stays in the store's list until it expires");
                }
            }
            () = shared.settings.clock.sleep_until(until) => {}
        }
        shared.handlers.close();
        shared.handlers.wait().await;
        self.recording.take(shared.settings.clock.now());
        let until = shared.elapsed().saturating_add(LAST_FIGURES_WITHIN);
        tokio::select! {
            biased;
            () = self.recording.send(&shared.store) => {}
            () = shared.settings.clock.sleep_until(until) => {}
        }
    }

    /// Waits until something is due, and does it.
    async fn next_round(&mut self) {
        let rounds = [
            self.next_announcement,
            self.next_check,
            self.next_listing,
            self.next_unserved,
            self.next_recurring,
            self.next_dead,
            self.sampling.next_at,
        ];
        let refresh = self.shared.next_refresh();
        let next = rounds.into_iter().chain(refresh).min().unwrap_or_default();
        tokio::select! {
            () = self.shared.settings.clock.sleep_until(next) => {}
            () = self.shared.news.notified() => {}
        }
        let now = self.shared.elapsed();
        let has_lost_data = self.shared.has_lost_data.swap(false, Ordering::Relaxed);
        // A batch may have made the type of its watcher known.
        if self.shared.has_missed.swap(false, Ordering::Relaxed) {
            self.next_listing = self.next_listing.min(self.in_polls(POLLS_PER_LISTING));
        }
        let is_check = self.next_check <= now;
        if is_check {
            self.check_store().await;
            self.shared.mark_all_stale();
        }
        if is_check || has_lost_data || self.next_listing <= now {
            self.read_types(has_lost_data).await;
            self.plan_listing();
        }
        if self.next_unserved <= now {
            self.next_unserved = self.in_polls(POLLS_PER_CHECK);
            self.report_unserved().await;
        }
        if self.next_recurring <= now {
            self.plan_recurring();
            self.ensure_recurring().await;
        }
        if self.next_dead <= now {
            self.plan_dead();
            dead_bounds::keep(self.shared.settings.dead, &self.shared).await;
        }
        if let Some(refreshed) = self.shared.refresh().await {
            self.refreshing.report(&refreshed);
        }
        let instance = self.instance.clone().serving(&self.shared.served());
        if instance != self.instance || self.next_announcement <= now {
            self.announce(instance).await;
        }
        // After the announcement, so that the first round counts this instance.
        if self.sampling.next_at <= now {
            self.sampling.round(&self.shared).await;
        }
    }

    fn in_polls(&self, polls: u32) -> Duration {
        let span = self.shared.settings.poll.saturating_mul(polls);
        self.shared.elapsed().saturating_add(span)
    }

    fn plan_dead(&mut self) {
        let bounds = self.shared.settings.dead;
        self.next_dead = dead_bounds::next_round(bounds, self.shared.elapsed());
    }

    fn plan_recurring(&mut self) {
        self.next_recurring = self.shared.elapsed().saturating_add(RECURRING_INTERVAL);
    }

    /// Runs on the application's runtime, because its middleware sees the occurrences.
    async fn ensure_recurring(&mut self) {
        let (mut task, tasks) = (JoinSet::new(), Arc::clone(&self.shared.tasks));
        task.spawn_on(async move { ensure_all(&tasks).await }, &self.shared.app);
        match task.join_next().await {
            Some(Ok(ensured)) => self.recurring.report(&ensured),
            Some(Err(error)) => {
                error!(%error, "cannot check the next occurrences of recurring tasks; trying again in a minute");
            }
            None => {}
        }
    }

    fn plan_listing(&mut self) {
        self.next_listing = Duration::MAX;
        if self.shared.registry.has_patterns() {
            self.next_listing = self.in_polls(POLLS_PER_LISTING);
        }
    }

    /// Lets the store check itself, and logs a problem when it begins and when it is over.
    async fn check_store(&mut self) {
        let found = self.shared.store.check().await.err();
        let kind = |error: &Error| std::mem::discriminant(error);
        match (&found, &self.store_error) {
            (Some(error), before) if before.as_ref().map(kind) != Some(kind(error)) => {
                error!(%error, "the store cannot keep what it promises");
            }
            (None, Some(_)) => {
                let store = self.shared.store.name();
                info!(store, "the store can keep what it promises again");
            }
            _ => {}
        }
        let is_ok = found.is_none();
        self.store_error = found;
        self.next_check = self.in_polls(if is_ok {
            POLLS_PER_CHECK
        } else {
            POLLS_PER_LISTING
        });
    }

    /// Serves types that appeared since the start. Lists served types again that somebody took off
    /// the list, or that were lost with the store's data: otherwise they would not be served after
    /// the next restart.
    async fn read_types(&mut self, has_lost_data: bool) {
        let shared = &self.shared;
        let again = || {
            shared
                .has_lost_data
                .fetch_or(has_lost_data, Ordering::Relaxed)
        };
        let types = shared.store.types().await;
        self.listing.report(&types);
        let Ok(types) = types else {
            again();
            return;
        };
        for task_type in shared.served() {
            let is_listed = types.contains(&task_type);
            if is_listed || !has_lost_data && self.is_dropped(&task_type).await {
                continue;
            }
            match shared.store.register_type(&task_type).await {
                Ok(()) => {
                    warn!(%task_type, "the type was missing from the store's list and is listed again");
                    shared.forget_declared(&task_type);
                }
                Err(error) => {
                    again();
                    warn!(%task_type, %error, "cannot list the type again; trying again");
                }
            }
        }
        for task_type in types {
            if let Err(error) = shared.serve(&task_type) {
                error!(%task_type, %error, "cannot serve a new type");
            }
        }
    }

    /// True if a type is missing from the list because it was dropped, not taken off by mistake: a
    /// pattern serves it, and it has no tasks. Its handler keeps running and finds nothing until a
    /// task lists the type again.
    async fn is_dropped(&self, task_type: &TaskType) -> bool {
        if self.shared.registry.exact_types().contains(task_type) {
            return false;
        }
        let stats = self.shared.store.stats(task_type).await;
        stats.is_ok_and(|stats| stats.scheduled + stats.running + stats.dead == 0)
    }

    /// Reports types whose tasks nobody serves, as after a deploy without their workers.
    async fn report_unserved(&self) {
        let Some(log) = &self.shared.settings.telemetry.unserved else {
            return;
        };
        let own = &self.shared.instance.id;
        match unserved(&*self.shared.store, own, UNSERVED_PER_ROUND).await {
            Ok(types) => types.iter().for_each(|(task_type, scheduled)| {
                log.waiting(task_type, *scheduled);
            }),
            Err(error) => debug!(%error, "cannot check which types no instance serves"),
        }
    }

    /// Announces this instance, for people only: nothing else depends on it.
    async fn announce(&mut self, instance: InstanceInfo) {
        self.next_announcement = self.shared.elapsed().saturating_add(ANNOUNCE_INTERVAL);
        let mut told = instance.clone();
        told.recent = Some(self.recording.take(self.shared.settings.clock.now()));
        told.pools = self.shared.settings.slots.uses();
        let announced = self.shared.store.announce(&told, INSTANCE_EXPIRY).await;
        self.announcing.report(&announced);
        if announced.is_ok() {
            self.instance = instance;
        }
        let now = self.shared.elapsed();
        if self.next_figures <= now && self.recording.has_unsent() {
            self.next_figures = now.saturating_add(FIGURES_INTERVAL);
            self.recording.send(&self.shared.store).await;
        }
    }
}
