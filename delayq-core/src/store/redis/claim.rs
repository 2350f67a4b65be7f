//! The claim: what the script took, decoded, and what it could not know: damaged records.

use std::time::{Duration, Instant};

use super::RedisStore;
use super::client::{Command, Fields, Lane};
use super::keys::Partition;
use super::record::{self, Damage, Record};
use super::scope::Scope;
use super::settle::Ending;
use crate::error::Result;
use crate::fleet::{FleetLimits, Rate};
use crate::name::TaskId;
use crate::store::{CLOCK_GUARD, ClaimEnd, ClaimRequest, Claimed, EndCause, MAX_BATCH};
use crate::task::{ClaimedTask, Lock};
use crate::time::Timestamp;

/// A locked task as the script returns it.
struct Locked {
    id: Vec<u8>,
    fence: u64,
    /// `None`: when its record says.
    due_at: Option<Timestamp>,
    record: Vec<u8>,
    trail: Vec<u8>,
}

/// The script's answer, decoded.
struct Answer {
    claimed: Claimed,
    damaged: Vec<(Locked, &'static str)>,
    /// Ids of records of a newer version.
    newer: Fields,
    split: String,
}

/// What a claim found in one partition.
pub(super) struct Visited {
    pub(super) claimed: Claimed,
    /// What the partition says of being split.
    pub(super) split: String,
}

impl RedisStore {
    /// Claims from one partition; with `in_turn` as one of those that take [`turns`](super::turns).
    pub(super) async fn claim_part(
        &self,
        part: &Partition,
        request: &ClaimRequest,
        in_turn: bool,
    ) -> Result<Visited> {
        let limit = i64::try_from(request.limit.min(MAX_BATCH)).unwrap_or(0);
        let claim = self.unanswered.begin(part, request.limit, request.lock_for);
        let command = self
            .scope
            .claim_script(part)
            .number(limit)
            .number(record::span_ms(request.lock_for))
            .number(request.caller_now.plus(CLOCK_GUARD).as_millis())
            .number(request.max_lock_expiries.max(1))
            .number(self.scope.retention_ms())
            .number(Scope::generation())
            .arg(claim.number.to_string())
            .arg(&claim.lost);
        let command = with_limits(command, request.fleet);
        let tells = in_turn && self.scope.turns.tells(part);
        let channel = tells.then(|| self.scope.wake_channel(part));
        let command = command
            .arg(channel.unwrap_or_default())
            .arg(self.scope.wake_message(part));
        let sent = Instant::now();
        let answer = self.client.call_while_awaited(Lane::Main, command).await;
        let answer = self.fields(part, answer).await;
        let round_trip = sent.elapsed();
        let answer = match answer {
            Err(error) if error.is_indeterminate() => return Err(error),
            answer => answer.and_then(|fields| read_answer(part, request.lock_for, fields)),
        };
        let Answer {
            mut claimed,
            damaged,
            newer,
            split,
        } = match answer {
            Ok(answer) => answer,
            Err(error) => {
                claim.answered();
                return Err(error);
            }
        };
        self.bury(part, damaged, &mut claimed).await;
        // Nobody has the tasks if the caller has given up meanwhile.
        claim.answered();
        if in_turn {
            let turns = &self.scope.turns;
            claimed.turn = turns.claimed(part, &claimed, (tells, round_trip));
        }
        refuse_newer(part, newer, &claimed)?;
        Ok(Visited { claimed, split })
    }

    /// Moves tasks with damaged records to dead. If that fails they are claimed again once their locks
    /// expire, so nothing is lost.
    async fn bury(
        &self,
        part: &Partition,
        damaged: Vec<(Locked, &'static str)>,
        claimed: &mut Claimed,
    ) {
        if damaged.is_empty() {
            return;
        }
        let endings = damaged.iter().map(|(taken, why)| Ending {
            id: taken.id.clone(),
            fence: taken.fence,
            end: format!("C\ncorrupt: {why}").into_bytes(),
        });
        let endings: Vec<Ending> = endings.collect();
        let key = part.tasks();
        let buried = self
            .settle_part(part, &endings.iter().collect::<Vec<_>>())
            .await;
        if let Err(error) = &buried {
            tracing::error!(task_type = %part, key, %error, "cannot move damaged tasks to dead, will try again");
        }
        for (taken, why) in damaged {
            let id = String::from_utf8_lossy(&taken.id);
            tracing::error!(task_type = %part, %id, key, why, "a damaged record: moved to dead");
            if let Some(id) = task_id(&taken.id).filter(|_| buried.is_ok()) {
                let cause = EndCause::Corrupt;
                claimed.ended.push(ClaimEnd { id, cause });
            }
        }
    }
}

fn read_answer(part: &Partition, lock_for: Duration, mut fields: Fields) -> Result<Answer> {
    let store_now = fields.time()?;
    let mut claimed = Claimed {
        past: Duration::from_micros(fields.count()?),
        now: fields.time()?,
        store_now,
        next_due: fields.optional_time()?,
        high_water: 0,
        tasks: Vec::new(),
        ended: Vec::new(),
        unheard: 0,
        turn: Duration::ZERO,
    };
    let first_fence = fields.count()?;
    let mut taken = read_taken(fields.list()?, fields.list()?, first_fence)?;
    read_trails(fields.list()?, &mut taken)?;
    claimed.ended = read_ended(part, fields.list()?)?;
    let newer = fields.list()?;
    claimed.high_water = fields.count()?;
    let split = fields.text()?;
    let damaged = decode_all(taken, store_now.plus(lock_for), &mut claimed);
    Ok(Answer {
        claimed,
        damaged,
        newer,
        split,
    })
}

fn read_ended(part: &Partition, mut fields: Fields) -> Result<Vec<ClaimEnd>> {
    let mut ended = Vec::new();
    while !fields.is_empty() {
        let (id, letter) = (fields.bytes()?, fields.text()?);
        let cause = match letter.as_str() {
            "e" => EndCause::Expired,
            "c" => EndCause::Cancelled,
            "p" => EndCause::Poison,
            _ => {
                let id = String::from_utf8_lossy(&id);
                let key = &part.stem;
                tracing::error!(task_type = %part, %id, key, "an index entry without a record: dropped");
                EndCause::Corrupt
            }
        };
        if let Some(id) = task_id(&id) {
            ended.push(ClaimEnd { id, cause });
        }
    }
    Ok(ended)
}

/// Records of a newer release are left to it. They fail the claim only when it has nothing else to tell.
fn refuse_newer(part: &Partition, mut newer: Fields, claimed: &Claimed) -> Result<()> {
    if newer.is_empty() {
        return Ok(());
    }
    let id = String::from_utf8_lossy(&newer.bytes()?).into_owned();
    let error = part.incompatible(&id, record::VERSION + 1);
    if claimed.tasks.is_empty() && claimed.ended.is_empty() {
        return Err(error);
    }
    tracing::error!(task_type = %part, id, %error, "left for a newer release");
    Ok(())
}

/// Adds the limits as `claim.lua` takes them.
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

fn task_id(id: &[u8]) -> Option<TaskId> {
    std::str::from_utf8(id)
        .ok()
        .and_then(|id| TaskId::new(id).ok())
}

/// The fences of a batch follow one another.
fn read_taken(mut ids: Fields, mut records: Fields, first_fence: u64) -> Result<Vec<Locked>> {
    let mut taken = Vec::with_capacity(MAX_BATCH);
    while !ids.is_empty() {
        taken.push(Locked {
            id: ids.bytes()?,
            fence: first_fence + taken.len() as u64,
            due_at: None,
            record: records.bytes()?,
            trail: Vec::new(),
        });
    }
    Ok(taken)
}

/// Most tasks have no history, so what is special about those with one comes apart.
fn read_trails(mut fields: Fields, taken: &mut [Locked]) -> Result<()> {
    while !fields.is_empty() {
        let task = fields.place_in(taken)?;
        (task.due_at, task.trail) = (fields.optional_time()?, fields.bytes()?);
    }
    Ok(())
}

/// Decodes what the script took into `claimed`; returns what is damaged, and why.
fn decode_all(
    taken: Vec<Locked>,
    lock_until: Timestamp,
    claimed: &mut Claimed,
) -> Vec<(Locked, &'static str)> {
    let mut damaged = Vec::new();
    for mut task in taken {
        match decode(&mut task, lock_until) {
            Ok(decoded) => claimed.tasks.push(decoded),
            Err(why) => damaged.push((task, why)),
        }
    }
    damaged
}

fn decode(taken: &mut Locked, lock_until: Timestamp) -> Result<ClaimedTask, &'static str> {
    let id = task_id(&taken.id).ok_or("its id is not a task id")?;
    let trail = record::decode_trail(&taken.trail).ok_or("its trail is damaged")?;
    let decoded = record::decode(std::mem::take(&mut taken.record));
    let Record {
        submitted_at,
        due_at,
        expires_at,
        headers,
        message,
    } = decoded.map_err(|damage| match damage {
        Damage::Bad(why) => why,
        Damage::Newer(_) => "its version is not known",
    })?;
    Ok(ClaimedTask {
        lock: Lock {
            id,
            fence: taken.fence,
        },
        lock_until,
        attempt: trail.next_attempt(),
        due_at: taken.due_at.unwrap_or(due_at),
        submitted_at,
        expires_at,
        message,
        headers,
        trail,
    })
}
