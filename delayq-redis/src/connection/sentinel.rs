//! Sentinels: which server is the master now, by their word.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use delayq_core::Error;

use super::confirm::text;
use super::fault;
use super::reconnecting::Refusal;
use super::replication::Replication;
use super::sentinel_replicas::{SentinelReplicas, field, is_gone};
use super::settings::Settings;
use super::wire::extract;
use crate::config::Address;

/// How often the sentinels are asked: a fail-over is noticed within it, also by connections on
/// which the old master is silent. With reason to doubt they are asked at once, but not more often
/// than the second.
const ASK: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(50));
/// How long one of them may take; the others have been asked at the same time.
const PATIENCE: Duration = Duration::from_millis(400);

/// Looks after which an epoch is believed that is smaller than the known one, if every sentinel has
/// told it each time: somebody has made them anew. One that was cut off, and knows nothing of an
/// election, does not speak for all.
const DISBELIEF: u32 = 10;

/// The sentinels of one master.
pub(super) struct Sentinels {
    settings: Arc<Settings>,
    addresses: Vec<Address>,
    name: String,
    seen: watch::Sender<Observed>,
    /// What those that name the master saw of its replicas last.
    replicas: Mutex<SentinelReplicas>,
    again: Notify,
}

/// What the sentinels say.
#[derive(Clone)]
enum Observed {
    Nothing,
    Master {
        address: Address,
        epoch: u64,
    },
    /// None of them knows, and why the last one does not.
    Unknown {
        error: Error,
        is_busy: bool,
    },
}

impl Observed {
    fn address(&self) -> Option<&Address> {
        match self {
            Self::Master { address, .. } => Some(address),
            Self::Nothing | Self::Unknown { .. } => None,
        }
    }

    fn epoch(&self) -> Option<u64> {
        match self {
            Self::Master { epoch, .. } => Some(*epoch),
            Self::Nothing | Self::Unknown { .. } => None,
        }
    }
}

/// What one of them sees around the master.
struct View {
    replicas: SentinelReplicas,
    /// How many sentinels there are, itself included.
    sentinels: usize,
}

/// What one of them says.
enum Said {
    Master(Address, u64, View),
    /// It watches no master of this name.
    Stranger,
    Failed(Error),
    /// Nothing, so far.
    Late(Error),
}

impl Sentinels {
    pub(super) fn start(
        runtime: &Handle,
        settings: &Arc<Settings>,
        addresses: &[Address],
        name: &str,
    ) -> Arc<Self> {
        let sentinels = Arc::new(Self {
            settings: Arc::clone(settings),
            addresses: addresses.to_vec(),
            name: name.to_owned(),
            seen: watch::Sender::new(Observed::Nothing),
            replicas: Mutex::default(),
            again: Notify::new(),
        });
        runtime.spawn(Arc::clone(&sentinels).watch());
        sentinels
    }

    /// The master, once there is one to be seen.
    pub(super) async fn master(&self) -> Result<Address, Refusal> {
        let mut seen = self.seen.subscribe();
        let seen = seen
            .wait_for(|seen| !matches!(seen, Observed::Nothing))
            .await;
        match seen.as_deref() {
            Ok(Observed::Master { address, .. }) => Ok(address.clone()),
            Ok(Observed::Unknown { error, is_busy }) => Err(Refusal {
                error: error.clone(),
                is_busy: *is_busy,
            }),
            // The sender is in `self`.
            Ok(Observed::Nothing) | Err(_) => Err(Refusal {
                error: Error::Closed("the Redis store"),
                is_busy: false,
            }),
        }
    }

    /// Completes once another server is the master.
    pub(super) async fn left(&self, address: &Address) {
        let mut seen = self.seen.subscribe();
        let is_other = |seen: &Observed| seen.address().is_some_and(|now| now != address);
        // The sender is in `self`.
        let _ = seen.wait_for(is_other).await;
    }

    /// There is reason to look at once.
    pub(super) fn ask_again(&self) {
        self.again.notify_one();
    }

    async fn watch(self: Arc<Self>) {
        let mut connections = HashMap::new();
        let mut disbelieved = 0;
        loop {
            self.ask_all(&mut connections, &mut disbelieved).await;
            sleep(ASK.1).await;
            tokio::select! {
                () = sleep(ASK.0) => {}
                () = self.again.notified() => {}
            }
        }
    }

    /// Asks all of them. The one that knows of the latest election is right: the others may be cut
    /// off, or have been stopped for a while.
    async fn ask_all(
        &self,
        connections: &mut HashMap<Address, MultiplexedConnection>,
        disbelieved: &mut u32,
    ) {
        let mut asked = JoinSet::new();
        for address in &self.addresses {
            let (settings, address) = (Arc::clone(&self.settings), address.clone());
            let (name, open) = (self.name.clone(), connections.remove(&address));
            asked.spawn(async move {
                let answer = timeout(PATIENCE, ask(&settings, &address, &name, open)).await;
                let late = || (Said::Late(no_answer(&settings, &address)), None);
                (answer.unwrap_or_else(|_| late()), address)
            });
        }
        let mut best: Option<(Address, u64)> = None;
        let mut views = Vec::with_capacity(self.addresses.len());
        let (mut strangers, mut failure, mut is_late) = (0, None, false);
        while let Some(Ok(((said, connection), from))) = asked.join_next().await {
            if let Some(connection) = connection {
                connections.insert(from, connection);
            }
            match said {
                Said::Master(address, epoch, view) => {
                    views.push((address.clone(), view));
                    if best.as_ref().is_none_or(|(_, known)| epoch > *known) {
                        best = Some((address, epoch));
                    }
                }
                Said::Stranger => strangers += 1,
                Said::Failed(error) => {
                    failure = failure.filter(is_refusal).or(Some(error));
                }
                Said::Late(error) => {
                    is_late = true;
                    failure = failure.or(Some(error));
                }
            }
        }
        let now = match best {
            Some((address, epoch)) => Observed::Master { address, epoch },
            None => self.unknown(strangers, failure, is_late),
        };
        // A master that was seen stays it for as long as nobody names another.
        let is_older = now.epoch() < self.seen.borrow().epoch();
        let is_told_by_all = views.len() == self.addresses.len();
        *disbelieved = if is_older && is_told_by_all {
            *disbelieved + 1
        } else {
            0
        };
        let is_believed = !is_older || *disbelieved >= DISBELIEF;
        let now = is_believed.then_some(now);
        if let Some(replication) = &self.settings.replication
            && let Some(master) = now.as_ref().unwrap_or(&self.seen.borrow()).address()
        {
            self.count(replication, master, &views);
        }
        if let Some(now) = now {
            self.note(now);
        }
    }

    /// Which replicas have to confirm writes to `master`. One that has gone has to no more, if most
    /// sentinels say so: a few may be cut off with the master, and the others make that one the
    /// master.
    fn count(&self, replication: &Replication, master: &Address, views: &[(Address, View)]) {
        if !replication.follows() {
            return;
        }
        let of_it = views.iter().filter(|(address, _)| address == master);
        let seen = of_it.clone().map(|(_, view)| view.replicas.clone());
        let mut last = self.replicas.lock().unwrap_or_else(PoisonError::into_inner);
        let sentinels = of_it.clone().map(|(_, view)| view.sentinels).max();
        let sentinels = sentinels.unwrap_or(0).max(self.addresses.len());
        let is_most = of_it.count() > sentinels / 2;
        let seen = seen.reduce(SentinelReplicas::and).unwrap_or_default();
        *last = if is_most {
            seen
        } else {
            seen.and_known(&last, master)
        };
        let eligible = if is_most { &last.eligible } else { &last.known };
        replication.may_choose(master, eligible.clone(), &self.settings.place());
    }

    fn note(&self, now: Observed) {
        let store = self.settings.place();
        self.seen.send_if_modified(|seen| match (&mut *seen, now) {
            (Observed::Master { address: known, epoch }, Observed::Master { address, epoch: now })
                if *known == address =>
            {
                *epoch = now;
                false
            }
            (_, now) => {
                if let Observed::Master { address, epoch } = &now {
                    tracing::info!(%store, master = %address, epoch, "the sentinels name the master");
                }
                *seen = now;
                true
            }
        });
    }

    /// What none of them knows is a matter of settings as soon as one is there and refuses to tell.
    fn unknown(&self, strangers: usize, failure: Option<Error>, is_late: bool) -> Observed {
        let store = self.settings.place().to_string();
        if strangers > 0 {
            let name = &self.name;
            return Observed::Unknown {
                error: Error::Misconfigured {
                    store,
                    setting: format!("its sentinels watch no master of the name {name:?}"),
                    fix: "write the name that stands behind `sentinel monitor` in their configuration"
                        .to_owned(),
                },
                is_busy: false,
            };
        }
        if let Some(error) = failure.clone().filter(is_refusal) {
            let is_busy = false;
            return Observed::Unknown { error, is_busy };
        }
        let why = failure.map_or_else(String::new, |error| format!("; the last: {error}"));
        Observed::Unknown {
            error: Error::Unavailable {
                store,
                detail: format!("none of its sentinels answers{why}"),
            },
            // One that is only slow is worth asking again.
            is_busy: is_late,
        }
    }
}

/// Whether a sentinel is there and has to be, or to be asked, otherwise.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Misconfigured { .. })
}

fn no_answer(settings: &Settings, address: &Address) -> Error {
    let place = settings.sentinel_place(address);
    Error::Unavailable {
        detail: format!("no answer within {PATIENCE:?}; {}", fault::hint(&place)),
        store: place.to_string(),
    }
}

async fn ask(
    settings: &Settings,
    address: &Address,
    name: &str,
    open: Option<MultiplexedConnection>,
) -> (Said, Option<MultiplexedConnection>) {
    let place = settings.sentinel_place(address);
    let connection = match open {
        Some(connection) => Ok(connection),
        None => settings.open_sentinel(address).await,
    };
    let mut connection = match connection {
        Ok(connection) => connection,
        Err(refusal) => return (Said::Failed(refusal.error), None),
    };
    // Until all replicas follow the new master, the sentinel that leads a fail-over shows its epoch
    // with the old address in MASTER; only the other command gives the new one.
    let mut pipeline = redis::Pipeline::with_capacity(3);
    pipeline
        .cmd("SENTINEL")
        .arg("GET-MASTER-ADDR-BY-NAME")
        .arg(name);
    pipeline.cmd("SENTINEL").arg("MASTER").arg(name);
    let replication = settings.replication.as_ref();
    if replication.is_some_and(|replication| replication.follows()) {
        pipeline.cmd("SENTINEL").arg("REPLICAS").arg(name);
    }
    let answers = connection.send_packed_commands(&pipeline, 0, pipeline.len());
    let answers = answers.await;
    let said = answers.and_then(|answers| {
        let mut answers = answers.into_iter().map(extract);
        let mut next = || answers.next().unwrap_or(Ok(Value::Nil));
        let address = next()?;
        read(&address, next(), next())
    });
    match said {
        Ok(said) => (said, Some(connection)),
        Err(error) => {
            let refused = fault::refused(&place, &error);
            (Said::Failed(fault::of_sentinel(refused)), None)
        }
    }
}

/// `HOST PORT`, the fields of the master and those of its replicas; nothing of a master that is not
/// known.
fn read(
    address: &Value,
    master: RedisResult<Value>,
    replicas: RedisResult<Value>,
) -> RedisResult<Said> {
    let address = match address {
        Value::Array(fields) => match fields.as_slice() {
            [host, port] => text(host).zip(text(port).and_then(|port| port.parse().ok())),
            _ => None,
        },
        _ => None,
    };
    let Some((host, port)) = address else {
        return Ok(Said::Stranger);
    };
    let master = master?;
    if !matches!(master, Value::Map(_)) {
        return Ok(Said::Stranger);
    }
    let number = |name| field(&master, name).and_then(|number| number.parse().ok());
    let epoch = number("config-epoch").unwrap_or(0);
    let others = number("num-other-sentinels").unwrap_or(0);
    let address = Address::new(host, port);
    let view = View {
        replicas: SentinelReplicas::read(&replicas?, &address, !is_gone(&master)),
        sentinels: usize::try_from(others).unwrap_or(0).saturating_add(1),
    };
    Ok(Said::Master(address, epoch, view))
}

#[cfg(test)]
mod tests;
