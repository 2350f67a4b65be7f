//! The limits of a type that is split. No script can count what lies in several slots, so an instance asks for
//! permits before it claims: one script of the namespace counts the places and the starts that it has given out.
//!
//! Each statement of an instance says how many places it holds, and how long its locks last; for so long they are its
//! own, also if it is never heard again. What it does not need is given back. A lock is made to last longer only
//! once its place has been. So no more tasks run than the limit says, whatever is lost on the way and however the
//! type is split meanwhile.
//!
//! Several may be under way, on connections of their own. They count in the order of their numbers, and one that comes
//! after a later one is passed over. So each says what is held at most: what an earlier one may still be granted, too.

mod places;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) use self::places::{Again, Permits};
use self::places::{Desk, Permit, ends_at};
use super::RedisStore;
use super::client::{Command, Fields, Lane};
use super::record::span_ms;
use super::scripts::Script;
use super::spread::Spread;
use crate::error::{Error, Result};
use crate::fleet::{FleetLimits, Rate};
use crate::name::TaskType;
use crate::store::{ClaimRequest, ExtendOutcome, SettleOutcome, Settlement};
use crate::task::Lock;

/// The time at which nothing was granted, as a later statement had been heard before.
const OVERTAKEN: u64 = 0;

/// What a statement is about, beside what is held.
#[derive(Debug, Default)]
struct Statement {
    want: usize,
    /// How long locks last that are given or extended behind it.
    lock_for: Duration,
    unstated: Unstated,
    /// Whether this instance's own handlers may be the ones that wait.
    wakes_own: bool,
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
    granted_at: u64,
    /// Whether there is a place again for which somebody waited.
    is_free: bool,
    again: Again,
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
        let want = {
            let mut places = desk.places();
            places.limits = request.fleet;
            places.next_want().min(request.limit)
        };
        let unstated = self.unstated(spread, request.fleet).await?;
        let statement = Statement {
            want,
            lock_for: request.lock_for,
            unstated,
            ..Statement::default()
        };
        let stated = self.state(task_type, &desk, Lane::Main, statement).await;
        let (mut permit, answer) = stated?;
        let is_overstated = permit.granted(answer.granted, answer.granted_at);
        let is_less = answer.granted < want && answer.again == Again::AtOnce;
        let first_end = desk.places().first_end().filter(|_| answer.granted == 0);
        permit.is_full = is_less && request.fleet.concurrency.is_some();
        permit.again = match (answer.again, first_end) {
            (Again::At(at), Some(end)) => Again::At(at.min(end)),
            (Again::WhenTold, Some(end)) => Again::At(end),
            (again, _) => again,
        };
        if is_overstated {
            self.give_back(task_type, false).await;
        }
        Ok(permit)
    }

    /// Says what is not held any more, unless another statement has said so meanwhile. Nobody waits for that for long.
    pub(super) async fn give_back(&self, task_type: &TaskType, wakes_own: bool) {
        let Some(desk) = self.permits.known(task_type) else {
            return;
        };
        let statement = Statement {
            wakes_own,
            ..Statement::default()
        };
        let state = async {
            drop(desk.turn.lock().await);
            if desk.places().has_freed {
                self.state(task_type, &desk, Lane::Main, statement).await?;
            }
            Ok(())
        };
        if let Err(error) = self.in_a_moment(state).await {
            // Places are free once the locks would have ended, or with the next statement.
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
        let has_freed = {
            let mut places = desk.places();
            for (settlement, outcome) in settlements.iter().zip(outcomes) {
                if *outcome != SettleOutcome::Unknown {
                    places.free(&settlement.lock);
                }
            }
            places.has_freed
        };
        if has_freed {
            self.give_back(task_type, true).await;
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
        let until = ends_at(Instant::now(), lock_for);
        let mut is_any = false;
        {
            let mut places = desk.places();
            for lock in locks {
                is_any |= places.note_end(lock, until, false);
            }
        }
        if !is_any {
            return Ok(());
        }
        let statement = Statement {
            lock_for,
            // It may overtake the one that gives back for what they wait.
            wakes_own: true,
            ..Statement::default()
        };
        let longest = self.scope.options.call_timeout;
        tokio::select! {
            biased;
            stated = self.state(task_type, &desk, Lane::Extend, statement) => stated.map(drop),
            () = self.client.rest(longest) => Err(self.slower(longest)),
        }
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
        for (lock, outcome) in locks.iter().zip(outcomes) {
            let is_applied = matches!(
                outcome,
                ExtendOutcome::Extended(_) | ExtendOutcome::CancelRequested(_)
            );
            if is_applied {
                places.note_end(lock, until, true);
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
        let most = fleet.concurrency.map_or(1, |most| most.max(1));
        let command = whole.script(Script::Unstated, 64).number(i64::from(most));
        let command = with_rate(command, fleet);
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
    ) -> Result<(Permit, Answer)> {
        // An extension must not wait: the connection of a claim may be silent for longer than locks last.
        let _turn = match lane {
            Lane::Extend => None,
            Lane::Main | Lane::Submit => Some(desk.turn.lock().await),
        };
        let now = Instant::now();
        let until = ends_at(now, statement.lock_for);
        let (stated, permit) = desk.state(statement.want, now, until);
        let (limits, back) = (stated.limits, stated.back);
        let most = limits.concurrency.map(|most| most.max(1).to_string());
        let (keys, slot) = (self.scope.keys.permits(task_type), self.scope.keys.slot());
        let command = Command::script(Script::Permit, slot, keys.iter(), 256)
            .arg(self.scope.sender())
            .arg(stated.number.to_string())
            .arg(stated.held.to_string())
            .arg(statement.want.to_string())
            .arg(statement.unstated.places.to_string())
            .number(span_ms(stated.keep))
            .arg(most.unwrap_or_default());
        let command = with_rate(command, limits)
            .arg(back.0.to_string())
            .arg(back.1.to_string())
            .arg(statement.unstated.ahead_us.to_string())
            .number(i64::from(self.scope.is_cluster()))
            .arg(self.scope.keys.wake_channel())
            .arg(self.scope.type_message(task_type));
        let answer = self.client.call_while_awaited(lane, command).await;
        if answer
            .as_ref()
            .is_err_and(|error| !error.is_indeterminate())
        {
            let mut places = desk.places();
            places.has_freed = true;
            places.give_back(back.0, back.1);
        }
        let fields = answer.map_err(|error| not_ours(error, &keys))?.fields();
        let answer = Answer::read(fields, statement.want)?;
        if answer.granted_at == OVERTAKEN {
            // The later one says the rest of it.
            desk.places().give_back(back.0, back.1);
        }
        if answer.is_free && statement.wakes_own {
            self.scope.wake_type(task_type);
        }
        Ok((permit, answer))
    }
}

impl Answer {
    fn read(mut fields: Fields, want: usize) -> Result<Self> {
        let granted = usize::try_from(fields.count()?).unwrap_or(usize::MAX);
        let is_free = fields.flag()?;
        let again = match u64::try_from(fields.int()?) {
            Ok(0) => Again::AtOnce,
            Ok(us) => Again::At(ends_at(Instant::now(), Duration::from_micros(us))),
            Err(_) => Again::WhenTold,
        };
        Ok(Self {
            granted: granted.min(want),
            granted_at: fields.count()?,
            is_free,
            again,
        })
    }
}

/// Adds the rate as the scripts take it.
fn with_rate(command: Command, limits: FleetLimits) -> Command {
    let rate = limits.rate.map(Rate::clamped);
    let text = |number: Option<u128>| number.map_or(String::new(), |number| number.to_string());
    command
        .arg(text(rate.map(|rate| rate.starts.into())))
        .arg(text(rate.map(|rate| rate.per.as_micros())))
        .arg(text(rate.map(|rate| rate.burst.into())))
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
