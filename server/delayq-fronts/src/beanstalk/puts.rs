//! Puts, many at a time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use delayq_plugin::store::NewTask;
use delayq_plugin::{Error, Result, SubmitOutcome, When};
use delayq_service::operation::{Batch, Submission, submit, submit_one};

use super::client::Client;
use super::hub::Hub;
use super::input::PutJob;
use super::lane::{Lane, id_of, number_of};
use super::past::{DELAY, PRI, TTR};

/// How often another number is taken for a job whose number another one has.
const TRIES: u32 = 3;

/// Puts jobs into the tube that the client uses: their numbers, one each, in order.
pub(super) async fn put(client: &Client, jobs: Vec<PutJob>) -> Vec<Result<u64>> {
    let count = jobs.len();
    match try_put(client, jobs).await {
        Ok(numbers) => numbers,
        Err(error) => vec![Err(error); count],
    }
}

async fn try_put(client: &Client, jobs: Vec<PutJob>) -> Result<Vec<Result<u64>>> {
    let (hub, tube) = (&*client.hub, &client.used);
    let count = jobs.len();
    let first = hub.numbers.next(count as u64).await?;
    let mut lanes = BTreeMap::new();
    let mut tasks = Vec::with_capacity(count);
    for (job, number) in jobs.into_iter().zip(first..) {
        let lane = match lanes.entry(job.pri) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(hub.lane(tube, job.pri).await?),
        };
        tasks.push(task(lane, number, job)?);
    }
    let submissions = tasks.iter().cloned().map(Submission::from).collect();
    // The session has paid for all.
    let submitted = submit(&client.context, Batch::new(submissions).paid(count)).await;
    let submitted = submitted.map_err(|problem| problem.to_error())?.into_iter();
    let mut outcomes: Vec<_> = submitted
        .map(|one| {
            one.map(|receipt| receipt.outcome)
                .map_err(|problem| problem.to_error())
        })
        .collect();
    for (task, outcome) in tasks.iter_mut().zip(&mut outcomes) {
        renumber(client, task, outcome).await;
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
    hub.counters.jobs.add(count as u64);
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
async fn renumber(client: &Client, task: &mut NewTask, outcome: &mut Result<SubmitOutcome>) {
    let hub = &client.hub;
    for _ in 0..TRIES {
        match outcome {
            Ok(SubmitOutcome::Accepted { .. }) => return,
            Ok(_) | Err(Error::Conflict { .. }) => {
                let number = hub.numbers.next(1).await;
                match number.and_then(id_of) {
                    Ok(id) => task.id = id,
                    Err(error) => {
                        *outcome = Err(error);
                        return;
                    }
                }
                *outcome = submit_again(client, task).await;
            }
            Err(Error::Indeterminate { .. }) => match submit_again(client, task).await {
                // It was accepted before its answer was lost.
                Ok(_) => {
                    let due_at = Hub::now();
                    let replaced = false;
                    *outcome = Ok(SubmitOutcome::Accepted { due_at, replaced });
                    return;
                }
                Err(error) => *outcome = Err(error),
            },
            Err(_) => return,
        }
    }
    if let Ok(other) = outcome
        && !matches!(other, SubmitOutcome::Accepted { .. })
    {
        *outcome = Err(Error::unavailable(hub.store.name(), "no number is free"));
    }
}

async fn submit_again(client: &Client, task: &NewTask) -> Result<SubmitOutcome> {
    let submitted = submit_one(&client.context, task.clone().into()).await;
    submitted
        .map(|receipt| receipt.outcome)
        .map_err(|problem| problem.to_error())
}
