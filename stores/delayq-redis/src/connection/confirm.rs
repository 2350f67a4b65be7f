//! Confirmations of a pipeline by replicas: the questions sent after its commands, and their
//! answers.

use std::collections::HashSet;
use std::time::Duration;

use redis::{Pipeline, RedisResult, Value};

use super::reply;
use crate::config::Address;

/// The longest silence of a replica that counts as following, in seconds. A replica reports its
/// offset each second, and the server counts whole seconds.
const MAX_LAG: u64 = 2;

/// The name of a node in a cluster: 40 characters.
pub(super) type NodeName = [u8; 40];

/// The confirmations required for a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Confirm {
    pub(super) replicas: u32,
    pub(super) within: Duration,
    /// They count only once the replicas, and the server itself, have it on disk.
    pub(super) synced: bool,
    /// Also asks the server for the replicas that follow it.
    pub(super) asks: bool,
    /// The node of a cluster whose replicas are asked for.
    pub(super) node: Option<NodeName>,
}

/// The confirmations that a pipeline got.
#[derive(Debug)]
pub(super) struct Confirmed {
    pub(super) replicas: u32,
    /// The shortage, if there were fewer than required.
    pub(super) shortage: Option<String>,
    /// The replicas that follow the server, if it was asked and answered.
    pub(super) followers: Option<HashSet<Address>>,
    /// The replicas of a node of a cluster, likewise.
    pub(super) listed: Option<HashSet<Address>>,
}

impl Confirm {
    /// `WAIT` covers the writes of the same connection, and since Redis 7.2 nothing else. So a
    /// script whose answer depends on the write of an earlier call, such as a repeated submit,
    /// writes something itself.
    ///
    /// A replica is asked for its offset as soon as somebody waits. It answers before it syncs the
    /// writes that came with the question, and after that only once a second: without the `WAIT`,
    /// `WAITAOF` would take that long.
    pub(super) fn add_to(self, pipeline: &mut Pipeline) {
        let within = if self.synced {
            self.within / 2
        } else {
            self.within
        };
        pipeline
            .cmd("WAIT")
            .arg(self.replicas)
            .arg(milliseconds(within));
        if self.synced {
            let wait = pipeline.cmd("WAITAOF").arg(1).arg(self.replicas);
            wait.arg(milliseconds(self.within));
        }
        self.add_questions(pipeline);
    }

    pub(super) fn add_questions(self, pipeline: &mut Pipeline) {
        if self.asks {
            pipeline.cmd("INFO").arg("replication");
        }
        if let Some(name) = self.node {
            pipeline.cmd("CLUSTER").arg("REPLICAS").arg(name.as_slice());
        }
    }

    /// Only the wait, for earlier writes.
    pub(super) fn pipeline(self) -> Pipeline {
        let mut pipeline = Pipeline::new();
        self.add_to(&mut pipeline);
        pipeline
    }

    /// A wait for zero replicas, which fails if the server does not support this wait.
    pub(super) fn probe(self) -> Option<redis::Cmd> {
        let mut wait = redis::cmd("WAITAOF");
        wait.arg(1).arg(0).arg(1);
        self.synced.then_some(wait)
    }

    /// Removes the answers of the added commands from the others.
    pub(super) fn take_from(self, answers: &mut Vec<RedisResult<Value>>) -> Option<Confirmed> {
        let listed = self.take_listed(answers);
        let followers = self.take_followers(answers);
        let last = answers.pop()?;
        if self.synced {
            // Only the last wait counts.
            let _ = answers.pop();
        }
        let (replicas, shortage) = match self.read(last) {
            Ok(found) if found >= self.replicas => (found, None),
            Ok(found) => {
                let (wanted, within) = (self.replicas, self.within);
                let few = format!("{found} of {wanted} replicas confirmed it within {within:?}");
                (found, Some(few))
            }
            Err(detail) => (0, Some(detail)),
        };
        Some(Confirmed {
            replicas,
            shortage,
            followers,
            listed,
        })
    }

    pub(super) fn take_listed(
        self,
        answers: &mut Vec<RedisResult<Value>>,
    ) -> Option<HashSet<Address>> {
        self.node?;
        match answers.pop()?.ok()? {
            Value::Array(lines) => of_node(&lines),
            _ => None,
        }
    }

    pub(super) fn take_followers(
        self,
        answers: &mut Vec<RedisResult<Value>>,
    ) -> Option<HashSet<Address>> {
        if !self.asks {
            return None;
        }
        let info = answers.pop()?.ok()?;
        text(&info).map(followers)
    }

    /// The number of replicas that confirmed.
    fn read(self, answer: RedisResult<Value>) -> Result<u32, String> {
        let found = match answer {
            Ok(Value::Int(found)) if !self.synced => found,
            Ok(Value::Array(counts)) => match counts.as_slice() {
                [Value::Int(1..), Value::Int(found)] if self.synced => *found,
                [Value::Int(_), Value::Int(_)] if self.synced => {
                    let within = self.within;
                    return Err(format!(
                        "the server itself had not synced it within {within:?}"
                    ));
                }
                _ => return Err("it sent an unknown answer to WAITAOF".to_owned()),
            },
            Ok(_) => return Err("it sent an unknown answer to WAIT".to_owned()),
            Err(error) => return Err(format!("no replica confirmed it: {error}")),
        };
        Ok(u32::try_from(found).unwrap_or(0))
    }
}

/// A span in milliseconds, at least 1, as 0 would mean for ever.
fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// The text of an answer.
pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

/// The replicas that follow a master, from its `INFO replication`: they have everything except the
/// writes on the way, and confirm those.
fn followers(info: &str) -> HashSet<Address> {
    let follower = |(name, value)| follower(name, value);
    reply::info(info).filter_map(follower).collect()
}

fn follower(name: &str, value: &str) -> Option<Address> {
    name.strip_prefix("slave")?.parse::<u32>().ok()?;
    let part = |wanted: &str| {
        let parts = value.split(',');
        let mut parts = parts.filter_map(|part| part.split_once('='));
        parts.find_map(|(name, value)| (name == wanted).then_some(value))
    };
    let lag: u64 = part("lag")?.parse().ok()?;
    let address = Address::new(part("ip")?, part("port")?.parse().ok()?);
    (part("state") == Some("online") && lag <= MAX_LAG).then_some(address)
}

/// The replicas that the cluster may promote in place of a node, from its answer to
/// `CLUSTER REPLICAS`: all except those that most masters consider dead (`fail`; a replica that
/// only this node cannot reach is `fail?`). `None` if a line has another form.
fn of_node(lines: &[Value]) -> Option<HashSet<Address>> {
    let mut replicas = HashSet::new();
    for line in lines {
        // Fields: name, `host:port@bus` and possibly more after commas, flags. A replica without a
        // known address is identified by its name.
        let mut fields = text(line)?.split(' ');
        let (name, address, flags) = (fields.next()?, fields.next()?, fields.next()?);
        let (host, port) = address.split('@').next()?.rsplit_once(':')?;
        let (host, port) = match port.parse().ok()? {
            0 => (name, 0),
            port if host.is_empty() => (name, port),
            port => (host, port),
        };
        if !flags.split(',').any(|flag| flag == "fail") {
            replicas.insert(Address::new(host, port));
        }
    }
    Some(replicas)
}

#[cfg(test)]
mod tests;
