//! A connection that is renewed whenever it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq_core::{Error, Result};
use redis::{PushInfo, PushKind, Value};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::fault::{self, ConnectError};
use super::handshake;
use super::settings::{Kind, Settings};
use super::target::Target;
use super::wire::Wire;
use super::{Command, Listener, wire::CommandResult};
use crate::config::Address;

/// First and longest wait between two attempts to connect: the shortest time after which it makes
/// sense to try a restarted server again, and the longest delay acceptable for a waiting task.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// The purpose of a connection.
#[derive(Clone)]
pub(super) enum Purpose {
    Calls,
    /// Receiving messages. Only subscriptions are sent over it.
    Listen {
        /// The channel to subscribe to at the start.
        channel: Option<String>,
        listener: Listener,
    },
}

/// A connection that lives as long as its client, and is renewed after each loss.
pub(super) struct Reconnecting {
    state: watch::Sender<ConnectionState>,
    settings: Arc<Settings>,
    target: Target,
    purpose: Purpose,
    closed: CancellationToken,
}

#[derive(Clone)]
enum ConnectionState {
    /// No connection, with the reason once one was refused.
    Down(Option<ConnectError>),
    Up(Wire),
}

impl Reconnecting {
    pub(super) fn start(settings: &Arc<Settings>, target: Target, purpose: Purpose) -> Arc<Self> {
        let this = Arc::new(Self {
            state: watch::Sender::new(ConnectionState::Down(None)),
            settings: Arc::clone(settings),
            target,
            purpose,
            closed: CancellationToken::new(),
        });
        settings.runtime.spawn(Arc::clone(&this).keep_open());
        this
    }

    /// Closes it for good: the server is no longer one of the cluster's masters.
    pub(super) fn close(&self) {
        self.closed.cancel();
    }

    async fn keep_open(self: Arc<Self>) {
        let mut wait = BACKOFF.0;
        while !self.closed.is_cancelled() {
            let opened = timeout(self.settings.timeout, self.open()).await;
            let refused = match opened {
                Ok(Ok(wire)) => {
                    let since = Instant::now();
                    self.use_until_it_ends(wire).await;
                    if since.elapsed() > BACKOFF.1 {
                        wait = BACKOFF.0;
                        continue;
                    }
                    None
                }
                Ok(Err(refusal)) => Some(refusal),
                Err(_) => Some(ConnectError::lasting(self.no_connection())),
            };
            if refused.is_some() {
                self.state.send_replace(ConnectionState::Down(refused));
                self.target.doubt();
            }
            tokio::select! {
                () = sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)) => {}
                () = self.closed.cancelled() => {}
            }
            wait = (wait * 2).min(BACKOFF.1);
        }
    }

    async fn use_until_it_ends(&self, wire: Wire) {
        tracing::debug!(store = %wire.place, "connected");
        self.state.send_replace(ConnectionState::Up(wire.clone()));
        let is_wrong = tokio::select! {
            () = wire.ended.notified() => false,
            () = self.target.left(&wire.address) => true,
            () = self.closed.cancelled() => true,
        };
        self.state.send_replace(ConnectionState::Down(None));
        if is_wrong {
            wire.left.cancel();
            tracing::warn!(store = %wire.place, "the server is no longer the master");
        } else {
            tracing::warn!(store = %wire.place, "connection lost");
            self.target.doubt();
        }
    }

    async fn open(&self) -> Result<Wire, ConnectError> {
        let address = self.target.address().await?;
        let wrong = || {
            let place = self.settings.place_of(Kind::Data, &address);
            ConnectError::busy(&place, "it is not the master any more")
        };
        // A server that hangs accepts connections but answers nothing.
        tokio::select! {
            opened = self.open_to(address.clone()) => opened,
            () = self.target.left(&address) => Err(wrong()),
            () = self.closed.cancelled() => Err(wrong()),
        }
    }

    async fn open_to(&self, address: Address) -> Result<Wire, ConnectError> {
        let place = self.settings.place_of(Kind::Data, &address);
        let ended = Arc::new(Notify::new());
        let mut connection = self.settings.open(&address, self.on_push(&ended)).await?;
        if self.target.may_change() {
            handshake::check_role(&mut connection, &place).await?;
        }
        let replication = self.settings.replication.as_ref();
        if let Some(replication) = replication {
            let counts = matches!(self.purpose, Purpose::Calls);
            handshake::check_replication(&mut connection, replication, &address, &place, counts)
                .await?;
        }
        match &self.purpose {
            Purpose::Calls => handshake::load_scripts(&mut connection, self.settings.scripts).await,
            Purpose::Listen { channel, listener } => {
                let subscribed = match channel {
                    Some(channel) => connection.subscribe(channel).await,
                    None => Ok(()),
                };
                // Messages sent while nobody listened are lost.
                subscribed.map(|()| listener(None))
            }
        }
        .map_err(|error| ConnectError::of(&place, &error))?;
        Ok(Wire {
            connection,
            ended,
            left: CancellationToken::new(),
            address,
            place,
            replication: replication.map(Arc::clone),
        })
    }

    /// Handles messages and the end of the connection.
    fn on_push(&self, ended: &Arc<Notify>) -> impl Fn(PushInfo) + Send + Sync + 'static {
        let listener = match &self.purpose {
            Purpose::Calls => None,
            Purpose::Listen { listener, .. } => Some(Arc::clone(listener)),
        };
        let ended = Arc::clone(ended);
        move |push: PushInfo| match push.kind {
            // A node ends the subscriptions for a slot that it gives to another node.
            PushKind::Disconnection | PushKind::SUnsubscribe => ended.notify_one(),
            PushKind::Message | PushKind::SMessage => {
                if let (Some(listener), [_, Value::BulkString(message)]) = (&listener, &*push.data)
                {
                    listener(Some(message));
                }
            }
            _ => {}
        }
    }

    /// Its server, as far as known.
    pub(super) fn place(&self) -> Arc<str> {
        match (&*self.state.borrow(), self.target.fixed()) {
            (ConnectionState::Up(wire), _) => Arc::clone(&wire.place),
            (_, Some(address)) => self.settings.place_of(Kind::Data, address),
            (_, None) => self.settings.place(),
        }
    }

    /// A server without TLS may wait for the rest of input that it does not understand.
    fn no_connection(&self) -> Error {
        let place = self.place().to_string();
        let (within, hint) = (self.settings.timeout, fault::hint(&place));
        Error::unavailable(place, format!("no connection within {within:?}; {hint}"))
    }

    /// Waits for the first connection; the first refusal is final, unless the server is only busy.
    pub(super) async fn wait_for_first(&self, deadline: Instant) -> Result<()> {
        let mut states = self.state.subscribe();
        let decided = states.wait_for(|state| match state {
            ConnectionState::Up(_) => true,
            ConnectionState::Down(refusal) => {
                refusal.as_ref().is_some_and(|refusal| !refusal.is_busy)
            }
        });
        let decided = timeout_at(deadline.into(), decided).await;
        if matches!(&decided, Ok(Ok(state)) if matches!(**state, ConnectionState::Up(_))) {
            return Ok(());
        }
        drop(decided);
        Err(self.why_not_sent())
    }

    /// The present connection, if there is one.
    pub(super) fn wire(&self) -> Option<Wire> {
        match &*self.state.borrow() {
            ConnectionState::Up(wire) => Some(wire.clone()),
            ConnectionState::Down(_) => None,
        }
    }

    /// Completes once there is a connection.
    pub(super) async fn up(&self) {
        let mut states = self.state.subscribe();
        // The sender is in `self`, so the wait cannot fail.
        let _ = states
            .wait_for(|state| matches!(state, ConnectionState::Up(_)))
            .await;
    }

    /// The reason why a waiting call was not sent.
    pub(super) fn why_not_sent(&self) -> Error {
        match &*self.state.borrow() {
            ConnectionState::Down(Some(refusal)) => refusal.error.clone(),
            ConnectionState::Down(None) => self.no_connection(),
            ConnectionState::Up(_) => {
                let within = self.settings.timeout;
                let detail = format!("calls before this one were not answered within {within:?}");
                Error::unavailable(&*self.place(), detail)
            }
        }
    }

    /// Sends one command and waits for its answer until `deadline`; `None` without a connection.
    pub(super) async fn send(
        &self,
        command: &Command,
        asks: bool,
        deadline: Instant,
    ) -> Option<CommandResult> {
        let wire = self.wire()?;
        let sent = Instant::now();
        let commands = std::slice::from_ref(command);
        let answers = timeout_at(deadline.into(), wire.exchange(commands, asks)).await;
        if let Ok(mut answers) = answers
            && let Some(answer) = answers.pop()
        {
            return Some(answer);
        }
        wire.suspect(sent.elapsed(), self.settings.timeout);
        let detail = format!("no answer within {:?}", self.settings.timeout);
        let lost = fault::lost(&wire.place, detail, command.only_reads);
        Some(CommandResult::Failed(lost))
    }
}
