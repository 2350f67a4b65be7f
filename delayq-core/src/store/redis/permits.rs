//! The limits of a type that is split. No script can count what lies in several slots, so an instance asks for
//! permits before it claims: one script of the namespace counts the places and the starts that it has given out.
//!
//! Each statement of an instance says how many places it holds, and how long its locks last; for so long they are its
//! own, also if it is never heard again. What it does not need is given back. A lock is made to last longer only
//! once its place has been. So no more tasks run than the limit says, whatever is lost on the way and however the
//! type is split meanwhile.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::RedisStore;
use super::client::{Command, Lane};
use super::record::span_ms;
use super::scripts::Script;
use super::spread::Spread;
use super::visits::FIRST_PATIENCE;
use crate::error::{Error, Result};
use crate::fleet::{FleetLimits, Rate};
use crate::name::{TaskId, TaskType};
use crate::store::{ClaimRequest, ExtendOutcome, SettleOutcome, Settlement};
use crate::task::{ClaimedTask, Lock};

/// How much longer than its locks an instance has its places: so long after it asked it may still send a claim.
const SLACK: Duration = Duration::from_millis(500);
/// A lock without an end is reckoned to last so long.
const LONGEST: Duration = Duration::from_hours(24 * 365 * 100);
/// When to ask again while tasks run that were started before the type was split: nobody tells of their ends.
const UNSTATED_AGAIN: Duration = Duration::from_millis(50);

/// What one store holds of the limits, by type.
#[derive(Debug, Default)]
pub(super) struct Permits(Mutex<HashMap<TaskType, Arc<Desk>>>);

/// What is held of one type.
#[derive(Debug, Default)]
struct Desk {
    /// The number of the last statement. One is made after another.
    last: tokio::sync::Mutex<u64>,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    limits: FleetLimits,
    /// Of claims that are under way, and until when their locks last at most.
    reserved: usize,
    reserved_until: Option<Instant>,
    /// Tasks under way: the fence, and until when the lock lasts at most.
    locks: HashMap<TaskId, (u64, Instant)>,
    /// Some have become free since the last statement.
    has_freed: bool,
}

/// What a statement is about, beside what is held.
#[derive(Debug, Default)]
struct Statement {
    want: usize,
    /// How long locks last that are given or extended behind it.
    lock_for: Duration,
    /// Starts that were granted and not used.
    back: usize,
    unstated: Unstated,
}

/// What claims from before the type was split have left: places, and how long their rate is used up.
#[derive(Clone, Copy, Debug, Default)]
struct Unstated {
    places: u64,
    ahead_us: u64,
}

/// The answer to a statement.
#[derive(Debug)]
struct Answer {
    granted: usize,
    again_at: Option<Instant>,
}

/// What a claim may start.
#[derive(Debug)]
pub(super) struct Permit {
    desk: Arc<Desk>,
    pub(super) starts: usize,
    /// No claim may be sent later.
    pub(super) until: Instant,
    /// Whether fewer were granted than asked for as no place is left.
    pub(super) is_full: bool,
    /// When it is worth to ask for more, if that is known.
    pub(super) again_at: Option<Instant>,
}

impl Permits {
    fn desk(&self, task_type: &TaskType) -> Arc<Desk> {
        Arc::clone(self.all().entry(task_type.clone()).or_default())
    }

    fn known(&self, task_type: &TaskType) -> Option<Arc<Desk>> {
        self.all().get(task_type).cloned()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<TaskType, Arc<Desk>>> {
        // No panic leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    fn places(&self) -> MutexGuard<'_, Places> {
        // No panic leaves it half changed.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    /// How many are held, and for how long at least, as of a statement that is about to be sent.
    fn stated(&mut self, now: Instant, until: Instant) -> (usize, Duration) {
        self.locks.retain(|_, (_, until)| *until > now);
        self.has_freed = false;
        let reserved = self.reserved_until.filter(|_| self.reserved > 0);
        let ends = self.locks.values().map(|(_, until)| *until);
        let longest = ends.chain(reserved).fold(until, Instant::max);
        let keep = longest.saturating_duration_since(now) + SLACK;
        (self.reserved + self.locks.len(), keep)
    }

    fn reserve(&mut self, places: usize, until: Instant) {
        self.reserved += places;
        self.reserved_until = self.reserved_until.max(Some(until));
    }
}

impl Permit {
    /// Turns what was used into places of these tasks, and returns how much was not.
    pub(super) fn used_by(self, tasks: &[ClaimedTask], lock_for: Duration) -> usize {
        let until = ends_at(Instant::now(), lock_for);
        let mut places = self.desk.places();
        if places.limits.concurrency.is_some() {
            let locks = tasks.iter().map(|task| &task.lock);
            let held = locks.map(|lock| (lock.id.clone(), (lock.fence, until)));
            places.locks.extend(held);
        }
        drop(places);
        self.starts.saturating_sub(tasks.len())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut places = self.desk.places();
        places.reserved = places.reserved.saturating_sub(self.starts);
        places.has_freed = true;
    }
}

impl RedisStore {
    /// Asks how many tasks a claim may start.
    pub(super) async fn permit(
        &self,
        task_type: &TaskType,
        spread: &Spread,
        request: &ClaimRequest,
    ) -> Result<Permit> {
        let desk = self.permits.desk(task_type);
        desk.places().limits = request.fleet;
        let unstated = self.unstated(spread, request.fleet).await?;
        let asked = Instant::now();
        let statement = Statement {
            want: request.limit,
            lock_for: request.lock_for,
            unstated,
            ..Statement::default()
        };
        let answer = self.state(task_type, &desk, Lane::Main, statement).await?;
        let mut again_at = answer.again_at;
        if answer.granted == 0 {
            let first_end = desk.places().locks.values().map(|(_, until)| *until).min();
            let unstated = (unstated.places > 0).then(|| Instant::now() + UNSTATED_AGAIN);
            again_at = again_at.into_iter().chain(first_end).chain(unstated).min();
        }
        Ok(Permit {
            is_full: request.fleet.concurrency.is_some()
                && answer.granted < request.limit
                && answer
                    .again_at
                    .is_some_and(|again_at| again_at <= Instant::now()),
            desk,
            starts: answer.granted,
            until: asked + SLACK,
            again_at,
        })
    }

    /// Gives starts back that were granted and not used.
    pub(super) async fn give_back(&self, task_type: &TaskType, back: usize) {
        let desk = self.permits.desk(task_type);
        let statement = Statement {
            back,
            ..Statement::default()
        };
        let stated = tokio::select! {
            biased;
            stated = self.state(task_type, &desk, Lane::Main, statement) => stated.map(drop),
            () = self.client.rest(FIRST_PATIENCE) => Err(self.slower(FIRST_PATIENCE)),
        };
        if let Err(error) = stated {
            // The next statement says it again, and without one it is free once the locks would have ended.
            tracing::debug!(%task_type, %error, "cannot give back what a limit had granted");
        }
    }

    /// Gives back the places of attempts that have ended.
    pub(super) async fn free_places(
        &self,
        task_type: &TaskType,
        settlements: &[Settlement],
        outcomes: &[SettleOutcome],
    ) {
        let Some(desk) = self.permits.known(task_type) else {
            return;
        };
        {
            let mut places = desk.places();
            for (settlement, outcome) in settlements.iter().zip(outcomes) {
                let Lock { id, fence } = &settlement.lock;
                let is_held = places.locks.get(id).is_some_and(|(held, _)| held == fence);
                if is_held && *outcome != SettleOutcome::Unknown {
                    places.locks.remove(id);
                    places.has_freed = true;
                }
            }
        }
        // Another statement may be about to say so.
        drop(desk.last.lock().await);
        if desk.places().has_freed {
            self.give_back(task_type, 0).await;
        }
    }

    /// Keeps the places of these locks for as long as they are about to last.
    ///
    /// # Errors
    /// Those of the script: then no lock may last longer.
    pub(super) async fn keep_places(
        &self,
        task_type: &TaskType,
        locks: &[Lock],
        lock_for: Duration,
    ) -> Result<()> {
        let Some(desk) = self.permits.known(task_type) else {
            return Ok(());
        };
        let held: Vec<&Lock> = {
            let places = desk.places();
            let is_held = |lock: &&Lock| {
                let held = places.locks.get(&lock.id);
                held.is_some_and(|(fence, _)| *fence == lock.fence)
            };
            locks.iter().filter(is_held).collect()
        };
        if held.is_empty() {
            return Ok(());
        }
        let statement = Statement {
            lock_for,
            ..Statement::default()
        };
        let until = ends_at(Instant::now(), lock_for);
        self.state(task_type, &desk, Lane::Extend, statement)
            .await?;
        let mut places = desk.places();
        for lock in held {
            if let Some((_, end)) = places.locks.get_mut(&lock.id) {
                *end = until.max(*end);
            }
        }
        Ok(())
    }

    /// Notes that these locks last until they do, which may be earlier than they did.
    pub(super) fn note_ends(
        &self,
        task_type: &TaskType,
        locks: &[Lock],
        outcomes: &[ExtendOutcome],
        lock_for: Duration,
    ) {
        let Some(desk) = self.permits.known(task_type) else {
            return;
        };
        let until = ends_at(Instant::now(), lock_for);
        let mut places = desk.places();
        for (Lock { id, fence }, outcome) in locks.iter().zip(outcomes) {
            let is_applied = matches!(
                outcome,
                ExtendOutcome::Extended(_) | ExtendOutcome::CancelRequested(_)
            );
            if let Some((held, end)) = places.locks.get_mut(id).filter(|_| is_applied)
                && held == fence
            {
                *end = until;
            }
        }
    }

    /// What runs of the type, and was started by claims that asked for no permit as the type was not split.
    async fn unstated(&self, spread: &Spread, fleet: FleetLimits) -> Result<Unstated> {
        let is_over = || spread.has_stated_all.load(Ordering::Relaxed);
        let Some(whole) = spread
            .older()
            .find(|part| part.name.is_empty() && !is_over())
        else {
            return Ok(Unstated::default());
        };
        let most = fleet.concurrency.unwrap_or(0);
        let command = whole.script(Script::Unstated, 32).number(i64::from(most));
        let mut fields = self.run(Lane::Main, whole, command).await?;
        let unstated = Unstated {
            places: fields.count()?,
            ahead_us: fields.count()?,
        };
        if unstated.places == 0 && unstated.ahead_us == 0 {
            // It is sealed: there never are any again.
            spread.has_stated_all.store(true, Ordering::Relaxed);
        }
        Ok(unstated)
    }

    async fn state(
        &self,
        task_type: &TaskType,
        desk: &Arc<Desk>,
        lane: Lane,
        statement: Statement,
    ) -> Result<Answer> {
        let mut last = desk.last.lock().await;
        *last += 1;
        let now = Instant::now();
        let (limits, (held, keep)) = {
            let mut places = desk.places();
            (
                places.limits,
                places.stated(now, ends_at(now, statement.lock_for)),
            )
        };
        let text = |number: Option<u32>| number.map_or(String::new(), |number| number.to_string());
        let rate = limits.rate.map(Rate::clamped);
        let per = rate.map(|rate| rate.per.as_micros().to_string());
        let (keys, slot) = (self.scope.keys.permits(task_type), self.scope.keys.slot());
        let command = Command::script(Script::Permit, slot, keys.iter(), 256)
            .arg(self.scope.sender())
            .arg(last.to_string())
            .arg(held.to_string())
            .arg(statement.want.to_string())
            .arg(statement.unstated.places.to_string())
            .number(span_ms(keep))
            .arg(text(limits.concurrency.map(|most| most.max(1))))
            .arg(text(rate.map(|rate| rate.starts)))
            .arg(per.unwrap_or_default())
            .arg(text(rate.map(|rate| rate.burst)))
            .arg(statement.back.to_string())
            .arg(statement.unstated.ahead_us.to_string())
            .number(i64::from(self.scope.is_cluster()))
            .arg(self.scope.keys.wake_channel())
            .arg(self.scope.type_message(task_type));
        let answer = self.client.call_while_awaited(lane, command).await;
        let mut fields = answer.map_err(|error| not_ours(error, &keys))?.fields();
        let granted = usize::try_from(fields.count()?).unwrap_or(usize::MAX);
        let granted = granted.min(statement.want);
        if fields.flag()? {
            self.scope.wake_type(task_type);
        }
        let again_us = u64::try_from(fields.int()?).ok();
        desk.places()
            .reserve(granted, ends_at(now, statement.lock_for));
        Ok(Answer {
            granted,
            again_at: again_us.map(|us| ends_at(Instant::now(), Duration::from_micros(us))),
        })
    }
}

fn ends_at(now: Instant, span: Duration) -> Instant {
    now + span.min(LONGEST)
}

/// Names the keys where somebody else uses one of them.
fn not_ours(error: Error, keys: &[String; 2]) -> Error {
    match error {
        Error::Corrupt { .. } => Error::Corrupt {
            key: keys.join(" or "),
            detail:
                "it is not what a limit of the fleet is kept in: who else writes to `delayq:*`?"
                    .to_owned(),
        },
        error => error,
    }
}
