//! Snapshots of the store: one for each view, shared by all its viewers.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_plugin::{Error, Result, TaskSubmitService, Timestamp};
use tokio::sync::Notify;

/// The shortest time between two reads of one view.
pub(crate) const FRESH: Duration = Duration::from_secs(2);
/// Reads of a view take at most one part in this many of the time: 1 % of one connection. A slow
/// view is therefore read less often. The faster of the last two reads counts, because a single
/// slow read, such as while the store was stalled, says nothing about the view.
const SHARE: u32 = 100;
/// The longest time between two reads.
const MAX_REST: Duration = Duration::from_mins(5);
/// The longest time until a read that failed is tried again: the page must soon see that the store
/// is back.
pub(crate) const MAX_FAILED_REST: Duration = Duration::from_secs(30);
/// The longest read: slightly more than the default time limit of a call.
const READ_LIMIT: Duration = Duration::from_secs(6);
/// The largest number of snapshots of one kind of view. A new one replaces the one unused for
/// longest.
const MAX_SLOTS: usize = 64;

/// The snapshot of a view, with its age and errors.
pub(crate) struct Seen<T> {
    /// The last successful read, with this host's time of its end.
    pub(crate) good: Option<Good<T>>,
    /// The error of the last read, if it failed.
    pub(crate) error: Option<Error>,
    /// True if a read is under way that takes longer than the caller waits.
    pub(crate) is_reading: bool,
}

/// The result of a successful read.
pub(crate) struct Good<T> {
    pub(crate) data: Arc<T>,
    pub(crate) at: Timestamp,
}

impl<T> Clone for Good<T> {
    fn clone(&self) -> Self {
        let (data, at) = (Arc::clone(&self.data), self.at);
        Self { data, at }
    }
}

/// The snapshots of one kind of view, by key.
pub(crate) struct Cache<T> {
    slots: Mutex<HashMap<String, Arc<CacheSlot<T>>>>,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        let slots = Mutex::default();
        Self { slots }
    }
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cache(..)")
    }
}

struct CacheSlot<T> {
    state: Mutex<CacheState<T>>,
    /// Notified when the read under way ends.
    ended: Notify,
}

struct CacheState<T> {
    good: Option<Good<T>>,
    error: Option<Error>,
    /// The duration of the last read.
    took: Duration,
    /// The earliest time of the next read, on the clock's elapsed time.
    next_at: Duration,
    used_at: Duration,
    is_reading: bool,
    /// True if something was changed during the read, so that its result may be outdated.
    is_outdated: bool,
}

/// A request for a view.
pub(crate) struct Ask<'a> {
    pub(crate) tasks: &'a TaskSubmitService,
    /// The key of the view.
    pub(crate) key: String,
    /// How long to wait for it.
    pub(crate) patience: Duration,
    /// The longest time until a read that failed is tried again.
    pub(crate) failed_rest: Duration,
}

impl<T: Send + Sync + 'static> Cache<T> {
    /// The snapshot of a view: the current one while it is fresh, or the result of a read that is
    /// started or under way. A read that takes longer than the patience continues without the
    /// caller.
    pub(crate) async fn get<F>(&self, ask: Ask<'_>, read: impl Fn() -> F) -> Seen<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let clock = Arc::clone(ask.tasks.clock());
        let slot = self.slot(&ask.key, clock.elapsed());
        let waited = tokio::time::timeout(ask.patience, async {
            loop {
                let ended = slot.ended.notified();
                tokio::pin!(ended);
                ended.as_mut().enable();
                let begins = {
                    let mut state = slot.lock();
                    let is_fresh = clock.elapsed() < state.next_at;
                    if !state.is_reading && is_fresh {
                        return;
                    }
                    !std::mem::replace(&mut state.is_reading, true)
                };
                if begins {
                    let (tasks, most) = (ask.tasks.clone(), ask.failed_rest);
                    tokio::spawn(Arc::clone(&slot).fill(tasks, most, read()));
                }
                ended.await;
            }
        });
        let is_reading = waited.await.is_err();
        let state = slot.lock();
        Seen {
            good: state.good.clone(),
            error: state.error.clone(),
            is_reading,
        }
    }

    /// The last successful result, without a read; `None` if the view was never read.
    pub(crate) fn peek(&self, key: &str) -> Option<Arc<T>> {
        let slot = self.lock().get(key).cloned()?;
        let state = slot.lock();
        state.good.as_ref().map(|good| Arc::clone(&good.data))
    }

    /// As [`peek`](Self::peek), unless the result is older than `most`.
    pub(crate) fn peek_fresh(&self, key: &str, now: Timestamp, most: Duration) -> Option<Arc<T>> {
        let slot = self.lock().get(key).cloned()?;
        let state = slot.lock();
        let good = state.good.as_ref();
        let good = good.filter(|good| now.since(good.at) <= most);
        good.map(|good| Arc::clone(&good.data))
    }

    /// Marks every view as outdated after a change, so that its next viewer causes a read.
    pub(crate) fn outdate(&self) {
        for slot in self.lock().values() {
            let mut state = slot.lock();
            state.next_at = Duration::ZERO;
            state.is_outdated = state.is_reading;
        }
    }

    fn slot(&self, key: &str, now: Duration) -> Arc<CacheSlot<T>> {
        let mut slots = self.lock();
        if !slots.contains_key(key) && slots.len() >= MAX_SLOTS {
            let used_at = |slot: &CacheSlot<T>| slot.lock().used_at;
            let oldest = slots.iter().min_by_key(|(_, slot)| used_at(slot));
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.and_then(|key| slots.remove(&key));
        }
        let slot = slots.entry(key.to_owned()).or_default();
        slot.lock().used_at = now;
        Arc::clone(slot)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<CacheSlot<T>>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for CacheSlot<T> {
    fn default() -> Self {
        let state = CacheState {
            good: None,
            error: None,
            took: Duration::ZERO,
            next_at: Duration::ZERO,
            used_at: Duration::ZERO,
            is_reading: false,
            is_outdated: false,
        };
        Self {
            state: Mutex::new(state),
            ended: Notify::new(),
        }
    }
}

impl<T> CacheSlot<T> {
    fn lock(&self) -> MutexGuard<'_, CacheState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a read and stores its result. After a failure it rests for at most `failed_rest`.
    async fn fill(
        self: Arc<Self>,
        tasks: TaskSubmitService,
        failed_rest: Duration,
        read: impl Future<Output = Result<T>> + Send,
    ) {
        let clock = tasks.clock();
        let began = clock.elapsed();
        let reading = ReadMark { slot: &self };
        let answer = tokio::time::timeout(READ_LIMIT, read).await;
        let answer = answer.unwrap_or_else(|_| {
            let detail = format!("no answer within {} s", READ_LIMIT.as_secs());
            Err(Error::unavailable(tasks.store().name(), detail))
        });
        let ended = clock.elapsed();
        let took = ended.saturating_sub(began);
        let mut state = self.lock();
        let usual = took.min(std::mem::replace(&mut state.took, took));
        let most = match answer {
            Ok(_) => MAX_REST,
            Err(_) => failed_rest,
        };
        let rest = usual.saturating_mul(SHARE).clamp(FRESH, most);
        state.next_at = ended.saturating_add(rest);
        match answer {
            Ok(data) => {
                let data = Arc::new(data);
                let at = clock.now();
                state.good = Some(Good { data, at });
                state.error = None;
            }
            Err(error) => state.error = Some(error),
        }
        drop(state);
        drop(reading);
    }
}

/// Marks a read as under way. The mark is removed on drop, so also after a panic.
struct ReadMark<'a, T> {
    slot: &'a CacheSlot<T>,
}

impl<T> Drop for ReadMark<'_, T> {
    fn drop(&mut self) {
        let mut state = self.slot.lock();
        state.is_reading = false;
        if std::mem::take(&mut state.is_outdated) {
            state.next_at = Duration::ZERO;
        }
        drop(state);
        self.slot.ended.notify_waiters();
    }
}
