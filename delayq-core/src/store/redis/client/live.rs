//! One connection, while it lasts.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult, Value};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::super::config::Address;
use super::batch::{Batch, Confirm, Confirmed};
use super::command::Command;
use super::fault::{self, Loss};
use super::joint::{self, Sent};
use super::quorum::Quorum;
use super::redirect::Redirect;
use super::reply::Reply;
use crate::error::{Error, Result};
use crate::name::TaskType;

/// How often a script is loaded for one call: again only when somebody flushes the scripts between its
/// loading and the call, each time anew.
const MAX_LOADS: usize = 10;

/// A connection that works, as far as is known.
#[derive(Clone)]
pub(in super::super) struct Live {
    pub(super) connection: MultiplexedConnection,
    /// Told that the connection is of no more use.
    pub(super) ended: Arc<Notify>,
    /// Ends what waits for an answer, once the server is the wrong one: it may be silent for long.
    pub(super) left: CancellationToken,
    pub(super) address: Address,
    pub(super) place: Arc<str>,
    pub(super) quorum: Option<Arc<Quorum>>,
}

/// What became of a command.
pub(super) enum Answer {
    Reply(Reply),
    /// It was not run here.
    Redirect(Redirect),
    Failed(Error),
}

impl Answer {
    /// What a caller is told that can send it nowhere else.
    pub(super) fn finally(self, place: &str) -> Result<Reply> {
        match self {
            Self::Reply(reply) => Ok(reply),
            Self::Redirect(redirect) => Err(redirect.error(place)),
            Self::Failed(error) => Err(error),
        }
    }
}

impl Live {
    /// Sends commands in one go and returns one answer each, however long that takes.
    pub(in super::super) async fn exchange(&self, commands: Vec<Command>) -> Vec<Result<Reply>> {
        let batch = Batch::new(commands, self.confirm());
        let answers = self.answers(&batch, false).await.into_iter();
        answers.map(|answer| answer.finally(&self.place)).collect()
    }

    /// Sends commands in one go; each that was not run here comes back with its answer.
    pub(super) async fn travel(&self, commands: Vec<Command>) -> Vec<Sent> {
        if commands.is_empty() {
            return Vec::new();
        }
        let batch = Batch::new(commands, self.confirm());
        let answers = self.answers(&batch, false).await;
        joint::sent(&batch, answers).collect()
    }

    fn confirm(&self) -> Option<Confirm> {
        self.quorum.as_ref().map(|quorum| quorum.confirm())
    }

    /// Sends a batch. A script that the server does not know (it was restarted, or somebody flushed its
    /// scripts) is loaded, and only the calls that missed it are repeated, in their order. What was not
    /// confirmed by enough replicas is `Indeterminate`, as the server may be lost before it has told them.
    pub(super) async fn answers(&self, batch: &Batch, asking: bool) -> Vec<Answer> {
        let all: Vec<usize> = (0..batch.len()).collect();
        let mut confirmed = None;
        let mut answers = if asking {
            self.send_again(batch, &all, (false, true), &mut confirmed)
                .await
        } else {
            let answers = self.send(batch.pipeline()).await;
            take_confirmed(batch, answers, &mut confirmed)
        };
        for _ in 0..MAX_LOADS {
            let is_missing = |at: &usize| matches!(answers.get(*at), Some(Err(error)) if fault::is_no_script(error));
            let missing: Vec<usize> = all.iter().copied().filter(is_missing).collect();
            if missing.is_empty() {
                break;
            }
            let second = self
                .send_again(batch, &missing, (true, asking), &mut confirmed)
                .await;
            for (at, answer) in missing.into_iter().zip(second) {
                if let Some(first) = answers.get_mut(at) {
                    *first = answer;
                }
            }
        }
        // The last wait was for all that was written before it.
        let was_enough = confirmed
            .as_ref()
            .is_some_and(|confirmed| confirmed.shortage.is_none());
        let mut unconfirmed = confirmed.and_then(|confirmed| self.missing(confirmed));
        let more = self.confirm().filter(|confirm| {
            let waited_for = batch.confirm.map_or(0, |confirm| confirm.replicas);
            was_enough && unconfirmed.is_some() && waited_for < confirm.replicas
        });
        // A replica has come since, and has to confirm it, too.
        if let Some(more) = more {
            let mut answers = self.send(&more.pipeline()).await;
            if let Some(confirmed) = more.take_from(&mut answers) {
                unconfirmed = self.missing(confirmed);
            }
        }
        let unconfirmed = unconfirmed.as_deref();
        let answers = answers.into_iter().enumerate();
        answers
            .map(|(at, answer)| self.understand(batch, at, answer, unconfirmed))
            .collect()
    }

    /// What is missing to a write that was answered so.
    fn missing(&self, confirmed: Confirmed) -> Option<String> {
        match &self.quorum {
            Some(quorum) => quorum.missing(confirmed, (&self.address, &self.place)),
            None => confirmed.shortage,
        }
    }

    async fn send_again(
        &self,
        batch: &Batch,
        places: &[usize],
        (lacks_scripts, asking): (bool, bool),
        confirmed: &mut Option<Confirmed>,
    ) -> Vec<RedisResult<Value>> {
        let pipeline = batch.again(places, lacks_scripts, asking);
        let before = usize::from(lacks_scripts) + usize::from(asking);
        let answers = take_confirmed(batch, self.send(&pipeline).await, confirmed);
        answers
            .into_iter()
            .skip(before)
            .step_by(before + 1)
            .collect()
    }

    async fn send(&self, pipeline: &redis::Pipeline) -> Vec<RedisResult<Value>> {
        let mut connection = self.connection.clone();
        let sent = tokio::select! {
            sent = connection.send_packed_commands(pipeline, 0, pipeline.len()) => sent,
            () = self.left.cancelled() => Err(no_master()),
        };
        match sent {
            Ok(values) => values.into_iter().map(extract).collect(),
            Err(error) => vec![Err(error); pipeline.len()],
        }
    }

    fn understand(
        &self,
        batch: &Batch,
        at: usize,
        answer: RedisResult<Value>,
        unconfirmed: Option<&str>,
    ) -> Answer {
        let loss = batch.loss(at);
        let error = match answer {
            Ok(_) if unconfirmed.is_some() && !batch.only_reads(at) => {
                let detail = unconfirmed.unwrap_or_default();
                return Answer::Failed(loss.error(&self.place, detail));
            }
            Ok(value) => {
                let unknown =
                    || Answer::Failed(loss.error(&self.place, "it sent an unknown answer"));
                return Reply::from_value(value).map_or_else(unknown, Answer::Reply);
            }
            Err(error) => error,
        };
        if fault::wants_new_connection(&error) {
            self.ended.notify_one();
        }
        match Redirect::of(&error, &self.place) {
            Some(redirect) => Answer::Redirect(redirect),
            None => Answer::Failed(fault::failed(&self.place, &error, loss)),
        }
    }

    /// Whether it is the same connection.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.ended, &other.ended)
    }

    /// Listens to channels of the node's slots; whether it does now, each.
    pub(super) async fn subscribe(&self, channels: &[&String]) -> Vec<bool> {
        let mut pipeline = redis::Pipeline::with_capacity(channels.len());
        for channel in channels {
            // One each, as one that is elsewhere fails the whole command.
            pipeline.cmd("SSUBSCRIBE").arg(channel);
        }
        let answers = self.send(&pipeline).await;
        answers.into_iter().map(|answer| answer.is_ok()).collect()
    }

    /// The error of a call that writes and whose answer was lost on its way.
    pub(super) fn lost(&self) -> Error {
        Loss::Outcome.error(&self.place, "its answer was lost")
    }

    /// The error of a call that writes and was not answered in time.
    pub(in super::super) fn no_answer(&self, timeout: Duration) -> Error {
        Loss::Outcome.error(&self.place, &format!("no answer within {timeout:?}"))
    }

    /// The error of tasks that are stored, of a type that could not be listed.
    pub(in super::super) fn unlisted(&self, task_type: &TaskType, error: &Error) -> Error {
        let detail = format!("the type {task_type} could not be listed ({error})");
        Loss::Outcome.error(&self.place, &detail)
    }

    /// Gives the connection up if it has kept a call waiting for long: a peer that went away without a
    /// word is noticed so. A call that was sent just before its deadline proves nothing.
    pub(in super::super) fn suspect(&self, waited: Duration, timeout: Duration) {
        if waited * 2 >= timeout {
            self.ended.notify_one();
        }
    }
}

/// Takes the answer to the wait for the replicas off the others.
fn take_confirmed(
    batch: &Batch,
    mut answers: Vec<RedisResult<Value>>,
    confirmed: &mut Option<Confirmed>,
) -> Vec<RedisResult<Value>> {
    if let Some(confirm) = batch.confirm {
        *confirmed = confirm.take_from(&mut answers);
    }
    answers
}

pub(super) fn extract(value: Value) -> RedisResult<Value> {
    match value {
        Value::ServerError(error) => Err(error.into()),
        value => Ok(value),
    }
}

fn no_master() -> RedisError {
    let aborted = std::io::ErrorKind::ConnectionAborted;
    std::io::Error::new(aborted, "it is not the master any more").into()
}
