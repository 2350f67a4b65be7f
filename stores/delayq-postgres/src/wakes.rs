//! Wake-ups of handlers, in this process and in others.

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use delayq_core::name::TaskType;
use delayq_core::store::{Wakeup, Wakeups};
use delayq_core::time::{Clock, SystemClock, Timestamp};
use futures_util::future::select;
use tokio::runtime::Handle;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client};
use tracing::{debug, warn};

use crate::connection::{Connections, Driver, Line, Session};
use crate::error::Outcome;

/// Number of wake-ups that a slow listener may be behind before it is told to claim from every
/// type.
const BUFFER: usize = 1_024;

/// Handlers look by themselves so often: a task that is due later needs no wake-up in another
/// process.
const POLL: Duration = Duration::from_secs(1);

/// The time between two notifications; those in between are sent together.
const BETWEEN: Duration = Duration::from_millis(5);

/// The longest text of a notification; the server refuses 8,000 bytes.
const MAX_TEXT: usize = 7_000;

/// The pause before the listener connects again.
const AGAIN: Duration = Duration::from_secs(1);

/// The wake-ups of a store. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Wakes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    namespace: String,
    /// Distinguishes this store's own notifications.
    own: String,
    local: broadcast::Sender<Wakeup>,
    away: mpsc::UnboundedSender<Note>,
    /// By type, the first due time that its handlers know of.
    planned: Mutex<HashMap<TaskType, Timestamp>>,
}

/// What the notifier is to do.
#[derive(Debug)]
enum Note {
    /// Wakes the handlers of this type in other processes.
    Wake(TaskType),
    /// Answers once what came before is sent.
    Answer(oneshot::Sender<()>),
}

impl Wakes {
    /// Starts the listener and the notifier.
    pub(crate) fn start(connections: &Connections, schema: &str, namespace: &str) -> Self {
        let (away, notifications) = mpsc::unbounded_channel();
        let wakes = Self(Arc::new(Inner {
            namespace: namespace.to_owned(),
            own: format!("{:x}", fastrand::u64(..)),
            local: broadcast::Sender::new(BUFFER),
            away,
            planned: Mutex::default(),
        }));
        let channel = format!("delayq_{schema}");
        if let Some(line) = connections.direct() {
            let listener = Listener {
                line: line.clone(),
                runtime: connections.runtime().clone(),
                heard: Arc::downgrade(&wakes.0),
                listen: format!("LISTEN {channel}"),
                patience: connections.timeout(),
            };
            drop(connections.spawn(listener.run(connections.closing())));
        }
        let prefix = format!("{} {}", wakes.0.namespace, wakes.0.own);
        let own = connections.downgrade();
        drop(connections.spawn(notify_all(own, channel, prefix, notifications)));
        wakes
    }

    pub(crate) fn subscribe(&self) -> Wakeups {
        Wakeups::new(self.0.local.subscribe())
    }

    /// Handlers of the type know that its first task is due at `next`.
    pub(crate) fn planned(&self, task_type: &TaskType, next: Option<Timestamp>) {
        let mut planned = self.0.plans();
        match next {
            Some(next) => planned.insert(task_type.clone(), next),
            None => planned.remove(task_type),
        };
    }

    /// A task is due at `due_at` from now on: wakes the handlers, unless they look earlier.
    pub(crate) fn scheduled(&self, task_type: &TaskType, due_at: Timestamp) {
        let now = SystemClock.now();
        let mut planned = self.0.plans();
        let is_planned = planned
            .get(task_type)
            .is_some_and(|next| *next <= due_at && *next > now);
        if is_planned {
            return;
        }
        planned.insert(task_type.clone(), due_at);
        drop(planned);
        let _ = self.0.local.send(Wakeup::Type(task_type.clone()));
        if due_at <= now.plus(POLL) {
            let _ = self.0.away.send(Note::Wake(task_type.clone()));
        }
    }

    /// Ends once all wake-ups of other processes are sent: those of a program that sends a task and
    /// ends.
    pub(crate) fn all_sent(&self) -> impl Future<Output = ()> + use<> {
        let away = self.0.away.clone();
        async move {
            let (answer, answered) = oneshot::channel();
            let _ = away.send(Note::Answer(answer));
            let _ = answered.await;
        }
    }

    /// Wakes all handlers of a type, wherever they are.
    pub(crate) fn wake(&self, task_type: &TaskType) {
        let _ = self.0.local.send(Wakeup::Type(task_type.clone()));
        let _ = self.0.away.send(Note::Wake(task_type.clone()));
    }
}

impl Inner {
    fn plans(&self) -> std::sync::MutexGuard<'_, HashMap<TaskType, Timestamp>> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a notification: the namespace, the sender, the types.
    fn hear(&self, text: &str) {
        let mut words = text.split(' ');
        if words.next() != Some(self.namespace.as_str()) || words.next() == Some(&self.own) {
            return;
        }
        for word in words {
            let wakeup = match TaskType::new(word) {
                _ if word == "*" => Wakeup::All,
                Ok(task_type) => Wakeup::Type(task_type),
                Err(_) => continue,
            };
            let _ = self.local.send(wakeup);
        }
    }
}

/// Hears wake-ups of other processes, over one connection after the other.
struct Listener {
    line: Line,
    runtime: Handle,
    heard: std::sync::Weak<Inner>,
    listen: String,
    /// How long the server may take to begin.
    patience: Duration,
}

impl Listener {
    /// Listens until the store is gone or closed.
    async fn run(self, mut closing: watch::Receiver<bool>) {
        let closed = pin!(closing.wait_for(|is_closed| *is_closed));
        let listening = pin!(self.listen());
        drop(select(listening, closed).await);
    }

    async fn listen(&self) {
        let mut is_known = false;
        loop {
            match timeout(self.patience, self.begin()).await {
                Ok(Ok((client, mut driver))) => {
                    is_known = true;
                    // What was said meanwhile was missed.
                    if let Some(wakes) = self.heard.upgrade() {
                        let _ = wakes.local.send(Wakeup::All);
                    }
                    driver.ended().await;
                    drop(client);
                }
                Ok(Err(error)) if !is_known => {
                    is_known = true;
                    warn!(
                        ?error,
                        "cannot listen to wake-ups: handlers look once a second"
                    );
                }
                failed => debug!(is_late = failed.is_err(), "cannot listen to wake-ups"),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn begin(&self) -> Outcome<(Client, Driver)> {
        let waked = self.heard.clone();
        let opened = self.line.open(&self.runtime, move |message| {
            if let (AsyncMessage::Notification(note), Some(wakes)) = (message, waked.upgrade()) {
                wakes.hear(note.payload());
            }
        });
        let (client, driver) = opened.await?;
        client.batch_execute(&self.listen).await?;
        Ok((client, driver))
    }
}

/// Sends notifications, several types at once. A transaction that only notifies holds the lock of
/// the server's queue for microseconds; one that also writes would hold it until its flush.
async fn notify_all(
    connections: crate::connection::WeakConnections,
    channel: String,
    prefix: String,
    mut notifications: mpsc::UnboundedReceiver<Note>,
) {
    let mut notes = Vec::new();
    while notifications.recv_many(&mut notes, BUFFER).await > 0 {
        let (mut types, mut answers) = (BTreeSet::new(), Vec::new());
        for note in notes.drain(..) {
            match note {
                Note::Wake(task_type) => drop(types.insert(task_type)),
                Note::Answer(answer) => answers.push(answer),
            }
        }
        let names: Vec<&str> = types.iter().map(TaskType::as_str).collect();
        let mut text = format!("{prefix} {}", names.join(" "));
        if text.len() > MAX_TEXT {
            text = format!("{prefix} *");
        }
        let Some(open) = connections.last() else {
            return;
        };
        if !types.is_empty() {
            notify(&open, &channel, text).await;
        }
        drop(open);
        for answer in answers {
            let _ = answer.send(());
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

async fn notify(connections: &Connections, channel: &str, text: String) {
    let channel = channel.to_owned();
    let sent = connections.attempt_here(move |session: &mut Session| {
        let (channel, text) = (channel.clone(), text.clone());
        Box::pin(async move {
            let values: crate::connection::Values<'_> =
                &[(&channel, Type::TEXT), (&text, Type::TEXT)];
            session.ask("SELECT pg_notify($1, $2)", values).await
        })
    });
    if let Err(error) = sent.await {
        debug!(%error, "a wake-up was not sent: handlers look once a second");
    }
}
