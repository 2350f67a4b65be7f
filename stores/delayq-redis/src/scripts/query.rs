//! Arguments and answers of `find.lua`, `list.lua`, `stats.lua` and `histogram.lua`.

use delayq_core::fleet::FleetLimits;
use delayq_core::history::KeptMessage;
use delayq_core::machine::{self, Gate};
use delayq_core::operate::{Cursor, Page, TypeStats};
use delayq_core::store::MAX_BATCH;
use delayq_core::task::{AttemptHistory, TaskInfo};
use delayq_core::{Result, TaskId, TaskState, Timestamp};

use super::change::{Knowledge, Lookup};
use super::claim;
use super::record::{self, Damage};
use super::{Script, ShardKeys, id_of, state_of};
use crate::connection::{Command, Fields};

/// A task as returned by `find.lua`, `list.lua` and `far/page.lua`.
pub(super) struct StoredTask {
    id: TaskId,
    state: TaskState,
    at: Timestamp,
    record: Vec<u8>,
    trail: Vec<u8>,
    lock: Vec<u8>,
    again_at: Option<Timestamp>,
}

/// The facts about a stored task. A damaged one shows its readable parts.
struct TaskFacts {
    info: TaskInfo,
    damage: Option<Damage>,
}

impl StoredTask {
    fn read(id: TaskId, state: TaskState, fields: &mut Fields) -> Result<Self> {
        Ok(Self {
            id,
            state,
            at: fields.time()?,
            record: fields.bytes()?,
            trail: fields.bytes()?,
            lock: fields.bytes()?,
            again_at: fields.optional_time()?,
        })
    }

    /// A packed task: scheduled, without a history.
    pub(super) fn packed(id: TaskId, at: Timestamp, record: Vec<u8>) -> Self {
        Self {
            id,
            state: TaskState::Scheduled,
            at,
            record,
            trail: Vec::new(),
            lock: Vec::new(),
            again_at: None,
        }
    }

    /// The facts as a listing shows them: also those of a damaged task, as people look for them
    /// there.
    pub(super) fn listed(self, keys: &ShardKeys, gate: &Gate) -> TaskInfo {
        let TaskFacts { mut info, damage } = self.shown(gate);
        if let Some(damage) = damage {
            let error = || keys.unreadable(info.id.as_str(), damage).to_string();
            info.history.last_error.get_or_insert_with(error);
        }
        info
    }

    fn ended(self) -> Option<TaskInfo> {
        let end = record::decode_end(&self.lock)?;
        let mut info = TaskInfo::new(self.id, self.state, end.at);
        info.attempt = end.attempt;
        info.settled_fence = end.settled;
        info.history.last_error = record::decode_failure(&self.trail);
        Some(info)
    }

    fn shown(self, gate: &Gate) -> TaskFacts {
        let mut info = TaskInfo::new(self.id, self.state, self.at);
        let (mut damage, mut asked_due) = (None, self.at);
        info.history = record::decode_trail(&self.trail).unwrap_or_else(|| {
            damage = Some(Damage::Bad("its trail is damaged"));
            AttemptHistory::default()
        });
        match record::decode(self.record.clone()) {
            Ok(record) => {
                asked_due = record.due_at;
                info.submitted_at = Some(record.submitted_at);
                info.expires_at = record.expires_at;
                info.headers = record.headers;
                info.message = Some(record.message);
            }
            Err(bad) => {
                damage = Some(bad);
                if let Damage::Bad(_) = bad {
                    info.message = Some(record::salvage(self.record));
                }
            }
        }
        let lock = record::decode_lock(&self.lock).filter(|_| self.state == TaskState::Running);
        let made = info.history.next_attempt() - 1;
        info.attempt = lock.as_ref().map_or(made, |lock| lock.attempt);
        info.again_at = self.again_at;
        info.cancel_requested = lock.is_some_and(|lock| lock.cancel_requested);
        let stored = machine::Stored {
            asked_due,
            fence: lock.map_or(0, |lock| lock.fence),
            holder: lock.and_then(|lock| lock.holder),
            errors: record::errors_of(&self.trail),
        };
        gate.explain(&mut info, stored);
        TaskFacts { info, damage }
    }
}

pub(crate) fn find(keys: &ShardKeys, id: &TaskId, retention_ms: i64) -> Command {
    keys.script(Script::Find, 160)
        .arg(id.as_str())
        .number(retention_ms)
}

pub(crate) fn read_found(
    keys: &ShardKeys,
    id: &TaskId,
    mut fields: Fields,
) -> Result<Lookup<Option<TaskInfo>>> {
    let letter = fields.text()?;
    let knowledge = Knowledge::read(&letter, &mut fields)?;
    if matches!(knowledge, Knowledge::Nothing { .. }) {
        let answer = None;
        return Ok(Lookup { knowledge, answer });
    }
    if letter == "?" {
        let what = "it is in no index; an audit with repair schedules it";
        return Err(keys.corrupt(id.as_str(), what));
    }
    let stored = StoredTask::read(id.clone(), state_of(&letter)?, &mut fields)?;
    if stored.state.is_ended() {
        let damaged = || keys.corrupt(id.as_str(), "its remembered end is damaged");
        let answer = Some(stored.ended().ok_or_else(damaged)?);
        return Ok(Lookup { knowledge, answer });
    }
    let TaskFacts { info, damage } = stored.shown(&read_gate(&mut fields)?);
    match damage {
        // Damaged tasks are moved to dead so that somebody sees them.
        Some(Damage::Bad(_)) if info.state == TaskState::Dead => {}
        Some(damage) => return Err(keys.unreadable(id.as_str(), damage)),
        None => {}
    }
    let answer = Some(info);
    Ok(Lookup { knowledge, answer })
}

/// One page of the tasks in `state`, which is not an ended one.
pub(crate) fn list(
    keys: &ShardKeys,
    state: TaskState,
    cursor: Option<&Cursor>,
    limit: usize,
) -> Command {
    let letter = match state {
        TaskState::Scheduled => "s",
        TaskState::Running => "r",
        _ => "k",
    };
    let at = cursor.map_or(String::new(), |cursor| cursor.at.as_millis().to_string());
    keys.script(Script::List, 192)
        .arg(letter)
        .number(i64::try_from(limit.clamp(1, MAX_BATCH)).unwrap_or(1))
        .arg(at)
        .arg(cursor.map_or("", |cursor| cursor.id.as_str()))
}

pub(crate) fn read_page(keys: &ShardKeys, state: TaskState, mut fields: Fields) -> Result<Page> {
    let has_more = fields.flag()?;
    let gate = read_gate(&mut fields)?;
    let mut page = Page::default();
    while !fields.is_empty() {
        let id = id_of(&mut fields)?;
        let task = StoredTask::read(id, state, &mut fields)?;
        page.tasks.push(task.listed(keys, &gate));
    }
    let last = page.tasks.last().filter(|_| has_more);
    page.next = last.map(|task| Cursor::new(task.at, task.id.clone()));
    Ok(page)
}

/// Decodes the result of `gate.lua`.
pub(super) fn read_gate(fields: &mut Fields) -> Result<Gate> {
    let reading = fields.time()?.into();
    let paused_until = fields.optional_time()?;
    let fleet = read_fleet(fields)?;
    let tat = i64::try_from(fields.count()?).unwrap_or(i64::MAX);
    let held_back = fields.flag()?;
    let running = usize::try_from(fields.count()?).unwrap_or(usize::MAX);
    Ok(Gate {
        reading,
        paused_until,
        running,
        held_back,
        fleet,
        tat,
    })
}

/// The limits in the settings of a type.
fn read_fleet(fields: &mut Fields) -> Result<FleetLimits> {
    let most = fields.optional_count()?;
    Ok(FleetLimits {
        concurrency: most.and_then(|most| u32::try_from(most).ok()),
        rate: claim::read_rate(&fields.text()?),
    })
}

/// The counts of a shard, and its field `split`.
#[derive(Debug)]
pub(crate) struct ShardStats {
    pub(crate) stats: TypeStats,
    pub(crate) split: String,
    /// Packed tasks are due, which are not counted among the due ones.
    pub(crate) has_packed_due: bool,
}

pub(crate) fn read_stats(mut fields: Fields, retention_ms: i64) -> Result<ShardStats> {
    let mut stats = TypeStats::default();
    stats.now = fields.time()?;
    stats.scheduled = fields.count()?;
    stats.due = fields.count()?;
    stats.running = fields.count()?;
    stats.dead = fields.count()?;
    stats.next_due = fields.optional_time()?;
    stats.paused_until = fields.optional_time()?;
    stats.max_pending = fields.optional_count()?;
    stats.refused = fields.count()?;
    let fleet = read_fleet(&mut fields)?;
    (stats.fleet_concurrency, stats.fleet_rate) = (fleet.concurrency, fleet.rate);
    let split = fields.text()?;
    stats.totals.done = fields.count()?;
    stats.totals.dead = fields.count()?;
    stats.totals.cancelled = fields.count()?;
    stats.totals.expired = fields.count()?;
    stats.totals.failed = fields.count()?;
    stats.remembered = fields.count()?;
    let retained = stats.now.as_millis().saturating_sub(retention_ms);
    let known_since = fields.time()?.max(Timestamp::from_millis(retained));
    stats.remembered_since = Some(known_since);
    stats.history = super::ends::kept(&fields.text()?).map(KeptMessage::limit);
    let has_packed_due = fields.flag()?;
    Ok(ShardStats {
        stats,
        split,
        has_packed_due,
    })
}

pub(crate) fn histogram(keys: &ShardKeys, bounds: &[Timestamp]) -> Command {
    let mut command = keys.script(Script::Histogram, 20 * bounds.len());
    for bound in bounds {
        command.push(bound.as_millis().to_string());
    }
    command
}

pub(crate) fn read_histogram(mut fields: Fields) -> Result<Vec<u64>> {
    let mut counts = Vec::new();
    while !fields.is_empty() {
        counts.push(fields.count()?);
    }
    Ok(counts)
}

/// The bounds of `steps` parts of `from..to`: a time belongs to the part given by its share of the
/// whole, rounded down.
pub(crate) fn bounds(from: Timestamp, to: Timestamp, steps: usize) -> Vec<Timestamp> {
    let (start, steps) = (i128::from(from.as_millis()), steps as i128);
    let span = i128::from(to.as_millis()) - start;
    let bound = |step: i128| start + (span * step + steps - 1) / steps;
    let ms = (0..=steps).map(|step| i64::try_from(bound(step)).unwrap_or(i64::MAX));
    ms.map(Timestamp::from_millis).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_span_are_bounded_where_the_share_of_the_whole_steps() {
        let ms = Timestamp::from_millis;
        // Due 13 is in part 0, because 3 * 3 / 10 is 0, and due 14 in part 1.
        let expected = [ms(10), ms(14), ms(17), ms(20)];
        assert_eq!(bounds(ms(10), ms(20), 3), expected);
        let widest = bounds(Timestamp::ZERO, Timestamp::MAX, 1_000);
        assert_eq!(widest.last(), Some(&Timestamp::MAX));
    }
}
