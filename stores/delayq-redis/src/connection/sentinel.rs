//! Sentinels: they tell which server is the master.

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

/// How often the sentinels are asked. A fail-over is noticed within this time, also by connections
/// on which the old master is silent. If there is reason to doubt the master, they are asked at
/// once, but not more often than the second value.
const ASK: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(50));
/// The time limit for one sentinel; the others are asked at the same time.
const PATIENCE: Duration = Duration::from_millis(400);

/// The sentinels of one master.
pub(super) struct Sentinels {
    settings: Arc<Settings>,
    addresses: Vec<Address>,
    name: String,
    seen: watch::Sender<SentinelView>,
    replicas: Mutex<ReplicaHistory>,
    again: Notify,
}

/// The knowledge gained from the sentinels.
#[derive(Clone)]
enum SentinelView {
    Nothing,
    Master {
        address: Address,
        epoch: u64,
    },
    /// No sentinel knows the master; with the error of the last one.
    Unknown(ConnectError),
}

impl SentinelView {
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

/// One sentinel's answer about the master.
struct NamedMaster {
    address: Address,
    epoch: u64,
    replicas: SentinelReplicas,
    /// The number of sentinels, including this one.
    sentinels: usize,
}

impl Sentinels {
    pub(super) fn start(settings: &Arc<Settings>, addresses: &[Address], name: &str) -> Arc<Self> {
        let sentinels = Arc::new(Self {
            settings: Arc::clone(settings),
            addresses: addresses.to_vec(),
            name: name.to_owned(),
            seen: watch::Sender::new(SentinelView::Nothing),
            replicas: Mutex::default(),
            again: Notify::new(),
        });
        settings.runtime.spawn(Arc::clone(&sentinels).watch());
        sentinels
    }

    /// The master, once one is known.
    pub(super) async fn master(&self) -> Result<Address, ConnectError> {
        let mut seen = self.seen.subscribe();
        let seen = seen
            .wait_for(|seen| !matches!(seen, SentinelView::Nothing))
            .await;
        match seen.as_deref() {
            Ok(SentinelView::Master { address, .. }) => Ok(address.clone()),
            Ok(SentinelView::Unknown(refusal)) => Err(refusal.clone()),
            // The sender is in `self`.
            Ok(SentinelView::Nothing) | Err(_) => {
                Err(ConnectError::lasting(Error::Closed("the Redis store")))
            }
        }
    }

    /// Completes once another server is the master.
    pub(super) async fn left(&self, address: &Address) {
        let mut seen = self.seen.subscribe();
        let is_other = |seen: &SentinelView| seen.address().is_some_and(|now| now != address);
        // The sender is in `self`.
        let _ = seen.wait_for(is_other).await;
    }

    /// Asks the sentinels at once.
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

    /// Until all replicas follow the new master, the sentinel that leads a fail-over shows the new
    /// epoch with the old address in MASTER; only the other command returns the new address.
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

    /// Asks all sentinels. The one that knows of the latest election is right: the others may be
    /// cut off, or were suspended for a while.
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
            Some(NamedMaster { address, epoch, .. }) => SentinelView::Master {
                address: address.clone(),
                epoch: *epoch,
            },
            None => SentinelView::Unknown(self.unknown(strangers, failure, is_late)),
        };
        // A known master stays the master until another one is named. A panel does not speak with
        // one voice if one of its sentinels was cut off and knows nothing of an election.
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

    /// The replicas that have to confirm writes to `master`. A replica that has gone no longer has
    /// to confirm if most sentinels say so. A few sentinels may be cut off together with the
    /// master, while the others promote that replica.
    fn count(
        &self,
        replication: &Replication,
        master: &Address,
        named: &[NamedMaster],
        now: Instant,
    ) {
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

    fn note(&self, now: SentinelView) {
        let store = self.settings.place();
        self.seen.send_if_modified(|seen| match (&mut *seen, now) {
            (SentinelView::Master { address: known, epoch }, SentinelView::Master { address, epoch: now })
                if *known == address =>
            {
                *epoch = now;
                false
            }
            (_, now) => {
                if let SentinelView::Master { address, epoch } = &now {
                    tracing::info!(%store, master = %address, epoch, "the sentinels name the master");
                }
                *seen = now;
                true
            }
        });
    }

    /// The error if no sentinel knows the master. It is a matter of settings if a sentinel answers
    /// and refuses to tell.
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
            // A sentinel that is only slow is worth asking again.
            is_busy: is_late,
            ..ConnectError::busy(store, format!("none of its sentinels answers{why}"))
        }
    }
}

/// True if a sentinel answers, and its settings or ours have to change.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Misconfigured { .. })
}

/// Parses `HOST PORT`, the fields of the master and those of its replicas; `None` for an unknown
/// master.
fn read(answers: Answers) -> RedisResult<Option<NamedMaster>> {
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
    Ok(Some(NamedMaster {
        epoch: number("config-epoch").unwrap_or(0),
        replicas: SentinelReplicas::read(&replicas?, &address, !is_gone(&master)),
        sentinels: usize::try_from(others).unwrap_or(0).saturating_add(1),
        address,
    }))
}

#[cfg(test)]
mod tests;
