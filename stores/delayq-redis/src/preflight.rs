//! Start-up check: tests that the server's configuration provides the requested durability, and
//! otherwise names the line to change. [`rights`] checks the rights of its user, [`snapshot`] the
//! settings that it shows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use delayq_core::store::{Durability, StoreOptions};
use delayq_core::{Error, Result};
use futures_util::future::join_all;
mod rights;
mod snapshot;

use self::snapshot::Snapshot;
use crate::config::{RedisConfig, RedisServers, ReplicaConfirm};
use crate::connection::{Connections, Server};
use crate::scripts::Keyspace;

/// The wait before another look at a server that cannot be trusted yet.
const AGAIN: Duration = Duration::from_millis(100);

/// The requirements for a server.
#[derive(Debug)]
pub(crate) struct Terms {
    wanted: Durability,
    config: RedisConfig,
}

/// The findings about a server that meets the requirements.
pub(crate) struct Found {
    /// The class of its acknowledgements.
    pub(crate) durability: Durability,
    /// `Ok` if it takes new tasks. A full one is used nevertheless: it can be drained.
    pub(crate) memory: Result<()>,
    /// The settings that it does not show and that are taken on trust.
    hidden: Vec<&'static str>,
}

impl Terms {
    /// # Errors
    /// `InvalidInput` when they contradict each other.
    pub(crate) fn new(config: &RedisConfig, options: &StoreOptions) -> Result<Self> {
        let (wanted, assumed) = (options.durability, config.assumed_durability);
        if assumed == Some(Durability::Replicated) && wanted != Durability::Replicated {
            let text = format!(
                "durability {:?} is asked for, so no write waits for a replica, and \"replicated\" is \
                 assumed: ask for durability `replicated`, or assume `disk` or less",
                wanted.as_str()
            );
            return Err(Error::invalid("setting", text));
        }
        let is_confirmed = config.replicas.is_some() || config.confirm != ReplicaConfirm::Received;
        if is_confirmed && wanted != Durability::Replicated {
            let text = format!(
                "durability {:?} is asked for, so no write waits for a replica, and `replicas` or `confirm` says \
                 how one confirms it: ask for durability `replicated`, or leave them out",
                wanted.as_str()
            );
            return Err(Error::invalid("setting", text));
        }
        Ok(Self {
            wanted,
            config: config.clone(),
        })
    }
}

impl Found {
    /// The findings about two servers together.
    fn and(mut self, other: Self) -> Self {
        self.hidden.extend(other.hidden);
        self.hidden.sort_unstable();
        self.hidden.dedup();
        Self {
            durability: self.durability.min(other.durability),
            memory: self.memory.and(other.memory),
            hidden: self.hidden,
        }
    }

    /// Logs the settings that are taken on trust.
    pub(crate) fn warn_of_hidden(&self, place: &str) {
        if !self.hidden.is_empty() {
            let (settings, class) = (self.hidden.join(", "), self.durability.as_str());
            tracing::warn!(
                store = place,
                settings,
                class,
                "the server does not show these settings: its assumed durability is taken on trust"
            );
        }
    }
}

/// Runs all checks on every server that holds data.
pub(crate) async fn check(
    connections: &Connections,
    keys: &Keyspace,
    terms: &Terms,
) -> Result<Found> {
    let checked = check_all(connections, keys, terms).await?;
    match checked.silent {
        None => checked.found(connections),
        Some(error) => Err(error),
    }
}

/// Start-up check. Tolerates a missing cluster master. If no server can be trusted yet, for example
/// during a fail-over, it waits until `deadline` for a new master and its replicas.
pub(crate) async fn first_check(
    connections: &Connections,
    keys: &Keyspace,
    terms: &Terms,
    deadline: Instant,
) -> Result<Found> {
    let may_change = !matches!(terms.config.servers, RedisServers::One(_));
    let checked = loop {
        let checked = check_all(connections, keys, terms).await?;
        let is_late = Instant::now() + AGAIN >= deadline;
        if checked.found.is_some() || !may_change || is_late {
            break checked;
        }
        sleep(AGAIN).await;
    };
    if let (Some(_), Some(error)) = (&checked.found, &checked.silent) {
        let store = connections.place();
        tracing::warn!(%store, %error,
            "a node does not answer: starting without checking it; its tasks wait until it, or its replica, answers");
    }
    checked.found(connections)
}

/// The results for all servers.
struct Checked {
    /// The findings about those that answered, together.
    found: Option<Found>,
    /// The error of a server that did not answer.
    silent: Option<Error>,
}

impl Checked {
    fn found(self, connections: &Connections) -> Result<Found> {
        let nobody = || {
            Error::unavailable(
                connections.place().to_string(),
                "it has no node that holds data",
            )
        };
        let silent = self.silent;
        self.found.ok_or_else(|| silent.unwrap_or_else(nobody))
    }
}

async fn check_all(connections: &Connections, keys: &Keyspace, terms: &Terms) -> Result<Checked> {
    let (mut found, mut silent) = (None::<Found>, None);
    let checks = connections.routing().servers().into_iter();
    let checks = checks.map(|server| check_one(connections, server, keys, terms));
    for one in join_all(checks).await {
        match one {
            Ok(one) => {
                found = Some(match found {
                    None => one,
                    Some(found) => found.and(one),
                });
            }
            Err(error) if error.is_transient() => silent = Some(error),
            Err(error) => return Err(error),
        }
    }
    Ok(Checked { found, silent })
}

/// Checks that a server meets the requirements.
async fn check_one(
    connections: &Connections,
    server: Arc<Server>,
    keys: &Keyspace,
    terms: &Terms,
) -> Result<Found> {
    let (server, place) = (&server, server.place());
    let [hello, info, config] = snapshot::questions();
    let hello = connections.ask(server, hello).await;
    if let Err(error) = &hello
        && error.is_transient()
    {
        // The server would not answer the others either, and each takes as long.
        return Err(error.clone());
    }
    let info = connections.ask(server, info).await;
    let config = connections.ask(server, config).await;
    let shown = Snapshot::new(&place, [hello, info, config])?;
    shown.check_kind(terms.config.is_cluster())?;
    let denied = connections.ask(server, rights::question(keys, terms));
    rights::check(&place, terms.config.user.as_deref(), denied.await?)?;
    let durability = shown.durability(terms)?;
    shown.check_disk()?;
    Ok(Found {
        durability,
        memory: shown.check_memory_limit(terms),
        hidden: shown.hidden(terms),
    })
}
