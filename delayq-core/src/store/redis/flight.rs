//! Tasks on their way into Redis together: grouped into script calls, and their outcomes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::client::{Command, Reply};
use super::keys::Partition;
use super::record;
use super::road::Road;
use super::scope::Scope;
use super::scripts::Script;
use crate::error::{Error, Result};
use crate::job::{NewTask, OnConflict};
use crate::name::{TaskId, TaskType};
use crate::state::TaskState;
use crate::store::{MAX_BATCH, SubmitOutcome};
use crate::time::Timestamp;

/// Bytes of one call: so much is copied in well under a millisecond.
const MAX_CALL_BYTES: usize = 1 << 20;

/// A task in its stored form, made by its submitter.
pub(super) struct Prepared {
    /// Where it is sent.
    pub(super) part: Arc<Partition>,
    pub(super) id: TaskId,
    policy: u8,
    record: Vec<u8>,
    /// The largest fence that an earlier task with this id may have had elsewhere.
    fence: u64,
}

/// What became of a task that was sent.
pub(super) enum Landing {
    Here(SubmitOutcome),
    /// Nothing: its partition is closed and does not know the id. It has to be sent to another one.
    Moved(Prepared),
}

impl Prepared {
    pub(super) fn new(task: &NewTask, part: Arc<Partition>) -> Self {
        Self {
            part,
            id: task.id.clone(),
            policy: match task.on_conflict {
                OnConflict::Reject => b'r',
                OnConflict::Keep => b'k',
                OnConflict::Replace => b'p',
            },
            record: record::encode(task),
            fence: 0,
        }
    }

    pub(super) fn slot(&self) -> u16 {
        self.part.slot
    }
}

/// One call: tasks of one partition, with different ids.
struct Call {
    part: Arc<Partition>,
    ids: HashSet<TaskId>,
    bytes: usize,
    /// Their places in the flight.
    places: Vec<usize>,
}

impl Call {
    fn new(part: &Arc<Partition>) -> Self {
        Self {
            part: Arc::clone(part),
            ids: HashSet::with_capacity(MAX_BATCH),
            bytes: 0,
            places: Vec::with_capacity(MAX_BATCH),
        }
    }

    fn takes(&self, task: &Prepared) -> bool {
        let has_room = self.places.len() < MAX_BATCH
            && (self.bytes == 0 || self.bytes + task.record.len() <= MAX_CALL_BYTES);
        has_room && !self.ids.contains(&task.id)
    }

    fn add(&mut self, place: usize, task: &Prepared) {
        self.ids.insert(task.id.clone());
        self.bytes += task.record.len();
        self.places.push(place);
    }
}

/// Tasks to send in one go.
pub(super) struct Flight {
    tasks: Vec<Prepared>,
    calls: Vec<Call>,
    /// Types that this instance has not listed yet.
    new_types: Vec<TaskType>,
}

impl Flight {
    pub(super) fn new(jobs: Vec<Vec<Prepared>>, scope: &Scope) -> Self {
        let tasks: Vec<Prepared> = jobs.into_iter().flatten().collect();
        let mut calls: Vec<Call> = Vec::new();
        let mut open: HashMap<&str, usize> = HashMap::new();
        for (place, task) in tasks.iter().enumerate() {
            let call = open.get(&*task.part.stem).and_then(|at| calls.get_mut(*at));
            if let Some(call) = call.filter(|call| call.takes(task)) {
                call.add(place, task);
                continue;
            }
            // A partition's calls run one after the other, so that a repeated id meets its first occurrence.
            open.insert(&task.part.stem, calls.len());
            let mut call = Call::new(&task.part);
            call.add(place, task);
            calls.push(call);
        }
        let types: HashSet<&TaskType> = calls.iter().map(|call| &call.part.task_type).collect();
        let new_types = types.into_iter().filter(|name| !scope.is_listed(name));
        let new_types = new_types.cloned().collect();
        Self {
            tasks,
            calls,
            new_types,
        }
    }

    /// Sends everything and returns one outcome a task, in their order.
    pub(super) async fn send(self, road: &Road, scope: &Scope) -> Vec<Result<Landing>> {
        let listings = self.new_types.iter().map(|name| scope.list_type(name));
        let calls = self.calls.iter().map(|call| self.command(call, scope));
        let deadline = Instant::now() + scope.options.call_timeout;
        let commands = listings.chain(calls).collect();
        let mut answers = road.exchange(commands, deadline).await;
        let landed = answers.split_off(self.new_types.len());
        let landed: Vec<Result<Landed>> = landed
            .into_iter()
            .map(|answer| answer.and_then(read))
            .collect();
        let mut unlisted = note_listings(&self.new_types, answers, scope);
        self.announce(road, scope, deadline).await;
        let emptied = self.emptied(&landed);
        if !emptied.is_empty() {
            let again = emptied.iter().map(|name| scope.list_type(name));
            let answers = road.exchange(again.collect(), deadline).await;
            unlisted.extend(note_listings(&emptied, answers, scope));
        }
        let mut outcomes: Vec<Option<Result<Outcome>>> = Vec::new();
        outcomes.resize_with(self.tasks.len(), || None);
        for (call, landed) in self.calls.iter().zip(landed) {
            let own = outcomes_of(call, landed, &unlisted, (road, scope));
            for (place, outcome) in call.places.iter().zip(own) {
                if let Some(slot) = outcomes.get_mut(*place) {
                    *slot = Some(outcome);
                }
            }
        }
        let lost = || Err(road.live.no_answer(scope.options.call_timeout));
        let outcomes = outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or_else(lost));
        let landings = self.tasks.into_iter().zip(outcomes);
        landings
            .map(|(task, outcome)| outcome?.landing(task))
            .collect()
    }

    /// Tells other instances of new types: each listens to the types that it knows.
    async fn announce(&self, road: &Road, scope: &Scope, deadline: Instant) {
        let news = self
            .new_types
            .iter()
            .filter_map(|name| scope.announcement(name));
        let news: Vec<Command> = news.collect();
        if !news.is_empty() {
            // Who misses it reads the list of types now and then.
            let _ = road.exchange(news, deadline).await;
        }
    }

    /// Types that this instance had listed, and that were new all the same: somebody emptied the database.
    fn emptied(&self, landed: &[Result<Landed>]) -> Vec<TaskType> {
        let landed = self.calls.iter().zip(landed);
        let new = landed.filter(|(_, landed)| landed.as_ref().is_ok_and(|call| call.is_new_type));
        let types: HashSet<&TaskType> = new.map(|(call, _)| &call.part.task_type).collect();
        let emptied = types
            .into_iter()
            .filter(|name| !self.new_types.contains(name));
        emptied.cloned().collect()
    }

    fn command(&self, call: &Call, scope: &Scope) -> Command {
        let tasks = || {
            call.places
                .iter()
                .filter_map(|place| self.tasks.get(*place))
        };
        let policies: Vec<u8> = tasks().map(|task| task.policy).collect();
        let fence = tasks().map(|task| task.fence).max().unwrap_or(0);
        // An id is at most 128 bytes long.
        let bytes = call.bytes + 64 * call.places.len();
        let mut command = call
            .part
            .script(Script::Submit, bytes)
            .arg(policies)
            .number(scope.retention_ms())
            .arg(scope.wake_channel(&call.part))
            .arg(scope.wake_message(&call.part))
            .arg(&call.part.open)
            .arg(fence.to_string());
        for task in tasks() {
            command.push(task.id.as_str());
            command.push(&task.record);
        }
        command
    }
}

/// What a call did.
struct Landed {
    is_new_type: bool,
    is_earlier: bool,
    outcomes: Vec<Outcome>,
}

/// What became of one task of a call.
#[derive(Clone)]
enum Outcome {
    Here(SubmitOutcome),
    /// See [`Landing::Moved`]; the largest fence given there.
    Moved(u64),
    /// It was refused: so many are scheduled, and so many may be.
    Full {
        pending: u64,
        limit: u64,
    },
}

impl Outcome {
    fn landing(self, mut task: Prepared) -> Result<Landing> {
        match self {
            Self::Here(outcome) => Ok(Landing::Here(outcome)),
            Self::Moved(fence) => {
                task.fence = task.fence.max(fence);
                Ok(Landing::Moved(task))
            }
            Self::Full { pending, limit } => Err(Error::QueueFull {
                task_type: task.part.task_type.to_string(),
                pending,
                limit,
            }),
        }
    }
}

fn read(reply: Reply) -> Result<Landed> {
    let mut fields = reply.fields();
    let mut landed = Landed {
        is_new_type: fields.flag()?,
        is_earlier: fields.flag()?,
        outcomes: Vec::with_capacity(MAX_BATCH),
    };
    while !fields.is_empty() {
        let (word, run, due_at) = (fields.text()?, fields.count()?, fields.int()?);
        let outcome = match (&*word, word.strip_prefix('f')) {
            ("m", _) => Outcome::Moved(u64::try_from(due_at).unwrap_or(0)),
            (_, Some(numbers)) => full_of(numbers)?,
            (word, None) => Outcome::Here(outcome_of(word, Timestamp::from_millis(due_at))?),
        };
        let run = usize::try_from(run).unwrap_or(MAX_BATCH).min(MAX_BATCH);
        landed.outcomes.extend(std::iter::repeat_n(outcome, run));
    }
    Ok(landed)
}

/// Remembers which types are listed now; returns the others.
fn note_listings(
    types: &[TaskType],
    answers: Vec<Result<Reply>>,
    scope: &Scope,
) -> HashMap<TaskType, Error> {
    let mut unlisted = HashMap::new();
    for (name, answer) in types.iter().zip(answers) {
        match answer {
            Ok(_) => scope.set_listed(name),
            Err(error) => drop(unlisted.insert(name.clone(), error)),
        }
    }
    unlisted
}

fn outcomes_of(
    call: &Call,
    landed: Result<Landed>,
    unlisted: &HashMap<TaskType, Error>,
    (road, scope): (&Road, &Scope),
) -> Vec<Result<Outcome>> {
    let all = |error: Error| call.places.iter().map(|_| Err(error.clone())).collect();
    let landed = match landed {
        Ok(landed) => landed,
        Err(error) => return all(error),
    };
    if landed.is_earlier {
        scope.wake(&call.part);
    }
    match unlisted.get(&call.part.task_type) {
        None => landed.outcomes.into_iter().map(Ok).collect(),
        // The tasks are stored, so no error may say that they are not.
        Some(error) => all(road.live.unlisted(&call.part.task_type, error)),
    }
}

/// `<scheduled>/<most>`.
fn full_of(numbers: &str) -> Result<Outcome> {
    let numbers = numbers.split_once('/');
    let read = numbers.and_then(|(pending, limit)| {
        Some(Outcome::Full {
            pending: pending.parse().ok()?,
            limit: limit.parse().ok()?,
        })
    });
    read.ok_or_else(|| Error::Corrupt {
        key: "the answer of a script".to_owned(),
        detail: "it does not say how full the type is".to_owned(),
    })
}

fn outcome_of(outcome: &str, due_at: Timestamp) -> Result<SubmitOutcome> {
    let (kind, state) = outcome.split_at_checked(1).unwrap_or_default();
    Ok(match kind {
        "a" => SubmitOutcome::Accepted {
            due_at,
            replaced: false,
        },
        "p" => SubmitOutcome::Accepted {
            due_at,
            replaced: true,
        },
        "x" => SubmitOutcome::AlreadyExists {
            state: state_of(state)?,
        },
        _ => SubmitOutcome::Conflict {
            state: state_of(state)?,
        },
    })
}

/// The state that a script names by a letter; a task that has lost its place is as good as scheduled.
pub(super) fn state_of(letter: &str) -> Result<TaskState> {
    Ok(match letter {
        "s" | "?" => TaskState::Scheduled,
        "r" => TaskState::Running,
        "k" => TaskState::Dead,
        "d" => TaskState::Done,
        "c" => TaskState::Cancelled,
        "e" => TaskState::Expired,
        _ => {
            return Err(Error::Corrupt {
                key: "the answer of a script".to_owned(),
                detail: format!("{letter:?} names no state"),
            });
        }
    })
}

#[cfg(test)]
mod tests;
