//! The look at a server before anything is trusted to it: whether it keeps the promises as it is set up, and
//! which line to change if it does not. [`rights`] is what its user may do, [`seen`] what it shows of its
//! settings.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::client::{Client, Command, Node, Reply};
use super::config::{RedisConfig, RedisServers, ReplicaConfirm};
use super::keys::Keyspace;
use super::together::together;
use crate::error::{Error, Result};
use crate::store::{Durability, StoreOptions};

mod rights;
mod seen;

pub(super) use self::rights::{GRANT, SENTINEL_GRANT};
use self::seen::Seen;

/// How soon a server is looked at again that cannot be trusted yet.
const AGAIN: Duration = Duration::from_millis(100);

/// What a server has to keep.
#[derive(Debug)]
pub(super) struct Terms {
    wanted: Durability,
    /// What its operator says that it keeps, for what it does not show.
    assumed: Option<Durability>,
    /// How many replicas confirm a write at least, where that is wanted.
    replicas: u32,
    /// Whether that depends on who may become the master.
    counts_replicas: bool,
    /// The share of its memory up to which it is given new tasks.
    watermark: f64,
    servers: Kind,
}

/// What kind of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    One,
    Sentinel,
    Cluster,
}

/// What a server that keeps the promises is like.
pub(super) struct Found {
    /// The class that an acknowledgement of this server has.
    pub(super) durability: Durability,
    /// Whether it takes new tasks. A full one is used all the same: it can be drained.
    pub(super) room: Result<()>,
    /// The settings that it does not show, and that are taken on trust.
    unseen: Vec<&'static str>,
}

impl Terms {
    /// # Errors
    /// `InvalidInput` when they contradict each other.
    pub(super) fn new(config: &RedisConfig, options: &StoreOptions) -> Result<Self> {
        let (wanted, assumed) = (options.durability, config.assumed_durability);
        if assumed == Some(Durability::Replicated) && wanted != Durability::Replicated {
            let text = format!(
                "durability {:?} is asked for, so no write waits for a replica, and \"replicated\" is \
                 assumed: ask for durability `replicated`, or assume `disk` or less",
                wanted.as_str()
            );
            return Err(Error::InvalidInput(text));
        }
        let is_confirmed = config.replicas.is_some() || config.confirm != ReplicaConfirm::Received;
        if is_confirmed && wanted != Durability::Replicated {
            let text = format!(
                "durability {:?} is asked for, so no write waits for a replica, and `replicas` or `confirm` says \
                 how one confirms it: ask for durability `replicated`, or leave them out",
                wanted.as_str()
            );
            return Err(Error::InvalidInput(text));
        }
        Ok(Self {
            wanted,
            assumed,
            replicas: config.least_replicas(),
            counts_replicas: config.replicas.is_none(),
            watermark: config.memory_watermark.unwrap_or(1.0),
            servers: match config.servers {
                RedisServers::One(_) => Kind::One,
                RedisServers::Sentinel { .. } => Kind::Sentinel,
                RedisServers::Cluster { .. } => Kind::Cluster,
            },
        })
    }
}

impl Found {
    /// What two servers have in common.
    fn and(mut self, other: Self) -> Self {
        self.unseen.extend(other.unseen);
        self.unseen.sort_unstable();
        self.unseen.dedup();
        Self {
            durability: self.durability.min(other.durability),
            room: self.room.and(other.room),
            unseen: self.unseen,
        }
    }

    /// Says in the log what is taken on trust.
    pub(super) fn warn_of_unseen(&self, place: &str) {
        if !self.unseen.is_empty() {
            let (settings, class) = (self.unseen.join(", "), self.durability.as_str());
            tracing::warn!(
                store = place,
                settings,
                class,
                "these settings are not shown: the class that is assumed is taken on trust"
            );
        }
    }
}

/// Checks everything, on every server that holds data.
pub(super) async fn check(client: &Client, keys: &Keyspace, terms: &Terms) -> Result<Found> {
    let look = look(client, keys, terms).await?;
    match look.silent {
        None => look.found(client),
        Some(error) => Err(error),
    }
}

/// The same at the start, when a master of a cluster may be away: a replica takes its place later, or it comes back.
/// Where masters are replaced, one may be about to be, or new, and its replicas are on their way to it: that is waited for
/// until `deadline`.
pub(super) async fn first_check(
    client: &Client,
    keys: &Keyspace,
    terms: &Terms,
    deadline: Instant,
) -> Result<Found> {
    let may_change = terms.servers != Kind::One;
    let look = loop {
        let look = look(client, keys, terms).await?;
        let is_late = Instant::now() + AGAIN >= deadline;
        if look.found.is_some() || !may_change || is_late {
            break look;
        }
        sleep(AGAIN).await;
    };
    if let (Some(_), Some(error)) = (&look.found, &look.silent) {
        let store = client.place();
        tracing::warn!(%store, %error,
            "a node does not answer: starting without a look at it; its part of the tasks waits until it, or a replica of it, does");
    }
    look.found(client)
}

/// What the servers show.
struct Look {
    /// Those that answer, together.
    found: Option<Found>,
    /// Why another one does not.
    silent: Option<Error>,
}

impl Look {
    fn found(self, client: &Client) -> Result<Found> {
        let nobody = || Error::Unavailable {
            store: client.place().to_string(),
            detail: "it has no node that holds data".to_owned(),
        };
        let silent = self.silent;
        self.found.ok_or_else(|| silent.unwrap_or_else(nobody))
    }
}

async fn look(client: &Client, keys: &Keyspace, terms: &Terms) -> Result<Look> {
    let (mut found, mut silent) = (None::<Found>, None);
    let looks = client.servers().into_iter();
    let looks = looks.map(|node| look_at(client, node, keys, terms));
    for one in together(looks).await {
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
    Ok(Look { found, silent })
}

async fn look_at(
    client: &Client,
    node: Arc<Node>,
    keys: &Keyspace,
    terms: &Terms,
) -> Result<Found> {
    let node = &node;
    let [hello, info, config, rights] = questions(keys, terms);
    let hello = client.ask(node, hello).await;
    if let Err(error) = &hello
        && error.is_transient()
    {
        // It would not answer the others either, and each takes as long.
        return Err(error.clone());
    }
    let answers = [
        hello,
        client.ask(node, info).await,
        client.ask(node, config).await,
        client.ask(node, rights).await,
    ];
    judge(&node.place(), answers, terms)
}

/// What to ask a server, in the order in which [`judge`] takes the answers.
fn questions(keys: &Keyspace, terms: &Terms) -> [Command; 4] {
    let [hello, info, config] = seen::questions();
    [hello, info, config, rights::question(keys, terms)]
}

/// Whether the server at `place` keeps what the terms ask for.
fn judge(place: &str, answers: [Result<Reply>; 4], terms: &Terms) -> Result<Found> {
    let [hello, info, config, denied] = answers;
    let seen = Seen::new(place, [hello, info, config])?;
    seen.check_kind(terms.servers == Kind::Cluster)?;
    rights::check(place, denied?)?;
    let durability = seen.durability(terms)?;
    seen.check_disk()?;
    Ok(Found {
        durability,
        room: seen.check_room(terms),
        unseen: seen.unseen(terms),
    })
}
