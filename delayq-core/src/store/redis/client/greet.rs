//! What is asked of a server, and told to it, before a connection is used.

use std::sync::Arc;

use redis::Value;
use redis::aio::MultiplexedConnection;

use super::super::config::Address;
use super::super::scripts::Script;
use super::batch::{self, NodeName, ask_replicas};
use super::command;
use super::fault;
use super::link::Refusal;
use super::live::extract;
use super::quorum::Quorum;
use crate::error::Error;

/// A server that cannot wait for replicas as it is asked to says so.
pub(super) async fn check_wait(
    connection: &mut MultiplexedConnection,
    quorum: Option<&Quorum>,
    place: &Arc<str>,
) -> Result<(), Refusal> {
    let Some(probe) = quorum.and_then(|quorum| quorum.confirm().probe()) else {
        return Ok(());
    };
    let answer = connection.send_packed_command(&probe).await;
    let refused = |error| Refusal::of(fault::cannot_wait(place, &error));
    answer.and_then(extract).map(drop).map_err(refused)
}

/// Asks the server who follows it, in a cluster which replicas it has, too, and learns how it may be asked. What it
/// does not tell is asked again with each write.
///
/// # Errors
/// Why a node does not say its name, without which it cannot be asked; unless it may not be asked, which those who
/// look at its rights tell better.
pub(super) async fn count_followers(
    connection: &mut MultiplexedConnection,
    quorum: &Quorum,
    address: &Address,
    place: &Arc<str>,
) -> Result<(), Refusal> {
    let mut ask = async |question: &redis::Cmd| {
        let answer = connection.send_packed_command(question).await;
        answer.and_then(extract)
    };
    if quorum.wants_name() {
        match ask(redis::cmd("CLUSTER").arg("MYID")).await {
            Ok(Value::BulkString(name)) => {
                if let Ok(name) = NodeName::try_from(name.as_slice()) {
                    quorum.is_named(name);
                    if let Some(listed) = batch::read_replicas(&ask(&ask_replicas(name)).await) {
                        quorum.may_choose(address, listed, place);
                    }
                }
            }
            Err(error) if error.code() != Some("NOPERM") => {
                return Err(Refusal {
                    is_busy: fault::is_busy(&error),
                    error: fault::refused(place, &error),
                });
            }
            _ => {}
        }
    }
    let Some(question) = quorum.asks() else {
        return Ok(());
    };
    let answer = ask(&question.command()).await;
    match question.read(&answer) {
        Some(followers) => quorum.is_followed(address, followers, place),
        None if answer.is_err_and(|error| error.code() == Some("NOPERM")) => quorum.hide(),
        None => {}
    }
    Ok(())
}

/// A server may be asked that has become a replica, or has not yet become the master.
pub(super) async fn check_role(
    connection: &mut MultiplexedConnection,
    place: &Arc<str>,
) -> Result<(), Refusal> {
    let role = connection.send_packed_command(&redis::cmd("ROLE")).await;
    let role = role.and_then(extract).map_err(|error| Refusal {
        is_busy: fault::is_busy(&error),
        error: fault::refused(place, &error),
    })?;
    let is_master = match &role {
        Value::Array(fields) => matches!(
            fields.first(),
            Some(Value::BulkString(role)) if role == b"master"
        ),
        _ => false,
    };
    if is_master {
        return Ok(());
    }
    Err(Refusal {
        error: Error::Unavailable {
            store: place.to_string(),
            detail: "the sentinels call it the master, and it is a replica still".to_owned(),
        },
        is_busy: true,
    })
}

pub(super) async fn load_scripts(connection: &mut MultiplexedConnection) -> redis::RedisResult<()> {
    let mut pipeline = redis::Pipeline::with_capacity(Script::ALL.len());
    for script in Script::ALL {
        pipeline.add_command(command::load(script));
    }
    let loaded = connection.send_packed_commands(&pipeline, 0, pipeline.len());
    loaded
        .await?
        .into_iter()
        .try_for_each(|answer| extract(answer).map(drop))
}
