//! One connection: reads its requests and writes its answers.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use delayq_plugin::store::NewTask;
use delayq_plugin::{Error, Result, SubmitOutcome, When};
use delayq_service::body::BodyShare;
use delayq_service::operation::{Batch, Submission, submit, submit_one};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::debug;

use super::claims::reserve;
use super::client::{self, Client};
use super::hub::Hub;
use super::input::{BadLine, Input, Order, PutJob, Request};
use super::job::{DELAY, PRI, Reserved, TTR};
use super::listeners::{Accepted, Reader, Writer};
use super::state::Waiter;
use super::tube::{Lane, id_of, number_of};

/// The largest number of jobs put with one call of the store.
const MAX_PUTS: usize = 1_024;
/// Answers are sent at this size, or when no more requests are buffered.
const FLUSH_BYTES: usize = 64 * 1_024;
/// How often a job gets another number because its own is taken.
const TRIES: u32 = 3;

/// A connection and its client.
pub(super) struct Session {
    client: Client,
    reader: Reader,
    writer: Writer,
    input: Input,
    /// What the connection holds of the room for bodies.
    share: Arc<BodyShare>,
    /// When the body of a job has to be complete, while it is not.
    job_end: Option<Instant>,
}

/// The next step after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    Serve,
    Close,
}

/// The end of a wait for a job.
enum Waited {
    Job(Reserved),
    DeadlineSoon,
    TimedOut,
    Left,
}

impl Session {
    /// A session for an accepted connection.
    pub(super) fn new(hub: Arc<Hub>, accepted: Accepted) -> Self {
        let client = Client::new(hub, accepted.origin);
        Self {
            reader: accepted.reader,
            writer: accepted.writer,
            input: Input::new(client.context.max_message_size()),
            share: client.context.app.bodies.share(),
            job_end: None,
            client,
        }
    }

    /// Serves the connection until its client leaves, then releases its jobs.
    pub(super) async fn run(mut self) {
        let hub = Arc::clone(&self.client.hub);
        let stopping = hub.space.stopping().clone();
        tokio::select! {
            served = self.serve() => {
                if let Err(error) = served {
                    debug!(%error, "a connection ended with an error");
                }
            }
            () = stopping.ended() => {}
        }
        self.client.leave().await;
    }

    async fn serve(&mut self) -> std::io::Result<()> {
        let mut kept = None;
        loop {
            let request = match kept.take() {
                Some(request) => Some(request),
                None => self.input.next(),
            };
            let next = match request {
                Some(Request::Put(job)) => {
                    kept = self.put_all(job).await?;
                    NextStep::Serve
                }
                Some(request) => self.answer(request).await?,
                None => {
                    self.flush().await?;
                    if self.read_more().await? == 0 {
                        return Ok(());
                    }
                    continue;
                }
            };
            if next == NextStep::Close {
                return self.flush().await;
            }
            if self.client.out.len() > FLUSH_BYTES {
                self.flush().await?;
            }
        }
    }

    /// Reads further bytes; 0 at the end of the connection. The body of a job has to be here in
    /// time, as it takes room meanwhile.
    async fn read_more(&mut self) -> std::io::Result<usize> {
        if self.share.hold(self.input.buffer().len()).is_err() {
            self.input.refuse_job();
        }
        let patience = self.client.context.app.config.connections.body_timeout();
        let begun = self.job_end.filter(|_| self.input.is_within_job());
        let new = || {
            self.input
                .is_within_job()
                .then(|| Instant::now() + patience)
        };
        self.job_end = begun.or_else(new);
        let read = self.reader.read_buf(self.input.buffer());
        tokio::select! {
            read = read => read,
            () = until(self.job_end) => {
                debug!("the body of a job was not here in time");
                Ok(0)
            }
        }
    }

    async fn flush(&mut self) -> std::io::Result<()> {
        if !self.client.out.is_empty() {
            self.writer.write_all(&self.client.out).await?;
            self.client.out.clear();
        }
        Ok(())
    }

    /// Puts a job and all puts that follow at once. Returns the next other request.
    async fn put_all(&mut self, first: PutJob) -> std::io::Result<Option<Request>> {
        let mut jobs = vec![first];
        let mut behind = None;
        while jobs.len() < MAX_PUTS {
            match self.input.next() {
                Some(Request::Put(job)) => jobs.push(job),
                other => {
                    behind = other;
                    break;
                }
            }
        }
        self.client.note_producer();
        self.client.hub.counters.put.add(jobs.len() as u64);
        if self.client.hub.draining.is_on() {
            for _ in jobs {
                self.client.say("DRAINING");
            }
            return Ok(behind);
        }
        self.pace(jobs.len()).await?;
        for result in put(&self.client, jobs).await {
            match result {
                Ok(number) => self.client.say(&format!("INSERTED {number}")),
                Err(error) => self.client.say_error(&error),
            }
        }
        Ok(behind)
    }

    /// Waits until the namespace's rate allows the requests. Sends earlier answers first.
    async fn pace(&mut self, requests: usize) -> std::io::Result<()> {
        if !self.client.context.may_ask(requests) {
            self.flush().await?;
            self.client.context.throttle(requests).await;
        }
        Ok(())
    }

    async fn answer(&mut self, request: Request) -> std::io::Result<NextStep> {
        self.pace(1).await?;
        let done = match request {
            Request::Bad(BadLine::UnknownCommand) => {
                self.client.say("UNKNOWN_COMMAND");
                Ok(())
            }
            Request::Bad(BadLine::BadFormat) => {
                self.client.say("BAD_FORMAT");
                Ok(())
            }
            Request::Http => {
                debug!("a connection that speaks HTTP is closed");
                return Ok(NextStep::Close);
            }
            Request::NoRoom => {
                self.client.say("OUT_OF_MEMORY");
                Ok(())
            }
            Request::TooBig => {
                self.client.say("JOB_TOO_BIG");
                Ok(())
            }
            Request::NoEnd => {
                self.client.say("EXPECTED_CRLF");
                Ok(())
            }
            Request::Order(Order::Quit) => return Ok(NextStep::Close),
            Request::Order(Order::Reserve(timeout)) => {
                let timeout = timeout.map(|seconds| Duration::from_secs(seconds.into()));
                return self.reserve(timeout).await;
            }
            Request::Order(order) => client::answer(&mut self.client, order).await,
            // Handled by `put_all`.
            Request::Put(_) => Ok(()),
        };
        if let Err(error) = done {
            self.client.say_error(&error);
        }
        Ok(NextStep::Serve)
    }

    async fn reserve(&mut self, timeout: Option<Duration>) -> std::io::Result<NextStep> {
        let hub = Arc::clone(&self.client.hub);
        match timeout {
            None => hub.counters.reserve.add(1),
            Some(_) => hub.counters.reserve_with_timeout.add(1),
        }
        self.client.note_worker();
        let reserved = match reserve(&hub, self.client.holder, &self.client.watched).await {
            Ok(reserved) => reserved,
            Err(error) => {
                self.client.say_error(&error);
                return Ok(NextStep::Serve);
            }
        };
        let waited = match reserved {
            Some(reserved) => Waited::Job(reserved),
            None if self.client.soonest().is_some_and(|at| at <= Instant::now()) => {
                Waited::DeadlineSoon
            }
            None if timeout == Some(Duration::ZERO) => Waited::TimedOut,
            None => {
                self.flush().await?;
                self.client.count_waiting(true);
                let waited = self.wait(timeout).await;
                self.client.count_waiting(false);
                waited
            }
        };
        match waited {
            Waited::Job(reserved) => self.client.say_reserved(&reserved),
            Waited::DeadlineSoon => self.client.say("DEADLINE_SOON"),
            Waited::TimedOut => self.client.say("TIMED_OUT"),
            Waited::Left => return Ok(NextStep::Close),
        }
        Ok(NextStep::Serve)
    }

    /// Waits for a job, after all clients that already wait.
    async fn wait(&mut self, timeout: Option<Duration>) -> Waited {
        let (job, mut answer) = oneshot::channel();
        let (holder, tubes) = (self.client.holder, self.client.watched.as_slice().into());
        self.client.hub.state().wait(Waiter { holder, tubes, job });
        self.client.hub.changed.notify_one();
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let soonest = self.client.soonest();
        let waited = loop {
            let is_full =
                self.input.is_full() || self.share.hold(self.input.buffer().len()).is_err();
            let read = self.reader.read_buf(self.input.buffer());
            tokio::select! {
                biased;
                reserved = &mut answer => break match reserved {
                    Ok(reserved) => Waited::Job(reserved),
                    Err(_) => Waited::TimedOut,
                },
                () = until(soonest) => break Waited::DeadlineSoon,
                () = until(end) => break Waited::TimedOut,
                read = read, if !is_full => match read {
                    Ok(bytes) if bytes > 0 => {}
                    _ => break Waited::Left,
                },
            }
        };
        answer.close();
        let late = match answer.try_recv() {
            Ok(reserved) => Waited::Job(reserved),
            Err(_) => return waited,
        };
        match waited {
            // The job is released with the client's other jobs.
            Waited::Left => {
                if let Waited::Job(reserved) = late {
                    self.client.jobs.insert(reserved.number);
                }
                Waited::Left
            }
            _ => late,
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Puts jobs into the client's used tube. Returns a number for each, in order.
async fn put(client: &Client, jobs: Vec<PutJob>) -> Vec<Result<u64>> {
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
    // The session has already charged all of them.
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

/// Gives a job another number if its own is taken, which happens after a loss of the counter.
/// Repeats a put whose answer was lost.
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
                // The job was accepted before its answer was lost.
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
