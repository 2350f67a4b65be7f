//! Sentinels: which server is the master now, by their word.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{Pipeline, RedisResult, Value};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use delayq_core::Error;

use super::confirm::text;
use super::fault::{self, ConnectError};
use super::panel::{Answers, Panel};
use super::replication::Replication;
use super::sentinel_replicas::{ReplicaHistory, SentinelReplicas, field, is_gone};
use super::settings::{Kind, Settings};
use crate::config::Address;
use crate::lock::lock;

/// How often the sentinels are asked: a fail-over is noticed within it, also by connections on
/// which the old master is silent. With reason to doubt they are asked at once, but not more often
/// than the second.
const ASK: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(50));
/// How long one of them may take; the others have been asked at the same time.
const PATIENCE: Duration = Duration::from_millis(400);

/// The sentinels of one master.
pub(super) struct Sentinels {
    settings: Arc<Settings>,
    addresses: Vec<Address>,
    name: String,
    seen: watch::Sender<Observed>,
    replicas: Mutex<ReplicaHistory>,
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
    Unknown(ConnectError),
}

impl Observed {
    fn address(&self) -> Option<&Address> {
        match self {
            Self::Master { address, .. } => Some(address),
            Self::Nothing | Self::Unknown(_) => None,
        }
    }

    fn epoch(&self) -> Option<u64> {
        match self {
            Self::Master { epoch, .. } => Some(*epoch),
            Self::Nothing | Self::Unknown(_) => None,
        }
    }
}

/// What one of them says of the master.
struct Named {
    address: Address,
    epoch: u64,
    replicas: SentinelReplicas,
    /// How many sentinels there are, itself included.
    sentinels: usize,
}

impl Sentinels {
    pub(super) fn start(settings: &Arc<Settings>, addresses: &[Address], name: &str) -> Arc<Self> {
        let sentinels = Arc::new(Self {
            settings: Arc::clone(settings),
            addresses: addresses.to_vec(),
            name: name.to_owned(),
            seen: watch::Sender::new(Observed::Nothing),
            replicas: Mutex::default(),
            again: Notify::new(),
        });
        settings.runtime.spawn(Arc::clone(&sentinels).watch());
        sentinels
    }

    /// The master, once there is one to be seen.
    pub(super) async fn master(&self) -> Result<Address, ConnectError> {
        let mut seen = self.seen.subscribe();
        let seen = seen
            .wait_for(|seen| !matches!(seen, Observed::Nothing))
            .await;
        match seen.as_deref() {
            Ok(Observed::Master { address, .. }) => Ok(address.clone()),
            Ok(Observed::Unknown(refusal)) => Err(refusal.clone()),
            // The sender is in `self`.
            Ok(Observed::Nothing) | Err(_) => {
                Err(ConnectError::lasting(Error::Closed("the Redis store")))
            }
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
        let mut panel = self.panel();
        loop {
            self.ask_all(&mut panel).await;
            sleep(ASK.1).await;
            tokio::select! {
                () = sleep(ASK.0) => {}
                () = self.again.notified() => {}
            }
        }
    }

    fn panel(&self) -> Panel {
        Panel::new(&self.settings, Kind::Sentinel, PATIENCE)
    }

    /// Until all replicas follow the new master, the sentinel that leads a fail-over shows its
    /// epoch with the old address in MASTER; only the other command gives the new one.
    fn question(&self) -> Pipeline {
        let mut question = Pipeline::with_capacity(3);
        let follows = self.settings.replication.as_ref().map(|own| own.follows);
        let replicas = follows.unwrap_or(false).then_some("REPLICAS");
        for word in ["GET-MASTER-ADDR-BY-NAME", "MASTER"]
            .into_iter()
            .chain(replicas)
        {
            question.cmd("SENTINEL").arg(word).arg(&self.name);
        }
        question
    }

    /// Asks all of them. The one that knows of the latest election is right: the others may be cut
    /// off, or have been stopped for a while.
    async fn ask_all(&self, panel: &mut Panel) {
        let answers = panel.ask(&self.addresses, &self.question()).await;
        let mut named = Vec::with_capacity(self.addresses.len());
        let (mut strangers, mut failure, mut is_late) = (0, None, false);
        for (address, answers) in self.addresses.iter().zip(answers) {
            let of = |error| ConnectError::of(&panel.place_of(address), &error);
            match answers.and_then(|answers| read(answers).map_err(of)) {
                Ok(Some(master)) => named.push(master),
                Ok(None) => strangers += 1,
                Err(ConnectError { error, is_busy }) => {
                    is_late |= is_busy;
                    let is_kept = |known: &Error| is_busy || is_refusal(known);
                    failure = failure.filter(is_kept).or(Some(fault::of_sentinel(error)));
                }
            }
        }
        let now = match named.iter().max_by_key(|named| named.epoch) {
            Some(Named { address, epoch, .. }) => Observed::Master {
                address: address.clone(),
                epoch: *epoch,
            },
            None => Observed::Unknown(self.unknown(strangers, failure, is_late)),
        };
        // A master that was seen stays it for as long as nobody names another. One that was cut
        // off, and knows nothing of an election, does not speak for all.
        let is_older = now.epoch() < self.seen.borrow().epoch();
        let is_told_by_all = named.len() == self.addresses.len();
        let now = panel.believes(is_older, is_told_by_all).then_some(now);
        if let Some(replication) = &self.settings.replication
            && let Some(master) = now.as_ref().unwrap_or(&self.seen.borrow()).address()
        {
            self.count(replication, master, &named, Instant::now());
        }
        if let Some(now) = now {
            self.note(now);
        }
    }

    /// Which replicas have to confirm writes to `master`. One that has gone has to no more, if most
    /// sentinels say so: a few may be cut off with the master, and the others make that one the
    /// master.
    fn count(&self, replication: &Replication, master: &Address, named: &[Named], now: Instant) {
        if !replication.follows {
            return;
        }
        let of_it = named.iter().filter(|named| named.address == *master);
        let seen = of_it.clone().map(|named| named.replicas.clone());
        let seen = seen.reduce(SentinelReplicas::and).unwrap_or_default();
        let sentinels = of_it.clone().map(|named| named.sentinels).max();
        let sentinels = sentinels.unwrap_or(0).max(self.addresses.len());
        let is_most = of_it.count() > sentinels / 2;
        let replicas = lock(&self.replicas).look(seen, master, is_most, now);
        replication.may_choose(master, replicas, &self.settings.place());
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
    fn unknown(&self, strangers: usize, failure: Option<Error>, is_late: bool) -> ConnectError {
        let (store, name) = (&*self.settings.place(), &self.name);
        if strangers > 0 {
            return ConnectError::lasting(Error::misconfigured(
                store,
                format!("its sentinels watch no master of the name {name:?}"),
                "write the name that stands behind `sentinel monitor` in their configuration",
            ));
        }
        if let Some(error) = failure.clone().filter(is_refusal) {
            return ConnectError::lasting(error);
        }
        let why = failure.map_or_else(String::new, |error| format!("; the last: {error}"));
        ConnectError {
            // One that is only slow is worth asking again.
            is_busy: is_late,
            ..ConnectError::busy(store, format!("none of its sentinels answers{why}"))
        }
    }
}

/// Whether a sentinel is there and has to be, or to be asked, otherwise.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Misconfigured { .. })
}

/// Reads `HOST PORT`, the fields of the master and those of its replicas; nothing of a master that
/// is not known.
fn read(answers: Answers) -> RedisResult<Option<Named>> {
    let mut answers = answers.into_iter();
    let mut next = || answers.next().unwrap_or(Ok(Value::Nil));
    let (address, master, replicas) = (next()?, next(), next());
    let address = match address.as_sequence() {
        Some([host, port]) => text(host).zip(text(port).and_then(|port| port.parse().ok())),
        _ => None,
    };
    let Some((host, port)) = address else {
        return Ok(None);
    };
    let master = master?;
    if !matches!(master, Value::Map(_)) {
        return Ok(None);
    }
    let number = |name| field(&master, name).and_then(|number| number.parse().ok());
    let address = Address::new(host, port);
    let others = number("num-other-sentinels").unwrap_or(0);
    Ok(Some(Named {
        epoch: number("config-epoch").unwrap_or(0),
        replicas: SentinelReplicas::read(&replicas?, &address, !is_gone(&master)),
        sentinels: usize::try_from(others).unwrap_or(0).saturating_add(1),
        address,
    }))
}

#[cfg(test)]
mod tests;
