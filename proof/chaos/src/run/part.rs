//! What a process of a run is told to do: as JSON, in its environment.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::StoreOptions;
use delayq_plugin::{Result, Store, SystemClock, hours, millis, open_store};
use delayq_tiered::{TierOptions, TieredStore};
use serde::{Deserialize, Serialize};

use super::application::Place;
use crate::record::{Recorder, digest};

/// How long ended tasks are remembered: longer than any run, so that its end can be looked at.
pub(crate) const RETENTION: Duration = hours(24);
/// The namespace of a run.
pub(crate) const NAMESPACE: &str = "default";
/// How far ahead a task is due that waits in the second store of a tier, how long before that it is
/// moved, and how long the lock of a move lasts: about half the tasks of a run are moved.
const HORIZON: Duration = millis(1_500);
const LEAD: Duration = millis(1_000);
const MOVE_LOCK: Duration = millis(1_000);
/// How long a process waits before it tries again to open a store that does not open.
const PATIENCE: Duration = millis(100);

/// A process of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Its name, the same in all its incarnations.
    pub(crate) name: String,
    /// 1 for the first one of this name.
    pub(crate) incarnation: u32,
    /// The folder of the run.
    pub(crate) folder: PathBuf,
    /// The store, as this process reaches it.
    pub(crate) url: String,
    /// The second store of a tier, for tasks that are due later.
    pub(crate) cold: Option<String>,
    /// How long locks last.
    pub(crate) lock_ms: u64,
    /// That of the run.
    pub(crate) seed: u64,
    /// What it does.
    pub(crate) duty: Duty,
}

/// What a process of a run does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Duty {
    /// Runs a plugin with workers.
    Work,
    /// Sends tasks, so many in each second, and changes its mind about some.
    Submit {
        /// Tasks a second.
        per_second: u64,
        /// Most tasks of one call.
        batch: usize,
    },
    /// Takes the effects of the workers.
    LogEffects,
}

/// The type that only the worker process of this name serves.
pub(crate) fn own_type(name: &str) -> String {
    format!("own.{name}")
}

/// The type that only the worker process of this name serves, and that is sent to only while
/// nothing is wrong, a task at a time.
pub(crate) fn idle_type(name: &str) -> String {
    format!("idle.{name}")
}

impl Part {
    /// The chances of one of the process's senders: others for each sender, process and
    /// incarnation, so that no two of them send the same.
    pub(crate) fn dice(&self, sender: u64) -> fastrand::Rng {
        let (seed, name, incarnation) = (self.seed, &self.name, self.incarnation);
        let seed = format!("{seed} {name} {incarnation} {sender}");
        fastrand::Rng::with_seed(digest(seed.as_bytes()))
    }

    /// The socket on which the effect log listens.
    pub(crate) fn effect_socket(&self) -> PathBuf {
        self.folder.join("effects.socket")
    }

    /// Opens the file of this process.
    pub(crate) fn recorder(&self) -> std::io::Result<Recorder> {
        Recorder::open(&self.folder, &self.name, self.incarnation, NAMESPACE)
    }

    /// What it shares with the others; waits while the store does not open, because a fault may be
    /// why.
    pub(crate) async fn place(&self, recorder: &Recorder) -> Place {
        loop {
            match open(&self.url, self.cold.as_deref()).await {
                Ok(store) => return Place::new(store, recorder, &self.folder),
                Err(error) => eprintln!("the store does not open yet: {error}"),
            }
            tokio::time::sleep(PATIENCE).await;
        }
    }
}

/// Opens the store of a run: of one URL, or a tier of two.
pub(crate) async fn open(url: &str, cold: Option<&str>) -> Result<Arc<dyn Store>> {
    let hot = open_store(url, options()).await?;
    let Some(cold) = cold else {
        return Ok(hot);
    };
    let cold = open_store(cold, options()).await?;
    let tier = TierOptions::new(HORIZON, &options());
    let tier = tier.for_tests(LEAD, MOVE_LOCK, Arc::new(SystemClock));
    Ok(TieredStore::open(hot, cold, tier)?)
}

/// The options of every store of a run.
pub(crate) fn options() -> StoreOptions {
    StoreOptions {
        retention: RETENTION,
        ..StoreOptions::default()
    }
}
