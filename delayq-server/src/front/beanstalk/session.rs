//! One connection: what its client uses, watches and has reserved.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use delayq_ops::Operator;
use delayq_plugin::{Error, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::debug;

use super::answers;
use super::claims::reserve;
use super::ends;
use super::hub::Hub;
use super::input::{Input, PutJob, Request};
use super::listeners::{Accepted, Reader, Writer};
use super::order::{BadLine, Order};
use super::puts;
use super::reserved::Reserved;
use super::tube_name::TubeName;
use super::waiter::Waiter;

/// Most jobs that are put with one call of the store.
const MAX_PUTS: usize = 1_024;
/// Answers are sent when they have so many bytes, or nothing more is to be answered.
const FLUSH_BYTES: usize = 64 * 1_024;
/// A client that reserves within this time of the end of a job that it holds is told so.
const MARGIN: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Session {
    pub(super) hub: Arc<Hub>,
    /// Its name among the holders of jobs.
    pub(super) holder: u64,
    pub(super) used: TubeName,
    pub(super) watched: Vec<TubeName>,
    /// The jobs that it has reserved, some of them perhaps not any more.
    pub(super) jobs: BTreeSet<u64>,
    pub(super) out: Vec<u8>,
    pub(super) is_producer: bool,
    pub(super) is_worker: bool,
    /// Logs what it changes beside its own jobs.
    pub(super) operator: Operator,
    reader: Reader,
    writer: Writer,
    input: Input,
}

/// How a connection goes on after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
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
    /// A connection that was accepted.
    pub(super) fn new(hub: Arc<Hub>, accepted: Accepted) -> Self {
        let count = &hub.counters;
        count.connections.add(1);
        count.connections_ever.add(1);
        hub.holders.add(1);
        let first = TubeName::first();
        let mut state = hub.state();
        let tube = state.tube(&first);
        tube.using += 1;
        tube.watching += 1;
        drop(state);
        Self {
            holder: hub.counters.connections_ever.get() << 20 | hub.holders.get() & 0xf_ffff,
            used: first.clone(),
            watched: vec![first],
            jobs: BTreeSet::new(),
            out: Vec::new(),
            is_producer: false,
            is_worker: false,
            operator: Operator::new(&hub.space.tasks, "beanstalkd client", accepted.origin),
            reader: accepted.reader,
            writer: accepted.writer,
            input: Input::new(hub.config.max_job_bytes),
            hub,
        }
    }

    /// Serves it until its client leaves; its jobs are given back then.
    pub(super) async fn run(mut self) {
        let hub = Arc::clone(&self.hub);
        let stopping = hub.space.stopping().clone();
        tokio::select! {
            served = self.serve() => {
                if let Err(error) = served {
                    debug!(%error, "a connection ended with an error");
                }
            }
            () = stopping.ended() => {}
        }
        self.leave().await;
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
                    Next::Serve
                }
                Some(request) => self.answer(request).await?,
                None => {
                    self.flush().await?;
                    if self.reader.read_buf(self.input.buffer()).await? == 0 {
                        return Ok(());
                    }
                    continue;
                }
            };
            if next == Next::Close {
                return self.flush().await;
            }
            if self.out.len() > FLUSH_BYTES {
                self.flush().await?;
            }
        }
    }

    async fn flush(&mut self) -> std::io::Result<()> {
        if !self.out.is_empty() {
            self.writer.write_all(&self.out).await?;
            self.out.clear();
        }
        Ok(())
    }

    /// Puts a job and those that follow at once; the request behind them.
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
        self.note_producer();
        self.hub.counters.put.add(jobs.len() as u64);
        if self.hub.draining.is_on() {
            for _ in jobs {
                self.say("DRAINING");
            }
            return Ok(behind);
        }
        let count = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        self.pace(count).await?;
        for result in puts::put(&self.hub, &self.used, jobs).await {
            match result {
                Ok(number) => self.say(&format!("INSERTED {number}")),
                Err(error) => self.say_error(&error),
            }
        }
        Ok(behind)
    }

    /// Waits until the rate of the namespace allows so many requests. What was answered before is
    /// sent first.
    async fn pace(&mut self, requests: u32) -> std::io::Result<()> {
        if !self.hub.may_ask(requests) {
            self.flush().await?;
            self.hub.pace(requests).await;
        }
        Ok(())
    }

    async fn answer(&mut self, request: Request) -> std::io::Result<Next> {
        self.pace(1).await?;
        let done = match request {
            Request::Bad(BadLine::UnknownCommand) => {
                self.say("UNKNOWN_COMMAND");
                Ok(())
            }
            Request::Bad(BadLine::BadFormat) => {
                self.say("BAD_FORMAT");
                Ok(())
            }
            Request::TooBig => {
                self.say("JOB_TOO_BIG");
                Ok(())
            }
            Request::NoEnd => {
                self.say("EXPECTED_CRLF");
                Ok(())
            }
            Request::Order(Order::Quit) => return Ok(Next::Close),
            Request::Order(Order::Reserve(timeout)) => {
                let timeout = timeout.map(|seconds| Duration::from_secs(seconds.into()));
                return self.reserve(timeout).await;
            }
            Request::Order(order) => answers::answer(self, order).await,
            // Put by put_all.
            Request::Put(_) => Ok(()),
        };
        if let Err(error) = done {
            self.say_error(&error);
        }
        Ok(Next::Serve)
    }

    async fn reserve(&mut self, timeout: Option<Duration>) -> std::io::Result<Next> {
        let hub = Arc::clone(&self.hub);
        match timeout {
            None => hub.counters.reserve.add(1),
            Some(_) => hub.counters.reserve_with_timeout.add(1),
        }
        self.note_worker();
        let reserved = match reserve(&hub, self.holder, &self.watched).await {
            Ok(reserved) => reserved,
            Err(error) => {
                self.say_error(&error);
                return Ok(Next::Serve);
            }
        };
        let waited = match reserved {
            Some(reserved) => Waited::Job(reserved),
            None if self.soonest().is_some_and(|at| at <= Instant::now()) => Waited::DeadlineSoon,
            None if timeout == Some(Duration::ZERO) => Waited::TimedOut,
            None => {
                self.flush().await?;
                self.count_waiting(true);
                let waited = self.wait(timeout).await;
                self.count_waiting(false);
                waited
            }
        };
        match waited {
            Waited::Job(reserved) => self.say_reserved(&reserved),
            Waited::DeadlineSoon => self.say("DEADLINE_SOON"),
            Waited::TimedOut => self.say("TIMED_OUT"),
            Waited::Left => return Ok(Next::Close),
        }
        Ok(Next::Serve)
    }

    /// Waits for a job behind those that wait already.
    async fn wait(&mut self, timeout: Option<Duration>) -> Waited {
        let (job, mut answer) = oneshot::channel();
        let (holder, tubes) = (self.holder, self.watched.as_slice().into());
        self.hub.state().wait(Waiter { holder, tubes, job });
        self.hub.changed.notify_one();
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let soonest = self.soonest();
        let waited = loop {
            let is_full = self.input.is_full();
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
            // It is given back with the others.
            Waited::Left => {
                if let Waited::Job(reserved) = late {
                    self.jobs.insert(reserved.number);
                }
                Waited::Left
            }
            _ => late,
        }
    }

    fn count_waiting(&self, begins: bool) {
        let mut state = self.hub.state();
        for name in &self.watched {
            let tube = state.tube(name);
            if begins {
                tube.waiting += 1;
            } else {
                tube.waiting = tube.waiting.saturating_sub(1);
            }
        }
        let count = &self.hub.counters.waiting;
        if begins {
            count.add(1);
        } else {
            count.sub(1);
        }
    }

    /// From when on the first job that it holds ends soon.
    fn soonest(&self) -> Option<Instant> {
        let state = self.hub.state();
        let held = self.jobs.iter();
        let held = held.filter_map(|number| state.held_by(self.holder, *number));
        let soonest = held.map(|held| held.deadline).min();
        soonest.map(|at| at.checked_sub(MARGIN).unwrap_or(at))
    }

    pub(super) fn note_producer(&mut self) {
        if !self.is_producer {
            self.is_producer = true;
            self.hub.counters.producers.add(1);
        }
    }

    pub(super) fn note_worker(&mut self) {
        if !self.is_worker {
            self.is_worker = true;
            self.hub.counters.workers.add(1);
        }
    }

    pub(super) fn say_reserved(&mut self, reserved: &Reserved) {
        self.jobs.insert(reserved.number);
        self.say_body(&format!("RESERVED {}", reserved.number), &reserved.body);
    }

    /// Answers a line.
    pub(super) fn say(&mut self, line: &str) {
        self.out.extend_from_slice(line.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// Answers a line with the length of the body behind it.
    pub(super) fn say_body(&mut self, line: &str, body: &[u8]) {
        self.say(&format!("{line} {}", body.len()));
        self.out.extend_from_slice(body);
        self.out.extend_from_slice(b"\r\n");
    }

    fn say_error(&mut self, error: &Error) {
        debug!(%error, "a request failed");
        let line = match error {
            Error::Full { .. } | Error::QueueFull { .. } | Error::InvalidInput { .. } => {
                "OUT_OF_MEMORY"
            }
            Error::LimitExceeded { .. } => "JOB_TOO_BIG",
            _ => "INTERNAL_ERROR",
        };
        self.say(line);
    }

    /// Gives back what its client held, and refers to no tube any more.
    async fn leave(self) {
        let hub = &self.hub;
        let left = {
            let mut state = hub.state();
            state.tube(&self.used).using -= 1;
            for name in &self.watched {
                state.tube(name).watching -= 1;
                state.drop_unused(name);
            }
            state.drop_unused(&self.used);
            state.take_all(self.holder, &self.jobs)
        };
        let count = &hub.counters;
        count.connections.sub(1);
        count.producers.sub(u64::from(self.is_producer));
        count.workers.sub(u64::from(self.is_worker));
        ends::leave(hub, left).await;
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What a command answers.
pub(super) type Answered = Result<()>;
