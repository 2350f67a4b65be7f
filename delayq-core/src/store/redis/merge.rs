//! One answer of a claim from those of several partitions, each on the clock of its own server.

use std::time::{Duration, Instant};

use super::keys::Partition;
use super::spread::Spread;
use super::visits::{Seen, Since, Visits};
use crate::name::TaskType;
use crate::store::Claimed;
use crate::time::Timestamp;

/// The answers of one round so far.
pub(super) struct Merged {
    /// When the round began: what the caller reckons from.
    start: Instant,
    claimed: Option<Claimed>,
    /// The largest fence that was found or given.
    top: u64,
    /// The largest fence found, of those known.
    found: u64,
    /// The fence to which a partition has gone back, as only lost data can make it.
    lost: Option<u64>,
}

impl Merged {
    pub(super) fn new(start: Instant) -> Self {
        Self {
            start,
            claimed: None,
            top: 0,
            found: 0,
            lost: None,
        }
    }

    /// Tasks taken and ended: what counts to the limit.
    pub(super) fn taken(&self) -> usize {
        self.claimed.as_ref().map_or(0, taken)
    }

    /// Adds what a partition has answered, which was known to have given `known_fence`.
    pub(super) fn add(&mut self, answer: Claimed, known_fence: u64) {
        let found = answer.high_water;
        let given = answer.tasks.iter().map(|task| task.lock.fence);
        self.top = given.chain([found, self.top]).max().unwrap_or(0);
        self.found = self.found.max(found);
        if found < known_fence {
            self.lost = Some(self.lost.map_or(found, |lost| lost.min(found)));
        }
        let Some(claimed) = &mut self.claimed else {
            self.claimed = Some(answer);
            return;
        };
        // Those who took something have compared due times with their now: the latest of them all holds for each.
        let is_later = (taken(&answer) > 0, answer.now) > (taken(claimed) > 0, claimed.now);
        if is_later {
            (claimed.now, claimed.store_now, claimed.past) =
                (answer.now, answer.store_now, answer.past);
        }
        claimed.tasks.extend(answer.tasks);
        claimed.ended.extend(answer.ended);
    }

    /// The answer, with when to call again; `None` when nobody has answered.
    pub(super) fn finish(
        self,
        task_type: &TaskType,
        spread: &Spread,
        visits: &Visits,
    ) -> Option<Claimed> {
        let mut claimed = self.claimed?;
        let top = visits.top(task_type, self.top);
        claimed.high_water = self.lost.unwrap_or(self.found.max(top));
        claimed
            .tasks
            .sort_by(|a, b| (a.due_at, &a.lock.id).cmp(&(b.due_at, &b.lock.id)));
        claimed.next_due = None;
        let next = spread
            .all()
            .filter_map(|part| next_of(part, visits))
            .min_by_key(|(since, _)| *since);
        if let Some((since, seen)) = next {
            let at = match since {
                Since::Ever => self.start,
                Since::Instant(at) => at,
            };
            if let Some(seen) = seen.filter(|_| taken(&claimed) == 0) {
                (claimed.now, claimed.store_now, claimed.past) = clock_at(&seen, self.start);
            }
            let wait = match seen {
                // More is due already, whenever that was seen.
                Some(seen) if seen.next_in == Some(Duration::ZERO) => Duration::ZERO,
                _ => at.saturating_duration_since(self.start),
            };
            call_again(&mut claimed, wait, seen.and_then(|seen| seen.next_due));
        }
        Some(claimed)
    }
}

fn taken(claimed: &Claimed) -> usize {
    claimed.tasks.len() + claimed.ended.len()
}

/// When a partition has to be visited next, and the visit that said so.
fn next_of(part: &Partition, visits: &Visits) -> Option<(Since, Option<Seen>)> {
    visits.look(part, |visit| {
        let since = visit.due_by_itself()?;
        let said_so = visit
            .seen
            .filter(|seen| seen.next_at().map(Since::Instant) == Some(since));
        Some((since, said_so))
    })?
}

/// What the clock that was `seen` shows at another time.
fn clock_at(seen: &Seen, at: Instant) -> (Timestamp, Timestamp, Duration) {
    if at == seen.sent {
        return (seen.now, seen.store_now, seen.past);
    }
    let is_guarded = seen.now != seen.store_now;
    let past = if is_guarded {
        Duration::ZERO
    } else {
        seen.past
    };
    let (later, earlier) = (
        at.saturating_duration_since(seen.sent),
        seen.sent.saturating_duration_since(at),
    );
    let move_by = |time: Timestamp| {
        let micros = i128::from(time.as_millis()) * 1_000 + micros(past + later) - micros(earlier);
        let ms = i64::try_from(micros.div_euclid(1_000)).unwrap_or(i64::MAX);
        let rest = u64::try_from(micros.rem_euclid(1_000)).unwrap_or(0);
        (Timestamp::from_millis(ms), Duration::from_micros(rest))
    };
    let ((now, past), (store_now, _)) = (move_by(seen.now), move_by(seen.store_now));
    (now, store_now, past)
}

/// Has the caller come again after `wait`, to the microsecond. Where a due time in whole milliseconds cannot say so on
/// this clock, the part of a millisecond that the clock is past makes up for it. `due` is the due time on another
/// clock, kept if the two agree.
fn call_again(claimed: &mut Claimed, wait: Duration, due: Option<Timestamp>) {
    let now = i128::from(claimed.now.as_millis()) * 1_000;
    let at = now + micros(wait);
    let past_of = |due: Timestamp| {
        let past = i128::from(due.as_millis()) * 1_000 - at;
        u64::try_from(past).ok().filter(|past| *past < 1_000)
    };
    let ms = i64::try_from((at + 999).div_euclid(1_000)).unwrap_or(i64::MAX);
    let has_come = |due: Timestamp| wait.is_zero() && due <= claimed.now;
    let due = due.filter(|due| past_of(*due).is_some() || has_come(*due));
    let due = due.unwrap_or_else(|| Timestamp::from_millis(ms));
    claimed.next_due = Some(due);
    if claimed.now == claimed.store_now {
        claimed.past = Duration::from_micros(past_of(due).unwrap_or(0));
    }
}

/// Has the caller come again after `wait` although more is due: limits allow nothing earlier. Without a time somebody
/// will tell.
pub(super) fn hold_back(claimed: &mut Claimed, wait: Option<Duration>) {
    claimed.next_due = None;
    if let Some(wait) = wait {
        call_again(claimed, wait, None);
    }
}

/// Rounded up: nobody is to come early.
fn micros(span: Duration) -> i128 {
    i128::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::TaskId;
    use crate::store::{ClaimEnd, EndCause};

    fn ms(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn claimed(now: i64, past: u64, next_due: Option<i64>) -> Claimed {
        Claimed {
            now: ms(now),
            store_now: ms(now),
            past: Duration::from_micros(past),
            high_water: 0,
            tasks: Vec::new(),
            ended: Vec::new(),
            unheard: 0,
            next_due: next_due.map(ms),
            turn: Duration::ZERO,
        }
    }

    #[test]
    fn the_caller_comes_again_to_the_microsecond_whatever_clock_it_is_told() {
        for (now, wait, due, expected) in [
            (1_000, 1_300, Some(1_002), 1_002),
            // Another clock is ahead by two milliseconds: its due time would be too late on this one.
            (1_000, 1_300, Some(1_004), 1_002),
            (1_000, 1_300, None, 1_002),
            (1_000, 2_000, None, 1_002),
            (1_000, 0, Some(990), 990),
            (1_000, 0, Some(1_001), 1_000),
            (1_000, 0, None, 1_000),
        ] {
            let mut answer = claimed(now, 0, None);
            let wait = Duration::from_micros(wait);
            call_again(&mut answer, wait, due.map(ms));
            assert_eq!(answer.next_due, Some(ms(expected)), "{wait:?} {due:?}");
            assert_eq!(answer.next_in(), Some(wait));
            assert!(answer.past < Duration::from_millis(1));
        }
    }

    #[test]
    fn a_clock_goes_on_between_two_looks_at_it() {
        let sent = Instant::now();
        let seen = Seen::new(&claimed(1_000, 700, None), sent);
        let at = clock_at(&seen, sent + Duration::from_micros(1_500));
        assert_eq!(at, (ms(1_002), ms(1_002), Duration::from_micros(200)));
        let later = Seen::new(
            &claimed(1_000, 700, None),
            sent + Duration::from_micros(800),
        );
        let at = clock_at(&later, sent);
        assert_eq!(at, (ms(999), ms(999), Duration::from_micros(900)));
        assert_eq!(clock_at(&seen, sent).2, Duration::from_micros(700));
    }

    #[test]
    fn the_tasks_of_several_partitions_come_in_one_order_and_a_lost_one_is_told() {
        let start = Instant::now();
        let mut merged = Merged::new(start);
        let mut answer = |high_water, known| {
            let mut answer = claimed(1_000, 0, None);
            answer.high_water = high_water;
            merged.add(answer, known);
        };
        answer(7, 7);
        answer(3, 0);
        answer(4, 6);
        assert_eq!((merged.found, merged.lost, merged.top), (7, Some(4), 7));
    }

    /// Due times have been compared with it.
    #[test]
    fn the_latest_clock_of_those_that_gave_something_counts() {
        // Now, and whether it gave something.
        for (answers, expected) in [
            ([(5, true), (9, false), (7, true)], 7),
            ([(9, false), (5, true), (3, true)], 5),
            ([(7, true), (9, true), (7, true)], 9),
            ([(5, false), (9, false), (7, false)], 9),
        ] {
            let mut merged = Merged::new(Instant::now());
            for (nth, (now, has_given)) in answers.into_iter().enumerate() {
                let mut answer = claimed(now, nth as u64, None);
                let id = TaskId::new("1").unwrap();
                let cause = EndCause::Expired;
                answer
                    .ended
                    .extend(has_given.then_some(ClaimEnd { id, cause }));
                merged.add(answer, 0);
            }
            let claimed = merged.claimed.unwrap();
            assert_eq!(
                (claimed.now, claimed.store_now),
                (ms(expected), ms(expected))
            );
            let nth = answers
                .iter()
                .position(|(now, _)| *now == expected)
                .unwrap();
            assert_eq!(claimed.past, Duration::from_micros(nth as u64));
        }
    }
}
