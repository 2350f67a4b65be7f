//! Looking: one task, a page of them, counts.

use super::RedisStore;
use super::client::{Command, Fields, Lane};
use super::flight::state_of;
use super::keys::Partition;
use super::record::{self, Damage, Record};
use super::scripts::Script;
use super::seek::{Heard, Known};
use crate::error::{Error, Result};
use crate::name::{TaskId, TaskType};
use crate::state::TaskState;
use crate::store::{Cursor, MAX_BATCH, Page, TypeStats};
use crate::task::{Headers, TaskInfo, Trail};
use crate::time::Timestamp;

/// Types read in one step.
const TYPES_AT_ONCE: &str = "1000";

/// A task as `find.lua` and `list.lua` show it.
struct Stored {
    id: TaskId,
    state: TaskState,
    at: Timestamp,
    record: Vec<u8>,
    trail: Vec<u8>,
    lock: Vec<u8>,
}

impl Stored {
    fn ended(self) -> Option<TaskInfo> {
        let (at, attempt) = record::decode_end(&self.lock)?;
        Some(TaskInfo {
            id: self.id,
            state: self.state,
            at,
            submitted_at: None,
            expires_at: None,
            attempt,
            message: None,
            headers: Headers::new(),
            trail: Trail::default(),
            cancel_requested: false,
        })
    }

    /// What is known, and what is wrong with it. A damaged task shows what is left of it.
    fn info(self) -> (TaskInfo, Option<Damage>) {
        let mut damage = None;
        let trail = record::decode_trail(&self.trail).unwrap_or_else(|| {
            damage = Some(Damage::Bad("its trail is damaged"));
            Trail::default()
        });
        let (known, message) = match record::decode(self.record.clone()) {
            Ok(mut record) => {
                let message = std::mem::take(&mut record.message);
                (Some(record), Some(message))
            }
            Err(Damage::Newer(version)) => {
                damage = Some(Damage::Newer(version));
                (None, None)
            }
            Err(bad) => {
                damage = Some(bad);
                (None, Some(record::salvage(self.record)))
            }
        };
        let lock = record::decode_lock(&self.lock).filter(|_| self.state == TaskState::Running);
        let (submitted_at, expires_at, headers) = match known {
            Some(Record {
                submitted_at,
                expires_at,
                headers,
                ..
            }) => (Some(submitted_at), expires_at, headers),
            None => (None, None, Headers::new()),
        };
        let info = TaskInfo {
            id: self.id,
            state: self.state,
            at: self.at,
            submitted_at,
            expires_at,
            attempt: lock.map_or(trail.next_attempt() - 1, |(attempt, _)| attempt),
            message,
            headers,
            trail,
            cancel_requested: lock.is_some_and(|(_, cancel)| cancel),
        };
        (info, damage)
    }
}

impl RedisStore {
    pub(super) async fn find_task(
        &self,
        part: &Partition,
        id: &TaskId,
    ) -> Result<Heard<Option<TaskInfo>>> {
        let command = part
            .script(Script::Find, 160)
            .arg(id.as_str())
            .number(self.scope.retention_ms());
        let mut fields = self.run(Lane::Main, part, command).await?;
        let letter = fields.text()?;
        if letter.is_empty() {
            let split = fields.text()?;
            let known = Known::Nothing { split };
            let answer = None;
            return Ok(Heard { known, answer });
        }
        if letter == "?" {
            let what = "it is in no index; an audit with repair schedules it";
            return Err(part.corrupt(id.as_str(), what));
        }
        let stored = read_stored(id.clone(), state_of(&letter)?, &mut fields)?;
        if stored.state.is_ended() {
            let known = stored.ended();
            let unknown = || part.corrupt(id.as_str(), "its remembered end is damaged");
            return Ok(Heard {
                answer: Some(known.ok_or_else(unknown)?),
                known: Known::Ended,
            });
        }
        let info = match stored.info() {
            (info, None) => info,
            // Where damaged tasks are put, so that somebody looks at them.
            (info, Some(Damage::Bad(_))) if info.state == TaskState::Dead => info,
            (_, Some(Damage::Bad(what))) => return Err(part.corrupt(id.as_str(), what)),
            (_, Some(Damage::Newer(found))) => return Err(part.incompatible(id.as_str(), found)),
        };
        Ok(Heard {
            known: Known::Live,
            answer: Some(info),
        })
    }

    /// A page of one partition.
    pub(super) async fn list_part(
        &self,
        part: &Partition,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        let letter = match state {
            TaskState::Scheduled => "s",
            TaskState::Running => "r",
            TaskState::Dead => "k",
            _ => {
                let reason = format!("{state} tasks cannot be listed: find answers for one id");
                return Err(Error::InvalidInput(reason));
            }
        };
        let at = cursor.map_or(String::new(), |cursor| cursor.at.as_millis().to_string());
        let command = part
            .script(Script::List, 192)
            .arg(letter)
            .number(i64::try_from(limit.clamp(1, MAX_BATCH)).unwrap_or(1))
            .arg(at)
            .arg(cursor.map_or("", |cursor| cursor.id.as_str()));
        let mut fields = self.run(Lane::Main, part, command).await?;
        let has_more = fields.flag()?;
        let mut tasks = Vec::new();
        while !fields.is_empty() {
            let id = fields.id()?;
            tasks.push(Self::shown(part, read_stored(id, state, &mut fields)?));
        }
        let last = tasks.last().filter(|_| has_more);
        let next = last.map(|task| Cursor {
            at: task.at,
            id: task.id.clone(),
        });
        Ok(Page { tasks, next })
    }

    /// A listing shows damaged tasks as well: it is where somebody looks for them.
    fn shown(part: &Partition, stored: Stored) -> TaskInfo {
        let (mut info, damage) = stored.info();
        let what = match damage {
            None => return info,
            Some(Damage::Bad(what)) => part.corrupt(info.id.as_str(), what),
            Some(Damage::Newer(found)) => part.incompatible(info.id.as_str(), found),
        };
        info.trail
            .last_error
            .get_or_insert_with(|| what.to_string());
        info
    }

    /// The counts of one partition, and what it says of being split.
    pub(super) async fn part_stats(&self, part: &Partition) -> Result<(TypeStats, String)> {
        let command = part.script(Script::Stats, 0);
        let mut fields = self.run(Lane::Main, part, command).await?;
        let stats = TypeStats {
            now: fields.time()?,
            scheduled: fields.count()?,
            due: fields.count()?,
            running: fields.count()?,
            dead: fields.count()?,
            next_due: fields.optional_time()?,
            paused_until: fields.optional_time()?,
            max_pending: fields.optional_count()?,
            refused: fields.count()?,
        };
        Ok((stats, fields.text()?))
    }

    pub(super) async fn part_histogram(
        &self,
        part: &Partition,
        bounds: &[Timestamp],
    ) -> Result<Vec<u64>> {
        let mut command = part.script(Script::Histogram, 20 * bounds.len());
        for bound in bounds {
            command.push(bound.as_millis().to_string());
        }
        let mut fields = self.run(Lane::Main, part, command).await?;
        let mut counts = Vec::with_capacity(bounds.len());
        while !fields.is_empty() {
            counts.push(fields.count()?);
        }
        Ok(counts)
    }

    pub(super) async fn all_types(&self) -> Result<Vec<TaskType>> {
        let key = self.scope.keys.types();
        let mut types = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let scan = Command::read(&["SSCAN", &key, &cursor, "COUNT", TYPES_AT_ONCE]);
            let scan = scan.at(self.scope.keys.slot());
            let mut fields = self.call_list(scan).await?;
            cursor = fields.text()?;
            let mut names = fields.list()?;
            while !names.is_empty() {
                let name = names.text()?;
                // The others have to be served all the same.
                match TaskType::new(&name) {
                    Ok(task_type) => types.push(task_type),
                    Err(error) => tracing::error!(key, %error, "a listed task type is damaged"),
                }
            }
            if cursor == "0" {
                break;
            }
        }
        types.sort();
        // A scan may show a name twice.
        types.dedup();
        Ok(types)
    }
}

fn read_stored(id: TaskId, state: TaskState, fields: &mut Fields) -> Result<Stored> {
    Ok(Stored {
        id,
        state,
        at: fields.time()?,
        record: fields.bytes()?,
        trail: fields.bytes()?,
        lock: fields.bytes()?,
    })
}

/// The bounds of `steps` parts of `from..to`: a time belongs to the part in which its share of the whole,
/// rounded down, falls.
pub(super) fn bounds(from: Timestamp, to: Timestamp, steps: usize) -> Vec<Timestamp> {
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
        let ms = |ms| Timestamp::from_millis(ms);
        assert_eq!(bounds(ms(10), ms(20), 3), [ms(10), ms(14), ms(17), ms(20)]);
        // As the specification counts: due 13 is in part 0 (3 * 3 / 10), due 14 in part 1.
        assert_eq!((3 * 3 / 10, 4 * 3 / 10), (0, 1));
        let widest = bounds(Timestamp::ZERO, Timestamp::MAX, 1_000);
        assert_eq!(widest.last(), Some(&Timestamp::MAX));
    }
}
