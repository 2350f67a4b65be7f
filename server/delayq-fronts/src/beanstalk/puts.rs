//! Puts, many at a time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use delayq_plugin::store::NewTask;
use delayq_plugin::{Error, Result, SubmitOutcome, When};

use super::hub::Hub;
use super::input::PutJob;
use super::lane::{Lane, id_of, number_of};
use super::past::{DELAY, PRI, TTR};
use super::tube_name::TubeName;

/// How often another number is taken for a job whose number another one has.
const TRIES: u32 = 3;

/// Puts jobs into a tube: their numbers, one each, in order.
pub(super) async fn put(hub: &Hub, tube: &TubeName, jobs: Vec<PutJob>) -> Vec<Result<u64>> {
    let count = jobs.len();
    match try_put(hub, tube, jobs).await {
        Ok(numbers) => numbers,
        Err(error) => vec![Err(error); count],
    }
}

async fn try_put(hub: &Hub, tube: &TubeName, jobs: Vec<PutJob>) -> Result<Vec<Result<u64>>> {
    let count = jobs.len() as u64;
    let admitted = hub.space.admit(count).await;
    admitted.map_err(|problem| Error::invalid("namespace", problem.to_string()))?;
    let first = hub.numbers.next(count).await?;
    let mut lanes = BTreeMap::new();
    let mut tasks = Vec::with_capacity(jobs.len());
    for (job, number) in jobs.into_iter().zip(first..) {
        let lane = match lanes.entry(job.pri) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(hub.lane(tube, job.pri).await?),
        };
        tasks.push(task(lane, number, job)?);
    }
    let mut outcomes = hub.space.tasks.submit(tasks.clone()).await;
    for (task, outcome) in tasks.iter_mut().zip(&mut outcomes) {
        renumber(hub, task, outcome).await;
    }
    let mut numbers = Vec::with_capacity(outcomes.len());
    let mut soonest: BTreeMap<&Lane, Duration> = BTreeMap::new();
    let mut state = hub.state();
    for (task, outcome) in tasks.iter().zip(outcomes) {
        let number = number_of(&task.id).unwrap_or_default();
        if let Some(lane) = lanes.values().find(|lane| lane.task_type == task.task_type)
            && outcome.is_ok()
        {
            state.set_home(number, tube, lane);
            let delay = delay_of(task.when);
            let soonest = soonest.entry(lane).or_insert(delay);
            *soonest = delay.min(*soonest);
        }
        numbers.push(outcome.map(|_| number));
    }
    state.tube(tube).jobs += numbers.iter().filter(|number| number.is_ok()).count() as u64;
    drop(state);
    hub.counters.jobs.add(count);
    for (lane, delay) in soonest {
        hub.lane_changed(tube, lane, delay);
    }
    Ok(numbers)
}

fn delay_of(when: When) -> Duration {
    match when {
        When::After(delay) => delay,
        When::At(_) => Duration::ZERO,
    }
}

fn task(lane: &Lane, number: u64, job: PutJob) -> Result<NewTask> {
    let mut task = NewTask::new(lane.task_type.clone(), id_of(number)?, job.body);
    task.when = When::After(Duration::from_secs(job.delay.into()));
    task.headers.insert(TTR.to_owned(), job.ttr.to_string());
    if job.delay > 0 {
        task.headers.insert(DELAY.to_owned(), job.delay.to_string());
    }
    if job.pri != lane.pri {
        task.headers.insert(PRI.to_owned(), job.pri.to_string());
    }
    Ok(task)
}

/// Another number for a job whose own is taken, which happens after the loss of the counter; and
/// the same again for one whose answer was lost.
async fn renumber(hub: &Hub, task: &mut NewTask, outcome: &mut Result<SubmitOutcome>) {
    for _ in 0..TRIES {
        match outcome {
            Ok(SubmitOutcome::Accepted { .. }) => return,
            Ok(_) => {
                let number = hub.numbers.next(1).await;
                match number.and_then(id_of) {
                    Ok(id) => task.id = id,
                    Err(error) => {
                        *outcome = Err(error);
                        return;
                    }
                }
            }
            Err(Error::Indeterminate { .. }) => {
                let again = hub.space.tasks.submit(vec![task.clone()]).await.pop();
                match again {
                    Some(Ok(_)) => {
                        let due_at = Hub::now();
                        let replaced = false;
                        *outcome = Ok(SubmitOutcome::Accepted { due_at, replaced });
                        return;
                    }
                    Some(Err(error)) => *outcome = Err(error),
                    None => return,
                }
                continue;
            }
            Err(_) => return,
        }
        if let Some(again) = hub.space.tasks.submit(vec![task.clone()]).await.pop() {
            *outcome = again;
        }
    }
    if let Ok(other) = outcome
        && !matches!(other, SubmitOutcome::Accepted { .. })
    {
        *outcome = Err(Error::unavailable(hub.store.name(), "no number is free"));
    }
}
