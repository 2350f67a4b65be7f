//! One connection while it lasts, and the pipelines sent over it.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::{Error, Result};
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, RedisResult, Value};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::command::{Command, LuaScript};
use super::confirm::{Confirm, Confirmed};
use super::fault;
use super::redirect::Redirect;
use super::replication::Replication;
use super::reply::RespValue;
use crate::config::Address;

/// How often a script is loaded for one call. It is loaded again only if somebody flushes the
/// scripts between loading and call, each time.
const MAX_LOADS: usize = 10;

/// A connection that works, as far as known.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) connection: MultiplexedConnection,
    /// Notified when the connection is no longer usable.
    pub(super) ended: Arc<Notify>,
    /// Ends the waits for answers once the server is the wrong one: it may be silent for long.
    pub(super) left: CancellationToken,
    pub(super) address: Address,
    pub(super) place: Arc<str>,
    pub(super) replication: Option<Arc<Replication>>,
}

/// The result of a command.
pub(super) enum CommandResult {
    Reply(RespValue),
    /// Not run here; with the error for a caller that can send it nowhere else.
    Redirect(Redirect, Error),
    Failed(Error),
}

impl CommandResult {
    /// The answer for a caller that can send the command nowhere else.
    pub(super) fn finally(self) -> Result<RespValue> {
        match self {
            Self::Reply(reply) => Ok(reply),
            Self::Redirect(_, error) | Self::Failed(error) => Err(error),
        }
    }
}

/// The mode of sending commands.
#[derive(Clone, Copy, Debug, Default)]
struct Mode {
    /// Loads its script before each command, as the server does not have it.
    loads: bool,
    /// Sends `ASKING` before each command, to a node that does not have the slot yet.
    asks: bool,
    /// Adds the wait for replicas at the end.
    confirm: Option<Confirm>,
}

/// The answers to a pipeline.
struct Exchanged {
    answers: Vec<RedisResult<Value>>,
    /// `None` if there was no wait.
    confirmed: Option<Confirmed>,
}

impl Wire {
    /// Sends commands in one pipeline and returns one answer for each, without a time limit. If the
    /// server does not know a script (it was restarted, or its scripts were flushed), the script is
    /// loaded, and only the calls that missed it are repeated, in order. A write confirmed by too
    /// few replicas is `Indeterminate`: the server may be lost before it reaches them.
    pub(super) async fn exchange(&self, commands: &[Command], asks: bool) -> Vec<CommandResult> {
        let writes = commands.iter().any(|command| !command.only_reads);
        let replication = self.replication.as_ref().filter(|_| writes);
        let confirm = replication.map(|replication| replication.confirm());
        let all: Vec<usize> = (0..commands.len()).collect();
        let mut mode = Mode {
            loads: false,
            asks,
            confirm,
        };
        let mut first = self.send(commands, &all, mode).await;
        mode.loads = true;
        for _ in 0..MAX_LOADS {
            let missing = missing_scripts(&first.answers);
            if missing.is_empty() {
                break;
            }
            let again = self.send(commands, &missing, mode).await;
            first.confirmed = again.confirmed;
            for (at, answer) in missing.into_iter().zip(again.answers) {
                if let Some(first) = first.answers.get_mut(at) {
                    *first = answer;
                }
            }
        }
        let unconfirmed = match (replication, confirm) {
            (Some(replication), Some(confirm)) => {
                self.unconfirmed(replication, confirm, first.confirmed)
                    .await
            }
            _ => None,
        };
        let answers = commands.iter().zip(first.answers);
        answers
            .map(|(command, answer)| self.understand(command, answer, unconfirmed.as_deref()))
            .collect()
    }

    /// The missing confirmations for the writes of a pipeline. Replicas that joined meanwhile have
    /// to confirm them, too.
    async fn unconfirmed(
        &self,
        replication: &Replication,
        confirm: Confirm,
        confirmed: Option<Confirmed>,
    ) -> Option<String> {
        let confirmed = confirmed?;
        let was_enough = confirmed.shortage.is_none();
        let missing = replication.missing(confirmed, &self.address, &self.place)?;
        let more = replication.confirm();
        if !was_enough || more.replicas <= confirm.replicas {
            return Some(missing);
        }
        let mut answers = self.run(&more.pipeline()).await;
        let confirmed = more.take_from(&mut answers)?;
        replication.missing(confirmed, &self.address, &self.place)
    }

    /// Sends the commands at `places`, followed by the wait for replicas.
    async fn send(&self, commands: &[Command], places: &[usize], mode: Mode) -> Exchanged {
        let mut pipeline = Pipeline::with_capacity(places.len() + 4);
        for command in places.iter().filter_map(|at| commands.get(*at)) {
            if mode.loads {
                let script = command
                    .script
                    .map_or_else(|| redis::cmd("PING"), LuaScript::load);
                pipeline.add_command(script);
            }
            if mode.asks {
                pipeline.cmd("ASKING");
            }
            pipeline.add_command(command.cmd.clone());
        }
        if let Some(confirm) = mode.confirm {
            confirm.add_to(&mut pipeline);
        }
        let mut answers = self.run(&pipeline).await;
        let confirmed = mode
            .confirm
            .and_then(|confirm| confirm.take_from(&mut answers));
        let before = usize::from(mode.loads) + usize::from(mode.asks);
        let answers = answers.into_iter().skip(before).step_by(before + 1);
        Exchanged {
            answers: answers.collect(),
            confirmed,
        }
    }

    async fn run(&self, pipeline: &Pipeline) -> Vec<RedisResult<Value>> {
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
        command: &Command,
        answer: RedisResult<Value>,
        unconfirmed: Option<&str>,
    ) -> CommandResult {
        let lost =
            |detail| CommandResult::Failed(fault::lost(&self.place, detail, command.only_reads));
        let error = match (answer, unconfirmed) {
            (Ok(_), Some(detail)) if !command.only_reads => {
                return lost(detail);
            }
            (Ok(value), _) => {
                let unknown = || lost("it sent an unknown answer");
                return RespValue::from_value(value).map_or_else(unknown, CommandResult::Reply);
            }
            (Err(error), _) => error,
        };
        if fault::wants_new_connection(&error) {
            self.ended.notify_one();
        }
        let failed = fault::failed(&self.place, &error, command.only_reads);
        match Redirect::of(&error, &self.place) {
            Some(redirect) => CommandResult::Redirect(redirect, failed),
            None => CommandResult::Failed(failed),
        }
    }

    /// Subscribes to channels in the node's slots. Returns true for each one that is subscribed
    /// now. Sends one command per channel, as a channel in another node's slot fails the whole
    /// command.
    pub(super) async fn subscribe(&self, channels: &[&String]) -> Vec<bool> {
        let mut pipeline = Pipeline::with_capacity(channels.len());
        for channel in channels {
            pipeline.cmd("SSUBSCRIBE").arg(channel);
        }
        let answers = self.run(&pipeline).await;
        answers.into_iter().map(|answer| answer.is_ok()).collect()
    }

    /// Closes the connection if it has kept a call waiting for long, as this is how a peer that
    /// disappeared silently is noticed. A call sent just before its deadline proves nothing.
    pub(super) fn suspect(&self, waited: Duration, timeout: Duration) {
        if waited * 2 >= timeout {
            self.ended.notify_one();
        }
    }
}

/// The positions of the answers with a missing script.
fn missing_scripts(answers: &[RedisResult<Value>]) -> Vec<usize> {
    let is_missing = |answer: &RedisResult<Value>| {
        let error = answer.as_ref().err();
        error.is_some_and(fault::is_no_script)
    };
    let answers = answers.iter().enumerate();
    let missing = answers.filter(|(_, answer)| is_missing(answer));
    missing.map(|(at, _)| at).collect()
}

/// Turns an answer that is an error into an error. An error inside an answer is left there: it does
/// not tell the outcome of any call.
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

#[cfg(test)]
mod tests;
