//! The stream of a worker. The worker sends credits, settlements and extensions; the server sends
//! tasks and answers.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::AUTHORIZATION;
use delayq_plugin::store::MAX_BATCH;
use delayq_plugin::{Error, TaskType};
use delayq_proto::{pb, read_span, required};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, FuturesUnordered, Stream};
use pb::work_request::Request as Form;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};

mod credits;
mod held;
mod parcel;

use super::call::{Call, check_batch};
use super::refusal::CallError;
use super::wakeups::end_of;
use credits::Credits;
use delayq_service::access::{Caller, Scope};
use delayq_service::app::App;
use delayq_service::body::BodyShare;
use delayq_service::pull::{Demand, Handover, MAX_WAIT, lock_span};
use held::Held;
pub(super) use parcel::work_task;

/// The messages of the server.
pub(super) type WorkStream = Pin<Box<dyn Stream<Item = Result<pb::WorkResponse, Status>> + Send>>;

/// The time limit for the first message.
const START: Duration = Duration::from_secs(10);
/// The number of messages buffered for a worker that does not read. While the buffer is full, the
/// worker's own messages are not read.
const MAX_UNREAD: usize = 16;
/// The number of a worker's messages without an answer yet; further ones are not read.
const MAX_UNANSWERED: usize = 256;
/// The pause of a type after a failed claim.
const AFTER_ERROR: Duration = Duration::from_millis(250);

/// A claim under way; returns its type and its tasks.
type Claim = BoxFuture<'static, (TaskType, Handover)>;
/// An answer under way; returns the answer and the tasks that were not settled.
type Answer = BoxFuture<'static, (pb::work_response::Response, Held)>;
type Sender = mpsc::Sender<Result<pb::WorkResponse, Status>>;

/// Opens the stream.
pub(super) fn open(
    app: &App,
    request: Request<Streaming<pb::WorkRequest>>,
) -> Result<Response<WorkStream>, Status> {
    let (metadata, extensions, inbound) = request.into_parts();
    let (headers, app) = (metadata.into_headers(), app.clone());
    let share = extensions.get::<Arc<BodyShare>>().cloned();
    let header = headers.get(AUTHORIZATION);
    Caller::presenting(header, &extensions, &app.tokens).map_err(CallError::from)?;
    let (sender, mut receiver) = mpsc::channel(MAX_UNREAD);
    tokio::spawn(async move {
        let (mut inbound, out) = (inbound, sender.clone());
        let served = async {
            let start = first(&mut inbound).await?;
            let lock_for = lock_for(start.lock_for)?;
            let namespace = &start.namespace;
            let scope = Some(Scope::Work);
            let call = Call::admit(&app, &headers, &extensions, namespace, scope).await?;
            let mut session = WorkSession::new(call, lock_for, out, share);
            let ended = session.serve(&mut inbound).await;
            // Ends claims first, or they would claim the tasks that are released next.
            session.claims.clear();
            session.answer_the_rest().await;
            // Before the stream ends, so that the tasks are available to a client that sees its
            // end.
            session.held.release(&session.call.space.pull).await;
            ended
        };
        if let Err(refusal) = served.await {
            sender.send(Err(refusal.into())).await.ok();
        }
    });
    let messages = stream::poll_fn(move |context| receiver.poll_recv(context));
    Ok(Response::new(Box::pin(messages)))
}

/// Reads the first message.
async fn first(inbound: &mut Streaming<pb::WorkRequest>) -> Result<pb::WorkStart, CallError> {
    let message = tokio::time::timeout(START, inbound.message()).await;
    let message = message.map(Result::ok).ok().flatten().flatten();
    match message.and_then(|message| message.request) {
        Some(Form::Start(start)) => Ok(start),
        _ => Err(Error::invalid("start", "it is missing: send it first, within 10 s").into()),
    }
}

/// The requested lock time.
fn lock_for(span: Option<prost_types::Duration>) -> Result<Duration, CallError> {
    let asked = span.map(|span| read_span("lock_for", span)).transpose()?;
    Ok(lock_span(asked)?)
}

/// The state of a stream.
struct WorkSession {
    call: Call,
    lock_for: Duration,
    credits: Credits,
    /// The types with a claim under way.
    claiming: BTreeSet<TaskType>,
    claims: FuturesUnordered<Claim>,
    held: Held,
    answers: FuturesUnordered<Answer>,
    out: Sender,
    /// What the stream holds of the room for bodies.
    share: Option<Arc<BodyShare>>,
}

impl WorkSession {
    fn new(call: Call, lock_for: Duration, out: Sender, share: Option<Arc<BodyShare>>) -> Self {
        Self {
            call,
            lock_for,
            credits: Credits::default(),
            claiming: BTreeSet::new(),
            claims: FuturesUnordered::new(),
            held: Held::default(),
            answers: FuturesUnordered::new(),
            out,
            share,
        }
    }

    /// Serves until the worker disconnects, or until it has ended the stream and received all its
    /// answers.
    async fn serve(&mut self, inbound: &mut Streaming<pb::WorkRequest>) -> Result<(), CallError> {
        let end = end_of(self.call.app.clone(), self.call.caller.clone());
        let mut end = std::pin::pin!(end);
        let mut is_open = true;
        while is_open || !self.answers.is_empty() {
            let reads = is_open && self.answers.len() < MAX_UNANSWERED;
            let sent = tokio::select! {
                message = inbound.message(), if reads => match message {
                    Ok(Some(message)) => {
                        self.take(message)?;
                        if let Some(share) = &self.share {
                            share.hold(0).ok();
                        }
                        continue;
                    }
                    Ok(None) => {
                        is_open = false;
                        continue;
                    }
                    Err(_) => return Ok(()),
                },
                Some((task_type, handover)) = self.claims.next(), if is_open => {
                    self.claimed(&task_type, handover)
                }
                Some((answer, unsettled)) = self.answers.next() => {
                    self.held.take_back(unsettled);
                    vec![answer]
                }
                () = self.out.closed() => return Ok(()),
                status = &mut end => return Err(status.into()),
            };
            for response in sent {
                let response = pb::WorkResponse {
                    response: Some(response),
                };
                tokio::select! {
                    sent = self.out.send(Ok(response)) => if sent.is_err() {
                        return Ok(());
                    },
                    status = &mut end => return Err(status.into()),
                }
            }
        }
        Ok(())
    }

    /// Waits for settlements under way. They take effect even if the worker does not receive the
    /// answers.
    async fn answer_the_rest(&mut self) {
        while let Some((_, unsettled)) = self.answers.next().await {
            self.held.take_back(unsettled);
        }
    }

    /// Handles a message of the worker.
    fn take(&mut self, message: pb::WorkRequest) -> Result<(), CallError> {
        match required("request", message.request)? {
            Form::Start(_) => {
                Err(Error::invalid("start", "it was sent before: open another stream").into())
            }
            Form::Credit(credit) => {
                let task_type = self.call.task_type(&credit.task_type)?;
                self.credits.add(&task_type, credit.tasks)?;
                self.claim(&task_type);
                Ok(())
            }
            Form::Settle(settle) => {
                check_batch("number of settlements", settle.settlements.len())?;
                let answer = parcel::settle(&self.call, &mut self.held, settle)?;
                self.answers.push(Box::pin(answer));
                Ok(())
            }
            Form::Extend(extend) => {
                check_batch("number of locks", extend.locks.len())?;
                let asked = extend.lock_for.is_some();
                let asked = asked.then(|| lock_for(extend.lock_for)).transpose()?;
                let lock_for = asked.unwrap_or(self.lock_for);
                let answer = parcel::extend(&self.call, &self.held, extend.locks, lock_for)?;
                self.answers.push(Box::pin(answer));
                Ok(())
            }
        }
    }

    /// Starts a claim of a type for as many tasks as the worker has credit.
    fn claim(&mut self, task_type: &TaskType) {
        let credit = self.credits.of(task_type);
        if credit == 0 || !self.claiming.insert(task_type.clone()) {
            return;
        }
        let demand = Demand {
            types: vec![task_type.clone()],
            limit: credit.min(MAX_BATCH),
            lock_for: self.lock_for,
            max_lock_expiries: None,
        };
        let (pull, task_type) = (self.call.space.pull.clone(), task_type.clone());
        self.claims.push(Box::pin(async move {
            loop {
                match pull.claim(demand.clone(), MAX_WAIT).await {
                    Ok(handover) => return (task_type, handover),
                    Err(error) => {
                        tracing::debug!(%task_type, %error, "cannot claim");
                        tokio::time::sleep(AFTER_ERROR).await;
                    }
                }
            }
        }));
    }

    /// Sends claimed tasks to the worker.
    fn claimed(
        &mut self,
        task_type: &TaskType,
        handover: Handover,
    ) -> Vec<pb::work_response::Response> {
        self.claiming.remove(task_type);
        let count = handover.tasks().len();
        let mut responses = Vec::new();
        // The worker may have withdrawn its credit meanwhile. The tasks are then dropped and
        // thereby released.
        if self.credits.spend(task_type, count) {
            let tasks = handover.delivered();
            self.held.add(&tasks);
            responses = parcel::tasks(tasks);
        }
        self.claim(task_type);
        responses
    }
}
