//! The tasks of a type as last seen, and the changes since.

use std::collections::{HashMap, HashSet};

use delayq_plugin::{
    AttemptHistory, Cursor, Result, TaskId, TaskInfo, TaskState, TaskSubmitService, TaskType,
    Timestamp, TypeStats, WaitsFor,
};

use super::event::{Event, EventKind};

/// Number of tasks in one page.
const PAGE: usize = 128;
/// Number of pages of scheduled and of running tasks that are watched: a thousand tasks each, the
/// first ones by time. Later tasks are noticed once they are among these.
const MAX_PAGES: usize = 8;
/// Maximum number of pages of ended tasks read between two looks.
const MAX_END_PAGES: usize = 80;

/// The states in which a task has ended for good.
const ENDS: [TaskState; 3] = [TaskState::Done, TaskState::Cancelled, TaskState::Expired];

/// A task as last seen.
#[derive(Clone, Debug)]
struct SeenTask {
    state: TaskState,
    at: Timestamp,
    attempt: u32,
    history: AttemptHistory,
}

/// The ends of one kind that were already reported.
#[derive(Debug)]
struct Told {
    state: TaskState,
    /// Ends before this time were reported.
    until: Timestamp,
    /// Tasks that ended at exactly that time and were reported.
    ids: HashSet<TaskId>,
}

/// A look at a type, and the previous one.
#[derive(Debug)]
pub(super) struct Changes {
    task_type: TaskType,
    since: Timestamp,
    stats: TypeStats,
    tasks: HashMap<TaskId, SeenTask>,
    ends: Vec<Told>,
    /// Deaths before this position were reported.
    dead: Cursor,
}

impl Changes {
    /// The present state, of which nothing is reported.
    pub(super) async fn start(tasks: &TaskSubmitService, task_type: &TaskType) -> Result<Self> {
        let stats = tasks.stats(task_type.as_str()).await?;
        let since = stats.now;
        let told = |state| Told {
            state,
            until: since,
            ids: HashSet::new(),
        };
        let mut changes = Self {
            task_type: task_type.clone(),
            since,
            stats,
            tasks: HashMap::new(),
            ends: ENDS.map(told).into(),
            dead: Cursor::new(since, TaskId::new("~")?),
        };
        changes.live(tasks).await?;
        Ok(changes)
    }

    /// The start of the reports, by the store's clock.
    pub(super) fn since(&self) -> Timestamp {
        self.since
    }

    /// The events since the previous look.
    pub(super) async fn look(&mut self, tasks: &TaskSubmitService) -> Result<Vec<Event>> {
        let before = self.stats.clone();
        self.stats = tasks.stats(self.task_type.as_str()).await?;
        let mut events = self.live(tasks).await?;
        if before.totals.dead != self.stats.totals.dead {
            events.extend(self.deaths(tasks).await?);
        }
        if before.totals != self.stats.totals {
            for index in 0..self.ends.len() {
                events.extend(self.ended(tasks, index).await?);
            }
        }
        events.sort_by_key(|event| event.at);
        Ok(events)
    }

    /// Changes of tasks that have not ended.
    async fn live(&mut self, tasks: &TaskSubmitService) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        let mut present = HashMap::new();
        for state in [TaskState::Running, TaskState::Scheduled] {
            let mut cursor = None;
            for _ in 0..MAX_PAGES {
                let name = self.task_type.as_str();
                let page = tasks.list(name, state, cursor.as_ref(), PAGE).await?;
                for task in page.tasks {
                    let seen = self.tasks.get(&task.id);
                    let kind = kind_of(&task, seen, self.since);
                    events.extend(kind.map(|kind| self.event(kind, &task)));
                    present.insert(task.id.clone(), SeenTask::of(task));
                }
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
        }
        // Dead tasks are kept, so that a requeue is noticed.
        let dead = self.tasks.drain();
        let dead = dead.filter(|(_, seen)| seen.state == TaskState::Dead);
        let mut known: HashMap<_, _> = dead.collect();
        known.extend(present);
        self.tasks = known;
        Ok(events)
    }

    fn event(&self, kind: EventKind, task: &TaskInfo) -> Event {
        let known = match kind {
            EventKind::Sent => task.submitted_at,
            EventKind::Started => task.started_at,
            EventKind::Retry => task.errors.first().map(|past| past.at),
            _ => None,
        };
        Event::new(kind, known.unwrap_or(self.stats.now), task)
    }

    async fn deaths(&mut self, tasks: &TaskSubmitService) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        for _ in 0..MAX_END_PAGES {
            let (name, cursor) = (self.task_type.as_str(), Some(&self.dead));
            let page = tasks.list(name, TaskState::Dead, cursor, PAGE).await?;
            for task in page.tasks {
                events.push(Event::new(EventKind::Dead, task.at, &task));
                self.dead = Cursor::new(task.at, task.id.clone());
                self.tasks.insert(task.id.clone(), SeenTask::of(task));
            }
            if page.next.is_none() {
                break;
            }
        }
        Ok(events)
    }

    /// Ends of one kind, which are listed latest first.
    async fn ended(&mut self, tasks: &TaskSubmitService, index: usize) -> Result<Vec<Event>> {
        let Some(told) = self.ends.get_mut(index) else {
            return Ok(Vec::new());
        };
        let (kind, mut cursor) = (kind_of_end(told.state), None);
        let mut events = Vec::new();
        'pages: for _ in 0..MAX_END_PAGES {
            let (name, state) = (self.task_type.as_str(), told.state);
            let page = tasks.list(name, state, cursor.as_ref(), PAGE).await?;
            for task in &page.tasks {
                if task.at < told.until {
                    break 'pages;
                }
                if task.at > told.until || !told.ids.contains(&task.id) {
                    events.push(Event::new(kind, task.at, task));
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        if let Some(latest) = events.iter().map(|event| event.at).max() {
            if latest > told.until {
                told.ids.clear();
            }
            told.until = latest;
            let at_once = events.iter().filter(|event| event.at == latest);
            told.ids.extend(at_once.map(|event| event.id.clone()));
        }
        Ok(events)
    }
}

impl SeenTask {
    fn of(task: TaskInfo) -> Self {
        Self {
            state: task.state,
            at: task.at,
            attempt: task.attempt,
            history: task.history,
        }
    }
}

/// The event of a task that was last seen as `seen`; `None` if there is none, or if it happened
/// before the watch began at `since`.
fn kind_of(task: &TaskInfo, seen: Option<&SeenTask>, since: Timestamp) -> Option<EventKind> {
    let is_new = || {
        task.submitted_at
            .is_some_and(|submitted| submitted >= since)
    };
    if task.state == TaskState::Running {
        let is_known = match seen {
            Some(seen) => seen.state == TaskState::Running && seen.attempt == task.attempt,
            None => task.started_at.is_none_or(|started| started < since),
        };
        return (!is_known).then_some(EventKind::Started);
    }
    let Some(seen) = seen else {
        return is_new().then_some(EventKind::Sent);
    };
    if seen.state == TaskState::Dead {
        return Some(EventKind::Requeued);
    }
    if seen.history != task.history {
        let is_release = matches!(task.waits_for, Some(WaitsFor::Release));
        return Some(if is_release {
            EventKind::Released
        } else {
            EventKind::Retry
        });
    }
    (seen.at != task.at).then_some(EventKind::Moved)
}

fn kind_of_end(state: TaskState) -> EventKind {
    match state {
        TaskState::Cancelled => EventKind::Cancelled,
        TaskState::Expired => EventKind::Expired,
        _ => EventKind::Done,
    }
}
