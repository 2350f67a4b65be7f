//! One shard: all operations that take one script in one slot.
//!
//! [`context`] is the state that the shards of a store share. [`batcher`] batches submits, and
//! [`cancels`] cancels. [`stagger`] keeps instances from claiming the same task at the same time,
//! and [`in_doubt`] remembers claims whose answers were lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq_core::job::When;
use delayq_core::store::{
    BucketState, CancelOutcome, ChangeOutcome, ClaimEnd, ClaimRequest, Claimed, EndCause,
    ExtendOutcome, MAX_BATCH, SettleOutcome, Settlement, warn_of_early_forgetting,
};
use delayq_core::task::{Headers, Lock, TaskInfo};
use delayq_core::{Error, FleetLimits, Result, TaskId};

pub(crate) mod batch;
pub(crate) mod batcher;
pub(crate) mod cancels;
pub(crate) mod context;
pub(crate) mod in_doubt;
pub(crate) mod stagger;
pub(crate) mod upkeep;
pub(crate) mod wakeup_hub;

use crate::connection::{Class, Command, Fields, RespValue};
use crate::scripts::change::{Lookup, Updated};
use crate::scripts::claim::ClaimCall;
use crate::scripts::keys::KINDS;
use crate::scripts::settle::Ending;
use crate::scripts::submit::{Prepared, WakeCall};
use crate::scripts::{ShardKeys, change, claim, query, record, settle};
use batch::Landing;
use cancels::Cancels;
use context::Context;
use upkeep::Upkeep;

/// How often an update is tried again if the task was replaced meanwhile. Somebody else makes
/// progress each time, so more tries would only hide a conflict.
const MAX_UPDATE_TRIES: usize = 8;

/// One shard of a type, or the whole type.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) keys: Arc<ShardKeys>,
    wake: Arc<WakeCall>,
    cx: Arc<Context>,
    cancels: Arc<Cancels>,
}

impl Shard {
    pub(crate) fn new(cx: &Arc<Context>, keys: ShardKeys) -> Self {
        Self {
            wake: Arc::new(cx.wake_call(&keys)),
            keys: Arc::new(keys),
            cx: Arc::clone(cx),
            cancels: Arc::default(),
        }
    }

    /// Operations for operators and for a resize.
    pub(crate) fn upkeep(&self) -> Upkeep<'_> {
        Upkeep(self)
    }

    pub(crate) async fn submit(&self, tasks: Vec<Prepared>) -> Vec<Result<Landing>> {
        let (keys, wake) = (Arc::clone(&self.keys), Arc::clone(&self.wake));
        self.cx.batcher.submit(keys, wake, tasks).await
    }

    pub(crate) async fn claim(&self, request: &ClaimRequest) -> Result<Claimed> {
        let bucket = &self.keys.bucket;
        let has_limit = request.fleet != FleetLimits::NONE;
        if has_limit && !bucket.shard_name().is_empty() {
            return Err(self.limit_on_shards());
        }
        // With a limit there is no stagger: the settlement that frees a slot wakes all instances.
        let staggers = !has_limit && request.limit > 0;
        let stagger = &self.cx.hub.stagger;
        if staggers && let Some(known) = stagger.known(bucket) {
            return Ok(known);
        }
        let open = self.cx.in_doubt.begin(bucket, request);
        let tells = staggers && stagger.tells(bucket);
        let call = ClaimCall {
            retention: self.cx.retention,
            wake: tells.then_some(&*self.wake),
        };
        let command = claim::command(
            &self.keys,
            self.cx.hub.instance(),
            request,
            &open.numbers,
            call,
        );
        let sent = Instant::now();
        let answer = self
            .cx
            .connections
            .call_while_awaited(Class::Main, command)
            .await;
        let answer = match self.fields(answer).await {
            Err(error) if error.is_indeterminate() => return Err(error),
            answer => answer.and_then(|fields| claim::read(fields, request.lock_for)),
        };
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                open.answered();
                return Err(error);
            }
        };
        let damaged = std::mem::take(&mut answer.damaged);
        self.bury(damaged, &mut answer.claimed).await;
        // Until this point nobody has the tasks if the caller gives up.
        open.answered();
        self.report(&answer)?;
        // The claim left its tasks where they are.
        if has_limit && answer.claimed.bucket == BucketState::Sealed {
            return Err(self.limit_on_shards());
        }
        if staggers {
            let claim = stagger::OwnClaim {
                sent,
                round_trip: sent.elapsed(),
                sub_ms: answer.sub_ms,
                next_at: answer.next_at,
                tells,
            };
            let stagger = stagger.claimed(bucket, &answer.claimed, claim);
            let next_in = answer.claimed.next_in.filter(|next_in| !next_in.is_zero());
            if let Some(next_in) = next_in {
                answer.claimed.next_in = Some(next_in.saturating_add(stagger));
            }
        }
        Ok(answer.claimed)
    }

    /// The error for a type with several shards and a fleet limit. It shows 0 shards if only the
    /// layout knows how many came after this one.
    fn limit_on_shards(&self) -> Error {
        Error::FleetLimitOnShards {
            task_type: self.keys.task_type().to_string(),
            shards: self.keys.open.trim_start_matches('P').parse().unwrap_or(0),
        }
    }

    /// Moves tasks with damaged records to dead. If that fails, they are claimed again once their
    /// locks expire, so nothing is lost.
    async fn bury(&self, damaged: Vec<claim::Damaged>, claimed: &mut Claimed) {
        if damaged.is_empty() {
            return;
        }
        let endings: Vec<Ending> = damaged.iter().map(Ending::corrupt).collect();
        let key = self.keys.tasks();
        let buried = self.settle_all(&endings).await;
        if let Err(error) = &buried {
            tracing::error!(bucket = %self.keys, key, %error,
                "cannot move damaged tasks to dead; trying again");
        }
        for task in damaged {
            let id = String::from_utf8_lossy(&task.id);
            if let Some(left_out) = self.cx.log.admit() {
                tracing::error!(bucket = %self.keys, %id, key, why = task.why, left_out,
                    "a damaged record: moved to dead");
            }
            if let Some(id) = claim::task_id(&task.id).filter(|_| buried.is_ok()) {
                claimed.ended.push(ClaimEnd::new(id, EndCause::Corrupt));
            }
        }
    }

    /// Logs the entries that a claim has dropped or postponed. Records of a newer release are left
    /// alone; they fail the claim only if it has no other result.
    fn report(&self, answer: &claim::ClaimReply) -> Result<()> {
        let key = &self.keys.stem;
        for id in &answer.missing {
            if let Some(left_out) = self.cx.log.admit() {
                tracing::error!(bucket = %self.keys, id, key, left_out,
                    "an index entry without a record: dropped");
            }
        }
        let Some(id) = answer.newer.first() else {
            return Ok(());
        };
        let error = self.keys.incompatible(id, record::VERSION + 1);
        if answer.claimed.taken() == 0 {
            return Err(error);
        }
        if let Some(left_out) = self.cx.log.admit() {
            tracing::error!(bucket = %self.keys, id, %error, left_out, "left for a newer release");
        }
        Ok(())
    }

    pub(crate) async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<SettleOutcome>> {
        let endings: Vec<Ending> = settlements.iter().map(Ending::new).collect();
        self.settle_all(&endings).await
    }

    async fn settle_all(&self, endings: &[Ending]) -> Result<Vec<SettleOutcome>> {
        let mut outcomes = Vec::with_capacity(endings.len());
        let mut rest = endings;
        while let Some((batch, after)) = rest.split_at_checked(settle::one_call(rest))
            && !batch.is_empty()
        {
            let command = settle::settle(&self.keys, &self.wake, self.cx.retention, batch);
            let fields = self.run(Class::Main, command).await?;
            let mut settled = settle::read_settled(fields, batch.len())?;
            if settled.is_earlier {
                self.cx.hub.wake(&self.keys.bucket);
            }
            self.note_forgetting(settled.forgot_early);
            outcomes.append(&mut settled.outcomes);
            rest = after;
        }
        Ok(outcomes)
    }

    pub(crate) async fn extend(
        &self,
        locks: &[Lock],
        lock_for: Duration,
        is_alone: bool,
    ) -> Result<Vec<ExtendOutcome>> {
        let mut outcomes = Vec::with_capacity(locks.len());
        for batch in locks.chunks(MAX_BATCH) {
            let command = settle::extend(&self.keys, batch, lock_for, is_alone);
            let fields = self.run(Class::Extend, command).await?;
            outcomes.extend(settle::read_extended(fields)?);
        }
        Ok(outcomes)
    }

    /// Cancels a task, batched with other cancels at the same time.
    pub(crate) async fn cancel(self: &Arc<Self>, id: &TaskId) -> Result<Lookup<CancelOutcome>> {
        let deadline = Instant::now() + self.cx.timeout;
        let (answer, is_first) = self.cancels.join(id.clone(), deadline);
        if is_first {
            let (shard, mut turn) = (Arc::clone(self), self.cancels.turn());
            self.cx.connections.spawn(async move {
                while let Some(batch) = turn.take() {
                    shard.cancel_batch(batch).await;
                }
            });
        }
        answer
            .await
            .unwrap_or(Err(Error::Closed("the Redis store")))
    }

    /// Sends a batch of cancels, without those past their deadline.
    async fn cancel_batch(&self, mut batch: cancels::Batch) {
        let routing = self.cx.connections.routing();
        batch.refuse_late(|| routing.why_not_sent(Class::Main, self.keys.slot));
        let Some(deadline) = batch.deadline() else {
            return;
        };
        let command = change::cancel(&self.keys, batch.ids(), self.cx.retention);
        let fields = self.fields(routing.call(Class::Main, command, deadline).await);
        let answers = match fields.await.and_then(change::read_cancelled) {
            Ok(cancelled) => {
                self.note_forgetting(cancelled.forgot_early);
                Ok(cancelled.answers)
            }
            Err(error) => Err(error),
        };
        batch.answer(answers);
    }

    pub(crate) async fn note_failure(&self, lock: &Lock, error: &str) -> Result<bool> {
        let command = settle::note(&self.keys, lock, error);
        self.run(Class::Main, command).await?.flag()
    }

    fn note_forgetting(&self, is_early: bool) {
        if is_early {
            let task_type = self.keys.bucket.task_type();
            warn_of_early_forgetting(task_type, self.cx.retention.most);
        }
    }

    pub(crate) async fn reschedule(
        &self,
        id: &TaskId,
        when: When,
    ) -> Result<Lookup<ChangeOutcome>> {
        let command = change::reschedule(&self.keys, id, when, self.cx.retention.ms, &self.wake);
        let fields = self.run_and_wake(command).await?;
        change::read_rescheduled(&self.keys, id, fields)
    }

    /// The first try assumes neither expiry nor headers, as most tasks have none.
    pub(crate) async fn update(
        &self,
        id: &TaskId,
        message: &[u8],
        headers: &Headers,
    ) -> Result<Lookup<ChangeOutcome>> {
        let mut fixed = String::new();
        for _ in 0..MAX_UPDATE_TRIES {
            let next = record::with_headers(&fixed, headers);
            let next = next.map_err(|reason| self.keys.corrupt(id.as_str(), reason))?;
            let update = change::Update {
                message,
                fixed: &fixed,
                next: &next,
            };
            let command = change::update(&self.keys, id, update, self.cx.retention.ms);
            let fields = self.run(Class::Main, command).await?;
            match change::read_updated(&self.keys, id, fields)? {
                Updated::Answer(answer) => return Ok(answer),
                Updated::OtherFixed(other) => fixed = other,
            }
        }
        Err(Error::unavailable(
            self.cx.connections.place().to_string(),
            format!("task {id} is being replaced again and again"),
        ))
    }

    pub(crate) async fn find(&self, id: &TaskId) -> Result<Lookup<Option<TaskInfo>>> {
        let command = query::find(&self.keys, id, self.cx.retention.ms);
        let fields = self.run(Class::Main, command).await?;
        query::read_found(&self.keys, id, fields)
    }

    async fn run(&self, class: Class, command: Command) -> Result<Fields> {
        self.fields(self.cx.connections.call(class, command).await)
            .await
    }

    /// Runs a command whose first answer tells that handlers have something to do earlier.
    async fn run_and_wake(&self, command: Command) -> Result<Fields> {
        let mut fields = self.run(Class::Main, command).await?;
        if fields.flag()? {
            self.cx.hub.wake(&self.keys.bucket);
        }
        Ok(fields)
    }

    /// The fields of an answer. If the error is about a key of the wrong type, finds out which key
    /// it is.
    async fn fields(&self, answer: Result<RespValue>) -> Result<Fields> {
        match answer {
            Ok(reply) => Ok(reply.fields()),
            Err(error) if error_names_no_key(&error, self.cx.connections.place()) => {
                Err(self.name_key(error).await)
            }
            Err(error) => Err(error),
        }
    }

    async fn name_key(&self, error: Error) -> Error {
        let (own, packed) = (
            self.keys.keys.iter().cloned().zip(KINDS),
            self.keys.packed(),
        );
        for (key, kind) in own.chain(packed) {
            let ask = Command::read(&["TYPE", &key]).at(self.keys.slot);
            let found = self.cx.connections.call(Class::Main, ask).await;
            let found = found.and_then(|reply| reply.fields().text());
            let found = found.unwrap_or_default();
            if !found.is_empty() && found != "none" && found != kind {
                let detail = format!(
                    "it is a {found}, not a {kind}: who else writes to `delayq:*`? DEL it, and an \
                     audit with repair builds it again"
                );
                return Error::corrupt(key, detail);
            }
        }
        error
    }
}

/// True if the error says that a key has the wrong type, but not which key.
fn error_names_no_key(error: &Error, place: &str) -> bool {
    matches!(error, Error::Corrupt { key, .. } if key == place)
}
