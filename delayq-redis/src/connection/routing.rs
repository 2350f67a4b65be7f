//! Routing: which server runs a command, and what follows when it was the wrong one.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq_core::{Error, Result};
use tokio::time::{sleep, timeout_at};

#[cfg(feature = "cluster")]
use super::cluster::Cluster;
use super::redirect::Redirect;
use super::reply::Reply;
use super::server::Server;
use super::wire::Answer;
use super::{Class, Command};

/// First and longest wait before a command is sent again that no server could run yet. A slot is on
/// its way for milliseconds; a fail-over takes seconds.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// Redirects that are followed at once; after more, two nodes seem to disagree about the slot.
const AT_ONCE: u32 = 4;

/// The servers of a client.
#[derive(Clone)]
pub(super) enum Routing {
    /// One server for everything. With sentinels it may be another one each time.
    One {
        server: Arc<Server>,
        may_change: bool,
    },
    /// The masters of a cluster.
    #[cfg(feature = "cluster")]
    Cluster(Arc<Cluster>),
}

impl fmt::Debug for Routing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One { server, .. } => f.debug_tuple("One").field(server).finish(),
            #[cfg(feature = "cluster")]
            Self::Cluster(_) => f.write_str("Cluster"),
        }
    }
}

/// What follows a redirect.
enum Next {
    /// To the server that has the slot by now.
    #[cfg_attr(
        not(feature = "cluster"),
        expect(dead_code, reason = "only in a cluster a slot has another server")
    )]
    Again,
    /// To this node, which is taking the slot over, this once.
    #[cfg(feature = "cluster")]
    Guest(Arc<Server>),
    Later,
    Never(Redirect),
}

impl Routing {
    /// The server of a slot, if there is one.
    #[cfg_attr(
        not(feature = "cluster"),
        expect(
            clippy::unnecessary_wraps,
            reason = "only in a cluster a slot may have none"
        )
    )]
    pub(super) fn server_of(&self, slot: u16) -> Option<Arc<Server>> {
        match self {
            Self::One { server, .. } => {
                let _ = slot;
                Some(Arc::clone(server))
            }
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => cluster.owner(slot),
        }
    }

    /// The servers that hold data now.
    pub(super) fn servers(&self) -> Vec<Arc<Server>> {
        match self {
            Self::One { server, .. } => vec![Arc::clone(server)],
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => cluster.masters(),
        }
    }

    /// Sends a command to the server that has its slot, wherever that is by now, until it was run
    /// or `deadline` has passed. Only a command that was certainly not run is sent again.
    pub(super) async fn call(
        &self,
        class: Class,
        command: Command,
        deadline: Instant,
    ) -> Result<Reply> {
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
            let redirect = match answer {
                Answer::Reply(reply) => return Ok(reply),
                Answer::Failed(error) => return Err(error),
                Answer::Redirect(redirect) => redirect,
            };
            let place = server.place();
            let why = unavailable(&place, &redirect);
            followed += 1;
            match self.follow(slot, redirect) {
                Next::Again if followed <= AT_ONCE => continue,
                #[cfg(feature = "cluster")]
                Next::Guest(server) => {
                    guest = Some(server);
                    if followed <= AT_ONCE {
                        continue;
                    }
                }
                Next::Again | Next::Later => {}
                Next::Never(redirect) => return Err(redirect.error(&place)),
            }
            if Instant::now() + wait >= deadline {
                return Err(why);
            }
            sleep(wait).await;
            wait = (wait * 2).min(BACKOFF.1);
        }
    }

    /// What to do with a command that was not run.
    fn follow(&self, slot: u16, redirect: Redirect) -> Next {
        match (self, redirect) {
            #[cfg(feature = "cluster")]
            (Self::Cluster(cluster), Redirect::Moved(owner)) => {
                cluster.learn(slot, &owner);
                Next::Again
            }
            #[cfg(feature = "cluster")]
            (Self::Cluster(cluster), Redirect::Ask(target)) => Next::Guest(cluster.guest(&target)),
            #[cfg(feature = "cluster")]
            (Self::Cluster(cluster), Redirect::Later(_)) => {
                cluster.ask_again();
                Next::Later
            }
            (Self::One { may_change, .. }, Redirect::Later(_)) if *may_change => Next::Later,
            (Self::One { .. }, redirect) => {
                let _ = slot;
                Next::Never(redirect)
            }
        }
    }

    /// Waits until it is worth trying again: there is a connection, or another server has the slot.
    pub(super) async fn changed(
        &self,
        server: Option<&Arc<Server>>,
        class: Class,
        deadline: Instant,
    ) {
        let up = async {
            match server {
                Some(server) => server.connection(class).up().await,
                None => std::future::pending().await,
            }
        };
        let moved = async {
            match self {
                Self::One { .. } => std::future::pending().await,
                #[cfg(feature = "cluster")]
                Self::Cluster(cluster) => cluster.changed().await,
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

    /// Why a command of a slot that waited was not sent.
    pub(super) fn why_not_sent(&self, class: Class, slot: u16) -> Error {
        match (self, self.server_of(slot)) {
            (_, Some(server)) => server.connection(class).why_not_sent(),
            (Self::One { server, .. }, None) => server.connection(class).why_not_sent(),
            #[cfg(feature = "cluster")]
            (Self::Cluster(cluster), None) => cluster.why_not_sent(slot),
        }
    }
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
