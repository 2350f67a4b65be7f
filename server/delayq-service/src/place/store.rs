//! Tasks of a namespace, in one store or in two.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::task::Headers;
use delayq_plugin::store::{
    Bucket, BucketState, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Durability,
    ExtendOutcome, NewTask, SettleOutcome, Settlement, SubmitOutcome, Wakeups,
};
use delayq_plugin::{Error, Lock, Namespace, Result, Store, TaskId, TaskInfo, TaskType, When};

use super::home::Home;
use super::placed_store::{Place, PlacedStore, View};
use super::record::Phase;

type Outcomes = Vec<Result<SubmitOutcome>>;

/// Submits tasks during a move: the old store answers for the tasks that it knows, the new store
/// takes the rest.
async fn submit_to_both(view: &View, old: &Home, tasks: Vec<NewTask>) -> Outcomes {
    let mut types = HashMap::new();
    for task in &tasks {
        if !types.contains_key(&task.task_type) {
            let closed = view.close_type(old, &task.task_type).await;
            types.insert(task.task_type.clone(), closed);
        }
    }
    let refused = |task: &NewTask| match types.get(&task.task_type) {
        Some(Err(error)) => Some(error.clone()),
        _ => None,
    };
    let mut outcomes: Vec<_> = tasks.iter().map(|task| refused(task).map(Err)).collect();
    ask(old, &tasks, &mut outcomes).await;
    // The old store is closed, so it does not have these tasks and will not accept them.
    for outcome in &mut outcomes {
        if matches!(outcome, Some(Err(Error::QueueFull { .. }))) {
            *outcome = None;
        }
    }
    ask(&view.new, &tasks, &mut outcomes).await;
    let closed = || Err(Error::Closed("the server"));
    outcomes
        .into_iter()
        .map(|one| one.unwrap_or_else(closed))
        .collect()
}

/// Submits the tasks that have no outcome yet.
async fn ask(home: &Home, tasks: &[NewTask], outcomes: &mut [Option<Result<SubmitOutcome>>]) {
    let open = tasks.iter().zip(outcomes.iter());
    let open = open.filter(|(_, outcome)| outcome.is_none());
    let batch: Vec<_> = open.map(|(task, _)| task.clone()).collect();
    if batch.is_empty() {
        return;
    }
    let answers = home.store.submit(batch).await;
    let unanswered = outcomes.iter_mut().filter(|outcome| outcome.is_none());
    for (outcome, answer) in unanswered.zip(answers) {
        *outcome = Some(answer);
    }
}

/// Submits tasks to the store or stores of the namespace.
async fn submit(place: &Place, tasks: Vec<NewTask>) -> Outcomes {
    let count = tasks.len();
    let view = match place.view() {
        Ok(view) => view,
        Err(error) => return vec![Err(error); count],
    };
    let Some(old) = &view.old else {
        return view.new.store.submit(tasks).await;
    };
    if view.place.phase == Phase::Moving {
        return submit_to_both(&view, old, tasks).await;
    }
    let mut outcomes = old.store.submit(tasks.clone()).await;
    let is_full = |one: &Result<_>| matches!(one, Err(Error::QueueFull { .. }));
    if !outcomes.iter().any(is_full) || place.hear().await.is_err() {
        return outcomes;
    }
    // The type may be full because the move has begun and this server has not yet heard of it.
    let Ok(view) = place.view() else {
        return outcomes;
    };
    if let (Some(old), Phase::Moving) = (&view.old, view.place.phase) {
        let again = tasks.into_iter().zip(&outcomes);
        let again = again.filter(|(_, one)| is_full(one)).map(|(task, _)| task);
        let answers = submit_to_both(&view, old, again.collect()).await;
        let full = outcomes.iter_mut().filter(|one| is_full(one));
        full.zip(answers)
            .for_each(|(outcome, answer)| *outcome = answer);
    }
    outcomes
}

/// Picks one of two stores' answers about a task: that of the store where the task is alive.
fn pick<T>(new: T, old: T, is_alive: fn(&T) -> bool, is_unknown: fn(&T) -> bool) -> T {
    if is_alive(&old) || is_unknown(&new) {
        old
    } else {
        new
    }
}

/// The items whose lock no store has had so far.
fn open_of<T: Clone, O: Copy + PartialEq>(items: &[T], outcomes: &[O], lost: O) -> Vec<T> {
    let open = items.iter().zip(outcomes);
    let open = open.filter(|(_, outcome)| **outcome == lost);
    open.map(|(item, _)| item.clone()).collect()
}

/// Fills the answers of the next store into the open outcomes.
fn fill<O: Copy + PartialEq>(outcomes: &mut [O], answers: Vec<O>, lost: O) {
    let open = outcomes.iter_mut().filter(|outcome| **outcome == lost);
    open.zip(answers)
        .for_each(|(outcome, answer)| *outcome = answer);
}

#[async_trait]
impl Store for PlacedStore {
    fn name(&self) -> String {
        match self.view() {
            Ok(view) => match &view.old {
                Some(old) => format!("{} -> {}", old.store.name(), view.new.store.name()),
                None => view.new.store.name(),
            },
            Err(_) => format!("namespace {}", self.namespace),
        }
    }

    fn namespace(&self) -> Option<&Namespace> {
        Some(&self.namespace)
    }

    fn has_shards(&self) -> bool {
        self.view().is_ok_and(|view| view.new.store.has_shards())
    }

    fn durability(&self) -> Durability {
        let view = self.view();
        let weakest = view.ok().and_then(|view| {
            let classes = view.homes().map(|home| home.store.durability());
            classes.min()
        });
        weakest.unwrap_or(Durability::Memory)
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Outcomes {
        let refused: Vec<_> = tasks
            .iter()
            .map(|task| self.side.check(task).err())
            .collect();
        if refused.iter().all(Option::is_none) {
            return submit(self, tasks).await;
        }
        let good = tasks.into_iter().zip(&refused);
        let good = good.filter_map(|(task, refused)| refused.is_none().then_some(task));
        let mut outcomes = submit(self, good.collect()).await.into_iter();
        let outcome = |refused: Option<Error>| match refused {
            Some(error) => Err(error),
            None => outcomes.next().unwrap_or(Err(Error::Closed("the server"))),
        };
        refused.into_iter().map(outcome).collect()
    }

    async fn buckets(&self, task_type: &TaskType) -> Result<Vec<Bucket>> {
        let (view, mut buckets) = (self.view()?, Vec::new());
        for home in view.homes() {
            let own = home.store.buckets(task_type).await?;
            buckets.extend(own.iter().map(|bucket| home.outer(bucket)));
        }
        Ok(buckets)
    }

    async fn claim(&self, bucket: &Bucket, request: &ClaimRequest) -> Result<Claimed> {
        let view = self.view()?;
        let Some((home, own)) = view.home(bucket) else {
            let now = request.caller_now;
            let mut nothing = Claimed::nothing(now, now);
            nothing.bucket = BucketState::Drained;
            return Ok(nothing);
        };
        let mut claimed = home.store.claim(&own, request).await?;
        let is_left = home.generation != view.new.generation && view.place.phase == Phase::Moving;
        if is_left && claimed.bucket == BucketState::Open {
            claimed.bucket = BucketState::Sealed;
        }
        for task in &mut claimed.tasks {
            self.side.veil(&mut task.headers);
        }
        Ok(claimed)
    }

    async fn settle(
        &self,
        bucket: &Bucket,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        let view = self.view()?;
        let homes = view.homes_of(bucket);
        // Nearly always one store; this path copies nothing.
        if let [(home, own)] = homes.as_slice() {
            return home.store.settle(own, settlements).await;
        }
        let lost = SettleOutcome::LockLost;
        let mut outcomes = vec![lost; settlements.len()];
        for (home, own) in &homes {
            let rest = open_of(&settlements, &outcomes, lost);
            if rest.is_empty() {
                break;
            }
            let answers = home.store.settle(own, rest).await?;
            fill(&mut outcomes, answers, lost);
        }
        Ok(outcomes)
    }

    async fn extend(
        &self,
        bucket: &Bucket,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        let view = self.view()?;
        let homes = view.homes_of(bucket);
        if let [(home, own)] = homes.as_slice() {
            return home.store.extend(own, locks, lock_for).await;
        }
        let lost = ExtendOutcome::LockLost;
        let mut outcomes = vec![lost; locks.len()];
        for (home, own) in &homes {
            let rest = open_of(&locks, &outcomes, lost);
            if rest.is_empty() {
                break;
            }
            let answers = home.store.extend(own, rest, lock_for).await?;
            fill(&mut outcomes, answers, lost);
        }
        Ok(outcomes)
    }

    async fn extend_alone(
        &self,
        bucket: &Bucket,
        lock: &Lock,
        lock_for: Duration,
    ) -> Result<ExtendOutcome> {
        for (home, own) in &self.view()?.homes_of(bucket) {
            let outcome = home.store.extend_alone(own, lock, lock_for).await?;
            if outcome != ExtendOutcome::LockLost {
                return Ok(outcome);
            }
        }
        Ok(ExtendOutcome::LockLost)
    }

    async fn note_failure(&self, bucket: &Bucket, lock: &Lock, error: &str) -> Result<bool> {
        let view = self.view()?;
        for (home, own) in view.homes_of(bucket) {
            if home.store.note_failure(&own, lock, error).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        let view = self.view()?;
        let outcome = view.new.store.cancel(task_type, id).await?;
        let Some(old) = view.old.as_ref().filter(|_| !is_cancelled(&outcome)) else {
            return Ok(outcome);
        };
        let other = old.store.cancel(task_type, id).await?;
        Ok(pick(outcome, other, is_cancelled, |one| {
            *one == CancelOutcome::NotFound
        }))
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        let view = self.view()?;
        let outcome = view.new.store.reschedule(task_type, id, when).await?;
        let Some(old) = view.old.as_ref().filter(|_| !is_changed(&outcome)) else {
            return Ok(outcome);
        };
        let other = old.store.reschedule(task_type, id, when).await?;
        Ok(pick(outcome, other, is_changed, |one| {
            *one == ChangeOutcome::NotFound
        }))
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        let headers = Headers::new();
        self.update_with(task_type, id, message, &headers).await
    }

    async fn update_with(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
        headers: &Headers,
    ) -> Result<ChangeOutcome> {
        let own = self.side.headers_of_update(task_type, id, &message);
        let mut headers = headers.clone();
        headers.extend(own.await?);
        let (headers, view) = (&headers, self.view()?);
        let Some(old) = &view.old else {
            return update(&view.new, task_type, id, message, headers).await;
        };
        let outcome = update(&view.new, task_type, id, message.clone(), headers).await?;
        if is_changed(&outcome) {
            return Ok(outcome);
        }
        let other = update(old, task_type, id, message, headers).await?;
        Ok(pick(outcome, other, is_changed, |one| {
            *one == ChangeOutcome::NotFound
        }))
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        let mut found = find(self, task_type, id).await?;
        if let Some(task) = &mut found {
            self.side.veil(&mut task.headers);
        }
        Ok(found)
    }

    fn wakeups(&self) -> Wakeups {
        Wakeups::new(self.wakeups.subscribe())
    }

    async fn check(&self) -> Result<()> {
        let view = self.view()?;
        for home in view.homes() {
            home.store.check().await?;
        }
        Ok(())
    }

    async fn close(&self) {
        if let Ok(view) = self.view() {
            for home in view.homes() {
                home.store.close().await;
            }
        }
    }
}

/// A task, as reported by the store where it is alive.
async fn find(place: &Place, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
    let view = place.view()?;
    let found = view.new.store.find(task_type, id).await?;
    let Some(old) = view.old.as_ref().filter(|_| !is_alive(&found)) else {
        return Ok(found);
    };
    let other = old.store.find(task_type, id).await?;
    Ok(pick(found, other, is_alive, Option::is_none))
}

/// Updates a task in one store. Any store supports this if there are no new headers.
async fn update(
    home: &Home,
    task_type: &TaskType,
    id: &TaskId,
    message: Vec<u8>,
    headers: &Headers,
) -> Result<ChangeOutcome> {
    if headers.is_empty() {
        return home.store.update(task_type, id, message).await;
    }
    let update = home.store.update_with(task_type, id, message, headers);
    update.await
}

fn is_changed(outcome: &ChangeOutcome) -> bool {
    matches!(
        outcome,
        ChangeOutcome::Changed { .. } | ChangeOutcome::Running
    )
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "asked of an answer, as the others are"
)]
fn is_cancelled(outcome: &CancelOutcome) -> bool {
    matches!(outcome, CancelOutcome::Cancelled | CancelOutcome::Running)
}

#[allow(
    clippy::ref_option,
    reason = "the answer of `find`, as other answers are"
)]
fn is_alive(found: &Option<TaskInfo>) -> bool {
    found.as_ref().is_some_and(|task| !task.state.is_ended())
}
