//! Which server takes a command, and what happens when it was the wrong one.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout_at};

use super::Lane;
use super::batch::Batch;
use super::cluster::Cluster;
use super::command::Command;
use super::joint::Seat;
use super::link::{Link, Sent};
use super::live::{Answer, Live};
use super::node::Node;
use super::redirect::Redirect;
use super::reply::Reply;
use crate::error::{Error, Result};

/// First and longest wait before a command is sent again that nobody could run yet. A slot is on its way for
/// milliseconds; a fail-over takes seconds.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// Redirects that are followed at once; after more, two nodes seem to disagree about who has the slot.
const AT_ONCE: u32 = 4;

/// Which server takes what.
#[derive(Clone, Debug)]
pub(in super::super) struct Route {
    pub(super) servers: Servers,
}

/// The servers of a client.
#[derive(Clone)]
pub(super) enum Servers {
    /// One server for everything. With sentinels it may be another one each time.
    One { node: Arc<Node>, may_change: bool },
    /// The masters of a cluster.
    Cluster(Arc<Cluster>),
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One { node, .. } => f.debug_tuple("One").field(node).finish(),
            Self::Cluster(_) => f.write_str("Cluster"),
        }
    }
}

impl Route {
    /// The server for a slot, if there is one.
    pub(in super::super) fn node(&self, slot: u16) -> Option<Arc<Node>> {
        match &self.servers {
            Servers::One { node, .. } => Some(Arc::clone(node)),
            Servers::Cluster(cluster) => cluster.owner(slot),
        }
    }

    /// The servers that hold data now.
    pub(super) fn servers(&self) -> Vec<Arc<Node>> {
        match &self.servers {
            Servers::One { node, .. } => vec![Arc::clone(node)],
            Servers::Cluster(cluster) => cluster.masters(),
        }
    }

    /// Whether commands of different slots may have different servers.
    pub(in super::super) fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// Sends a command to the server that has its slot, wherever that is by now, until it was run or `deadline`
    /// has passed. Only what has certainly not been run is sent again.
    pub(super) async fn call(
        &self,
        lane: Lane,
        command: Command,
        deadline: Instant,
    ) -> Result<Reply> {
        let slot = command.slot;
        let confirm = self.node(slot).and_then(|node| node.confirm());
        let mut batch = Batch::new(vec![command], confirm);
        let mut guest = None;
        let (mut wait, mut followed) = (BACKOFF.0, 0);
        loop {
            let asking = guest.is_some();
            let Some(node) = guest.take().or_else(|| self.node(slot)) else {
                self.changed(None, deadline).await;
                if Instant::now() >= deadline {
                    return Err(self.why_not_sent(slot));
                }
                continue;
            };
            // It may have waited for another master, which has other replicas.
            batch.confirm_as(node.confirm());
            let link = node.link(lane);
            let later = match link.send(&batch, asking, deadline).await {
                Sent::Answered(Answer::Reply(reply)) => return Ok(reply),
                Sent::Answered(Answer::Failed(error)) => return Err(error),
                Sent::Answered(Answer::Redirect(redirect)) => {
                    followed += 1;
                    let why = unavailable(&link.place(), &redirect);
                    match self.follow(slot, redirect) {
                        Follow::Here(node) => {
                            guest = node;
                            if followed <= AT_ONCE {
                                continue;
                            }
                            why
                        }
                        Follow::Later => why,
                        Follow::Never(redirect) => return Err(redirect.error(&link.place())),
                    }
                }
                Sent::Not => {
                    self.changed(Some(link), deadline).await;
                    if Instant::now() >= deadline {
                        return Err(link.why_not_sent());
                    }
                    continue;
                }
            };
            if Instant::now() + wait >= deadline {
                return Err(later);
            }
            sleep(wait).await;
            wait = (wait * 2).min(BACKOFF.1);
        }
    }

    /// What to do with a command that was not run.
    fn follow(&self, slot: u16, redirect: Redirect) -> Follow {
        match (&self.servers, redirect) {
            (Servers::Cluster(cluster), Redirect::Moved(owner)) => {
                cluster.learn(slot, &owner);
                Follow::Here(None)
            }
            (Servers::Cluster(cluster), Redirect::Ask(target)) => {
                Follow::Here(Some(cluster.guest(&target)))
            }
            (Servers::Cluster(cluster), Redirect::Later(_)) => {
                cluster.look_again();
                Follow::Later
            }
            (
                Servers::One {
                    may_change: true, ..
                },
                Redirect::Later(_),
            ) => Follow::Later,
            (Servers::One { .. }, redirect) => Follow::Never(redirect),
        }
    }

    /// Waits until it is worth trying again: the link is up, or another server has the slot.
    async fn changed(&self, link: Option<&Arc<Link>>, deadline: Instant) {
        let up = async {
            match link {
                Some(link) => link.up().await,
                None => std::future::pending().await,
            }
        };
        let moved = async {
            match &self.servers {
                Servers::Cluster(cluster) => {
                    cluster.look_again();
                    // The sender lives as long as the cluster.
                    let _ = cluster.maps().changed().await;
                }
                Servers::One { .. } => std::future::pending().await,
            }
        };
        let either = async {
            tokio::select! {
                () = up => {}
                () = moved => {}
            }
        };
        let _ = timeout_at(deadline.into(), either).await;
    }

    /// The connection for submits to the server of a slot, if it is down.
    pub(in super::super) fn down(&self, slot: u16) -> Option<Arc<Link>> {
        let link = Arc::clone(self.node(slot)?.link(Lane::Submit));
        link.live().is_none().then_some(link)
    }

    /// Why commands of a slot that waited were not sent.
    pub(in super::super) fn why_not_sent(&self, slot: u16) -> Error {
        match (&self.servers, self.node(slot)) {
            (_, Some(node)) => node.link(Lane::Submit).why_not_sent(),
            (Servers::One { node, .. }, None) => node.link(Lane::Submit).why_not_sent(),
            (Servers::Cluster(cluster), None) => cluster.why_not_sent(slot),
        }
    }

    /// Sends commands over `live`, a connection to `node`, in one go, and with those of others if there is a `seat`
    /// for them; those that are another node's by now, or were from the beginning, one after the other to that one.
    pub(in super::super) async fn exchange(
        &self,
        (node, live): (&Arc<Node>, &Live),
        seat: Option<Seat>,
        commands: Vec<Command>,
        deadline: Instant,
    ) -> Vec<Result<Reply>> {
        if !self.is_cluster() {
            return live.exchange(commands).await;
        }
        let is_here = |command: &Command| {
            self.node(command.slot)
                .is_some_and(|owner| Arc::ptr_eq(&owner, node))
        };
        let places: Vec<bool> = commands.iter().map(is_here).collect();
        let (here, elsewhere): (Vec<_>, Vec<_>) = commands
            .into_iter()
            .zip(places.iter().copied())
            .partition(|(_, here)| *here);
        let here = here.into_iter().map(|(command, _)| command).collect();
        let mut own = match seat {
            Some(seat) => seat.send(here).await.unwrap_or_default(),
            None => live.travel(here).await,
        }
        .into_iter();
        let mut others = elsewhere.into_iter().map(|(command, _)| command);
        let mut answers = Vec::with_capacity(places.len());
        for here in places {
            let again = match here.then(|| own.next()) {
                None => others.next(),
                Some(Some((Answer::Reply(reply), _))) => {
                    answers.push(Ok(reply));
                    continue;
                }
                Some(Some((Answer::Failed(error), _))) => {
                    answers.push(Err(error));
                    continue;
                }
                Some(Some((Answer::Redirect(_), command))) => command,
                Some(None) => None,
            };
            answers.push(match again {
                Some(command) => self.call(Lane::Submit, command, deadline).await,
                None => Err(live.lost()),
            });
        }
        answers
    }
}

enum Follow {
    /// To whoever has the slot by now, or to this node, which is taking it over.
    Here(Option<Arc<Node>>),
    Later,
    Never(Redirect),
}

fn unavailable(place: &str, redirect: &Redirect) -> Error {
    let detail = match redirect {
        Redirect::Later(said) => said.clone(),
        Redirect::Moved(owner) | Redirect::Ask(owner) => format!("it sends to {owner}"),
    };
    Error::Unavailable {
        store: place.to_owned(),
        detail,
    }
}
