//! Connections to one server, or to the present master.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq_core::{Error, Result};
use tokio::time::timeout_at;

use super::reconnecting::{Purpose, Reconnecting};
use super::reply::RespValue;
use super::settings::Settings;
use super::target::Target;
use super::wire::CommandResult;
use super::{Class, Command};

/// The connections to one server, one for each class.
pub(crate) struct Server {
    main: Arc<Reconnecting>,
    submit: Arc<Reconnecting>,
    extend: Arc<Reconnecting>,
    timeout: Duration,
    is_cluster: bool,
}

/// The result of a command in a pipeline.
#[derive(Debug)]
pub(crate) enum PipelineResult {
    Answered(Result<RespValue>),
    /// Not run here: it has to be sent to another node.
    Redirected(Command),
}

impl Server {
    pub(super) fn start(settings: &Arc<Settings>, target: &Target) -> Arc<Self> {
        let connection = || Reconnecting::start(settings, target.clone(), Purpose::Calls);
        let main = connection();
        // The wait for replicas delays all commands behind it on the same connection.
        let submit = match settings.replication {
            Some(_) => connection(),
            None => Arc::clone(&main),
        };
        Arc::new(Self {
            main,
            submit,
            extend: connection(),
            timeout: settings.timeout,
            is_cluster: settings.is_cluster(),
        })
    }

    pub(super) fn connection(&self, class: Class) -> &Arc<Reconnecting> {
        match class {
            Class::Main => &self.main,
            Class::Submit => &self.submit,
            Class::Extend => &self.extend,
        }
    }

    fn all(&self) -> [&Arc<Reconnecting>; 3] {
        [&self.main, &self.submit, &self.extend]
    }

    /// The address, as a URL without secrets.
    pub(crate) fn place(&self) -> Arc<str> {
        self.main.place()
    }

    /// True if there is a connection of this class.
    pub(crate) fn is_up(&self, class: Class) -> bool {
        self.connection(class).wire().is_some()
    }

    /// Sends commands in one pipeline and waits for the answers without a limit.
    pub(crate) async fn exchange(
        &self,
        class: Class,
        commands: Vec<Command>,
    ) -> Vec<PipelineResult> {
        let connection = self.connection(class);
        let Some(wire) = connection.wire() else {
            let error = connection.why_not_sent();
            return commands
                .iter()
                .map(|_| PipelineResult::Answered(Err(error.clone())))
                .collect();
        };
        let answers = wire.exchange(&commands, false).await;
        let answers = commands.into_iter().zip(answers);
        let sent = answers.map(|(command, answer)| match answer {
            CommandResult::Redirect(..) if self.is_cluster => PipelineResult::Redirected(command),
            answer => PipelineResult::Answered(answer.finally()),
        });
        sent.collect()
    }

    /// Runs a command here, whatever its slot.
    pub(crate) async fn ask(&self, command: Command, deadline: Instant) -> Result<RespValue> {
        loop {
            if let Some(answer) = self.main.send(&command, false, deadline).await {
                return answer.finally();
            }
            if timeout_at(deadline.into(), self.main.up()).await.is_err() {
                return Err(self.main.why_not_sent());
            }
        }
    }

    /// The error for a write without an answer in time.
    pub(crate) fn no_answer(&self) -> Error {
        let detail = format!("no answer within {:?}", self.timeout);
        Error::indeterminate(&*self.place(), detail)
    }

    /// Closes a connection that has kept calls waiting for `waited`, if that is long.
    pub(crate) fn suspect(&self, class: Class, waited: Duration) {
        if let Some(wire) = self.connection(class).wire() {
            wire.suspect(waited, self.timeout);
        }
    }

    /// Waits for the first connections, see [`Reconnecting::wait_for_first`].
    pub(super) async fn wait_for_first(&self, deadline: Instant) -> Result<()> {
        for connection in self.all() {
            connection.wait_for_first(deadline).await?;
        }
        Ok(())
    }

    /// Closes its connections for good.
    pub(super) fn close(&self) {
        for connection in self.all() {
            connection.close();
        }
    }
}
