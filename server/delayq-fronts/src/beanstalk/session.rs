//! One connection: what its client sends, and what is sent to it.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::debug;

use super::answers;
use super::claims::reserve;
use super::client::Client;
use super::hub::Hub;
use super::input::{Input, PutJob, Request};
use super::listeners::{Accepted, Reader, Writer};
use super::order::{BadLine, Order};
use super::puts;
use super::reserved::Reserved;
use super::waiter::Waiter;

/// Most jobs that are put with one call of the store.
const MAX_PUTS: usize = 1_024;
/// Answers are sent when they have so many bytes, or nothing more is to be answered.
const FLUSH_BYTES: usize = 64 * 1_024;

/// See the module.
pub(super) struct Session {
    client: Client,
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
        let client = Client::new(hub, accepted.origin);
        Self {
            reader: accepted.reader,
            writer: accepted.writer,
            input: Input::new(client.context.max_message_size()),
            client,
        }
    }

    /// Serves it until its client leaves; its jobs are given back then.
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
            if self.client.out.len() > FLUSH_BYTES {
                self.flush().await?;
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
        self.client.note_producer();
        self.client.hub.counters.put.add(jobs.len() as u64);
        if self.client.hub.draining.is_on() {
            for _ in jobs {
                self.client.say("DRAINING");
            }
            return Ok(behind);
        }
        self.pace(jobs.len()).await?;
        for result in puts::put(&self.client, jobs).await {
            match result {
                Ok(number) => self.client.say(&format!("INSERTED {number}")),
                Err(error) => self.client.say_error(&error),
            }
        }
        Ok(behind)
    }

    /// Waits until the rate of the namespace allows so many requests. What was answered before is
    /// sent first.
    async fn pace(&mut self, requests: usize) -> std::io::Result<()> {
        if !self.client.context.may_ask(requests) {
            self.flush().await?;
            self.client.context.throttle(requests).await;
        }
        Ok(())
    }

    async fn answer(&mut self, request: Request) -> std::io::Result<Next> {
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
            Request::TooBig => {
                self.client.say("JOB_TOO_BIG");
                Ok(())
            }
            Request::NoEnd => {
                self.client.say("EXPECTED_CRLF");
                Ok(())
            }
            Request::Order(Order::Quit) => return Ok(Next::Close),
            Request::Order(Order::Reserve(timeout)) => {
                let timeout = timeout.map(|seconds| Duration::from_secs(seconds.into()));
                return self.reserve(timeout).await;
            }
            Request::Order(order) => answers::answer(&mut self.client, order).await,
            // Put by put_all.
            Request::Put(_) => Ok(()),
        };
        if let Err(error) = done {
            self.client.say_error(&error);
        }
        Ok(Next::Serve)
    }

    async fn reserve(&mut self, timeout: Option<Duration>) -> std::io::Result<Next> {
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
                return Ok(Next::Serve);
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
            Waited::Left => return Ok(Next::Close),
        }
        Ok(Next::Serve)
    }

    /// Waits for a job behind those that wait already.
    async fn wait(&mut self, timeout: Option<Duration>) -> Waited {
        let (job, mut answer) = oneshot::channel();
        let (holder, tubes) = (self.client.holder, self.client.watched.as_slice().into());
        self.client.hub.state().wait(Waiter { holder, tubes, job });
        self.client.hub.changed.notify_one();
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let soonest = self.client.soonest();
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
