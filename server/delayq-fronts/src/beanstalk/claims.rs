//! Reservations: claims over the lanes of tubes, most urgent first.

use std::time::Duration;

use delayq_plugin::store::{AttemptEnd, Bucket, BucketState, ClaimRequest, Claimed};
use delayq_plugin::{Result, TaskState};
use futures_util::future::join_all;
use tokio::time::Instant;

use super::hub::Hub;
use super::job::{Held, Past, Reserved};
use super::tube::{Lane, TubeName, number_of};

/// The lock time. The server extends the lock until the job's time to run is over. The jobs of a
/// killed server become free after this time.
pub(super) const LEASE: Duration = Duration::from_secs(6);
/// How often a lane that is expected to be empty is tried.
pub(super) const POLL: Duration = Duration::from_secs(1);

/// A lane that may have a job.
#[derive(Debug)]
struct Candidate {
    tube: TubeName,
    lane: Lane,
    changes: u64,
    /// The number of the first ready job; needed if another lane has the same priority.
    head: Option<u64>,
}

/// Reserves the most urgent job of the tubes for a connection, if there is one.
pub(super) async fn reserve(
    hub: &Hub,
    holder: u64,
    tubes: &[TubeName],
) -> Result<Option<Reserved>> {
    let mut candidates = candidates(hub, tubes);
    sort(hub, &mut candidates).await?;
    for candidate in candidates {
        let Candidate {
            tube,
            lane,
            changes,
            ..
        } = candidate;
        loop {
            let claim = claim(hub, &lane).await?;
            let (next_in, ended) = (claim.claimed.next_in, !claim.claimed.ended.is_empty());
            if let Some(reserved) = take(hub, holder, &tube, &lane, claim).await {
                hub.state().tube(&tube).changed(&lane, None);
                return Ok(Some(reserved));
            }
            if !ended {
                let next = Instant::now() + next_in.map_or(POLL, |next| next.min(POLL));
                let mut state = hub.state();
                state.tube(&tube).found_nothing(&lane, changes, next);
                break;
            }
        }
    }
    Ok(None)
}

/// A claim from a lane.
struct LaneClaim {
    /// The whole lane, or a bucket of it once the namespace was moved.
    bucket: Bucket,
    claimed: Claimed,
}

/// Claims one job.
async fn claim(hub: &Hub, lane: &Lane) -> Result<LaneClaim> {
    let request = ClaimRequest::new(1, LEASE, Hub::now()).max_lock_expiries(u32::MAX);
    let mut bucket = Bucket::whole(lane.task_type.clone());
    let pull = &hub.space.pull;
    let mut claimed = pull.claim_of(&bucket, request.clone()).await?;
    if claimed.bucket == BucketState::Open {
        return Ok(LaneClaim { bucket, claimed });
    }
    for other in hub.store.buckets(&lane.task_type).await? {
        if !claimed.tasks.is_empty() || !claimed.ended.is_empty() {
            break;
        }
        if other.shard_name().is_empty() {
            continue;
        }
        let next_in = claimed.next_in;
        claimed = pull.claim_of(&other, request.clone()).await?;
        let waits = claimed.next_in.into_iter().chain(next_in);
        claimed.next_in = waits.min();
        bucket = other;
    }
    Ok(LaneClaim { bucket, claimed })
}

fn candidates(hub: &Hub, tubes: &[TubeName]) -> Vec<Candidate> {
    let now = Instant::now();
    let mut state = hub.state();
    state.asked_for(tubes, now);
    let known = tubes
        .iter()
        .filter_map(|name| Some((name, state.tubes.get(name)?)));
    let all = known.flat_map(|(name, tube)| {
        let due = tube
            .lanes
            .iter()
            .filter(move |(_, outlook)| outlook.not_before.is_none_or(|at| at <= now));
        due.map(|(lane, outlook)| Candidate {
            tube: name.clone(),
            lane: lane.clone(),
            changes: outlook.changes,
            head: outlook.head,
        })
    });
    all.collect()
}

/// Sorts by priority, and lanes of equal priority by the numbers of their first jobs, as beanstalkd
/// does.
async fn sort(hub: &Hub, candidates: &mut [Candidate]) -> Result<()> {
    candidates.sort_by_key(|candidate| candidate.lane.pri);
    let same = candidates.chunk_by_mut(|one, next| one.lane.pri == next.lane.pri);
    let shared = same.filter(|lanes| lanes.len() > 1).flatten();
    let shared = shared.filter(|one| one.head.is_none());
    let heads = shared.map(|candidate| async move {
        let task_type = &candidate.lane.task_type;
        let page = hub.store.list(task_type, TaskState::Scheduled, None, 1);
        page.await.map(|page| {
            let now = Hub::now();
            let first = page.tasks.into_iter().next();
            let wait = first.as_ref().map_or(POLL, |task| task.at.since(now));
            let ready = first.filter(|task| task.at <= now);
            candidate.head = ready.and_then(|task| number_of(&task.id));
            let mut state = hub.state();
            let tube = state.tube(&candidate.tube);
            if let Some(head) = candidate.head {
                tube.found_head(&candidate.lane, candidate.changes, head);
            } else {
                // Tried last in this round, because a lock may have expired.
                let next = Instant::now() + wait.min(POLL);
                tube.found_nothing(&candidate.lane, candidate.changes, next);
            }
        })
    });
    for looked in join_all(heads).await {
        looked?;
    }
    candidates.sort_by_key(|one| (one.lane.pri, one.head.is_none(), one.head));
    Ok(())
}

/// Marks the claimed job as held by a connection.
async fn take(
    hub: &Hub,
    holder: u64,
    tube: &TubeName,
    lane: &Lane,
    LaneClaim { bucket, claimed }: LaneClaim,
) -> Option<Reserved> {
    let task = claimed.tasks.into_iter().next()?;
    let Some(number) = number_of(&task.lock.id) else {
        let error = "its id is no number of a job".to_owned();
        let succeeded = Vec::new();
        let end = AttemptEnd::Dead { error, succeeded };
        // If this fails, the lock expires and the task is seen again.
        let _ = hub.space.pull.end(bucket, task.lock, end).await;
        return None;
    };
    let mut past = Past::of(lane.pri, &task.headers, &task.history).reserved();
    let mut state = hub.state();
    past.kicks += state.kicks.remove(&number).unwrap_or(0);
    let ttr = Duration::from_secs(past.ttr.into());
    state.hold(Held {
        number,
        tube: tube.clone(),
        lane: lane.clone(),
        bucket,
        lock: task.lock,
        past,
        deadline: Instant::now() + ttr,
        holder,
    });
    drop(state);
    hub.reserved.notify_one();
    let body = task.message;
    Some(Reserved { number, body })
}

/// Reserves the job of a lane that holds only one job.
pub(super) async fn reserve_from(
    hub: &Hub,
    holder: u64,
    tube: &TubeName,
    lane: &Lane,
) -> Result<Option<Reserved>> {
    let claim = claim(hub, lane).await?;
    Ok(take(hub, holder, tube, lane, claim).await)
}
