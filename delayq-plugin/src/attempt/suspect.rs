//! Suspects: tasks that may have crashed their process, and run alone before they are called
//! poison.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_core::store::{Bucket, ExtendOutcome};
use delayq_core::{AttemptHistory, Clock, Lock, Result, Store};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

use crate::company::{Member, Solitude};

/// How long a suspect waits for the others to end. Then it runs beside them, and a crash is not
/// held against it.
pub(crate) const QUIET_WITHIN: Duration = Duration::from_mins(1);
/// How long the others wait for a suspect that runs alone. Then they run beside it.
const ALONE_FOR: Duration = Duration::from_mins(1);

/// True while the lock of an attempt is extended as one that runs alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct AloneFlag(Arc<AtomicBool>);

/// The attempt of a suspect, shared by its workers.
#[derive(Debug)]
pub(crate) struct Suspect {
    held: HeldLock,
    clock: Arc<dyn Clock>,
    app: Handle,
    presence: Mutex<Presence>,
    /// Whether the workers may start, once that is known.
    start: OnceCell<bool>,
    /// The number of workers that have not returned.
    workers: AtomicUsize,
}

/// The lock of a suspect.
#[derive(Debug)]
pub(crate) struct HeldLock {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) bucket: Bucket,
    pub(crate) lock: Lock,
    pub(crate) lock_for: Duration,
    pub(crate) is_alone: AloneFlag,
}

/// What others are to a suspect.
#[derive(Debug)]
enum Presence {
    /// It is alone, or waits for that. The task ends that after a while.
    Alone(Solitude, Option<AbortOnDropHandle<()>>),
    Beside(#[expect(dead_code, reason = "held until it is dropped")] Member),
    Gone,
}

impl AloneFlag {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self, is_alone: bool) {
        self.0.store(is_alone, Ordering::Release);
    }
}

impl HeldLock {
    /// Extends the lock and marks it, if the attempt is alone. Returns true if it is still held.
    async fn extend(&self, is_alone: bool) -> Result<bool> {
        self.is_alone.set(is_alone);
        let outcome = if is_alone {
            self.store
                .extend_alone(&self.bucket, &self.lock, self.lock_for)
                .await?
        } else {
            let locks = vec![self.lock.clone()];
            let outcomes = self
                .store
                .extend(&self.bucket, locks, self.lock_for)
                .await?;
            outcomes.first().copied().unwrap_or(ExtendOutcome::LockLost)
        };
        Ok(outcome != ExtendOutcome::LockLost)
    }
}

impl Suspect {
    /// True for a task that was there at so many crashes that the next one could be the last.
    pub(crate) fn is_one(history: &AttemptHistory, max_lock_expiries: u32) -> bool {
        let next = history.lock_expiries.saturating_add(1);
        history.lock_expiries > 0 && next >= max_lock_expiries
    }

    /// The attempt of `workers` workers, which keeps others from starting.
    pub(crate) fn new(
        held: HeldLock,
        workers: usize,
        solitude: Solitude,
        clock: Arc<dyn Clock>,
        app: Handle,
    ) -> Arc<Self> {
        Arc::new(Self {
            held,
            clock,
            app,
            presence: Mutex::new(Presence::Alone(solitude, None)),
            start: OnceCell::new(),
            workers: AtomicUsize::new(workers),
        })
    }

    /// Waits until no other attempt runs, and marks the lock as that of an attempt that runs alone.
    /// If others run for too long, it runs beside them. Returns false if the lock is lost.
    pub(crate) async fn begin(self: &Arc<Self>) -> bool {
        *self.start.get_or_init(|| self.find_quiet()).await
    }

    async fn find_quiet(self: &Arc<Self>) -> bool {
        let id = &self.held.lock.id;
        let Presence::Alone(solitude, _) = self.replace(Presence::Gone) else {
            return true;
        };
        let given_up = self.clock.elapsed().saturating_add(QUIET_WITHIN);
        tokio::select! {
            () = solitude.quiet() => {}
            () = self.clock.sleep_until(given_up) => {
                debug!(%id, "its process may have crashed of it, but others run for too long");
                self.replace(Presence::Beside(solitude.into_member()));
                return true;
            }
        }
        warn!(bucket = %self.held.bucket, %id,
            "its lock expired several times, so its process may have crashed of it: runs alone");
        match self.held.extend(true).await {
            Ok(true) => {}
            Ok(false) => return false,
            Err(error) => debug!(%id, %error, "cannot mark its lock"),
        }
        let weak = Arc::downgrade(self);
        let ends_at = self.clock.elapsed().saturating_add(ALONE_FOR);
        let clock = Arc::clone(&self.clock);
        let end = self.app.spawn(async move {
            clock.sleep_until(ends_at).await;
            if let Some(suspect) = weak.upgrade() {
                suspect.let_others_in().await;
            }
        });
        self.replace(Presence::Alone(solitude, Some(AbortOnDropHandle::new(end))));
        true
    }

    /// A worker has returned. After the last one the lock is unmarked, and others start again.
    pub(crate) async fn returned(&self) {
        if self.workers.fetch_sub(1, Ordering::AcqRel) == 1
            && let Presence::Alone(solitude, _) = self.replace(Presence::Gone)
        {
            self.unmark().await;
            drop(solitude);
        }
    }

    async fn let_others_in(&self) {
        self.unmark().await;
        let mut presence = self.presence();
        if let Presence::Alone(solitude, end) = std::mem::replace(&mut *presence, Presence::Gone) {
            // The caller is the task that this would abort.
            end.map(AbortOnDropHandle::detach);
            *presence = Presence::Beside(solitude.into_member());
        }
    }

    async fn unmark(&self) {
        if let Err(error) = self.held.extend(false).await {
            debug!(id = %self.held.lock.id, %error, "cannot unmark its lock");
        }
    }

    fn presence(&self) -> MutexGuard<'_, Presence> {
        self.presence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, presence: Presence) -> Presence {
        std::mem::replace(&mut *self.presence(), presence)
    }
}
