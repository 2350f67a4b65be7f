//! Consume: hands out due jobs, each with its own time to run.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::response::Response;
use delayq_plugin::store::{ExtendOutcome, MAX_BATCH};
use delayq_plugin::{Namespace, TaskType};
use delayq_service::access::Scope;
use delayq_service::problem::Problem;
use delayq_service::pull::{Demand, Handover, MAX_WAIT, Pulled};
use futures_util::stream;

use super::Grape;
use super::asked::Asked;
use super::course::Course;
use super::job::{GrapeJob, SEEN};
use super::refusal::GrapeError;

/// The lock time of a claim, until the job's own time to run is known. It is also the longest one,
/// because the claim of a killed server lasts this long.
const LOCK: Duration = Duration::from_secs(10);
/// The largest number of tubes whose usual times are remembered.
const MAX_HINTS: usize = 10_000;

/// The usual time to run of each tube's jobs. A claim with this lock time needs no second call.
#[derive(Debug, Default)]
pub(super) struct UsualTimes(Mutex<HashMap<NamedTube, Duration>>);

/// A tube of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NamedTube {
    namespace: Namespace,
    task_type: TaskType,
}

impl UsualTimes {
    fn of(&self, tube: &NamedTube) -> Duration {
        let times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        times.get(tube).copied().unwrap_or(LOCK).min(LOCK)
    }

    fn set(&self, tube: NamedTube, time: Duration) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if times.len() < MAX_HINTS || times.contains_key(&tube) {
            times.insert(tube, time);
        }
    }
}

/// Hands out due jobs.
pub(super) async fn consume(
    State(grape): State<Grape>,
    parts: Parts,
) -> Result<Response, GrapeError> {
    let asked = Asked::of(&grape, &parts, Scope::Work).await?;
    let most = asked.params.most(SEEN);
    let mut wait = asked.params.wait().min(MAX_WAIT);
    let mut handovers: Vec<Handover> = Vec::new();
    let mut lost = HashSet::new();
    let mut left = most;
    while left > 0 {
        let limit = left.min(MAX_BATCH);
        let handover = claim(&grape, &asked, limit, wait, &mut lost).await?;
        let taken = handover.tasks().len();
        left -= taken.min(left);
        wait = Duration::ZERO;
        handovers.push(handover);
        if taken < limit {
            break;
        }
    }
    asked.client.recheck()?;
    answer(handovers, &lost)
}

/// Claims jobs and extends each lock to the job's own time to run. Adds the fences of locks lost
/// meanwhile to `lost`.
async fn claim(
    grape: &Grape,
    asked: &Asked,
    limit: usize,
    wait: Duration,
    lost: &mut HashSet<u64>,
) -> Result<Handover, GrapeError> {
    let pull = &asked.client.space.pull;
    let tube = NamedTube {
        namespace: asked.client.space.namespace.clone(),
        task_type: asked.tube.clone(),
    };
    let lock_for = grape.times.of(&tube);
    let demand = Demand {
        types: vec![asked.tube.clone()],
        limit,
        lock_for,
        max_lock_expiries: Some(grape.app.config.grape.max_executions),
    };
    let handover = pull.claim(demand, wait).await?;
    let mut others: BTreeMap<Duration, Vec<_>> = BTreeMap::new();
    for pulled in handover.tasks() {
        let time = Course::of(&pulled.task.headers, &pulled.task.history).time();
        if time != lock_for {
            let lock = (pulled.task.lock.id.clone(), pulled.lock());
            others.entry(time).or_default().push(lock);
        }
    }
    for (time, locks) in others {
        let fences: Vec<_> = locks.iter().map(|(_, lock)| lock.fence).collect();
        let extended = pull.extend(&asked.tube, locks, time).await?;
        let extended = fences.into_iter().zip(extended);
        let gone = extended.filter(|(_, outcome)| *outcome == ExtendOutcome::LockLost);
        lost.extend(gone.map(|(fence, _)| fence));
        grape.times.set(tube.clone(), time);
    }
    Ok(handover)
}

/// The answer. Its jobs count as handed out once its body is requested. If the client is gone
/// before that, the jobs are released.
fn answer(handovers: Vec<Handover>, lost: &HashSet<u64>) -> Result<Response, GrapeError> {
    let given = handovers.iter().flat_map(Handover::tasks);
    let given: Vec<&Pulled> = given
        .filter(|pulled| !lost.contains(&pulled.task.lock.fence))
        .collect();
    let jobs: Vec<_> = given.iter().map(|one| GrapeJob::given(&one.task)).collect();
    let locks: Vec<_> = given.iter().map(|one| one.lock().to_string()).collect();
    let json = serde_json::to_vec(&jobs).map_err(|error| {
        tracing::error!(%error, "cannot write jobs as JSON");
        GrapeError::from(Problem::unavailable("the answer could not be written"))
    })?;
    let length = HeaderValue::from(json.len());
    let first = stream::once(async move {
        for handover in handovers {
            drop(handover.delivered());
        }
        Ok::<_, Infallible>(Bytes::from(json))
    });
    let mut response = Response::new(Body::from_stream(first));
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, length);
    let json = HeaderValue::from_static("application/json");
    headers.insert(CONTENT_TYPE, json);
    if let Ok(locks) = HeaderValue::try_from(locks.join(",")) {
        headers.insert("delayq-locks", locks);
    }
    Ok(response)
}
