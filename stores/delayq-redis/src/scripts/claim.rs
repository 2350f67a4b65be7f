//! Arguments and answer of `claim.lua`.

use std::time::Duration;

use delayq_core::fleet::{FleetLimits, Rate};
use delayq_core::store::{
    BucketState, CLOCK_GUARD, ClaimEnd, ClaimRequest, Claimed, EndCause, MAX_BATCH,
};
use delayq_core::task::{ClaimedTask, Lock};
use delayq_core::{Result, TaskId, Timestamp};

use super::record::{self, Damage};
use super::submit::WakeCall;
use super::{Retention, Script, ShardKeys};
use crate::connection::{Command, Fields};

/// The number of a claim of this instance, and the numbers of earlier ones whose answers were lost.
#[derive(Debug)]
pub(crate) struct ClaimNumbers {
    pub(crate) number: u64,
    /// Each number between spaces; empty for none.
    pub(crate) in_doubt: String,
}

/// A claim by `instance`. `wake` is the channel for its results, if they are published.
pub(crate) fn command(
    keys: &ShardKeys,
    instance: &str,
    request: &ClaimRequest,
    numbers: &ClaimNumbers,
    call: ClaimCall<'_>,
) -> Command {
    let all: Vec<String> = keys
        .keys
        .iter()
        .cloned()
        .chain([keys.claim(instance)])
        .collect();
    let command = Command::script(Script::Claim.lua(), keys.slot, &all, 256)
        .number(i64::try_from(request.limit.min(MAX_BATCH)).unwrap_or(0))
        .number(record::span_ms(request.lock_for))
        .number(request.caller_now.plus(CLOCK_GUARD).as_millis())
        .number(request.most_expiries(false))
        .number(call.retention.ms)
        .arg(call.retention.most.to_string())
        .arg(numbers.number.to_string())
        .arg(&numbers.in_doubt);
    with_limits(command, request.fleet)
        .arg(call.wake.map_or("", |wake| &wake.channel))
        .arg(call.wake.map_or("", |wake| &wake.message))
        .arg(record::holder_word(request.holder.as_ref()))
        .number(request.most_expiries(true))
        .number(request.uncounted())
        .arg(keys.packing.settings())
}

/// Parameters of a claim that come from the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimCall<'a> {
    /// The retention of ended tasks.
    pub(crate) retention: Retention,
    /// The channel for the results; `None`: not published.
    pub(crate) wake: Option<&'a WakeCall>,
}

/// Adds the fleet limits; empty texts if there are none.
fn with_limits(command: Command, fleet: FleetLimits) -> Command {
    let text = |number: Option<u32>| number.map_or(String::new(), |number| number.to_string());
    let rate = fleet.rate.map(Rate::clamped);
    let per = rate.map(|rate| rate.per.as_micros().to_string());
    command
        .arg(text(fleet.concurrency.map(|most| most.max(1))))
        .arg(text(rate.map(|rate| rate.starts)))
        .arg(per.unwrap_or_default())
        .arg(text(rate.map(|rate| rate.burst)))
}

/// A rate in the format of a setting.
pub(crate) fn rate_text(rate: Rate) -> String {
    let Rate { starts, per, burst } = rate.clamped();
    format!("{starts} {} {burst}", per.as_micros())
}

/// A rate from a setting; `None` for any other text, which a claim reports.
pub(crate) fn read_rate(text: &str) -> Option<Rate> {
    let mut words = text.split(' ');
    let starts = words.next()?.parse().ok()?;
    let per = Duration::from_micros(words.next()?.parse().ok()?);
    let burst = words.next()?.parse().ok()?;
    Some(Rate { starts, per, burst })
}

/// The answer of a claim.
#[derive(Debug)]
pub(crate) struct ClaimReply {
    pub(crate) claimed: Claimed,
    /// The fraction of a millisecond missing in `store_now`.
    pub(crate) sub_ms: Duration,
    /// The time when the next call can find something, on the clock used for due times.
    pub(crate) next_at: Option<Timestamp>,
    /// Tasks that were locked but cannot be read.
    pub(crate) damaged: Vec<Damaged>,
    /// Ids of index entries without a record, which were dropped.
    pub(crate) missing: Vec<String>,
    /// Ids of records of a newer version, which were postponed.
    pub(crate) newer: Vec<String>,
    /// The field `split` of the shard.
    pub(crate) split: String,
}

/// A locked task whose record or trail is damaged.
#[derive(Debug)]
pub(crate) struct Damaged {
    pub(crate) id: Vec<u8>,
    pub(crate) fence: u64,
    pub(crate) why: &'static str,
}

/// A locked task as returned by the script.
struct Locked {
    id: Vec<u8>,
    fence: u64,
    /// `None` if it is the record's due time.
    due_at: Option<Timestamp>,
    record: Vec<u8>,
    trail: Vec<u8>,
    is_taken_over: bool,
}

pub(crate) fn read(mut fields: Fields, lock_for: Duration) -> Result<ClaimReply> {
    let store_now = fields.time()?;
    let sub_ms = Duration::from_micros(fields.count()?);
    let now = fields.time()?;
    let next_at = fields.optional_time()?;
    let first_fence = fields.count()?;
    let mut locked = read_locked(fields.list()?, fields.list()?, first_fence)?;
    read_trails(fields.list()?, &mut locked)?;
    let mut answer = ClaimReply {
        claimed: Claimed::nothing(now, store_now),
        sub_ms: if now == store_now {
            sub_ms
        } else {
            Duration::ZERO
        },
        next_at,
        damaged: Vec::new(),
        missing: Vec::new(),
        newer: Vec::new(),
        split: String::new(),
    };
    read_ended(fields.list()?, &mut answer)?;
    let mut newer = fields.list()?;
    while !newer.is_empty() {
        answer.newer.push(lossy(&newer.bytes()?));
    }
    answer.claimed.high_water = fields.count()?;
    answer.split = fields.text()?;
    let lock_until = store_now.plus(lock_for);
    for task in locked {
        match decode(task, lock_until) {
            Ok(task) => answer.claimed.tasks.push(task),
            Err(damaged) => answer.damaged.push(damaged),
        }
    }
    answer.claimed.next_in = answer.next_in();
    answer.claimed.bucket = match answer.split.as_str() {
        "-" => BucketState::Sealed,
        "--" => BucketState::Drained,
        _ => BucketState::Open,
    };
    Ok(answer)
}

impl ClaimReply {
    /// The time after this claim at which another one can find something.
    fn next_in(&self) -> Option<Duration> {
        let wait = self.next_at?.since(self.claimed.now);
        Some(wait.saturating_sub(self.sub_ms))
    }
}

fn read_ended(mut fields: Fields, answer: &mut ClaimReply) -> Result<()> {
    while !fields.is_empty() {
        let (id, letter) = (fields.bytes()?, fields.text()?);
        let cause = match letter.as_str() {
            "e" => EndCause::Expired,
            "c" => EndCause::Cancelled,
            "p" => EndCause::Poison,
            _ => {
                answer.missing.push(lossy(&id));
                EndCause::Corrupt
            }
        };
        if let Some(id) = task_id(&id) {
            answer.claimed.ended.push(ClaimEnd::new(id, cause));
        }
    }
    Ok(())
}

/// The fences of a batch are consecutive.
fn read_locked(mut ids: Fields, mut records: Fields, first_fence: u64) -> Result<Vec<Locked>> {
    let mut locked = Vec::with_capacity(MAX_BATCH);
    while !ids.is_empty() {
        locked.push(Locked {
            id: ids.bytes()?,
            fence: first_fence + locked.len() as u64,
            due_at: None,
            record: records.bytes()?,
            trail: Vec::new(),
            is_taken_over: false,
        });
    }
    Ok(locked)
}

/// Most tasks have no history, so trails are returned separately. A task that was taken over has no
/// separate due time.
fn read_trails(mut fields: Fields, locked: &mut [Locked]) -> Result<()> {
    while !fields.is_empty() {
        let task = fields.item_of(locked)?;
        (task.due_at, task.trail) = (fields.optional_time()?, fields.bytes()?);
        task.is_taken_over = task.due_at.is_none();
    }
    Ok(())
}

fn decode(locked: Locked, lock_until: Timestamp) -> Result<ClaimedTask, Damaged> {
    let Locked {
        id: raw_id,
        fence,
        due_at,
        record,
        trail,
        is_taken_over,
    } = locked;
    let damaged = |why| Damaged {
        id: raw_id.clone(),
        fence,
        why,
    };
    let id = task_id(&raw_id).ok_or_else(|| damaged("its id is not a task id"))?;
    let trail = record::decode_trail(&trail).ok_or_else(|| damaged("its trail is damaged"))?;
    let record = record::decode(record).map_err(|damage| match damage {
        Damage::Bad(why) => damaged(why),
        Damage::Newer(_) => damaged("its version is not known"),
    })?;
    let mut task = ClaimedTask::new(Lock { id, fence }, lock_until, record.submitted_at);
    task.attempt = trail.next_attempt();
    task.due_at = due_at.unwrap_or(record.due_at);
    task.expires_at = record.expires_at;
    task.message = record.message;
    task.headers = record.headers;
    task.history = trail;
    task.is_taken_over = is_taken_over;
    Ok(task)
}

pub(crate) fn task_id(id: &[u8]) -> Option<TaskId> {
    std::str::from_utf8(id)
        .ok()
        .and_then(|id| TaskId::new(id).ok())
}

fn lossy(id: &[u8]) -> String {
    String::from_utf8_lossy(id).into_owned()
}

#[cfg(test)]
mod tests;
