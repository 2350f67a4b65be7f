//! Moves of jobs between lanes.
//!
//! ```text
//! another priority:   lane A: settled as dead, "moves"  ->  lane B: submitted  ->  A: discarded
//! reserve-job:        own lane: submitted for later  ->  lane A: put off, then cancelled
//!                     ->  own lane: due now
//! ```
//!
//! The job is always in one of the two lanes, and [`mend`] completes an interrupted move.

use std::time::Duration;

use delayq_plugin::store::{CancelOutcome, ChangeOutcome, NewTask};
use delayq_plugin::{
    Cursor, DeadFilter, OnConflict, Result, SubmitOutcome, TaskId, TaskInfo, TaskState, TaskType,
    Timestamp, When, days,
};
use tracing::warn;

use super::claims;
use super::hub::Hub;
use super::job::{DELAY, FROM, Job, PAST, PRI, PUT_AT, Past, Reserved, TTR, is_moving};
use super::tube::{Lane, TubeName, id_of, number_of, tube_part};

/// The delay of a job that is being taken out of its lane.
const LATER: Duration = days(3_650);
/// A move older than this is abandoned.
const STALE: Duration = Duration::from_secs(10);
/// The number of dead jobs read at once.
const PAGE: usize = 128;
/// The number of pages of a lane that one round reads.
const PAGES: usize = 16;

/// Moves a dead job to the lane of its priority. Safe to repeat.
pub(super) async fn finish(hub: &Hub, tube: &TubeName, lane: &Lane, id: &TaskId) -> Result<bool> {
    let found = hub.store.find(&lane.task_type, id).await?;
    let Some(task) = found.filter(|task| task.state == TaskState::Dead) else {
        return Ok(false);
    };
    let mut past = Past::of(lane.pri, &task.headers, &task.history);
    let is_moving = is_moving(&task);
    if !is_moving {
        past.kicks += 1;
    }
    let target = hub.lane(tube, past.pri).await?;
    let delay = if is_moving { past.delay } else { 0 };
    let after = Duration::from_secs(delay.into());
    let there = hub.store.find(&target.task_type, id).await?;
    // The job ended after this move, whose discard was lost. An earlier end belongs to an earlier
    // stay in that lane.
    let has_ended = there.is_some_and(|there| there.state.is_ended() && there.at > task.at);
    if !has_ended {
        let mut new = copy(&target, &task, past);
        new.when = When::After(after);
        // Replaces an ended job with the same number, which is this job during an earlier stay.
        new.on_conflict = OnConflict::Replace;
        for outcome in hub.store.submit(vec![new]).await {
            outcome?;
        }
    }
    let ids = DeadFilter::Ids(vec![id.clone()]);
    hub.store.discard_dead(&lane.task_type, &ids).await?;
    if has_ended {
        return Ok(false);
    }
    if let Some(number) = number_of(id) {
        hub.state().set_home(number, tube, &target);
    }
    hub.lane_changed(tube, &target, after);
    Ok(true)
}

/// The job as a new task in another lane.
fn copy(lane: &Lane, task: &TaskInfo, past: Past) -> NewTask {
    let message = task.message.clone().unwrap_or_default();
    let mut new = NewTask::new(lane.task_type.clone(), task.id.clone(), message);
    let put_at = task.headers.get(PUT_AT).cloned();
    let submitted_at = task.submitted_at.unwrap_or_default();
    let put_at = put_at.unwrap_or_else(|| submitted_at.as_millis().to_string());
    let past = past.moved();
    new.headers = [
        (TTR, past.ttr.to_string()),
        (DELAY, past.delay.to_string()),
        (PRI, past.pri.to_string()),
        (PUT_AT, put_at),
        (PAST, past.after("before")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    new
}

/// Reserves one job by its number.
pub(super) async fn reserve_job(hub: &Hub, holder: u64, job: Job) -> Result<Option<Reserved>> {
    if job.is_reserved() {
        return Ok(None);
    }
    let Job {
        number,
        tube,
        lane,
        info,
    } = job;
    let past = Past::of(lane.pri, &info.headers, &info.history);
    if lane.job == Some(number) {
        return reserve_again(hub, holder, &tube, &lane, &info).await;
    }
    let own = Lane::of_job(&tube_part(&tube), past.pri, number)?;
    let mut new = copy(&own, &info, past);
    new.when = When::After(LATER);
    let from = lane.task_type.to_string();
    new.headers.insert(FROM.to_owned(), from);
    let outcomes = hub.store.submit(vec![new.clone()]).await;
    for outcome in outcomes {
        if !matches!(outcome?, SubmitOutcome::Accepted { .. }) {
            return Ok(None);
        }
    }
    let id = id_of(number)?;
    if !take_out(hub, &lane.task_type, &info).await? {
        // No client has seen the copy, because it is due in years.
        let _ = hub.store.cancel(&own.task_type, &id).await?;
        return Ok(None);
    }
    bring_now(hub, new).await?;
    hub.state().set_home(number, &tube, &own);
    reserve_alone(hub, holder, &tube, &own).await
}

/// Reserves the job of its own lane, whether the tube is paused or not. A job that comes back to
/// the lane is paused like the others of the tube.
async fn reserve_alone(
    hub: &Hub,
    holder: u64,
    tube: &TubeName,
    own: &Lane,
) -> Result<Option<Reserved>> {
    if hub
        .store
        .stats(&own.task_type)
        .await?
        .paused_until
        .is_some()
    {
        hub.store.resume(&own.task_type).await?;
    }
    let reserved = claims::reserve_from(hub, holder, tube, own).await;
    if let Err(error) = hub.pause_as_tube(tube, own).await {
        warn!(%tube, %error, "cannot pause the lane of a job like its tube");
    }
    hub.lane_changed(tube, own, Duration::ZERO);
    reserved
}

/// Makes the copy in the job's own lane due, after the job has left its old lane.
async fn bring_now(hub: &Hub, mut copy: NewTask) -> Result<()> {
    copy.when = When::After(Duration::ZERO);
    let moved = hub.store.reschedule(&copy.task_type, &copy.id, copy.when);
    // If this server stalled, another one may have cancelled the copy as an abandoned move.
    if matches!(
        moved.await?,
        ChangeOutcome::Finished(TaskState::Cancelled) | ChangeOutcome::NotFound
    ) {
        copy.on_conflict = OnConflict::Replace;
        for outcome in hub.store.submit(vec![copy]).await {
            outcome?;
        }
    }
    Ok(())
}

/// Reserves a job that is already in its own lane.
async fn reserve_again(
    hub: &Hub,
    holder: u64,
    tube: &TubeName,
    own: &Lane,
    task: &TaskInfo,
) -> Result<Option<Reserved>> {
    if task.state == TaskState::Dead {
        let ids = DeadFilter::Ids(vec![task.id.clone()]);
        let kicked = hub.store.requeue_dead(&own.task_type, &ids, Duration::ZERO);
        kicked.await?;
    } else {
        let now = When::After(Duration::ZERO);
        let _ = hub.store.reschedule(&own.task_type, &task.id, now).await?;
    }
    reserve_alone(hub, holder, tube, own).await
}

/// Takes a job out of its lane for good; returns true if it was there.
async fn take_out(hub: &Hub, task_type: &TaskType, task: &TaskInfo) -> Result<bool> {
    if task.state == TaskState::Dead {
        let ids = DeadFilter::Ids(vec![task.id.clone()]);
        return Ok(!hub.store.discard_dead(task_type, &ids).await?.is_empty());
    }
    // Postponed first, which fails for a running job. A cancel alone would end a running job with
    // its attempt.
    let later = When::After(LATER);
    let put_off = hub.store.reschedule(task_type, &task.id, later).await?;
    if !matches!(put_off, ChangeOutcome::Changed { .. }) {
        return Ok(false);
    }
    // A job that is already cancelled was cancelled by a server that completes this move.
    let cancelled = hub.store.cancel(task_type, &task.id).await?;
    Ok(matches!(
        cancelled,
        CancelOutcome::Cancelled | CancelOutcome::Finished(TaskState::Cancelled)
    ))
}

fn is_stale(at: Timestamp) -> bool {
    at.plus(STALE) < Hub::now()
}

/// Returns true if the job is being taken out of its lane, or is a copy that no client sees yet.
fn is_put_off(task: &TaskInfo) -> bool {
    task.state == TaskState::Scheduled && task.at.since(Hub::now()) > LATER / 2
}

/// Completes the moves that a lost server left behind.
pub(super) async fn mend(hub: &Hub, tube: &TubeName, lane: &Lane) -> Result<()> {
    mend_dead(hub, tube, lane).await?;
    if lane.job.is_none() {
        return Ok(());
    }
    let waiting = hub
        .store
        .list(&lane.task_type, TaskState::Scheduled, None, 1);
    for task in waiting.await?.tasks {
        let from = task
            .headers
            .get(FROM)
            .and_then(|from| TaskType::new(from).ok());
        if let Some(from) = from
            && is_put_off(&task)
            // A client has released a job with a note, perhaps for years.
            && task.history.note.is_none()
            && is_stale(task.submitted_at.unwrap_or_default())
        {
            mend_reservation(hub, lane, &from, &task.id).await?;
        }
    }
    Ok(())
}

/// Looks at each dead job once. A buried job never becomes a moving one without dying again.
async fn mend_dead(hub: &Hub, tube: &TubeName, lane: &Lane) -> Result<()> {
    for _ in 0..PAGES {
        let place = hub.state().mended(tube, lane);
        let listed = hub
            .store
            .list(&lane.task_type, TaskState::Dead, place.as_ref(), PAGE);
        let page = listed.await?;
        for task in page.tasks {
            // Stop here: this move may still be under way, and an older job may yet be listed
            // before it.
            if !is_stale(task.at) {
                return Ok(());
            }
            if is_moving(&task) {
                finish(hub, tube, lane, &task.id).await?;
            }
            let place = Cursor::new(task.at, task.id);
            hub.state().set_mended(tube, lane, place);
        }
        if page.next.is_none() {
            return Ok(());
        }
    }
    Ok(())
}

async fn mend_reservation(hub: &Hub, own: &Lane, from: &TaskType, id: &TaskId) -> Result<()> {
    match hub.store.find(from, id).await? {
        Some(task) if is_put_off(&task) => {
            let cancelled = hub.store.cancel(from, id).await?;
            if cancelled != CancelOutcome::Cancelled {
                // The next round handles the outcome.
                return Ok(());
            }
        }
        Some(task) if task.state != TaskState::Cancelled => {
            let _ = hub.store.cancel(&own.task_type, id).await?;
            return Ok(());
        }
        _ => {}
    }
    let now = When::After(Duration::ZERO);
    let _ = hub.store.reschedule(&own.task_type, id, now).await?;
    Ok(())
}
