//! The connections to one server.

use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::time::timeout_at;

use super::super::room::Room;
use super::Lane;
use super::batch::{Batch, Confirm};
use super::command::Command;
use super::link::{Link, Purpose, Sent, Target};
use super::quorum::Quorum;
use super::reply::Reply;
use super::settings::Settings;
use crate::error::Result;

/// The connections to one server, or to whichever is the master.
#[derive(Debug)]
pub(in super::super) struct Node {
    main: Arc<Link>,
    submit: Arc<Link>,
    extend: Arc<Link>,
    quorum: Option<Arc<Quorum>>,
    pub(in super::super) room: Room,
}

impl Node {
    pub(super) fn start(runtime: &Handle, settings: &Arc<Settings>, target: &Target) -> Arc<Self> {
        let link = || Link::start(runtime, settings, target.clone(), Purpose::Calls);
        let main = link();
        // The wait for replicas holds up whatever comes behind it on the same connection.
        let submit = match settings.quorum {
            Some(_) => link(),
            None => Arc::clone(&main),
        };
        Arc::new(Self {
            main,
            submit,
            extend: link(),
            quorum: settings.quorum.clone(),
            room: Room::default(),
        })
    }

    pub(in super::super) fn link(&self, lane: Lane) -> &Arc<Link> {
        match lane {
            Lane::Main => &self.main,
            Lane::Submit => &self.submit,
            Lane::Extend => &self.extend,
        }
    }

    pub(super) fn links(&self) -> [Arc<Link>; 3] {
        [&self.main, &self.submit, &self.extend].map(Arc::clone)
    }

    /// Which confirmations a write needs here, if any.
    pub(super) fn confirm(&self) -> Option<Confirm> {
        self.quorum.as_ref().map(|quorum| quorum.confirm())
    }

    /// Runs a command here, whatever its slot.
    pub(in super::super) async fn ask(&self, command: Command, deadline: Instant) -> Result<Reply> {
        let batch = Batch::new(vec![command], None);
        loop {
            match self.main.send(&batch, false, deadline).await {
                Sent::Answered(answer) => return answer.finally(&self.main.place()),
                Sent::Not => {}
            }
            if timeout_at(deadline.into(), self.main.up()).await.is_err() {
                return Err(self.main.why_not_sent());
            }
        }
    }

    /// Waits for the first connections, see [`Link::wait_for_first`].
    pub(super) async fn reach(&self, deadline: Instant) -> Result<()> {
        for link in self.links() {
            link.wait_for_first(deadline).await?;
        }
        Ok(())
    }

    /// Where it is, as a URL without secrets.
    pub(in super::super) fn place(&self) -> Arc<str> {
        self.main.place()
    }

    /// Gives its connections up for good.
    pub(super) fn close(&self) {
        for link in self.links() {
            link.close();
        }
    }
}
