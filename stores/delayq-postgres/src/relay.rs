//! The relay: applies the calls of an outbox to another store, each exactly once.
//!
//! A task is sent in three steps: it is submitted with a due time far away (parked), the outbox
//! notes that, and the task is moved to its due time. A repeat of the first step finds the parked
//! task, which cannot have ended. A repeat of the third one finds that it is parked no more. So it
//! does not matter how much later, or for how long ends are remembered.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use delayq_core::job::When;
use delayq_core::state::TaskState;
use delayq_core::store::{Store, SubmitOutcome};
use delayq_core::task::TaskInfo;
use delayq_core::{Error, Result};
use futures_util::stream::{StreamExt, iter};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::outbox::Outbox;
use crate::outbox_call::{Call, CallEnd, CallKind};

/// Number of calls that are applied together.
const BATCH: i32 = 500;
/// Number of calls to the other store at a time.
const AT_A_TIME: usize = 32;
/// How long a relay holds a lane at most without a sign of life.
const LEASE: Duration = Duration::from_secs(30);
/// A relay begins no step once it has held its lane for so long: a call to the other store ends
/// within the rest, unless its time limit is longer.
const USABLE: Duration = Duration::from_secs(8);
/// The time between two looks into an empty outbox.
const POLL: Duration = Duration::from_millis(100);
/// The time until a call that was refused for now is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// The pause after an error of one of the stores.
const PAUSE: Duration = Duration::from_secs(1);

/// Applies the calls of an [`Outbox`] to the store that has the tasks. Any number of relays may run
/// for an outbox: each lane of it is served by one at a time, and calls for one task are applied in
/// their order.
#[derive(Clone, Debug)]
pub struct OutboxRelay {
    outbox: Outbox,
    store: Arc<dyn Store>,
    holder: String,
}

type Ends = Vec<(i64, CallEnd)>;

impl OutboxRelay {
    /// A relay from `outbox` to `store`.
    #[must_use]
    pub fn new(outbox: Outbox, store: Arc<dyn Store>) -> Self {
        Self {
            outbox,
            store,
            holder: format!("{:016x}", fastrand::u64(..)),
        }
    }

    /// The outbox.
    #[must_use]
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Relays until the future is dropped, which is safe at any point. Errors of the stores are
    /// logged, and the calls are tried again.
    pub async fn run(&self) {
        let mut is_down = false;
        loop {
            match self.relay_waiting().await {
                Ok(0) => tokio::time::sleep(POLL).await,
                Ok(_) => is_down = false,
                Err(error) => {
                    if !is_down {
                        warn!(outbox = self.outbox.place(), store = self.store.name(),
                            %error, "the relay waits, and tries again each second");
                    }
                    is_down = true;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Applies what can be applied now. Returns the number of calls that have left the outbox.
    ///
    /// # Errors
    /// The first error of one of the stores. What is not applied stays.
    pub async fn relay_waiting(&self) -> Result<u64> {
        let (mut applied, mut failed) = (0, None);
        for lane in self.outbox.lanes().await? {
            match self.relay_lane(lane).await {
                Ok(count) => applied += count,
                // The other lanes go on.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(applied), Err)
    }

    async fn relay_lane(&self, lane: i32) -> Result<u64> {
        let mut applied = 0;
        loop {
            let until = Instant::now() + USABLE;
            if !self.outbox.lease(lane, &self.holder, LEASE).await? {
                return Ok(applied);
            }
            let calls = self.outbox.calls(lane, BATCH).await?;
            let step = Step {
                relay: self,
                lane,
                until,
            };
            let mut gone = HashSet::new();
            for mut wave in waves(calls) {
                wave.retain(|call| call.previous.is_none_or(|seq| gone.contains(&seq)));
                if Instant::now() >= until || wave.is_empty() {
                    break;
                }
                let Some(seqs) = step.apply(wave).await? else {
                    return Ok(applied);
                };
                applied += seqs.len() as u64;
                gone.extend(seqs);
            }
            if gone.is_empty() {
                return Ok(applied);
            }
        }
    }
}

/// The application of some calls, each of another task, while the lane is held.
struct Step<'a> {
    relay: &'a OutboxRelay,
    lane: i32,
    until: Instant,
}

impl Step<'_> {
    /// The calls that have left the outbox; `None` if the lane was lost.
    async fn apply(&self, calls: Vec<Call>) -> Result<Option<Vec<i64>>> {
        let (sends, others): (Vec<_>, Vec<_>) = calls.into_iter().partition(Call::is_parkable);
        let (mut parked, new): (Vec<_>, Vec<_>) =
            sends.into_iter().partition(|call| call.is_parked);
        let mut ends = Ends::new();
        let mut failed = None;
        for (call, end) in self.park(new).await {
            match end {
                Ok(end) => {
                    if end == CallEnd::Parked {
                        parked.push(call.clone());
                    }
                    ends.push((call.seq, end));
                }
                Err(error) => failed = Some(error),
            }
        }
        let mut left = gone(&ends);
        if !self.note(&ends).await? {
            return Ok(None);
        }
        let moved = iter(parked)
            .map(|call| async move { (call.seq, self.unpark(&call).await) })
            .buffer_unordered(AT_A_TIME);
        let changed = iter(others)
            .map(|call| async move { (call.seq, self.change(&call).await) })
            .buffer_unordered(AT_A_TIME);
        let results: Vec<_> = moved.chain(changed).collect().await;
        let mut ends = Ends::new();
        for (seq, end) in results {
            match end {
                Ok(end) => ends.push((seq, end)),
                Err(error) => failed = Some(error),
            }
        }
        left.extend(gone(&ends));
        if !self.note(&ends).await? {
            return Ok(None);
        }
        failed.map_or(Ok(Some(left)), Err)
    }

    async fn note(&self, ends: &Ends) -> Result<bool> {
        for (seq, end) in ends {
            if let CallEnd::Aside(error) = end {
                warn!(seq, %error, "a call of the outbox can never be applied: it is set aside");
            }
        }
        if ends.is_empty() {
            return Ok(true);
        }
        let relay = self.relay;
        relay
            .outbox
            .note(self.lane, &relay.holder, ends, AGAIN)
            .await
    }

    /// # Errors
    /// If the lane may soon be another relay's.
    fn check_lane(&self) -> Result<()> {
        if Instant::now() < self.until {
            return Ok(());
        }
        let text = "the calls took too long: they are taken up again";
        Err(Error::unavailable("the relay", text))
    }

    /// Submits tasks with a due time far away.
    async fn park(&self, calls: Vec<Call>) -> Vec<(Call, Result<CallEnd>)> {
        let (mut ended, mut tasks, mut submitted) = (Vec::new(), Vec::new(), Vec::new());
        for call in calls {
            match call.task(When::At(call.parked_due())) {
                Ok(task) => {
                    tasks.push(task);
                    submitted.push(call);
                }
                Err(error) => ended.push((call, Ok(CallEnd::Aside(error.to_string())))),
            }
        }
        if tasks.is_empty() {
            return ended;
        }
        if let Err(error) = self.check_lane() {
            let stopped = submitted.into_iter().map(|call| (call, Err(error.clone())));
            ended.extend(stopped);
            return ended;
        }
        let outcomes = self.relay.store.submit(tasks).await;
        // After a relay that died before it noted them, each has to be looked up.
        let parked: Vec<_> = iter(submitted.into_iter().zip(outcomes))
            .map(|(call, outcome)| async move {
                let end = self.parked(&call, outcome).await;
                (call, end)
            })
            .buffer_unordered(AT_A_TIME)
            .collect()
            .await;
        ended.extend(parked);
        ended
    }

    /// What became of the submit of a parked task.
    async fn parked(&self, call: &Call, outcome: Result<SubmitOutcome>) -> Result<CallEnd> {
        let state = match outcome {
            Ok(SubmitOutcome::Accepted { .. } | SubmitOutcome::RunsAgain { .. }) => {
                return Ok(CallEnd::Parked);
            }
            Ok(SubmitOutcome::AlreadyExists { state } | SubmitOutcome::Conflict { state }) => state,
            Ok(other) => {
                let text =
                    format!("the store gave an answer that this release does not know: {other:?}");
                return Ok(CallEnd::Aside(text));
            }
            Err(error) => return refused(error),
        };
        if state.is_ended() {
            return Ok(CallEnd::Applied);
        }
        if state == TaskState::Dead {
            return Ok(CallEnd::Aside(
                "another task has its id, and is dead".to_owned(),
            ));
        }
        let Some(found) = self.find(call).await? else {
            return Ok(CallEnd::Later(
                "the task with its id has just gone".to_owned(),
            ));
        };
        Ok(if call.is_parked_as(&found) {
            CallEnd::Parked
        } else if call.conflict == 1 || call.has_content_of(&found) {
            CallEnd::Applied
        } else {
            CallEnd::Aside(format!("another task has its id, and is {}", found.state))
        })
    }

    /// Moves a parked task to its due time.
    async fn unpark(&self, call: &Call) -> Result<CallEnd> {
        self.check_lane()?;
        let found = self.find(call).await?;
        if found.is_some_and(|found| call.is_parked_as(&found)) {
            // Another relay may have the lane by now, and the application may have moved the task.
            self.check_lane()?;
            let (task_type, id) = call.names()?;
            let when = When::At(call.due());
            match self.relay.store.reschedule(&task_type, &id, when).await {
                Ok(moved) => debug!(%task_type, %id, ?moved, "relayed"),
                Err(error) => return refused(error),
            }
        }
        Ok(CallEnd::Applied)
    }

    /// Applies a call that is not parked.
    async fn change(&self, call: &Call) -> Result<CallEnd> {
        self.check_lane()?;
        let (task_type, id) = match call.names() {
            Ok(names) => names,
            Err(error) => return refused(error),
        };
        let store = &self.relay.store;
        let done = match call.kind {
            CallKind::Cancel => store.cancel(&task_type, &id).await.map(drop),
            CallKind::Reschedule => {
                let moved = store.reschedule(&task_type, &id, When::At(call.due()));
                moved.await.map(drop)
            }
            CallKind::Update => {
                let changed = store.update(&task_type, &id, call.message.clone());
                changed.await.map(drop)
            }
            CallKind::Send => match call.task(call.when()) {
                Err(error) => Err(error),
                Ok(task) => match store.submit(vec![task]).await.pop() {
                    Some(Ok(SubmitOutcome::Conflict { state })) => {
                        let text = format!("another task has its id, and is {state}");
                        return Ok(CallEnd::Aside(text));
                    }
                    Some(outcome) => outcome.map(drop),
                    None => Err(Error::Closed("the store")),
                },
            },
        };
        if let Err(error) = done {
            return refused(error);
        }
        debug!(%task_type, %id, kind = ?call.kind, "relayed");
        Ok(CallEnd::Applied)
    }

    async fn find(&self, call: &Call) -> Result<Option<TaskInfo>> {
        let (task_type, id) = call.names()?;
        self.relay.store.find(&task_type, &id).await
    }
}

/// The calls that leave the outbox.
fn gone(ends: &Ends) -> Vec<i64> {
    let gone = |(_, end): &&(i64, CallEnd)| matches!(end, CallEnd::Applied | CallEnd::Aside(_));
    ends.iter().filter(gone).map(|(seq, _)| *seq).collect()
}

/// Calls that may be applied at the same time, in the order of these groups: a call for a task
/// comes after the one before it. One whose earlier call is not among them is left out.
fn waves(calls: Vec<Call>) -> Vec<Vec<Call>> {
    let mut depths = HashMap::new();
    let mut waves: Vec<Vec<Call>> = Vec::new();
    for call in calls {
        let depth = match call.previous {
            None => 0,
            Some(previous) => match depths.get(&previous) {
                Some(depth) => depth + 1,
                None => continue,
            },
        };
        depths.insert(call.seq, depth);
        if waves.len() <= depth {
            waves.push(Vec::new());
        }
        if let Some(wave) = waves.get_mut(depth) {
            wave.push(call);
        }
    }
    waves
}

/// The end of a call that the store refused, if the reason is the call and not the store.
fn refused(error: Error) -> Result<CallEnd> {
    match error {
        Error::QueueFull { .. } | Error::Misconfigured { .. } => {
            Ok(CallEnd::Later(error.to_string()))
        }
        Error::InvalidName { .. } | Error::InvalidInput { .. } | Error::LimitExceeded { .. } => {
            Ok(CallEnd::Aside(error.to_string()))
        }
        error => Err(error),
    }
}
