//! Recurring tasks that are declared to a server: kept in the store of their namespace, and sent by
//! every server of it. The id of an occurrence is made of its time, so all of them send one task.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_core::documents::{Document, Expected, WriteOutcome};
use delayq_core::task::Headers;
use delayq_plugin::recurrence::{NextOccurrence, cancel_untried, ensure_one, restart};
use delayq_plugin::{
    AttemptHistory, Error, Recurring, Result, Store, TaskState, TaskSubmitService, TaskType,
    Timestamp,
};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tracing::{debug, error, warn};

use crate::folder_cache::{Contents, FolderCache};

/// The folder of declarations.
const FOLDER: &str = "recurring";
/// The version of the stored form, and the newest that this release reads.
const VERSION: u32 = 1;
/// The longest message; a declaration with its headers must fit into a document.
pub const MAX_MESSAGE: usize = 32 << 10;
/// How often changes by other servers are looked for.
const REFRESH: Duration = Duration::from_millis(400);
/// The longest time between two looks at a recurring task: a lost occurrence is sent again.
const LOOK: Duration = Duration::from_mins(1);
/// The shortest and longest time between two looks at an occurrence that is due and has not
/// started.
const WAITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// The number of recurring tasks that are looked at together.
const AT_ONCE: usize = 16;

/// A recurring task, as it is declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecurringTask {
    v: u32,
    /// The type of its occurrences.
    pub task_type: TaskType,
    /// Its schedule: five fields of cron, or an interval.
    pub every: String,
    /// The time zone of the five fields; UTC without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Their message, in base64.
    message: String,
    /// Their headers.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
    /// True if it sends none.
    #[serde(default)]
    pub is_paused: bool,
    /// The time of its last change, in milliseconds since the epoch.
    since: i64,
    /// The revision of its document; 0 for one that is not stored.
    #[serde(skip)]
    revision: u64,
}

impl RecurringTask {
    /// A recurring task without options.
    pub fn new(task_type: TaskType, every: String, message: &[u8]) -> Self {
        Self {
            v: VERSION,
            task_type,
            every,
            zone: None,
            message: STANDARD.encode(message),
            headers: Headers::new(),
            is_paused: false,
            since: 0,
            revision: 0,
        }
    }

    /// The message of an occurrence.
    pub fn message(&self) -> Vec<u8> {
        STANDARD.decode(&self.message).unwrap_or_default()
    }

    /// The time of its last change.
    pub fn since(&self) -> Timestamp {
        Timestamp::from_millis(self.since)
    }

    /// The same, as a change at `now` of the stored declaration `known`.
    #[must_use]
    pub fn changing(mut self, known: Option<&Self>, now: Timestamp) -> Self {
        // Of two changes the later one is right, also where clocks differ.
        let after = known.map_or(i64::MIN, |known| known.since + 1);
        self.since = now.as_millis().max(after);
        self.revision = known.map_or(0, |known| known.revision);
        self
    }

    /// True if both declare the same.
    pub fn is_same(&self, other: &Self) -> bool {
        self.undated() == other.undated()
    }

    /// What is declared, whenever that was.
    #[must_use]
    pub fn undated(&self) -> Self {
        let (since, revision) = (0, 0);
        Self {
            since,
            revision,
            ..self.clone()
        }
    }

    /// The declaration for the plugin.
    ///
    /// # Errors
    /// `InvalidInput` for a schedule, a zone or an id that is none.
    pub fn recurring(&self, id: &str) -> Result<Recurring> {
        let mut recurring = Recurring::new(&self.task_type, &self.every)?;
        if let Some(zone) = &self.zone {
            recurring = recurring.zone(zone)?;
        }
        let headers = self.headers.iter();
        let recurring = headers.fold(recurring, |one, (name, value)| one.header(name, value));
        Ok(recurring.name(id)?.raw_message(self.message()))
    }

    /// The time of the next occurrence after `now`; `None` while it is paused.
    pub fn next_at(&self, now: Timestamp) -> Option<Timestamp> {
        if self.is_paused {
            return None;
        }
        let mut schedule = delayq_plugin::Schedule::new(&self.every).ok()?;
        if let Some(zone) = &self.zone {
            schedule = schedule.zone(zone).ok()?;
        }
        schedule.next_after(now)
    }
}

/// A declaration that is gone, and its id.
type Withdrawn = (String, Arc<RecurringTask>);

/// The declarations of a namespace, by id.
type Declared = BTreeMap<String, Arc<RecurringTask>>;

/// The content of the folder.
#[derive(Debug, Default)]
struct RecurringFolder(Arc<Declared>);

impl Contents for RecurringFolder {
    fn read(documents: Vec<Document>) -> Result<Self> {
        let mut declared = Declared::new();
        for document in documents {
            let id = document.name;
            match serde_json::from_str::<RecurringTask>(&document.body) {
                Ok(mut task) if task.v <= VERSION => {
                    task.revision = document.revision;
                    declared.insert(id, Arc::new(task));
                }
                Ok(_) => warn!(
                    id,
                    "a newer release declared this recurring task; not sent here"
                ),
                Err(error) => error!(id, %error, "cannot read a recurring task; it is not sent"),
            }
        }
        Ok(Self(Arc::new(declared)))
    }
}

/// The recurring tasks of a namespace.
#[derive(Debug)]
pub struct RecurringTasks {
    stored: FolderCache<RecurringFolder>,
    tasks: TaskSubmitService,
    /// Notified when this server changes one.
    news: Notify,
    watched: Mutex<BTreeMap<String, Watched>>,
}

/// A recurring task that this server watches.
#[derive(Clone, Debug)]
struct Watched {
    task: Arc<RecurringTask>,
    /// The occurrence that it waits for, if one is known.
    next: Option<NextOccurrence>,
    /// When to look at it again, by the elapsed time of the clock.
    look_at: Duration,
    /// The wait before the next look at an occurrence that is due.
    wait: Duration,
}

impl RecurringTasks {
    /// Those of a store, whose occurrences are sent by `tasks`.
    pub fn new(store: Arc<dyn Store>, tasks: TaskSubmitService) -> Self {
        Self {
            stored: FolderCache::new(store, FOLDER),
            tasks,
            news: Notify::new(),
            watched: Mutex::default(),
        }
    }

    /// All declarations, after a look for changes.
    pub async fn all(&self) -> Result<Arc<BTreeMap<String, Arc<RecurringTask>>>> {
        self.stored.refresh().await?;
        Ok(Arc::clone(&self.stored.get().0))
    }

    /// Stores a declaration. Returns false if the one that it changes has been changed meanwhile.
    ///
    /// # Errors
    /// `InvalidInput` if there are too many, and errors of the store.
    pub async fn write(&self, id: &str, task: &RecurringTask) -> Result<bool> {
        let expected = match task.revision {
            0 => Expected::Absent,
            revision => Expected::Revision(revision),
        };
        let written = self.stored.write(id, task, expected).await?;
        self.news.notify_one();
        match written {
            WriteOutcome::Written(_) => Ok(true),
            WriteOutcome::Conflict(_) => Ok(false),
            WriteOutcome::FolderFull => {
                let reason = "there are 10,000 in this namespace";
                Err(Error::invalid("recurring task", reason))
            }
        }
    }

    /// Removes a declaration; returns true if it existed.
    pub async fn remove(&self, id: &str) -> Result<bool> {
        let removed = self.stored.remove(id).await?;
        self.news.notify_one();
        Ok(removed)
    }

    /// Sends occurrences and follows changes by other servers; never returns.
    pub async fn run(&self) {
        let (mut is_lost, mut withdrawn) = (false, Vec::new());
        loop {
            let looked = self.look(&mut withdrawn).await;
            if let Err(error) = &looked
                && !is_lost
            {
                warn!(%error, "cannot send the next occurrences of recurring tasks; trying again");
            }
            is_lost = looked.is_err();
            let until = self.next_look();
            tokio::select! {
                () = self.tasks.clock().sleep_until(until) => {}
                () = self.news.notified() => {}
            }
        }
    }

    fn next_look(&self) -> Duration {
        let refresh = self.tasks.clock().elapsed() + REFRESH;
        let watched = self.watched.lock();
        let watched = watched.unwrap_or_else(PoisonError::into_inner);
        let first = watched.values().map(|one| one.look_at).min();
        first.map_or(refresh, |first| first.min(refresh))
    }

    /// Follows changes, and looks at the recurring tasks whose time has come. `withdrawn` has those
    /// that are no longer sent, until their waiting occurrences are cancelled.
    async fn look(&self, withdrawn: &mut Vec<Withdrawn>) -> Result<()> {
        self.stored.refresh().await?;
        let (gone, due) = self.follow(&self.stored.get().0);
        withdrawn.extend(gone);
        let mut result = Ok(());
        for (id, task) in std::mem::take(withdrawn) {
            if let Err(error) = self.withdraw(&id, &task).await {
                debug!(id, %error, "cannot withdraw a recurring task");
                withdrawn.push((id, task));
                result = Err(error);
            }
        }
        let looks = due.into_iter().map(|(id, watched)| async move {
            let looked = self.look_at(&id, watched).await;
            (id, looked)
        });
        let mut looks = futures_util::stream::iter(looks).buffer_unordered(AT_ONCE);
        while let Some((id, looked)) = looks.next().await {
            match looked {
                Ok(next) => self.keep(&id, next),
                Err(error) => {
                    debug!(id, %error, "cannot look at a recurring task");
                    result = Err(error);
                }
            }
        }
        result
    }

    /// Cancels the occurrences of a declaration that is gone: a server that had not heard of the
    /// change may have sent one meanwhile.
    async fn withdraw(&self, id: &str, task: &RecurringTask) -> Result<()> {
        let Ok(recurring) = task.recurring(id) else {
            return Ok(());
        };
        cancel_untried(&self.tasks, &recurring, task.since(), None).await?;
        // One that was declared again in this moment may have lost its occurrence to it.
        self.stored.refresh().await?;
        let declared = self.stored.get().0.get(id).cloned();
        match declared.filter(|declared| !declared.is_paused) {
            Some(declared) => match declared.recurring(id) {
                Ok(recurring) => restart(&self.tasks, &recurring, declared.since()).await,
                Err(_) => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Notes what is declared. Returns the tasks that were declared and are no longer sent, and
    /// those to look at.
    fn follow(&self, declared: &Declared) -> (Vec<Withdrawn>, Vec<(String, Watched)>) {
        let now = self.tasks.clock().elapsed();
        let watched = self.watched.lock();
        let mut watched = watched.unwrap_or_else(PoisonError::into_inner);
        let gone = watched.extract_if(.., |id, one| {
            let kept = declared.get(id);
            kept.is_none_or(|kept| kept.is_paused || kept.task_type != one.task.task_type)
        });
        let gone = gone.map(|(id, one)| (id, one.task)).collect();
        for (id, task) in declared.iter().filter(|(_, task)| !task.is_paused) {
            if watched.get(id).is_some_and(|one| one.task == *task) {
                continue;
            }
            let fresh = Watched {
                task: Arc::clone(task),
                next: None,
                look_at: now,
                wait: WAITS.0,
            };
            watched.insert(id.clone(), fresh);
        }
        let mut due = Vec::new();
        for (id, one) in watched.iter_mut().filter(|(_, one)| one.look_at <= now) {
            due.push((id.clone(), one.clone()));
            // If the look fails, the next one is a second later.
            one.look_at = now + WAITS.1;
        }
        (gone, due)
    }

    fn keep(&self, id: &str, next: Watched) {
        let watched = self.watched.lock();
        let mut watched = watched.unwrap_or_else(PoisonError::into_inner);
        if let Some(one) = watched.get_mut(id)
            && one.task == next.task
        {
            *one = next;
        }
    }

    /// Looks at one recurring task: its occurrence that is due has started or not.
    async fn look_at(&self, id: &str, mut one: Watched) -> Result<Watched> {
        let clock = self.tasks.clock();
        if let Some(next) = one.next.clone().filter(|next| next.due <= clock.now()) {
            let task_type = one.task.task_type.as_str();
            let found = self.tasks.find(task_type, next.id.as_str()).await?;
            let waits = found.is_some_and(|found| {
                let is_untried = found.attempt == 0 && found.history == AttemptHistory::default();
                found.state == TaskState::Scheduled && is_untried
            });
            if waits {
                one.look_at = clock.elapsed() + one.wait;
                one.wait = (one.wait * 2).min(WAITS.1);
                return Ok(one);
            }
        }
        let recurring = match one.task.recurring(id) {
            Ok(recurring) => recurring,
            Err(error) => {
                error!(id, %error, "a recurring task is not sent");
                one.look_at = clock.elapsed() + LOOK;
                return Ok(one);
            }
        };
        let since = one.task.since();
        one.next = ensure_one(&self.tasks, &recurring, since).await?;
        one.wait = WAITS.0;
        let due_in = one.next.as_ref().map(|next| next.due.since(clock.now()));
        let wait = due_in.map_or(LOOK, |due_in| due_in.clamp(WAITS.0, LOOK));
        one.look_at = clock.elapsed() + wait;
        Ok(one)
    }
}
