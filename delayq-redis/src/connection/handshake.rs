//! Handshake: role check, replica discovery and script loading, before a connection is used.

use delayq_core::Error;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult, Value};

use super::command::LuaScript;
use super::fault;
use super::reconnecting::Refusal;
use super::replication::Replication;
use super::wire::extract;
use crate::config::Address;

/// The refusal of a server.
pub(super) fn refused(place: &str, error: &RedisError) -> Refusal {
    Refusal {
        is_busy: fault::is_busy(error),
        error: fault::refused(place, error),
    }
}

/// Sentinels may name a server that has become a replica, or has not yet become the master.
pub(super) async fn check_role(
    connection: &mut MultiplexedConnection,
    place: &str,
) -> Result<(), Refusal> {
    let role = connection.send_packed_command(&redis::cmd("ROLE")).await;
    let role = role
        .and_then(extract)
        .map_err(|error| refused(place, &error))?;
    let is_master = match &role {
        Value::Array(fields) => {
            matches!(fields.first(), Some(Value::BulkString(role)) if role == b"master")
        }
        _ => false,
    };
    if is_master {
        return Ok(());
    }
    Err(Refusal {
        error: Error::Unavailable {
            store: place.to_owned(),
            detail: "the sentinels call it the master, and it is a replica still".to_owned(),
        },
        is_busy: true,
    })
}

/// Asks a server for its replicas, if this connection `counts` them. A server that cannot wait for
/// replicas as it is asked to is refused.
pub(super) async fn check_replication(
    connection: &mut MultiplexedConnection,
    replication: &Replication,
    address: &Address,
    place: &str,
    counts: bool,
) -> Result<(), Refusal> {
    if counts && replication.asks_for_name() {
        let mut myid = redis::cmd("CLUSTER");
        let name = connection.send_packed_command(myid.arg("MYID")).await;
        match name.and_then(extract) {
            Ok(Value::BulkString(name)) => replication.set_name(&name),
            // The check of the rights tells better.
            Err(error) if error.code() != Some("NOPERM") => return Err(refused(place, &error)),
            _ => {}
        }
    }
    if counts && let Some(question) = replication.questions() {
        let answers = connection
            .send_packed_commands(&question, 0, question.len())
            .await;
        let answers = answers.map_err(|error| refused(place, &error))?;
        replication.learn(address, answers.into_iter().map(extract).collect(), place);
    }
    if let Some(probe) = replication.confirm().probe() {
        let answer = connection.send_packed_command(&probe).await;
        let cannot = |error| Refusal::lasting(fault::cannot_wait(place, &error));
        answer.and_then(extract).map_err(cannot)?;
    }
    Ok(())
}

pub(super) async fn load_scripts(
    connection: &mut MultiplexedConnection,
    scripts: &[LuaScript],
) -> RedisResult<()> {
    let mut pipeline = redis::Pipeline::with_capacity(scripts.len());
    for script in scripts {
        pipeline.add_command(script.load());
    }
    let loaded = connection
        .send_packed_commands(&pipeline, 0, pipeline.len())
        .await?;
    loaded
        .into_iter()
        .try_for_each(|answer| extract(answer).map(drop))
}
