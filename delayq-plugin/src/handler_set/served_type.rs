//! One type that is served here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delayq_core::history::Recording;
use delayq_core::operate::TypeSettings;
use delayq_core::store::Bucket;
use delayq_core::{Error, WorkerOptions};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::member::Member;
use super::thread::SchedulerThread;
use crate::handler::{Phase, Wiring};
use crate::health::HandlerHealth;
use crate::type_context::TypeContext;
use crate::workers::{TypeWorkers, effective};

/// The handlers of a type, one for each bucket, on one thread.
#[derive(Debug)]
pub(super) struct ServedType {
    pub(super) context: Arc<TypeContext>,
    thread: Arc<SchedulerThread>,
    /// Whether its ends are recorded if its workers do not say.
    recording: Option<Recording>,
    pub(super) handlers: BTreeMap<Bucket, Member>,
    /// The settings required by its workers, until the store has them.
    pub(super) undeclared: Option<TypeSettings>,
    /// `Clock::elapsed` when the store was last asked for the type's buckets.
    pub(super) asked_at: Option<Duration>,
    /// The error of the last look at the type's buckets.
    failure: Option<Error>,
    phase: watch::Sender<Phase>,
}

impl ServedType {
    pub(super) fn new(
        context: Arc<TypeContext>,
        thread: Arc<SchedulerThread>,
        recording: Option<Recording>,
    ) -> Self {
        Self {
            undeclared: settings_of(&context.options(), recording),
            recording,
            context,
            thread,
            handlers: BTreeMap::new(),
            asked_at: None,
            failure: None,
            phase: watch::Sender::new(Phase::Running),
        }
    }

    /// Makes the settings be sent to the store again.
    pub(super) fn forget_declared(&mut self) {
        self.undeclared = settings_of(&self.context.options(), self.recording);
    }

    /// Makes the new `max_pending` be sent to the store, or removed there if there is none any
    /// more.
    pub(super) fn declare_max_pending(&mut self) {
        let most = self.context.options().max_pending;
        let settings = self.undeclared.take().unwrap_or_default();
        self.undeclared = Some(settings.max_pending(most));
    }

    /// Starts a handler for each of these buckets that has none. Handlers of other buckets run
    /// until those have drained.
    pub(super) fn serve(
        &mut self,
        mut buckets: Vec<Bucket>,
        wiring: impl Fn(&Bucket, watch::Receiver<Phase>) -> Wiring,
    ) {
        self.failure = None;
        buckets.retain(|bucket| !self.handlers.contains_key(bucket));
        // Before the first of them claims, so that it takes its share of the slots, not all.
        self.note_handlers(buckets.len());
        for bucket in buckets {
            let context = Arc::clone(&self.context);
            let wiring = wiring(&bucket, self.phase.subscribe());
            let member = Member::start(bucket.clone(), context, wiring, &self.thread);
            self.handlers.insert(bucket, member);
        }
    }

    /// The store did not return the type's buckets.
    pub(super) fn failed(&mut self, error: Error) {
        self.failure = Some(error);
    }

    /// Replaces the workers for everything that starts from now on; running ones finish. Lock,
    /// weight, delivery and shards stay. Returns false, and changes nothing, if that requires a
    /// restart of the handlers.
    pub(super) fn replace(&mut self, workers: &TypeWorkers) -> bool {
        let now = self.context.workers();
        if now.len() != workers.len() {
            return false;
        }
        let workers = workers.with_options(&now, |wanted, now| effective(now, wanted));
        let (old, new) = (self.context.options(), workers.combined());
        self.context.reload(workers);
        if old.max_pending != new.max_pending {
            self.declare_max_pending();
        }
        if old.concurrency != new.concurrency {
            self.context.slots.resize(new.concurrency);
        }
        self.wake(None);
        true
    }

    /// Stops the claims of its handlers, and stops their workers at this `Clock::elapsed`. Returns
    /// the handlers' ends.
    pub(super) fn leave(&mut self, stop_at: Duration) -> Vec<JoinHandle<()>> {
        self.phase.send_replace(Phase::Stopping(stop_at));
        let members = self.handlers.values_mut();
        members.filter_map(|member| member.ended.take()).collect()
    }

    /// Wakes the handler of `bucket`, or all handlers.
    pub(super) fn wake(&self, bucket: Option<&Bucket>) {
        match bucket {
            Some(bucket) => {
                let member = self.handlers.get(bucket).into_iter();
                member.for_each(|member| member.wake.notify_one());
            }
            None => self
                .handlers
                .values()
                .for_each(|member| member.wake.notify_one()),
        }
    }

    /// Forgets a handler that has ended.
    pub(super) fn remove(&mut self, bucket: &Bucket) {
        self.handlers.remove(bucket);
        self.note_handlers(0);
    }

    /// One entry for each handler; without handlers, one with the reason.
    pub(super) fn health(&self, elapsed: Duration) -> Vec<HandlerHealth> {
        if self.handlers.is_empty() {
            let mut health = HandlerHealth::new(Bucket::whole(self.context.task_type.clone()));
            health.failures_in_a_row = u32::from(self.failure.is_some());
            health.last_error.clone_from(&self.failure);
            return vec![health];
        }
        let members = self.handlers.values();
        members
            .map(|member| member.status.health(elapsed))
            .collect()
    }

    fn note_handlers(&self, new: usize) {
        let count = self.handlers.len() + new;
        self.context.handlers.store(count, Ordering::Relaxed);
    }
}

/// The part of a type's worker options that the store keeps; `None` if there is none.
fn settings_of(options: &WorkerOptions, recording: Option<Recording>) -> Option<TypeSettings> {
    let mut settings = TypeSettings::default();
    if let Some(most) = options.max_pending {
        settings = settings.max_pending(Some(most));
    }
    if let Some(shards) = options.shards {
        settings = settings.shards(shards);
    }
    if let Some(recording) = options.history.or(recording) {
        settings = settings.history(recording.kept());
    }
    (settings != TypeSettings::default()).then_some(settings)
}
