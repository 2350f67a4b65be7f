//! Routing: finds the server that runs a command, and handles redirects.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq_core::{Error, Result};
use tokio::time::{sleep, sleep_until};

use super::cluster::Cluster;
use super::redirect::Redirect;
use super::reply::RespValue;
use super::server::Server;
use super::wire::CommandResult;
use super::{Class, Command};

/// First and longest wait before resending a command that no server could run yet. A slot moves
/// within milliseconds; a fail-over takes seconds.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// Number of redirects followed at once; after more, two nodes seem to disagree about the slot.
const AT_ONCE: u32 = 4;

/// The servers of a client.
#[derive(Clone)]
pub(crate) enum Routing {
    /// One server for everything. With sentinels it can change.
    One {
        server: Arc<Server>,
        may_change: bool,
    },
    /// The masters of a cluster.
    Cluster(Arc<Cluster>),
}

impl Routing {
    /// The server of a slot, if there is one.
    pub(crate) fn server_of(&self, slot: u16) -> Option<Arc<Server>> {
        match self {
            Self::One { server, .. } => Some(Arc::clone(server)),
            Self::Cluster(cluster) => cluster.owner(slot),
        }
    }

    /// The servers that hold data now.
    pub(crate) fn servers(&self) -> Vec<Arc<Server>> {
        match self {
            Self::One { server, .. } => vec![Arc::clone(server)],
            Self::Cluster(cluster) => cluster.masters(),
        }
    }

    /// Sends a command to the server that has its slot at that moment, until it was run or
    /// `deadline` has passed. A command is sent again only if it was certainly not run.
    pub(crate) async fn call(
        &self,
        class: Class,
        command: Command,
        deadline: Instant,
    ) -> Result<RespValue> {
        let slot = command.slot;
        let mut guest: Option<Arc<Server>> = None;
        let (mut wait, mut followed) = (BACKOFF.0, 0);
        loop {
            let asks = guest.is_some();
            let server = guest.take().or_else(|| self.server_of(slot));
            let connection = server.as_ref().map(|server| server.connection(class));
            let answer = match connection {
                Some(connection) => connection.send(&command, asks, deadline).await,
                None => None,
            };
            let (Some(server), Some(answer)) = (&server, answer) else {
                self.changed(server.as_ref(), class, deadline).await;
                if Instant::now() >= deadline {
                    return Err(self.why_not_sent(class, slot));
                }
                continue;
            };
            let (redirect, error) = match answer {
                CommandResult::Reply(reply) => return Ok(reply),
                CommandResult::Failed(error) => return Err(error),
                CommandResult::Redirect(redirect, error) => (redirect, error),
            };
            let why = redirect.unavailable(&server.place());
            let is_elsewhere = match (self, redirect) {
                (Self::Cluster(cluster), Redirect::Moved(owner)) => {
                    cluster.learn(slot, &owner);
                    true
                }
                (Self::Cluster(cluster), Redirect::Ask(target)) => {
                    guest = Some(cluster.guest(&target));
                    true
                }
                (Self::Cluster(cluster), Redirect::Later(_)) => {
                    cluster.ask_again();
                    false
                }
                (Self::One { may_change, .. }, Redirect::Later(_)) if *may_change => false,
                (Self::One { .. }, _) => return Err(error),
            };
            followed += 1;
            if is_elsewhere && followed <= AT_ONCE {
                continue;
            }
            if Instant::now() + wait >= deadline {
                return Err(why);
            }
            sleep(wait).await;
            wait = (wait * 2).min(BACKOFF.1);
        }
    }

    /// Waits until a new try makes sense: there is a connection, or another server has the slot.
    pub(crate) async fn changed(
        &self,
        server: Option<&Arc<Server>>,
        class: Class,
        deadline: Instant,
    ) {
        let up = async {
            match server {
                Some(server) => server.connection(class).up().await,
                None => pending().await,
            }
        };
        let moved = async {
            match self {
                Self::One { .. } => pending().await,
                Self::Cluster(cluster) => cluster.changed().await,
            }
        };
        tokio::select! {
            () = up => {}
            () = moved => {}
            () = sleep_until(deadline.into()) => {}
        }
    }

    /// The reason why a waiting command of a slot was not sent.
    pub(crate) fn why_not_sent(&self, class: Class, slot: u16) -> Error {
        match self {
            Self::One { server, .. } => server.connection(class).why_not_sent(),
            Self::Cluster(cluster) => match cluster.owner(slot) {
                Some(server) => server.connection(class).why_not_sent(),
                None => cluster.why_not_sent(slot),
            },
        }
    }
}
