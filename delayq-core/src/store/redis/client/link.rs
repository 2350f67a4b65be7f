//! One connection that is made again whenever it ends.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, Value};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout, timeout_at};

use super::super::scripts::Script;
use super::Listener;
use super::command::{self, Command};
use super::fault::{self, Loss};
use super::reply::Reply;
use super::server::Server;
use crate::error::{Error, Result};
use crate::name::TaskType;

/// First and longest wait between two attempts to connect; the shortest time in which a restarted server
/// is worth asking again, and what a task that waits for it may notice.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// How often a script is loaded for one call: again only when somebody flushes the scripts between its
/// loading and the call, each time anew.
const MAX_LOADS: usize = 10;

/// What a connection is for.
#[derive(Clone)]
pub(super) enum Purpose {
    Calls,
    /// The wake channel. Nothing else is sent over it.
    Listen {
        channel: String,
        listener: Listener,
    },
}

/// A connection that lives as long as its client, through any number of losses.
pub(in super::super) struct Link {
    state: watch::Sender<State>,
    server: Server,
    purpose: Purpose,
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

/// A connection that works, as far as is known.
#[derive(Clone)]
pub(in super::super) struct Live {
    connection: MultiplexedConnection,
    ended: Arc<Notify>,
    place: Arc<str>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("server", &self.server.place())
            .finish_non_exhaustive()
    }
}

impl Link {
    pub(super) fn start(runtime: &Handle, server: Server, purpose: Purpose) -> Arc<Self> {
        let down = State::Down {
            error: None,
            is_busy: true,
        };
        let link = Arc::new(Self {
            state: watch::Sender::new(down),
            server,
            purpose,
        });
        runtime.spawn(Arc::clone(&link).keep_open());
        link
    }

    async fn keep_open(self: Arc<Self>) {
        let mut wait = BACKOFF.0;
        loop {
            let ended = Arc::new(Notify::new());
            match timeout(self.server.timeout, self.open(&ended)).await {
                Ok(Ok(live)) => {
                    let opened = Instant::now();
                    tracing::debug!(store = %live.place, "connected");
                    self.state.send_replace(State::Up(live));
                    ended.notified().await;
                    tracing::warn!(store = %self.server.place(), "connection lost");
                    self.go_down(None, false);
                    if opened.elapsed() > BACKOFF.1 {
                        wait = BACKOFF.0;
                        continue;
                    }
                }
                Ok(Err(error)) => {
                    let is_busy = fault::is_busy(&error);
                    self.go_down(Some(fault::refused(&self.server.place(), &error)), is_busy);
                }
                Err(_) => self.go_down(Some(self.no_connection()), false),
            }
            sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            wait = (wait * 2).min(BACKOFF.1);
        }
    }

    async fn open(&self, ended: &Arc<Notify>) -> redis::RedisResult<Live> {
        let listener = match &self.purpose {
            Purpose::Calls => None,
            Purpose::Listen { listener, .. } => Some(Arc::clone(listener)),
        };
        let on_end = Arc::clone(ended);
        let on_push = move |push: PushInfo| match push.kind {
            PushKind::Disconnection => on_end.notify_one(),
            PushKind::Message => {
                if let (Some(listener), [_, Value::BulkString(message)]) = (&listener, &*push.data)
                {
                    listener(Some(message));
                }
            }
            _ => {}
        };
        let mut connection = self.server.open(on_push).await?;
        match &self.purpose {
            Purpose::Calls => load_scripts(&mut connection).await?,
            Purpose::Listen { channel, listener } => {
                connection.subscribe(channel).await?;
                // What was sent while nobody listened is lost.
                listener(None);
            }
        }
        Ok(Live {
            connection,
            ended: Arc::clone(ended),
            place: self.server.place(),
        })
    }

    fn go_down(&self, error: Option<Error>, is_busy: bool) {
        self.state.send_replace(State::Down { error, is_busy });
    }

    /// A server without TLS may wait for the rest of what it does not understand.
    fn no_connection(&self) -> Error {
        let place = self.server.place().to_string();
        let (within, hint) = (self.server.timeout, fault::hint(&place));
        Error::Unavailable {
            detail: format!("no connection within {within:?}; {hint}"),
            store: place,
        }
    }

    fn too_late(&self, what: &str) -> Error {
        Error::Unavailable {
            store: self.server.place().to_string(),
            detail: format!("{what} within {:?}", self.server.timeout),
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
            } => error.clone(),
            State::Down { .. } => self.no_connection(),
            State::Up(_) => self.too_late("calls before this one were not answered"),
        }
    }

    /// Sends one command and waits for its answer until `deadline`.
    pub(super) async fn call(&self, command: Command, deadline: Instant) -> Result<Reply> {
        let mut live = self.live();
        while live.is_none() && timeout_at(deadline.into(), self.up()).await.is_ok() {
            live = self.live();
        }
        let Some(live) = live else {
            return Err(self.why_not_sent());
        };
        let loss = Loss::of(&command);
        let sent = Instant::now();
        let answers = timeout_at(deadline.into(), live.exchange(vec![command])).await;
        if let Ok(mut answers) = answers {
            return answers.pop().unwrap_or(Ok(Reply::Nil));
        }
        live.suspect(sent.elapsed(), self.server.timeout);
        Err(loss.error(
            &live.place,
            &format!("no answer within {:?}", self.server.timeout),
        ))
    }
}

impl Live {
    /// Sends commands in one go and returns one answer each, however long that takes. A script that the
    /// server does not know (it was restarted, or somebody flushed its scripts) is loaded, and only the
    /// calls that missed it are repeated, in their order.
    pub(in super::super) async fn exchange(&self, commands: Vec<Command>) -> Vec<Result<Reply>> {
        let losses: Vec<Loss> = commands.iter().map(Loss::of).collect();
        let mut pipeline = redis::Pipeline::with_capacity(commands.len());
        let mut scripts = Vec::with_capacity(commands.len());
        for command in commands {
            scripts.push(command.script);
            pipeline.add_command(command.cmd);
        }
        let mut answers = self.send(&pipeline).await;
        for _ in 0..MAX_LOADS {
            let missing: Vec<usize> = (0..answers.len())
                .filter(
                    |at| matches!(answers.get(*at), Some(Err(error)) if fault::is_no_script(error)),
                )
                .collect();
            if missing.is_empty() {
                break;
            }
            let mut again = redis::Pipeline::new();
            for at in &missing {
                if let (Some(Some(script)), Some(cmd)) =
                    (scripts.get(*at), pipeline.cmd_iter().nth(*at))
                {
                    again
                        .add_command(command::load(*script))
                        .add_command(cmd.clone());
                }
            }
            let second = self.send(&again).await.into_iter().skip(1).step_by(2);
            for (at, answer) in missing.into_iter().zip(second) {
                if let Some(first) = answers.get_mut(at) {
                    *first = answer;
                }
            }
        }
        let answers = answers.into_iter().zip(losses);
        answers
            .map(|(answer, loss)| self.understand(answer, loss))
            .collect()
    }

    async fn send(&self, pipeline: &redis::Pipeline) -> Vec<redis::RedisResult<Value>> {
        let mut connection = self.connection.clone();
        let sent = connection
            .send_packed_commands(pipeline, 0, pipeline.len())
            .await;
        match sent {
            Ok(values) => values.into_iter().map(extract).collect(),
            Err(error) => vec![Err(error); pipeline.len()],
        }
    }

    fn understand(&self, answer: redis::RedisResult<Value>, loss: Loss) -> Result<Reply> {
        let error = match answer {
            Ok(value) => {
                let reply = Reply::from_value(value);
                return reply.ok_or_else(|| loss.error(&self.place, "it sent an unknown answer"));
            }
            Err(error) => error,
        };
        if fault::wants_new_connection(&error) {
            self.ended.notify_one();
        }
        Err(fault::failed(&self.place, &error, loss))
    }

    /// The error of a call that writes and was not answered in time.
    pub(in super::super) fn no_answer(&self, timeout: Duration) -> Error {
        Loss::Outcome.error(&self.place, &format!("no answer within {timeout:?}"))
    }

    /// The error of tasks that are stored, of a type that could not be listed.
    pub(in super::super) fn unlisted(&self, task_type: &TaskType, error: &Error) -> Error {
        let detail = format!("the type {task_type} could not be listed ({error})");
        Loss::Outcome.error(&self.place, &detail)
    }

    /// Gives the connection up if it has kept a call waiting for long: a peer that went away without a
    /// word is noticed so. A call that was sent just before its deadline proves nothing.
    pub(in super::super) fn suspect(&self, waited: Duration, timeout: Duration) {
        if waited * 2 >= timeout {
            self.ended.notify_one();
        }
    }
}

fn extract(value: Value) -> redis::RedisResult<Value> {
    match value {
        Value::ServerError(error) => Err(error.into()),
        value => Ok(value),
    }
}

async fn load_scripts(connection: &mut MultiplexedConnection) -> redis::RedisResult<()> {
    let mut pipeline = redis::Pipeline::with_capacity(Script::ALL.len());
    for script in Script::ALL {
        pipeline.add_command(command::load(script));
    }
    let loaded = connection.send_packed_commands(&pipeline, 0, pipeline.len());
    loaded
        .await?
        .into_iter()
        .try_for_each(|answer| extract(answer).map(drop))
}
