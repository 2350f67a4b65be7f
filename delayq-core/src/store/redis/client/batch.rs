//! Commands on their way together.

use std::collections::HashSet;
use std::time::Duration;

use redis::{Pipeline, RedisResult, Value};

use super::super::config::Address;
use super::super::scripts::Script;
use super::command::{self, Command};
use super::fault::Loss;
use super::replicas;

/// How many replicas have to confirm what is written, and how long they may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Confirm {
    pub(super) replicas: u32,
    pub(super) within: Duration,
    /// Not before they, and the server itself, have it on disk.
    pub(super) synced: bool,
    /// How the server is asked afterwards whose the confirmations may be.
    pub(super) followers: Option<AskFollowers>,
    /// The node of a cluster that is asked which replicas it has, too.
    pub(super) node: Option<NodeName>,
}

/// How a server is asked who follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskFollowers {
    /// `INFO`, which knows those that hang.
    Info,
    /// `ROLE`, where `INFO` is forbidden.
    Role,
}

/// The name by which the nodes of a cluster know one of them: 40 characters.
pub(super) type NodeName = [u8; 40];

/// The question to the node of this name which replicas it has.
pub(super) fn ask_replicas(name: NodeName) -> redis::Cmd {
    let mut cluster = redis::cmd("CLUSTER");
    cluster.arg("REPLICAS").arg(name.as_slice());
    cluster
}

/// The answer, see [`replicas::of_node`]; `None` when the node does not tell.
pub(super) fn read_replicas(answer: &RedisResult<Value>) -> Option<HashSet<Address>> {
    match answer.as_ref().ok()? {
        Value::Array(lines) => replicas::of_node(lines),
        _ => None,
    }
}

impl AskFollowers {
    pub(super) fn command(self) -> redis::Cmd {
        match self {
            Self::Info => {
                let mut info = redis::cmd("INFO");
                info.arg("replication");
                info
            }
            Self::Role => redis::cmd("ROLE"),
        }
    }

    /// Who follows; `None` when the server does not tell.
    pub(super) fn read(self, answer: &RedisResult<Value>) -> Option<HashSet<Address>> {
        let answer = answer.as_ref().ok()?;
        match (self, answer) {
            (Self::Role, Value::Array(_)) => Some(replicas::connected(answer)),
            (Self::Info, Value::BulkString(info)) => {
                Some(replicas::followers(&String::from_utf8_lossy(info)))
            }
            (Self::Info, Value::VerbatimString { text, .. }) => Some(replicas::followers(text)),
            _ => None,
        }
    }
}

impl Confirm {
    /// `WAIT` is for what the same connection has written, and since Redis 7.2 for nothing else. So a script
    /// whose answer rests on the write of an earlier call, such as a repeated submit, writes something itself.
    ///
    /// A replica is asked how far it is as soon as somebody waits. It answers before it syncs what came with
    /// the question, and then only each second: without the `WAIT`, `WAITAOF` would take so long.
    fn add_to(self, pipeline: &mut Pipeline) {
        let within = if self.synced {
            self.within / 2
        } else {
            self.within
        };
        let wait = pipeline.cmd("WAIT").arg(self.replicas);
        wait.arg(milliseconds(within));
        if self.synced {
            let wait = pipeline.cmd("WAITAOF").arg(1).arg(self.replicas);
            wait.arg(milliseconds(self.within));
        }
        if let Some(ask) = self.followers {
            pipeline.add_command(ask.command());
        }
        if let Some(name) = self.node {
            pipeline.add_command(ask_replicas(name));
        }
    }

    /// The wait alone, for what was written before.
    pub(super) fn pipeline(self) -> Pipeline {
        let mut pipeline = Pipeline::new();
        self.add_to(&mut pipeline);
        pipeline
    }

    /// Takes the answers to what was added off the others.
    pub(super) fn take_from(self, answers: &mut Vec<RedisResult<Value>>) -> Option<Confirmed> {
        let listed = match self.node {
            Some(_) => read_replicas(&answers.pop()?),
            None => None,
        };
        let followers = match self.followers {
            Some(ask) => ask.read(&answers.pop()?),
            None => None,
        };
        let last = answers.pop()?;
        if self.synced {
            // Only the last one counts.
            let _ = answers.pop();
        }
        let confirmed = self.read(last);
        Some(Confirmed {
            followers,
            listed,
            ..confirmed
        })
    }

    /// A wait for nothing, which fails where the server cannot wait so.
    pub(super) fn probe(self) -> Option<redis::Cmd> {
        let mut wait = redis::cmd("WAITAOF");
        wait.arg(1).arg(0).arg(1);
        self.synced.then_some(wait)
    }

    fn read(self, answer: RedisResult<Value>) -> Confirmed {
        let (wanted, within) = (self.replicas, self.within);
        let (own, found) = match answer {
            Ok(Value::Int(found)) if !self.synced => (1, found),
            Ok(Value::Array(counts)) => match counts.as_slice() {
                [Value::Int(own), Value::Int(found)] if self.synced => (*own, *found),
                _ => {
                    return Confirmed::by_nobody("it sent an unknown answer to WAITAOF".to_owned());
                }
            },
            Ok(_) => return Confirmed::by_nobody("it sent an unknown answer to WAIT".to_owned()),
            Err(error) => {
                return Confirmed::by_nobody(format!("no replica confirmed it: {error}"));
            }
        };
        if own < 1 {
            let detail = format!("the server itself had not synced it within {within:?}");
            return Confirmed::by_nobody(detail);
        }
        let replicas = found.try_into().unwrap_or(0);
        let shortage = || format!("{found} of {wanted} replicas confirmed it within {within:?}");
        Confirmed {
            replicas,
            shortage: (replicas < wanted).then(shortage),
            followers: None,
            listed: None,
        }
    }
}

/// By how many replicas a write was confirmed.
pub(super) struct Confirmed {
    pub(super) replicas: u32,
    /// What is missing, if they were fewer than asked for.
    pub(super) shortage: Option<String>,
    /// Who follows the server, and may have confirmed it, as far as it was asked and tells.
    pub(super) followers: Option<HashSet<Address>>,
    /// The replicas of a node of a cluster, as far as it was asked and tells.
    pub(super) listed: Option<HashSet<Address>>,
}

impl Confirmed {
    fn by_nobody(detail: String) -> Self {
        Self {
            replicas: 0,
            shortage: Some(detail),
            followers: None,
            listed: None,
        }
    }
}

/// For an argument of which 0 means for ever.
fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Commands that are sent in one go; each can be sent again.
pub(super) struct Batch {
    pipeline: Pipeline,
    parts: Vec<Part>,
    pub(super) confirm: Option<Confirm>,
}

/// What is known of a command beside its bytes.
#[derive(Clone, Copy)]
struct Part {
    script: Option<Script>,
    only_reads: bool,
    slot: u16,
}

fn writes(parts: &[Part]) -> bool {
    parts.iter().any(|part| !part.only_reads)
}

impl Batch {
    /// `confirm` is asked for if any of the commands writes.
    pub(super) fn new(commands: Vec<Command>, confirm: Option<Confirm>) -> Self {
        let mut pipeline = Pipeline::with_capacity(commands.len() + 2);
        let mut parts = Vec::with_capacity(commands.len());
        for command in commands {
            parts.push(Part {
                script: command.script,
                only_reads: command.only_reads,
                slot: command.slot,
            });
            pipeline.add_command(command.cmd);
        }
        let confirm = confirm.filter(|_| writes(&parts));
        if let Some(confirm) = confirm {
            confirm.add_to(&mut pipeline);
        }
        Self {
            pipeline,
            parts,
            confirm,
        }
    }

    /// Asks for other confirmations than before, if any of the commands writes.
    pub(super) fn confirm_as(&mut self, confirm: Option<Confirm>) {
        if self.confirm != confirm && writes(&self.parts) {
            let commands = (0..self.len()).filter_map(|at| self.command(at));
            *self = Self::new(commands.collect(), confirm);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    /// All of them, and the wait for the replicas.
    pub(super) fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    pub(super) fn only_reads(&self, at: usize) -> bool {
        self.parts.get(at).is_some_and(|part| part.only_reads)
    }

    /// What is lost with the answer to the command at this place.
    pub(super) fn loss(&self, at: usize) -> Loss {
        Loss::of(self.only_reads(at))
    }

    /// The command at this place, to be sent elsewhere.
    pub(super) fn command(&self, at: usize) -> Option<Command> {
        let (part, cmd) = self.parts.get(at).zip(self.pipeline.cmd_iter().nth(at))?;
        Some(Command {
            cmd: cmd.clone(),
            script: part.script,
            only_reads: part.only_reads,
            slot: part.slot,
        })
    }

    /// Those at `places` again, and the wait for the replicas: each behind its script, if the server lacks
    /// it, and behind `ASKING`, if a node is asked for a slot that it does not have yet.
    pub(super) fn again(&self, places: &[usize], lacks_scripts: bool, asking: bool) -> Pipeline {
        let mut pipeline = Pipeline::new();
        for at in places {
            let found = self.parts.get(*at).zip(self.pipeline.cmd_iter().nth(*at));
            let Some((part, cmd)) = found else { continue };
            if let Some(script) = part.script.filter(|_| lacks_scripts) {
                pipeline.add_command(command::load(script));
            }
            if asking {
                pipeline.cmd("ASKING");
            }
            pipeline.add_command(cmd.clone());
        }
        if let Some(confirm) = self.confirm {
            confirm.add_to(&mut pipeline);
        }
        pipeline
    }
}

#[cfg(test)]
mod tests;
