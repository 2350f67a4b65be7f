//! Submits: calls that wait share the next transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use delayq_core::job::{NewTask, OnConflict, When};
use delayq_core::name::TaskType;
use delayq_core::store::SubmitOutcome;
use delayq_core::time::{MAX_DELAY, Timestamp, duration_ms};
use delayq_core::{Error, Result};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::{Connections, Session};
use crate::error::{Outcome, lost};
use crate::row::{Content, state_of};
use crate::statements::Statements;
use crate::upkeep::Upkeep;
use crate::wakes::Wakes;

/// Maximum number of tasks in one transaction.
const GROUP_TASKS: usize = 1_000;

/// Maximum size of the messages of one transaction, in bytes.
const GROUP_BYTES: usize = 4 << 20;

/// Maximum number of types in one transaction, which takes a lock of the server's table for each.
const GROUP_TYPES: usize = 64;

/// Number of transactions at the same time. Each waits for the disk; more of them would have fewer
/// tasks each.
const WRITERS: usize = 4;

/// Maximum size of the messages that wait, in bytes.
const MAX_WAITING: usize = 256 << 20;

const SUBMIT: &str = "SELECT o_n, o_outcome, o_due, o_state, o_most FROM {s}.submit_v1($1, $2, \
    true, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";

type Outcomes = Vec<Result<SubmitOutcome>>;

/// Tasks of one call.
struct Waiting {
    tasks: Vec<NewTask>,
    types: BTreeSet<TaskType>,
    deadline: Instant,
    answer: oneshot::Sender<Outcomes>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    writers: usize,
}

/// The way of submits to the server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Submits {
    connections: Connections,
    sql: Statements,
    namespace: Arc<str>,
    retention_ms: i64,
    timeout: std::time::Duration,
    wakes: Wakes,
    queue: Arc<Mutex<Queue>>,
}

impl std::fmt::Debug for Submits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Submits").finish_non_exhaustive()
    }
}

fn bytes(tasks: &[NewTask]) -> usize {
    tasks.iter().map(|task| task.message.len() + 200).sum()
}

fn types(tasks: &[NewTask]) -> BTreeSet<TaskType> {
    tasks.iter().map(|task| task.task_type.clone()).collect()
}

impl Submits {
    pub(crate) fn new(
        connections: &Connections,
        sql: &Statements,
        upkeep: &Upkeep,
        wakes: &Wakes,
    ) -> Self {
        Self {
            connections: connections.clone(),
            sql: sql.clone(),
            namespace: upkeep.namespace.as_str().into(),
            retention_ms: upkeep.retention_ms(),
            timeout: connections.timeout(),
            wakes: wakes.clone(),
            queue: Arc::default(),
        }
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits tasks; one result for each, in order.
    pub(crate) async fn submit(&self, tasks: Vec<NewTask>) -> Outcomes {
        let steps: Vec<_> = steps(tasks)
            .into_iter()
            .map(|step| {
                let count = step.len();
                (count, self.enqueue(step))
            })
            .collect();
        let mut outcomes = Vec::new();
        for (count, answer) in steps {
            let answered = match answer {
                Ok(answer) => answer.await.ok(),
                Err(error) => Some(vec![Err(error); count]),
            };
            let place = self.connections.place();
            let broken = || vec![Err(lost(place, "the call has broken off", true)); count];
            outcomes.append(&mut answered.unwrap_or_else(broken));
        }
        outcomes
    }

    fn enqueue(&self, tasks: Vec<NewTask>) -> Result<oneshot::Receiver<Outcomes>> {
        let busy = self.connections.busy()?;
        let (answer, answered) = oneshot::channel();
        let (size, types) = (bytes(&tasks), types(&tasks));
        let mut queue = self.queue();
        if queue.bytes > 0 && queue.bytes + size > MAX_WAITING {
            let text = "too many submits wait for it: send more slowly";
            return Err(Error::unavailable(self.connections.place(), text));
        }
        queue.bytes += size;
        queue.waiting.push_back(Waiting {
            tasks,
            types,
            deadline: Instant::now() + self.timeout,
            answer,
        });
        if queue.writers < WRITERS {
            queue.writers += 1;
            let own = self.clone();
            drop(self.connections.spawn(async move {
                own.write_all().await;
                drop(busy);
            }));
        }
        Ok(answered)
    }

    /// Writes groups until nothing waits.
    async fn write_all(&self) {
        while let Some(group) = self.take() {
            let (mut tasks, mut calls) = (Vec::new(), Vec::new());
            for one in group {
                calls.push((one.tasks.len(), one.answer));
                tasks.extend(one.tasks);
            }
            let mut outcomes = self.write(tasks).await.into_iter();
            for (count, answer) in calls {
                let _ = answer.send(outcomes.by_ref().take(count).collect());
            }
        }
    }

    /// The calls of the next transaction. Those whose time is over are answered.
    fn take(&self) -> Option<Vec<Waiting>> {
        let mut queue = self.queue();
        let (mut group, mut count, mut size) = (Vec::new(), 0, 0);
        let mut types = BTreeSet::new();
        while let Some(next) = queue.waiting.front() {
            let next_size = bytes(&next.tasks);
            let new = next.types.iter().filter(|one| !types.contains(*one));
            let is_full = count + next.tasks.len() > GROUP_TASKS
                || size + next_size > GROUP_BYTES
                || types.len() + new.count() > GROUP_TYPES;
            if !group.is_empty() && is_full {
                break;
            }
            let Some(mut next) = queue.waiting.pop_front() else {
                break;
            };
            queue.bytes -= next_size;
            if next.deadline < Instant::now() {
                let text = format!("no connection was free within {:?}", self.timeout);
                let error = lost(self.connections.place(), &text, false);
                let _ = next.answer.send(vec![Err(error); next.tasks.len()]);
                continue;
            }
            (count, size) = (count + next.tasks.len(), size + next_size);
            types.append(&mut next.types);
            group.push(next);
        }
        if group.is_empty() {
            queue.writers -= 1;
            return None;
        }
        Some(group)
    }

    async fn write(&self, tasks: Vec<NewTask>) -> Outcomes {
        let count = tasks.len();
        let names: Vec<TaskType> = tasks.iter().map(|task| task.task_type.clone()).collect();
        let (sql, namespace, retention) = (
            self.sql.sql(SUBMIT),
            Arc::clone(&self.namespace),
            self.retention_ms,
        );
        let group = Arc::new(tasks);
        let written = self.connections.attempt_here(move |session: &mut Session| {
            let (sql, namespace, group) = (sql.clone(), namespace.clone(), group.clone());
            Box::pin(async move {
                let columns = Columns::of(&group);
                columns.submit(session, &sql, &namespace, retention).await
            })
        });
        match written.await {
            Ok(rows) => {
                let outcomes = outcomes(&rows, &names);
                self.wake(&names, &outcomes);
                outcomes
            }
            Err(error) => vec![Err(error); count],
        }
    }

    /// Wakes the handlers of what was accepted, whether or not the callers still wait.
    fn wake(&self, names: &[TaskType], outcomes: &[Result<SubmitOutcome>]) {
        let mut first = BTreeMap::new();
        for (task_type, outcome) in names.iter().zip(outcomes) {
            if let Ok(SubmitOutcome::Accepted { due_at, .. }) = outcome {
                let earliest = first.entry(task_type).or_insert(*due_at);
                *earliest = (*earliest).min(*due_at);
            }
        }
        for (task_type, due_at) in first {
            self.wakes.scheduled(task_type, due_at);
        }
    }
}

/// Splits tasks into parts of a transaction each.
fn steps(tasks: Vec<NewTask>) -> Vec<Vec<NewTask>> {
    let mut steps: Vec<Vec<NewTask>> = Vec::new();
    let (mut size, mut types) = (0, BTreeSet::new());
    for task in tasks {
        size += task.message.len();
        types.insert(task.task_type.clone());
        let has_room = size <= GROUP_BYTES && types.len() <= GROUP_TYPES;
        match steps.last_mut() {
            Some(step) if step.len() < GROUP_TASKS && has_room => step.push(task),
            _ => {
                size = task.message.len();
                types = BTreeSet::from([task.task_type.clone()]);
                steps.push(vec![task]);
            }
        }
    }
    steps
}

/// What the server answers for one task.
#[derive(Clone, Copy)]
struct Answer {
    outcome: i16,
    due: Option<i64>,
    state: Option<i16>,
    most: Option<i64>,
}

fn outcomes(rows: &[Row], names: &[TaskType]) -> Outcomes {
    let mut answers: Vec<Option<Answer>> = vec![None; names.len()];
    for row in rows {
        let read = || -> Outcome<(i32, Answer)> {
            let answer = Answer {
                outcome: row.try_get(1)?,
                due: row.try_get(2)?,
                state: row.try_get(3)?,
                most: row.try_get(4)?,
            };
            Ok((row.try_get(0)?, answer))
        };
        if let Ok((n, answer)) = read() {
            let index = usize::try_from(n).unwrap_or(0).wrapping_sub(1);
            if let Some(slot) = answers.get_mut(index) {
                *slot = Some(answer);
            }
        }
    }
    let answered = answers.into_iter().zip(names);
    answered
        .map(|(answer, name)| outcome(answer, name))
        .collect()
}

fn outcome(answer: Option<Answer>, name: &TaskType) -> Result<SubmitOutcome> {
    let Some(answer) = answer else {
        return Err(Error::corrupt("submit_v1", "it has no answer for a task"));
    };
    let due_at = Timestamp::from_millis(answer.due.unwrap_or(0));
    let state = answer
        .state
        .and_then(state_of)
        .unwrap_or(delayq_core::TaskState::Scheduled);
    Ok(match answer.outcome {
        0 | 1 => SubmitOutcome::Accepted {
            due_at,
            replaced: answer.outcome == 1,
        },
        2 => SubmitOutcome::RunsAgain { due_at },
        3 => SubmitOutcome::AlreadyExists { state },
        4 => SubmitOutcome::Conflict { state },
        _ => {
            return Err(Error::QueueFull {
                task_type: name.to_string(),
                pending: answer.due.unwrap_or(0).unsigned_abs(),
                limit: answer.most.unwrap_or(0).unsigned_abs(),
            });
        }
    })
}

/// The delay of a request as it counts, and its time: one of the two.
pub(crate) fn asked(when: When) -> (Option<i64>, Option<i64>) {
    match when {
        When::After(delay) => (Some(duration_ms(delay.min(MAX_DELAY))), None),
        When::At(time) => (None, Some(time.as_millis())),
    }
}

/// Tasks as arrays.
#[derive(Default)]
struct Columns<'a> {
    names: Vec<&'a str>,
    types: Vec<i32>,
    ids: Vec<&'a str>,
    after: Vec<Option<i64>>,
    delays: Vec<Option<i64>>,
    due: Vec<Option<i64>>,
    expires_at: Vec<Option<i64>>,
    expires_after: Vec<Option<i64>>,
    conflicts: Vec<i16>,
    max_waits: Vec<Option<i64>>,
    again: Vec<bool>,
    checksums: Vec<i64>,
    headers: Vec<Option<String>>,
    messages: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    fn of(tasks: &'a [NewTask]) -> Self {
        // In the same order in every call, so that no two calls wait for each other.
        let names: BTreeSet<&str> = tasks.iter().map(|task| task.task_type.as_str()).collect();
        let numbers: HashMap<&str, i32> = names.iter().copied().zip(1..).collect();
        let mut columns = Self {
            names: names.into_iter().collect(),
            ..Self::default()
        };
        for task in tasks {
            let number = numbers.get(task.task_type.as_str()).copied();
            columns.add(number.unwrap_or(0), task);
        }
        columns
    }

    fn add(&mut self, number: i32, task: &'a NewTask) {
        let content = Content::of(task);
        let (after, due) = asked(task.when);
        let (conflict, max_wait) = match task.on_conflict {
            OnConflict::Reject => (0, None),
            OnConflict::Keep => (1, None),
            OnConflict::Replace => (2, None),
            OnConflict::Debounce { max_wait } => (3, Some(duration_ms(max_wait.min(MAX_DELAY)))),
        };
        self.types.push(number);
        self.ids.push(task.id.as_str());
        self.after.push(after);
        self.delays.push(match task.when {
            When::After(delay) => Some(duration_ms(delay)),
            When::At(_) => None,
        });
        self.due.push(due);
        self.expires_at.push(content.expiry.at);
        self.expires_after.push(content.expiry.after);
        self.conflicts.push(conflict);
        self.max_waits.push(max_wait);
        self.again.push(task.again_if_running);
        self.checksums.push(content.checksum);
        self.headers.push(content.headers);
        self.messages.push(&task.message);
    }

    async fn submit(
        &self,
        session: &mut Session,
        sql: &str,
        namespace: &str,
        retention: i64,
    ) -> Outcome<Vec<Row>> {
        session
            .write(
                sql,
                &[
                    (&namespace, Type::TEXT),
                    (&retention, Type::INT8),
                    (&self.names, Type::TEXT_ARRAY),
                    (&self.types, Type::INT4_ARRAY),
                    (&self.ids, Type::TEXT_ARRAY),
                    (&self.after, Type::INT8_ARRAY),
                    (&self.delays, Type::INT8_ARRAY),
                    (&self.due, Type::INT8_ARRAY),
                    (&self.expires_at, Type::INT8_ARRAY),
                    (&self.expires_after, Type::INT8_ARRAY),
                    (&self.conflicts, Type::INT2_ARRAY),
                    (&self.max_waits, Type::INT8_ARRAY),
                    (&self.again, Type::BOOL_ARRAY),
                    (&self.checksums, Type::INT8_ARRAY),
                    (&self.headers, Type::TEXT_ARRAY),
                    (&self.messages, Type::BYTEA_ARRAY),
                ],
            )
            .await
    }
}

#[cfg(test)]
mod tests {
    use delayq_core::job::{DelayQueueJob, Limits};

    use super::*;

    #[test]
    fn a_transaction_has_few_types() {
        let task = |n: usize| {
            let job = DelayQueueJob::raw(format!("type-{}", n % 130), "a").id(n.to_string());
            job.into_task(&Limits::default(), Timestamp::ZERO).unwrap()
        };
        let steps = steps((0..260).map(task).collect());
        assert!(steps.iter().all(|step| types(step).len() <= GROUP_TYPES));
        assert_eq!(steps.iter().map(Vec::len).sum::<usize>(), 260);
        assert!(steps.len() <= 5, "{}", steps.len());
    }
}
