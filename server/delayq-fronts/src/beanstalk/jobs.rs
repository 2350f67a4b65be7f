//! Finds jobs by number or state, and ends reservations.

use std::collections::BTreeSet;
use std::time::Duration;

use delayq_plugin::store::{AttemptEnd, CancelOutcome, ChangeOutcome, SettleOutcome, Settlement};
use delayq_plugin::{Cursor, DeadFilter, Error, Result, TaskId, TaskInfo, TaskState, When};
use futures_util::future::join_all;
use tracing::{debug, warn};

use super::hub::Hub;
use super::job::{BURIED, Held, Job, MOVES, Past, TIMED_OUT, is_moving};
use super::moves;
use super::tube::{Lane, TubeName, id_of, number_of};

/// The number of jobs read at once.
const PAGE: usize = 128;
/// How often a settlement without a certain outcome is repeated; repeating it is safe.
const TRIES: u32 = 3;

/// Finds a job by its number in any lane.
pub(super) async fn find(hub: &Hub, number: u64) -> Result<Option<Job>> {
    let Ok(id) = id_of(number) else {
        return Ok(None);
    };
    let home = hub.state().home(number);
    if let Some(home) = home
        && let Some(info) = look(hub, &home.lane, &id).await?
    {
        let (tube, lane) = (home.tube, home.lane);
        return Ok(Some(Job {
            number,
            tube,
            lane,
            info,
        }));
    }
    hub.refresh().await?;
    let all = all_lanes(hub);
    let id = &id;
    let looks = all.into_iter().map(|(tube, lane)| async move {
        let info = look(hub, &lane, id).await?;
        Ok(info.map(|info| Job {
            number,
            tube,
            lane,
            info,
        }))
    });
    let found = join_all(looks)
        .await
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    // A job being reserved by its number is in two lanes. The one that is due first counts.
    let found = found.into_iter().flatten().min_by_key(|job| job.info.at);
    if let Some(job) = &found {
        hub.state().set_home(number, &job.tube, &job.lane);
    }
    Ok(found)
}

fn all_lanes(hub: &Hub) -> Vec<(TubeName, Lane)> {
    let state = hub.state();
    let tubes = state.tubes.iter();
    let lanes = tubes.flat_map(|(name, tube)| {
        let lanes = tube.lanes.keys().cloned();
        lanes.map(|lane| (name.clone(), lane))
    });
    lanes.collect()
}

async fn look(hub: &Hub, lane: &Lane, id: &TaskId) -> Result<Option<TaskInfo>> {
    let found = hub.store.find(&lane.task_type, id).await?;
    Ok(found.filter(|task| !task.state.is_ended() && !task.cancel_requested))
}

/// Deletes a job that is not reserved; returns true if there was one.
pub(super) async fn delete(hub: &Hub, number: u64) -> Result<bool> {
    let Some(job) = find(hub, number).await? else {
        return Ok(false);
    };
    let (task_type, id) = (&job.lane.task_type, &job.info.id);
    let is_gone = match job.info.state {
        TaskState::Scheduled => {
            let tasks = &hub.space.tasks;
            let cancelled = tasks.cancel(task_type.as_str(), id.as_str()).await?;
            // A job that was reserved meanwhile does not run again afterwards.
            matches!(cancelled, CancelOutcome::Cancelled | CancelOutcome::Running)
        }
        TaskState::Dead if !job.is_reserved() => {
            let ids = DeadFilter::Ids(vec![id.clone()]);
            !hub.store.discard_dead(task_type, &ids).await?.is_empty()
        }
        _ => false,
    };
    if is_gone {
        let mut state = hub.state();
        state.tube(&job.tube).deletes += 1;
        state.forget(number);
    }
    Ok(is_gone)
}

/// Makes a buried or delayed job ready; returns true if it was one.
pub(super) async fn kick(hub: &Hub, job: &Job) -> Result<bool> {
    let task_type = &job.lane.task_type;
    if job.is_reserved() {
        return Ok(false);
    }
    if job.info.state == TaskState::Dead {
        let past = Past::of(job.lane.pri, &job.info.headers, &job.info.history);
        if hub.lane(&job.tube, past.pri).await? != job.lane {
            return moves::finish(hub, &job.tube, &job.lane, &job.info.id).await;
        }
        let ids = DeadFilter::Ids(vec![job.info.id.clone()]);
        let kicked = hub.store.requeue_dead(task_type, &ids, Duration::ZERO);
        let is_kicked = !kicked.await?.is_empty();
        hub.lane_changed(&job.tube, &job.lane, Duration::ZERO);
        return Ok(is_kicked);
    }
    if !job.is_delayed() {
        return Ok(false);
    }
    let now = When::After(Duration::ZERO);
    let moved = hub.store.reschedule(task_type, &job.info.id, now).await?;
    let is_kicked = matches!(moved, ChangeOutcome::Changed { .. });
    if is_kicked {
        *hub.state().kicks.entry(job.number).or_default() += 1;
        hub.lane_changed(&job.tube, &job.lane, Duration::ZERO);
    }
    Ok(is_kicked)
}

/// Kicks up to `bound` buried jobs of a tube or, if there are none, delayed ones. Returns the
/// number kicked.
pub(super) async fn kick_some(hub: &Hub, tube: &TubeName, bound: u32) -> Result<u64> {
    let bound = u64::from(bound);
    let buried = kick_in(hub, tube, bound, TaskState::Dead).await?;
    if buried > 0 {
        return Ok(buried);
    }
    kick_in(hub, tube, bound, TaskState::Scheduled).await
}

async fn kick_in(hub: &Hub, tube: &TubeName, bound: u64, state: TaskState) -> Result<u64> {
    let mut kicked = 0;
    while kicked < bound {
        let jobs = first_jobs(hub, tube, state, PAGE).await?;
        let before = kicked;
        for job in jobs {
            if kicked < bound && kick(hub, &job).await? {
                kicked += 1;
            }
        }
        if kicked == before {
            break;
        }
    }
    Ok(kicked)
}

/// The first buried or delayed jobs of a tube, by time.
async fn first_jobs(
    hub: &Hub,
    tube: &TubeName,
    state: TaskState,
    limit: usize,
) -> Result<Vec<Job>> {
    let cursor = (state == TaskState::Scheduled)
        .then(after_now)
        .transpose()?;
    let lanes = hub.lanes(tube).into_iter().map(|lane| {
        let cursor = &cursor;
        async move {
            let listed = list_in(hub, &lane, state, cursor.clone(), limit);
            let jobs = listed.await?.into_iter().filter_map(|info| {
                let number = number_of(&info.id)?;
                let (tube, lane) = (tube.clone(), lane.clone());
                Some(Job {
                    number,
                    tube,
                    lane,
                    info,
                })
            });
            Ok(jobs.collect::<Vec<_>>())
        }
    });
    let pages = join_all(lanes)
        .await
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    let mut jobs: Vec<Job> = pages.into_iter().flatten().collect();
    jobs.sort_by_key(|job| (job.info.at, job.number));
    jobs.truncate(limit);
    Ok(jobs)
}

/// The first jobs of a lane after the cursor, without those that move to another lane.
async fn list_in(
    hub: &Hub,
    lane: &Lane,
    state: TaskState,
    mut from: Option<Cursor>,
    limit: usize,
) -> Result<Vec<TaskInfo>> {
    loop {
        let listed = hub.store.list(&lane.task_type, state, from.as_ref(), limit);
        let page = listed.await?;
        let mut tasks = page.tasks;
        tasks.retain(|task| !is_moving(task));
        if page.next.is_none() || !tasks.is_empty() {
            return Ok(tasks);
        }
        from = page.next;
    }
}

/// The jobs of a lane that move to another one.
pub(super) async fn moving(hub: &Hub, tube: &TubeName, lane: &Lane) -> Result<BTreeSet<TaskId>> {
    let mut found = BTreeSet::new();
    // Those before this place were looked at, and were buried.
    let mut from = hub.state().mended(tube, lane);
    loop {
        let listed = hub
            .store
            .list(&lane.task_type, TaskState::Dead, from.as_ref(), PAGE);
        let page = listed.await?;
        let moving = page.tasks.into_iter().filter(is_moving);
        found.extend(moving.map(|task| task.id));
        if page.next.is_none() {
            return Ok(found);
        }
        from = page.next;
    }
}

/// The cursor after all due tasks.
fn after_now() -> Result<Cursor> {
    Ok(Cursor::new(Hub::now(), TaskId::new("z")?))
}

/// The next buried or delayed job of a tube.
pub(super) async fn first(hub: &Hub, tube: &TubeName, state: TaskState) -> Result<Option<Job>> {
    Ok(first_jobs(hub, tube, state, 1).await?.into_iter().next())
}

/// The next ready job of a tube.
pub(super) async fn first_ready(hub: &Hub, tube: &TubeName) -> Result<Option<Job>> {
    for lane in hub.lanes(tube) {
        let page = hub
            .store
            .list(&lane.task_type, TaskState::Scheduled, None, 1);
        let ready = page.await?.tasks.into_iter().next();
        let ready = ready.filter(|task| task.at <= Hub::now());
        let Some(info) = ready else {
            continue;
        };
        if let Some(number) = number_of(&info.id) {
            let tube = tube.clone();
            return Ok(Some(Job {
                number,
                tube,
                lane,
                info,
            }));
        }
    }
    Ok(None)
}

/// Deletes a held job; returns true if the client still held it.
pub(super) async fn delete_held(hub: &Hub, held: &Held) -> Result<bool> {
    let done = Settlement::new(held.lock.clone(), AttemptEnd::Done);
    settle(hub, held, done).await
}

/// Releases a held job; returns true if the client still held it.
pub(super) async fn release(hub: &Hub, held: &Held, pri: u32, delay: u32) -> Result<bool> {
    let past = Past {
        pri,
        delay,
        releases: held.past.releases + 1,
        ..held.past.clone()
    };
    let end = given_back(delay);
    if pri == held.past.pri {
        return put_back(hub, held, &past, end).await;
    }
    let lane = hub.lane(&held.tube, pri).await?;
    if lane == held.lane {
        return put_back(hub, held, &past, end).await;
    }
    move_over(hub, held, &past).await
}

/// A release: the job is due again after `delay` seconds, and no failure is counted.
fn given_back(delay: u32) -> AttemptEnd {
    let (after, succeeded) = (Duration::from_secs(delay.into()), Vec::new());
    AttemptEnd::Release { after, succeeded }
}

/// Buries a held job; returns true if the client still held it.
pub(super) async fn bury(hub: &Hub, held: &Held, pri: u32) -> Result<bool> {
    let past = Past {
        pri,
        buries: held.past.buries + 1,
        ..held.past.clone()
    };
    settle(hub, held, dead(held, &past, BURIED)).await
}

fn dead(held: &Held, past: &Past, why: &str) -> Settlement {
    let (error, succeeded) = (why.to_owned(), Vec::new());
    let end = AttemptEnd::Dead { error, succeeded };
    Settlement::new(held.lock.clone(), end).with_note(past.note())
}

/// Makes jobs ready again whose time to run is over.
pub(super) async fn time_out(hub: &Hub, late: Vec<Held>) {
    hub.counters.timeouts.add(late.len() as u64);
    for held in late {
        let past = Past {
            timeouts: held.past.timeouts + 1,
            ..held.past.clone()
        };
        let end = AttemptEnd::Retry {
            after: Duration::ZERO,
            error: TIMED_OUT.to_owned(),
            succeeded: Vec::new(),
        };
        if let Err(error) = put_back(hub, &held, &past, end).await {
            debug!(number = held.number, %error, "cannot release a job; its lock must expire");
        }
    }
}

/// Releases the jobs of clients that have disconnected.
pub(super) async fn leave(hub: &Hub, left: Vec<Held>) {
    for held in left {
        if let Err(error) = put_back(hub, &held, &held.past, given_back(0)).await {
            debug!(number = held.number, %error, "cannot release a job; its lock must expire");
        }
    }
}

/// Puts a job back into the lane that it was reserved from, in one step.
async fn put_back(hub: &Hub, held: &Held, past: &Past, end: AttemptEnd) -> Result<bool> {
    let after = end.due_again_in().unwrap_or_default();
    let settlement = Settlement::new(held.lock.clone(), end).with_note(past.note());
    let is_settled = settle(hub, held, settlement).await?;
    hub.lane_changed(&held.tube, &held.lane, after);
    Ok(is_settled)
}

/// Moves a job to the lane of its new priority.
async fn move_over(hub: &Hub, held: &Held, past: &Past) -> Result<bool> {
    if !settle_move(hub, held, past).await? {
        return Ok(false);
    }
    let moved = moves::finish(hub, &held.tube, &held.lane, &held.lock.id).await;
    // The keeper completes the move later.
    if let Err(error) = moved {
        warn!(number = held.number, %error, "cannot move a job to another priority yet");
    }
    Ok(true)
}

async fn settle(hub: &Hub, held: &Held, settlement: Settlement) -> Result<bool> {
    let pull = &hub.space.pull;
    until_certain(|| pull.conclude(held.bucket.clone(), settlement.clone())).await
}

/// Settles a job that moves to another lane, which is no failure of its client.
async fn settle_move(hub: &Hub, held: &Held, past: &Past) -> Result<bool> {
    let pull = &hub.space.pull;
    let settlement = dead(held, past, MOVES);
    until_certain(|| pull.conclude_uncounted(held.bucket.clone(), settlement.clone())).await
}

/// Repeats a settlement while its outcome is in doubt; returns true if it was settled.
async fn until_certain<F>(settle: impl Fn() -> F) -> Result<bool>
where
    F: Future<Output = Result<SettleOutcome>>,
{
    for attempt in 1.. {
        match settle().await {
            Err(Error::Indeterminate { .. }) if attempt < TRIES => {}
            Err(error) => return Err(error),
            Ok(outcome) => return Ok(outcome == SettleOutcome::Settled),
        }
    }
    Ok(false)
}
