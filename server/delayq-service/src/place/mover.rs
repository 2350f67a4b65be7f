//! Moves one namespace, step by step. Every step can be repeated, by any server.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use delayq_core::chronicle::{Action, ActionEnd};
use delayq_plugin::store::{Expected, KeptMessage, TypeSettings, TypeStats, WriteOutcome};
use delayq_plugin::{Clock, Error, Result, Store, SystemClock, TaskId, TaskType, Timestamp};
use tracing::info;

use super::home::Home;
use super::placed_store::{PlacedStore, View, close};
use super::record::{Phase, PlaceRecord};

/// How long a move is prepared. Servers check for changes every 0.4 s.
const PREPARE: Duration = Duration::from_millis(1_500);
/// The folders of documents to copy: all that the server keeps in a namespace.
const FOLDERS: [&str; 7] = [
    "policies",
    "recurring",
    "targets",
    "target-seal",
    "callees",
    "beanstalk",
    "beanstalk-tubes",
];
/// The folder of a document that shows whether two stores are the same.
const PROBE: &str = "place-probe";

/// The waiting times of a move.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long to wait until every server has heard of the move, before tasks move.
    pub prepare: Duration,
    /// How long the old store is still asked about tasks that ended there.
    pub retention: Duration,
}

/// The move of one namespace, driven by this server.
#[derive(Debug)]
pub struct Mover {
    place: Arc<PlacedStore>,
    patience: Patience,
    /// The move being prepared, and the time when this server first saw it.
    seen: Mutex<Option<(PlaceRecord, Instant)>>,
}

/// The progress of a move.
#[derive(Clone, Debug)]
pub struct MoveStatus {
    /// The place of the namespace, or its destination.
    pub place: PlaceRecord,
    /// Scheduled, running and dead tasks left in the old store.
    pub left: [u64; 3],
}

impl MoveStatus {
    /// Returns true if new tasks go to the new store.
    pub fn has_moved(&self) -> bool {
        self.place.phase != Phase::Preparing
    }

    /// Returns true if the namespace is in one store only.
    pub fn is_over(&self) -> bool {
        self.place.phase == Phase::Done
    }
}

fn shown(pool: Option<&String>) -> String {
    pool.map_or("the store of the server".to_owned(), |pool| {
        format!("pool {pool}")
    })
}

impl fmt::Display for MoveStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [from, to] = [&self.place.from, &self.place.to].map(|pool| shown(pool.as_ref()));
        let [scheduled, running, dead] = self.left;
        match self.place.phase {
            Phase::Preparing => write!(f, "from {from} to {to}: settings are copied"),
            Phase::Done => write!(f, "in {to}"),
            Phase::Moving => write!(
                f,
                "from {from} to {to}: new tasks go to {to}; in {from} are {scheduled} scheduled, \
                 {running} running and {dead} dead ones{}",
                match self.place.drained_at {
                    Some(_) =>
                        ", and it is asked for what has ended there until the retention is \
                                over",
                    None => ", which end there",
                }
            ),
        }
    }
}

impl Mover {
    pub fn new(place: Arc<PlacedStore>) -> Self {
        let patience = Patience {
            prepare: PREPARE,
            retention: place.retention(),
        };
        Self::patient(place, patience)
    }

    pub fn patient(place: Arc<PlacedStore>, patience: Patience) -> Self {
        Self {
            place,
            patience,
            seen: Mutex::default(),
        }
    }

    /// Begins to move the namespace to a pool, or with `None` to the server's own store.
    ///
    /// # Errors
    /// `InvalidInput` with the reason: the namespace is already there or being moved, or the
    /// destination holds tasks of a namespace with this name. Errors of the stores.
    pub async fn begin(&self, to: Option<String>) -> Result<()> {
        self.place.hear().await?;
        let view = self.place.view()?;
        let now = &view.place;
        if now.phase != Phase::Done {
            let there = shown(now.to.as_ref());
            return refused(format!("it is being moved to {there}: wait for that"));
        }
        if now.to == to {
            return refused(format!("it is in {} already", shown(to.as_ref())));
        }
        if self.place.has_cold_store(now.to.as_deref()) || self.place.has_cold_store(to.as_deref())
        {
            let reason = "the store of the server has a cold store, and its far tasks cannot be \
                          moved: keep the namespace where it is";
            return refused(reason.to_owned());
        }
        let next = PlaceRecord {
            v: PlaceRecord::VERSION,
            generation: now.generation + 1,
            from: now.to.clone(),
            to,
            phase: Phase::Preparing,
            since: SystemClock.now().as_millis(),
            drained_at: None,
        };
        let new = self.place.home_of(&next).await?;
        check_other(&view.new, &new, next.to.as_ref()).await?;
        if !self.place.write(now, &next).await? {
            return refused("somebody else moves it at this moment: look again".to_owned());
        }
        Ok(())
    }

    /// Cancels a move before any task has moved.
    ///
    /// # Errors
    /// `InvalidInput` if there is no move, or if tasks have moved. Errors of the stores.
    pub async fn cancel(&self) -> Result<()> {
        self.place.hear().await?;
        let place = self.place.place();
        if place.phase != Phase::Preparing {
            let reason = "no move is being prepared; one that has begun goes on to its end, and \
                          the namespace can be moved back then";
            return refused(reason.to_owned());
        }
        let back = PlaceRecord {
            generation: place.generation - 1,
            to: place.from.clone(),
            from: None,
            phase: Phase::Done,
            ..place
        };
        if !self.place.write(&place, &back).await? {
            return refused("the move has begun: it goes on to its end".to_owned());
        }
        Ok(())
    }

    /// Begins a move unless the namespace is there or on its way, and logs it in both stores,
    /// because later only one of them is read.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub async fn head_for(&self, to: Option<String>, actor: &str, origin: &str) -> Result<()> {
        self.place.hear().await?;
        if self.place.place().to == to {
            return Ok(());
        }
        let detail = format!("to {}", to.as_deref().unwrap_or("store"));
        self.begin(to).await?;
        let action = Action::new(actor, origin, "move", "").ended(ActionEnd::Done, detail);
        self.place.hear().await?;
        for home in self.place.view()?.homes() {
            home.store.log_action(&action).await?;
        }
        Ok(())
    }

    /// The progress of the move.
    ///
    /// # Errors
    /// Those of the stores.
    pub async fn status(&self) -> Result<MoveStatus> {
        self.place.hear().await?;
        let view = self.place.view()?;
        let left = match &view.old {
            Some(old) => left_in(&old.store).await?,
            None => [0; 3],
        };
        let place = view.place.clone();
        Ok(MoveStatus { place, left })
    }

    /// Takes the next step of the move. Does nothing for a namespace that is not being moved.
    ///
    /// # Errors
    /// Those of the stores; call it again.
    pub async fn advance(&self) -> Result<()> {
        self.place.hear().await?;
        let view = self.place.view()?;
        let Some(old) = &view.old else {
            return Ok(());
        };
        match view.place.phase {
            Phase::Preparing => self.prepare(&view, old).await,
            Phase::Moving => self.drain(&view, old).await,
            Phase::Done => Ok(()),
        }
    }

    async fn prepare(&self, view: &View, old: &Home) -> Result<()> {
        // By now every server refuses changes of the documents being copied.
        let has_heard = self.known_since(&view.place).elapsed() >= self.patience.prepare;
        self.copy(view, old).await?;
        if has_heard {
            self.enter(view, Phase::Moving, None).await?;
        }
        Ok(())
    }

    /// The time when this server first saw a move. A move repeated with the same generation gets
    /// its own time.
    pub(super) fn known_since(&self, place: &PlaceRecord) -> Instant {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen.take().filter(|(of, _)| of == place);
        let (_, since) = *seen.insert(known.unwrap_or_else(|| (place.clone(), Instant::now())));
        since
    }

    /// Copies types, settings, pauses and documents, and overwrites those in the new store.
    async fn copy(&self, view: &View, old: &Home) -> Result<()> {
        for task_type in old.store.types().await? {
            let stats = old.store.stats(&task_type).await?;
            if stats.max_pending == Some(0) && self.is_behind(view).await? {
                // Another server is already moving tasks: it has copied this type and closed it.
                continue;
            }
            copy_type(&stats, &view.new, &task_type).await?;
        }
        for folder in FOLDERS {
            copy_folder(old, &view.new, folder).await?;
        }
        Ok(())
    }

    /// Returns true if the move advanced or was cancelled since this view was taken.
    async fn is_behind(&self, view: &View) -> Result<bool> {
        self.place.hear().await?;
        Ok(self.place.place() != view.place)
    }

    async fn drain(&self, view: &View, old: &Home) -> Result<()> {
        // Repeated on every step, because a server that has not heard of the move may have created
        // a type.
        for task_type in old.store.types().await? {
            close(old, &task_type).await?;
        }
        let is_empty = left_in(&old.store).await? == [0; 3];
        let now = SystemClock.now();
        match view.place.drained_at {
            None if is_empty => self.enter(view, Phase::Moving, Some(now.as_millis())).await,
            Some(_) if !is_empty => self.enter(view, Phase::Moving, None).await,
            Some(at) if now >= Timestamp::from_millis(at).plus(self.patience.retention) => {
                if self.place.keeps_history() && old.store.ends_status().await?.waiting > 0 {
                    return Ok(());
                }
                self.enter(view, Phase::Done, Some(at)).await
            }
            _ => Ok(()),
        }
    }

    async fn enter(&self, view: &View, phase: Phase, drained_at: Option<i64>) -> Result<()> {
        let next = PlaceRecord {
            phase,
            drained_at,
            since: SystemClock.now().as_millis(),
            ..view.place.clone()
        };
        // Another server may have written first.
        let is_written = self.place.write(&view.place, &next).await?;
        info!(
            namespace = %self.place.namespace,
            ?phase,
            is_written,
            "the move enters its next phase"
        );
        Ok(())
    }
}

fn refused<T>(reason: String) -> Result<T> {
    Err(Error::InvalidInput {
        what: "move",
        reason,
    })
}

/// Scheduled, running and dead tasks in a store.
async fn left_in(store: &Arc<dyn Store>) -> Result<[u64; 3]> {
    let mut left = [0; 3];
    for task_type in store.types().await? {
        let stats = store.stats(&task_type).await?;
        let counts = [stats.scheduled, stats.running, stats.dead];
        left.iter_mut()
            .zip(counts)
            .for_each(|(sum, count)| *sum += count);
    }
    Ok(left)
}

/// Refuses a destination that is the same store or holds tasks of a namespace with this name.
async fn check_other(old: &Home, new: &Home, to: Option<&String>) -> Result<()> {
    let there = shown(to);
    if left_in(&new.store).await? != [0; 3] {
        return refused(format!(
            "{there} has tasks of a namespace of this name: is it the same store, or somebody \
             else's?"
        ));
    }
    let probe = TaskId::generate();
    let write = old
        .store
        .write_document(PROBE, probe.as_str(), "1", Expected::Absent);
    write.await.map(|_: WriteOutcome| ())?;
    let found = new.store.folder(PROBE).await?;
    old.store.remove_document(PROBE, probe.as_str()).await?;
    if found.documents.iter().any(|one| one.name == probe.as_str()) {
        return refused(format!("{there} is the store that it is in"));
    }
    Ok(())
}

/// Copies the documents of a folder, and removes all others from the destination.
async fn copy_folder(old: &Home, new: &Home, folder: &str) -> Result<()> {
    let (from, to) = (
        old.store.folder(folder).await?,
        new.store.folder(folder).await?,
    );
    for one in &from.documents {
        let write = new
            .store
            .write_document(folder, &one.name, &one.body, Expected::Any);
        if write.await? == WriteOutcome::FolderFull {
            return refused(format!("the folder {folder} of the new store is full"));
        }
    }
    let is_left = |name: &str| from.documents.iter().any(|one| one.name == name);
    for one in to.documents.iter().filter(|one| !is_left(&one.name)) {
        new.store.remove_document(folder, &one.name).await?;
    }
    Ok(())
}

/// Copies the settings and the pause of a type to the new store.
async fn copy_type(stats: &TypeStats, new: &Home, task_type: &TaskType) -> Result<()> {
    new.store.register_type(task_type).await?;
    let settings = TypeSettings::default()
        .max_pending(stats.max_pending)
        .fleet_concurrency(stats.fleet_concurrency)
        .fleet_rate(stats.fleet_rate);
    let settings = match stats.history {
        Some(bytes) => settings.history(Some(KeptMessage::from_limit(bytes))),
        None => settings,
    };
    new.store.configure_type(task_type, &settings).await?;
    match stats.paused_until {
        None => new.store.resume(task_type).await,
        Some(Timestamp::MAX) => new.store.pause(task_type, None).await,
        Some(until) => new.store.pause(task_type, Some(until)).await,
    }
}
