//! One connection while it lasts, and the pipelines that go over it.

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

/// How often a script is loaded for one call: again only when somebody flushes the scripts between
/// its loading and the call, each time anew.
const MAX_LOADS: usize = 10;

/// A connection that works, as far as is known.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) connection: MultiplexedConnection,
    /// Told that the connection is of no more use.
    pub(super) ended: Arc<Notify>,
    /// Ends what waits for an answer once the server is the wrong one: it may be silent for long.
    pub(super) left: CancellationToken,
    pub(super) address: Address,
    pub(super) place: Arc<str>,
    pub(super) replication: Option<Arc<Replication>>,
}

/// What became of a command.
pub(super) enum CommandResult {
    Reply(RespValue),
    /// It was not run here; with the error for a caller that can send it nowhere else.
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

/// How commands are sent.
#[derive(Clone, Copy, Debug, Default)]
struct Mode {
    /// Each behind its script, which the server lacks.
    loads: bool,
    /// Each behind `ASKING`, to a node that does not have the slot yet.
    asks: bool,
    /// The wait for replicas behind them.
    confirm: Option<Confirm>,
}

/// What came back of a pipeline.
struct Exchanged {
    answers: Vec<RedisResult<Value>>,
    /// `None` when nothing was waited for.
    confirmed: Option<Confirmed>,
}

impl Wire {
    /// Sends commands in one pipeline and returns one answer each, however long that takes. A
    /// script that the server does not know (it was restarted, or its scripts were flushed) is
    /// loaded, and only the calls that missed it are repeated, in their order. A write that too few
    /// replicas confirmed is `Indeterminate`: the server may be lost before it has told them.
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

    /// What is missing to the writes of a pipeline. A replica that has come since has to confirm
    /// them, too.
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

    /// Sends the commands at `places`, and the wait for replicas behind them.
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

    /// Subscribes to channels of the node's slots; whether it is subscribed now, each. One command
    /// each, as a channel that is elsewhere fails the whole command.
    pub(super) async fn subscribe(&self, channels: &[&String]) -> Vec<bool> {
        let mut pipeline = Pipeline::with_capacity(channels.len());
        for channel in channels {
            pipeline.cmd("SSUBSCRIBE").arg(channel);
        }
        let answers = self.run(&pipeline).await;
        answers.into_iter().map(|answer| answer.is_ok()).collect()
    }

    /// Gives the connection up if it has kept a call waiting for long: a peer that went away
    /// without a word is noticed so. A call that was sent just before its deadline proves nothing.
    pub(super) fn suspect(&self, waited: Duration, timeout: Duration) {
        if waited * 2 >= timeout {
            self.ended.notify_one();
        }
    }
}

/// The places of the answers that miss their script.
fn missing_scripts(answers: &[RedisResult<Value>]) -> Vec<usize> {
    let is_missing = |answer: &RedisResult<Value>| {
        let error = answer.as_ref().err();
        error.is_some_and(fault::is_no_script)
    };
    let answers = answers.iter().enumerate();
    let missing = answers.filter(|(_, answer)| is_missing(answer));
    missing.map(|(at, _)| at).collect()
}

/// An error that is the answer. One within an answer is left there: it says of no call what became
/// of it.
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
