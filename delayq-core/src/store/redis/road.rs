//! The way of a flight: over one connection to one server, and from there to wherever else it turns out to lead.

use std::sync::Arc;
use std::time::Instant;

use super::client::{Command, Lane, Live, Node, Reply, Route};
use crate::error::Result;

/// A connection for submits, and how to go on from its server.
pub(super) struct Road {
    route: Route,
    node: Arc<Node>,
    pub(super) live: Live,
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
        })
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
        let here = (&self.node, &self.live);
        self.route.exchange(here, commands, deadline).await
    }
}
