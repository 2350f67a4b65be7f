//! Settlements of one handler: a queue, and the call that empties it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{Bucket, MAX_BATCH, SettleOutcome};
use delayq_core::{Error, Result};

use super::committed::Settlement;
use super::notes::Notes;
use crate::backoff::Backoff;
use crate::call::OneCall;
use crate::ending::Ending;
use crate::type_context::TypeContext;

/// A handler stops claiming while this many settlements wait for the store.
const MAX_UNSETTLED: usize = 16 * MAX_BATCH;

/// The pause before settlements are repeated whose tasks somebody's transaction keeps locked.
const BUSY: Duration = Duration::from_millis(500);

/// A call that settled a batch, or failed to.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) batch: Vec<Ending>,
    /// `Clock::elapsed` before it was sent.
    pub(super) sent_at: Duration,
    pub(super) outcomes: Result<Vec<SettleOutcome>>,
}

/// The waiting settlements, in order. After a call in doubt its settlements go back to the front
/// and are repeated. After any other failure, possibly because of one damaged task, they go to the
/// back and into smaller calls, so that they hold up no others.
#[derive(Debug)]
pub(super) struct Settler {
    context: Arc<TypeContext>,
    bucket: Bucket,
    waiting: VecDeque<Ending>,
    /// Those whose tasks are locked by somebody's transaction: they hold up no others.
    busy: Vec<Ending>,
    busy_until: Duration,
    call: OneCall<Settled>,
    notes: Notes,
    /// Maximum number of settlements in the next call.
    most: usize,
    next_at: Duration,
    backoff: Backoff,
}

impl Settler {
    pub(super) fn new(bucket: Bucket, context: Arc<TypeContext>) -> Self {
        Self {
            notes: Notes::new(bucket.clone(), Arc::clone(&context)),
            context,
            bucket,
            waiting: VecDeque::new(),
            busy: Vec::new(),
            busy_until: Duration::ZERO,
            call: OneCall::none(),
            most: MAX_BATCH,
            next_at: Duration::ZERO,
            backoff: Backoff::default(),
        }
    }

    pub(super) fn extend(&mut self, endings: impl IntoIterator<Item = Ending>) {
        for ending in endings {
            if ending.is_noted {
                self.notes.push(ending.settlement);
            } else {
                self.waiting.push_back(ending);
            }
        }
    }

    /// The number of waiting settlements, without those in progress.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.busy.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= MAX_UNSETTLED
    }

    /// True if everything has been settled.
    pub(super) fn is_idle(&self) -> bool {
        self.len() == 0 && !self.is_under_way()
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.call.is_under_way() || self.notes.is_under_way()
    }

    /// The time of the next call.
    pub(super) fn next_wake(&self) -> Option<Duration> {
        let waits = !self.call.is_under_way() && self.len() > 0;
        let is_busy = self.waiting.is_empty();
        let next_at = if is_busy {
            self.busy_until
        } else {
            self.next_at
        };
        waits.then_some(next_at.max(self.next_at))
    }

    /// Starts a call, if one is due.
    pub(super) fn start_due(&mut self, now: Duration) {
        if self.next_wake().is_none_or(|at| at > now) {
            return;
        }
        if self.busy_until <= now {
            self.waiting.extend(self.busy.drain(..));
        }
        let count = self.waiting.len().min(self.most);
        let mut batch: Vec<_> = self.waiting.drain(..count).collect();
        let (context, bucket) = (Arc::clone(&self.context), self.bucket.clone());
        self.call.start(async move {
            let settlement = Settlement {
                context: &context,
                bucket: &bucket,
            };
            let outcomes = settlement.settle(&mut batch).await;
            Settled {
                batch,
                sent_at: now,
                outcomes,
            }
        });
    }

    /// The answer of a call; `None` if errors were recorded instead.
    pub(super) async fn answer(&mut self) -> Option<Settled> {
        tokio::select! {
            settled = self.call.answer() => Some(settled),
            () = self.notes.answer() => None,
        }
    }

    /// The store has answered. Reads the clock for the reports of its answers.
    pub(super) fn succeeded(&mut self) {
        self.context.report.read_clock();
        self.backoff.reset();
        self.most = MAX_BATCH;
    }

    /// Takes back a settlement whose task somebody's transaction keeps locked.
    pub(super) fn is_busy(&mut self, ending: Ending, now: Duration) {
        if self.busy.is_empty() {
            self.busy_until = now + BUSY;
        }
        self.busy.push(ending);
    }

    /// Takes back the batch of a call that failed.
    pub(super) fn failed(&mut self, batch: Vec<Ending>, error: &Error, now: Duration) {
        self.next_at = now + self.backoff.next();
        if error.is_transient() {
            let newer = std::mem::replace(&mut self.waiting, batch.into());
            self.waiting.extend(newer);
        } else {
            self.most = (batch.len() / 2).max(1);
            self.waiting.extend(batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use delayq_core::memory::MemoryStore;
    use delayq_core::store::AttemptEnd;
    use delayq_core::{Lock, TaskId, TaskType};
    use tokio::runtime::Handle;

    use super::*;
    use crate::settings::Settings;
    use crate::submit::TaskSubmitService;
    use crate::workers::TypeWorkers;

    fn settler() -> Settler {
        let task_type = TaskType::new("job").unwrap();
        let context = TypeContext::new(
            task_type.clone(),
            TypeWorkers::new(Vec::new()),
            Arc::new(TaskSubmitService::new(Arc::new(MemoryStore::default()))),
            &Settings::default(),
            Handle::current(),
        );
        let mut settler = Settler::new(Bucket::whole(task_type), Arc::new(context));
        settler.extend((0..8).map(settlement));
        settler
    }

    fn settlement(n: u64) -> Ending {
        let id = TaskId::new(n.to_string()).unwrap();
        Ending::unstarted(Lock { id, fence: n }, 1, AttemptEnd::Done)
    }

    fn fences(endings: &[Ending]) -> Vec<u64> {
        endings.iter().map(|one| one.lock().fence).collect()
    }

    /// Sends the next call, fails it with `error`, and returns its endings.
    fn fail(settler: &mut Settler, error: &Error) -> Vec<Ending> {
        settler.next_at = Duration::ZERO;
        settler.start_due(Duration::ZERO);
        settler.call.cancel();
        let count = 8 - settler.len();
        let batch: Vec<_> = (0..8).map(settlement).collect();
        let waiting: BTreeSet<_> = settler.waiting.iter().map(|one| one.lock().fence).collect();
        let sent = batch
            .into_iter()
            .filter(|one| !waiting.contains(&one.lock().fence));
        let sent: Vec<_> = sent.collect();
        assert_eq!(sent.len(), count);
        settler.failed(sent.clone(), error, Duration::ZERO);
        sent
    }

    #[tokio::test]
    async fn settlements_in_doubt_are_repeated_before_newer_ones() {
        let mut settler = settler();
        let error = Error::Indeterminate {
            store: "s".to_owned(),
            detail: "d".to_owned(),
        };
        let sent = fail(&mut settler, &error);
        settler.extend([settlement(9)]);
        let waiting: Vec<_> = settler.waiting.iter().cloned().collect();
        assert_eq!(fences(&waiting), [fences(&sent), vec![9]].concat());
        assert!(settler.next_wake().unwrap() > Duration::ZERO);
    }

    #[tokio::test]
    async fn a_settlement_whose_task_is_kept_locked_waits_beside_the_others() {
        let mut settler = settler();
        settler.start_due(Duration::ZERO);
        settler.call.cancel();
        settler.is_busy(settlement(3), Duration::ZERO);
        settler.is_busy(settlement(4), BUSY / 2);
        assert!(!settler.is_idle());
        assert_eq!((settler.len(), settler.next_wake()), (2, Some(BUSY)));
        settler.extend([settlement(9)]);
        assert_eq!(settler.next_wake(), Some(Duration::ZERO));
        settler.start_due(Duration::ZERO);
        settler.call.cancel();
        assert_eq!((settler.len(), settler.next_wake()), (2, Some(BUSY)));
        settler.start_due(BUSY);
        assert_eq!((settler.len(), settler.is_idle()), (0, false));
    }

    #[tokio::test]
    async fn a_settlement_that_the_store_cannot_take_is_sent_alone_in_the_end_and_holds_up_no_other()
     {
        let mut settler = settler();
        let error = Error::Corrupt {
            key: "k".to_owned(),
            detail: "d".to_owned(),
        };
        for count in [8, 4, 2, 1, 1] {
            assert_eq!(fail(&mut settler, &error).len(), count);
            assert_eq!(settler.len(), 8);
        }
    }
}
