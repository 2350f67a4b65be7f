//! Handshake: checks the role, finds the replicas and loads the scripts before a connection is
//! used.

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};

use super::command::LuaScript;
use super::fault::{self, ConnectError};
use super::replication::Replication;
use super::wire::extract;
use crate::config::Address;

/// Checks that the server is a master: sentinels may name one that has become a replica, or that is
/// not the master yet.
pub(super) async fn check_role(
    connection: &mut MultiplexedConnection,
    place: &str,
) -> Result<(), ConnectError> {
    let role = redis::cmd("ROLE").query_async(connection).await;
    let role: Value = role.map_err(|error| ConnectError::of(place, &error))?;
    let is_master = match role.as_sequence() {
        Some([Value::BulkString(role), ..]) => role == b"master",
        _ => false,
    };
    if is_master {
        return Ok(());
    }
    let detail = "the sentinels call it the master, and it is a replica still";
    Err(ConnectError::busy(place, detail))
}

/// Asks a server for its replicas, if this connection `counts` them. Refuses a server that does not
/// support the required wait for replicas.
pub(super) async fn check_replication(
    connection: &mut MultiplexedConnection,
    replication: &Replication,
    address: &Address,
    place: &str,
    counts: bool,
) -> Result<(), ConnectError> {
    if counts && replication.asks_for_name() {
        let mut ask = redis::cmd("CLUSTER");
        match ask.arg("MYID").query_async(connection).await {
            Ok(Value::BulkString(name)) => replication.set_name(&name),
            // The check of the rights gives a better error.
            Err(error) if error.code() != Some("NOPERM") => {
                return Err(ConnectError::of(place, &error));
            }
            _ => {}
        }
    }
    if counts && let Some(question) = replication.questions() {
        let answers = connection
            .send_packed_commands(&question, 0, question.len())
            .await;
        let answers = answers.map_err(|error| ConnectError::of(place, &error))?;
        let answers = answers.into_iter().map(extract);
        replication.learn(address, answers.collect(), place);
    }
    if let Some(probe) = replication.confirm().probe() {
        let cannot = |error| ConnectError::lasting(fault::cannot_wait(place, &error));
        let () = probe.query_async(connection).await.map_err(cannot)?;
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
