//! Records the work of this server's clients: figures by the minute, and this server's entry in the
//! list of instances with the types pulled from it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_plugin::store::{
    ANNOUNCE_INTERVAL, AttemptEnd, Claimed, EndCause, Figures, INSTANCE_EXPIRY, RecentWork, Spell,
    Step, TypeWork,
};
use delayq_plugin::{Clock, InstanceId, InstanceInfo, Store, TaskType, Timestamp};
use tokio::sync::Notify;
use tracing::debug;

use super::suspects::Suspects;
use crate::policy::Policies;

/// How often figures are stored.
const FLUSH: Duration = Duration::from_secs(10);
/// The largest number of types that are counted.
const MAX_TYPES: usize = 1_000;
/// How long a type counts as served after the last claim, extension or settlement. It also counts
/// as served while a client holds a lock.
const SERVED_FOR: Duration = Duration::from_mins(2);
/// The largest number of locks that are tracked for a type.
const MAX_LOCKS: usize = 1_000;

/// The figures and the announcement of this server.
#[derive(Debug)]
pub(super) struct Record {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    instance: InstanceInfo,
    types: Mutex<BTreeMap<TaskType, TypeRecord>>,
    pub(super) suspects: Suspects,
    /// Notified when a type is claimed for the first time.
    is_new: Notify,
}

#[derive(Debug, Default)]
struct TypeRecord {
    minutes: BTreeMap<Timestamp, Figures>,
    recent: BTreeMap<Timestamp, Figures>,
    asked_at: Option<Timestamp>,
    /// The locks that clients hold: fence and end.
    locks: BTreeMap<u64, Timestamp>,
}

impl TypeRecord {
    /// Returns true if a client waits for tasks of the type or works on them.
    fn is_served(&self, now: Timestamp) -> bool {
        let is_asked = self.asked_at.is_some_and(|at| at.plus(SERVED_FOR) > now);
        is_asked || self.locks.values().any(|until| *until > now)
    }

    fn hold(&mut self, fence: u64, until: Timestamp) {
        if self.locks.len() < MAX_LOCKS || self.locks.contains_key(&fence) {
            self.locks.insert(fence, until);
        }
    }
}

impl Record {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        policies: Arc<Policies>,
    ) -> Self {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        let id = InstanceId::generate();
        let instance = InstanceInfo::new(id, host, std::process::id(), clock.now());
        Self {
            store,
            clock,
            instance,
            types: Mutex::default(),
            suspects: Suspects::new(policies),
            is_new: Notify::new(),
        }
    }

    /// The instance id under which tasks are claimed.
    pub(super) fn holder(&self) -> &InstanceId {
        &self.instance.id
    }

    fn types(&self) -> MutexGuard<'_, BTreeMap<TaskType, TypeRecord>> {
        self.types.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, task_type: &TaskType, now: Timestamp, change: impl FnOnce(&mut Figures)) {
        let mut types = self.types();
        if !types.contains_key(task_type) && types.len() >= MAX_TYPES {
            return;
        }
        let minutes = &mut types.entry(task_type.clone()).or_default().minutes;
        change(minutes.entry(Step::Minute.begin(now)).or_default());
    }

    /// Records that a client wants tasks of a type or works on one.
    pub(super) fn asked(&self, task_type: &TaskType) {
        self.seen(task_type, |_| {});
    }

    /// Records locks that a client received or extended: fence and end.
    pub(super) fn locked(&self, task_type: &TaskType, locks: &[(u64, Timestamp)]) {
        if !locks.is_empty() {
            self.seen(task_type, |record| {
                for (fence, until) in locks {
                    record.hold(*fence, *until);
                }
            });
        }
    }

    /// Records that a lock was released, by a client or on the way to one.
    pub(super) fn unlocked(&self, task_type: &TaskType, fence: u64) {
        self.suspects.unlocked(task_type, fence);
        if let Some(record) = self.types().get_mut(task_type) {
            record.locks.remove(&fence);
        }
    }

    fn seen(&self, task_type: &TaskType, change: impl FnOnce(&mut TypeRecord)) {
        let (mut types, now) = (self.types(), self.clock.now());
        if !types.contains_key(task_type) {
            if types.len() >= MAX_TYPES {
                return;
            }
            types.insert(task_type.clone(), TypeRecord::default());
        }
        let Some(record) = types.get_mut(task_type) else {
            return;
        };
        if !record.is_served(now) {
            self.is_new.notify_one();
        }
        record.asked_at = Some(now);
        change(record);
    }

    /// Records the result of a claim: the starts with their lateness, the locks, and the dead
    /// tasks.
    pub(super) fn claimed(&self, task_type: &TaskType, claimed: &Claimed) {
        if !claimed.tasks.is_empty() {
            let late = |due: i64| claimed.store_now.as_millis().saturating_sub(due).max(0);
            let late = claimed
                .tasks
                .iter()
                .map(|task| late(task.due_at.as_millis()));
            let late: Vec<_> = late
                .map(|ms| Duration::from_millis(ms.unsigned_abs()))
                .collect();
            self.started(task_type, &late);
            let locks = claimed.tasks.iter();
            let locks: Vec<_> = locks
                .map(|task| (task.lock.fence, task.lock_until))
                .collect();
            self.locked(task_type, &locks);
        }
        let is_dead = |cause| matches!(cause, EndCause::Poison | EndCause::Corrupt);
        let dead = claimed.ended.iter().filter(|end| is_dead(end.cause));
        self.died(task_type, dead.count() as u64);
    }

    /// Counts started attempts, with the lateness of each.
    pub(super) fn started(&self, task_type: &TaskType, lateness: &[Duration]) {
        self.count(task_type, self.clock.now(), |figures| {
            for late in lateness {
                figures.started += 1;
                figures.lateness.record(*late);
            }
        });
    }

    /// Counts tasks that became dead.
    pub(super) fn died(&self, task_type: &TaskType, count: u64) {
        if count > 0 {
            self.count(task_type, self.clock.now(), |figures| figures.dead += count);
        }
    }

    /// Counts an ended attempt. Its start time follows from its fence, which is a time in
    /// microseconds.
    pub(super) fn ended(&self, task_type: &TaskType, fence: u64, end: &AttemptEnd) {
        let now = self.clock.now();
        let began = Timestamp::from_millis(i64::try_from(fence / 1_000).unwrap_or(i64::MAX));
        let run = Duration::from_millis(
            u64::try_from(now.as_millis() - began.as_millis().min(now.as_millis())).unwrap_or(0),
        );
        self.count(task_type, now, |figures| match end {
            AttemptEnd::Done => {
                figures.done += 1;
                figures.ran(run);
            }
            AttemptEnd::Retry { .. } => {
                figures.failed += 1;
                figures.ran(run);
            }
            AttemptEnd::Dead { .. } => {
                figures.failed += 1;
                figures.dead += 1;
                figures.ran(run);
            }
            _ => {}
        });
    }

    /// Stores figures and announces this server, until the task is aborted.
    pub(super) async fn keep(self: Arc<Self>) {
        let mut flush = tokio::time::interval(FLUSH);
        flush.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut announced: Option<(tokio::time::Instant, Vec<TaskType>)> = None;
        loop {
            tokio::select! {
                _ = flush.tick() => self.store_figures().await,
                () = self.is_new.notified() => {}
            }
            let (served, recent) = self.served();
            // A tick that comes a moment early must not cost an interval.
            let is_due = match &announced {
                None => !served.is_empty(),
                Some((at, types)) => {
                    *types != served || at.elapsed() + FLUSH / 2 >= ANNOUNCE_INTERVAL
                }
            };
            if is_due {
                let mut instance = self.instance.clone().serving(&served);
                instance.recent = Some(recent);
                match self.store.announce(&instance, INSTANCE_EXPIRY).await {
                    Ok(()) => announced = Some((tokio::time::Instant::now(), served)),
                    Err(error) => {
                        debug!(%error, "cannot announce the server in the list of instances");
                    }
                }
            }
        }
    }

    /// The types that clients claim here, and the work of the last minutes.
    fn served(&self) -> (Vec<TaskType>, RecentWork) {
        let now = self.clock.now();
        let since = Step::Minute.begin(now).minus(4 * Step::Minute.length());
        let mut types = self.types();
        types.retain(|_, one| {
            one.recent.retain(|at, _| *at >= since);
            one.locks.retain(|_, until| *until > now);
            one.is_served(now) || !one.recent.is_empty() || !one.minutes.is_empty()
        });
        let served = types.iter().filter(|(_, one)| one.is_served(now));
        let served = served.map(|(task_type, _)| task_type.clone()).collect();
        let work = types.iter().map(|(task_type, one)| {
            let mut figures = Figures::default();
            for minute in one.recent.values() {
                figures += minute;
            }
            TypeWork {
                task_type: task_type.clone(),
                figures,
            }
        });
        let since = since.max(self.instance.started_at);
        (served, RecentWork::new(since, work.collect()))
    }

    /// Stores the figures. Figures that cannot be stored now are dropped, as they are only for
    /// display.
    async fn store_figures(&self) {
        let taken: Vec<_> = {
            let mut types = self.types();
            let counted = types.iter_mut().filter(|(_, one)| !one.minutes.is_empty());
            counted
                .map(|(task_type, one)| {
                    let minutes = std::mem::take(&mut one.minutes);
                    for (at, figures) in &minutes {
                        *one.recent.entry(*at).or_default() += figures;
                    }
                    (task_type.clone(), minutes)
                })
                .collect()
        };
        for (task_type, minutes) in taken {
            let spells = minutes.into_iter();
            let spells: Vec<_> = spells.map(|(at, figures)| Spell { at, figures }).collect();
            if let Err(error) = self.store.add_figures(&task_type, &spells).await {
                debug!(%task_type, %error, "cannot store figures; they are dropped");
            }
        }
    }

    /// Stores the figures and removes this server from the list of instances.
    pub(super) async fn close(&self) {
        self.store_figures().await;
        self.store.withdraw(&self.instance.id).await.ok();
    }
}

#[cfg(test)]
mod tests {
    use delayq_plugin::store::MemoryStore;
    use delayq_testing::VirtualClock;

    use super::*;

    #[test]
    fn a_type_is_served_while_somebody_asks_or_holds_a_lock_and_no_longer() {
        let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_767_225_600_000)));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let policies = Arc::new(Policies::new(Arc::clone(&store), 5));
        let record = Record::new(store, Arc::clone(&clock) as _, policies);
        let [asked, held] = ["asked", "held"].map(|name| TaskType::new(name).unwrap());
        let served = || record.served().0;
        record.asked(&asked);
        let until = clock.now().plus(Duration::from_mins(30));
        record.locked(&held, &[(1, until), (2, until)]);
        record.started(&asked, &[Duration::ZERO]);
        assert_eq!(served(), [asked.clone(), held.clone()]);
        clock.advance(Duration::from_mins(3));
        // Its figures are kept, and its workers are gone.
        assert_eq!(served(), std::slice::from_ref(&held));
        record.unlocked(&held, 1);
        assert_eq!(served(), std::slice::from_ref(&held));
        record.unlocked(&held, 2);
        assert_eq!(served(), []);
        record.locked(&held, &[]);
        assert_eq!(served(), []);
        record.locked(&held, &[(3, clock.now().plus(Duration::from_mins(5)))]);
        clock.advance(Duration::from_mins(4));
        assert_eq!(served(), std::slice::from_ref(&held));
        clock.advance(Duration::from_mins(2));
        assert_eq!(served(), []);
    }
}
