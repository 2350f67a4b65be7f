//! The way of a flight: over one connection to one server, and from there to wherever else it turns out to lead.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::client::{Command, Lane, Live, Node, Reply, Route, Seat};
use crate::error::Result;

/// A connection for submits, and how to go on from its server.
pub(super) struct Road {
    route: Route,
    node: Arc<Node>,
    pub(super) live: Live,
    /// Where the first commands travel together with those of others.
    seat: Mutex<Option<Seat>>,
}

impl Road {
    /// The way to the server that has `slot`, if it can be reached now.
    pub(super) fn to(route: &Route, slot: u16) -> Option<Self> {
        let node = route.node(slot)?;
        let live = node.link(Lane::Submit).live()?;
        Some(Self {
            route: route.clone(),
            node,
            live,
            seat: Mutex::default(),
        })
    }

    /// The same way, whose first commands take this seat.
    pub(super) fn with(&self, seat: Option<Seat>) -> Self {
        Self {
            route: self.route.clone(),
            node: Arc::clone(&self.node),
            live: self.live.clone(),
            seat: Mutex::new(seat),
        }
    }

    /// A number of its own for each server that is there at the same time.
    pub(super) fn server(&self) -> usize {
        Arc::as_ptr(&self.node).addr()
    }

    /// Sends commands in one go, and those that are another server's to that one, until `deadline`.
    pub(super) async fn exchange(
        &self,
        commands: Vec<Command>,
        deadline: Instant,
    ) -> Vec<Result<Reply>> {
        let seat = self
            .seat
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let here = (&self.node, &self.live);
        self.route.exchange(here, seat, commands, deadline).await
    }
}
