//! One connection that is made again whenever it ends.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{PushInfo, PushKind, Value};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::super::config::Address;
use super::Listener;
use super::batch::Batch;
use super::fault;
use super::greet;
use super::live::{Answer, Live};
use super::sentinel::Sentinels;
use super::settings::Settings;
use crate::error::{Error, Result};

/// First and longest wait between two attempts to connect; the shortest time in which a restarted server
/// is worth asking again, and what a task that waits for it may notice.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// What a connection is for.
#[derive(Clone)]
pub(super) enum Purpose {
    Calls,
    /// Messages. Nothing but subscriptions is sent over it.
    Listen {
        /// To listen to from the beginning.
        channel: Option<String>,
        listener: Listener,
    },
}

/// Where a connection leads to.
#[derive(Clone)]
pub(super) enum Target {
    /// Always to this server.
    Fixed(Address),
    /// To the server that is the master by then.
    Master(Arc<Sentinels>),
}

/// A connection that lives as long as its client, through any number of losses.
pub(in super::super) struct Link {
    state: watch::Sender<State>,
    settings: Arc<Settings>,
    target: Target,
    purpose: Purpose,
    closed: CancellationToken,
}

#[derive(Clone)]
enum State {
    /// No connection, and why; `is_busy` while the server is there and will answer soon.
    Down {
        error: Option<Error>,
        is_busy: bool,
    },
    Up(Live),
}

/// Why there is no connection.
pub(super) struct Refusal {
    pub(super) error: Error,
    /// The server is there, and will answer soon.
    pub(super) is_busy: bool,
}

impl Refusal {
    /// One that time does not mend.
    pub(super) fn of(error: Error) -> Self {
        Self {
            error,
            is_busy: false,
        }
    }
}

/// What became of a call.
pub(super) enum Sent {
    /// There is no connection.
    Not,
    Answered(Answer),
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("server", &self.place())
            .finish_non_exhaustive()
    }
}

impl Link {
    pub(super) fn start(
        runtime: &Handle,
        settings: &Arc<Settings>,
        target: Target,
        purpose: Purpose,
    ) -> Arc<Self> {
        let down = State::Down {
            error: None,
            is_busy: true,
        };
        let link = Arc::new(Self {
            state: watch::Sender::new(down),
            settings: Arc::clone(settings),
            target,
            purpose,
            closed: CancellationToken::new(),
        });
        runtime.spawn(Arc::clone(&link).keep_open());
        link
    }

    /// Gives it up for good: the server is not one of the cluster's masters any more.
    pub(super) fn close(&self) {
        self.closed.cancel();
    }

    async fn keep_open(self: Arc<Self>) {
        let mut wait = BACKOFF.0;
        while !self.closed.is_cancelled() {
            match timeout(self.settings.timeout, self.open()).await {
                Ok(Ok((live, address))) => {
                    let opened = Instant::now();
                    tracing::debug!(store = %live.place, "connected");
                    self.state.send_replace(State::Up(live.clone()));
                    let has_left = tokio::select! {
                        () = live.ended.notified() => false,
                        () = self.target.left(&address) => true,
                        () = self.closed.cancelled() => true,
                    };
                    self.go_down(None, has_left);
                    if has_left {
                        live.left.cancel();
                        tracing::warn!(store = %live.place, "it is not the master any more");
                    } else {
                        tracing::warn!(store = %live.place, "connection lost");
                        self.target.doubt();
                    }
                    if opened.elapsed() > BACKOFF.1 {
                        wait = BACKOFF.0;
                        continue;
                    }
                }
                Ok(Err(Refusal { error, is_busy })) => {
                    self.go_down(Some(error), is_busy);
                    self.target.doubt();
                }
                Err(_) => {
                    self.go_down(Some(self.no_connection()), false);
                    self.target.doubt();
                }
            }
            tokio::select! {
                () = sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)) => {}
                () = self.closed.cancelled() => {}
            }
            wait = (wait * 2).min(BACKOFF.1);
        }
    }

    async fn open(&self) -> std::result::Result<(Live, Address), Refusal> {
        let address = match &self.target {
            Target::Fixed(address) => address.clone(),
            Target::Master(sentinels) => sentinels.master().await?,
        };
        // A server that hangs takes connections and answers nothing.
        tokio::select! {
            opened = self.open_to(address.clone()) => opened,
            () = self.target.left(&address) => Err(self.no_use(&address)),
            () = self.closed.cancelled() => Err(self.no_use(&address)),
        }
    }

    async fn open_to(&self, address: Address) -> std::result::Result<(Live, Address), Refusal> {
        let place = self.settings.place_of(&address);
        let refused = |error: &redis::RedisError| Refusal {
            is_busy: fault::is_busy(error),
            error: fault::refused(&place, error),
        };
        let ended = Arc::new(Notify::new());
        let mut connection = self.settings.open(&address, self.on_push(&ended)).await?;
        if let Target::Master(_) = &self.target {
            greet::check_role(&mut connection, &place).await?;
        }
        if let (Some(quorum), Purpose::Calls) = (&self.settings.quorum, &self.purpose) {
            greet::count_followers(&mut connection, quorum, &address, &place).await?;
        }
        greet::check_wait(&mut connection, self.settings.quorum.as_deref(), &place).await?;
        match &self.purpose {
            Purpose::Calls => greet::load_scripts(&mut connection).await,
            Purpose::Listen { channel, listener } => {
                let heard = match channel {
                    Some(channel) => connection.subscribe(channel).await,
                    None => Ok(()),
                };
                // What was sent while nobody listened is lost.
                heard.map(|()| listener(None))
            }
        }
        .map_err(|error| refused(&error))?;
        let live = Live {
            connection,
            ended,
            left: CancellationToken::new(),
            address: address.clone(),
            place,
            quorum: self.settings.quorum.clone(),
        };
        Ok((live, address))
    }

    /// Hears of messages and of the end of the connection.
    fn on_push(&self, ended: &Arc<Notify>) -> impl Fn(PushInfo) + Send + Sync + 'static {
        let listener = match &self.purpose {
            Purpose::Calls => None,
            Purpose::Listen { listener, .. } => Some(Arc::clone(listener)),
        };
        let ended = Arc::clone(ended);
        move |push: PushInfo| match push.kind {
            // A node takes the channels of a slot away that it gives to another.
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

    fn go_down(&self, error: Option<Error>, is_busy: bool) {
        self.state.send_replace(State::Down { error, is_busy });
    }

    /// The server it leads to, as far as that is known.
    pub(super) fn place(&self) -> Arc<str> {
        match (&self.target, &*self.state.borrow()) {
            (_, State::Up(live)) => Arc::clone(&live.place),
            (Target::Fixed(address), _) => self.settings.place_of(address),
            (Target::Master(_), _) => self.settings.place(),
        }
    }

    /// A server without TLS may wait for the rest of what it does not understand.
    fn no_connection(&self) -> Error {
        let place = self.place().to_string();
        let (within, hint) = (self.settings.timeout, fault::hint(&place));
        Error::Unavailable {
            detail: format!("no connection within {within:?}; {hint}"),
            store: place,
        }
    }

    /// The server is not the one to connect to any more.
    fn no_use(&self, address: &Address) -> Refusal {
        let error = Error::Unavailable {
            store: self.settings.place_of(address).to_string(),
            detail: "it is not the master any more".to_owned(),
        };
        Refusal {
            error,
            is_busy: true,
        }
    }

    fn too_late(&self, what: &str) -> Error {
        Error::Unavailable {
            store: self.place().to_string(),
            detail: format!("{what} within {:?}", self.settings.timeout),
        }
    }

    /// Waits for the first connection; the first refusal is final, unless the server is only busy.
    pub(super) async fn wait_for_first(&self, deadline: Instant) -> Result<()> {
        let mut states = self.state.subscribe();
        let mut decided = std::pin::pin!(states.wait_for(|state| match state {
            State::Up(_) => true,
            State::Down { error, is_busy } => error.is_some() && !is_busy,
        }));
        match timeout_at(deadline.into(), &mut decided).await {
            Ok(Ok(state)) => match &*state {
                State::Down {
                    error: Some(error), ..
                } => Err(error.clone()),
                _ => Ok(()),
            },
            _ => Err(self.why_not_sent()),
        }
    }

    /// The connection, if there is one now.
    pub(in super::super) fn live(&self) -> Option<Live> {
        match &*self.state.borrow() {
            State::Up(live) => Some(live.clone()),
            State::Down { .. } => None,
        }
    }

    /// Completes once there is a connection.
    pub(in super::super) async fn up(&self) {
        let mut states = self.state.subscribe();
        // The sender is in `self`, so the wait can only end well.
        let _ = states.wait_for(|state| matches!(state, State::Up(_))).await;
    }

    /// Why a call that waited was not sent.
    pub(in super::super) fn why_not_sent(&self) -> Error {
        match &*self.state.borrow() {
            State::Down {
                error: Some(error), ..
            } => return error.clone(),
            State::Up(_) => {}
            State::Down { .. } => return self.no_connection(),
        }
        self.too_late("calls before this one were not answered")
    }

    /// Sends one command and waits for its answer until `deadline`.
    pub(super) async fn send(&self, batch: &Batch, asking: bool, deadline: Instant) -> Sent {
        let Some(live) = self.live() else {
            return Sent::Not;
        };
        let sent = Instant::now();
        let answers = timeout_at(deadline.into(), live.answers(batch, asking)).await;
        if let Ok(mut answers) = answers
            && let Some(answer) = answers.pop()
        {
            return Sent::Answered(answer);
        }
        live.suspect(sent.elapsed(), self.settings.timeout);
        let detail = format!("no answer within {:?}", self.settings.timeout);
        let error = batch.loss(0).error(&live.place, &detail);
        Sent::Answered(Answer::Failed(error))
    }
}

impl Target {
    /// Completes once the server at `address` is the wrong one.
    async fn left(&self, address: &Address) {
        match self {
            Self::Fixed(_) => std::future::pending().await,
            Self::Master(sentinels) => sentinels.left(address).await,
        }
    }

    /// There is reason to look where the master is.
    fn doubt(&self) {
        if let Self::Master(sentinels) = self {
            sentinels.look_again();
        }
    }
}
