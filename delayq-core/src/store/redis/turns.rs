//! Whose turn it is: instances that wait for the same due time come one after the other, so that one of them claims
//! and not all at once.
//!
//! A claim that takes something while others wait tells so, and when the next due time is. Whoever waited for the same
//! comes for that instead. The others are known by what they take; each due time has an order of its own among them, so that the work
//! goes around. Nothing depends on it: an instance whose turn passes, as it is busy or gone, is followed by the next one.
//! If a claim leaves more that is due, it calls all.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::keys::Partition;
use crate::store::Claimed;
use crate::time::Timestamp;

/// From one turn to the next at least; else two round trips, in which a claim is answered and the others hear of it.
const STEP: Duration = Duration::from_millis(4);
/// The latest turn.
const LAST: Duration = Duration::from_millis(20);
/// How often an instance tells what it takes while it knows of no other one.
const HELLO: Duration = Duration::from_secs(1);
/// Others that are known. Who ended is known until its turn has passed.
const MAX_OTHERS: usize = 1_000;

/// The turns of one store.
#[derive(Debug)]
pub(super) struct Turns {
    own: u64,
    /// By what the keys of the partition have in common.
    all: Mutex<HashMap<String, Waiting>>,
}

/// Who waits for the tasks of a partition.
#[derive(Debug, Default)]
struct Waiting {
    others: HashSet<u64>,
    /// What all wait for, as far as this instance knows.
    next_due: Option<Timestamp>,
    /// When this instance has told something last.
    told_at: Option<Instant>,
    /// From one turn to the next.
    step: Duration,
}

impl Turns {
    pub(super) fn new(own: &str) -> Self {
        Self {
            own: number_of(own),
            all: Mutex::default(),
        }
    }

    /// Whether the claim that begins is to tell others what it takes.
    pub(super) fn tells(&self, part: &Partition) -> bool {
        let all = self.all();
        all.get(&part.stem).is_some_and(|waiting| {
            let is_silent = waiting.told_at.is_none_or(|at| at.elapsed() >= HELLO);
            waiting.next_due.is_some() && (is_silent || !waiting.others.is_empty())
        })
    }

    /// A claim of this instance, which was to tell what it takes or was not, was answered after `round_trip`. Returns how
    /// long to let others go first next time.
    pub(super) fn claimed(
        &self,
        part: &Partition,
        claimed: &Claimed,
        (tells, round_trip): (bool, Duration),
    ) -> Duration {
        let mut all = self.all();
        let waiting = all.entry(part.stem.clone()).or_default();
        if !claimed.tasks.is_empty() {
            waiting.forget_those_before(self.own, claimed.now);
            if tells {
                waiting.told_at = Some(Instant::now());
            }
        }
        waiting.next_due = claimed.next_due.filter(|due| *due > claimed.now);
        waiting.step = (round_trip * 2).clamp(STEP, LAST);
        waiting.turn(self.own)
    }

    /// Another instance took at `now` what was waited for, and `next_due` is what is left. Returns how long to let
    /// others go first then.
    pub(super) fn taken(
        &self,
        part: &Partition,
        by: &str,
        (now, next_due): (Timestamp, Option<Timestamp>),
    ) -> Duration {
        let by = number_of(by);
        let mut all = self.all();
        let waiting = all.entry(part.stem.clone()).or_default();
        waiting.forget_those_before(by, now);
        if waiting.others.len() < MAX_OTHERS {
            waiting.others.insert(by);
        }
        waiting.next_due = next_due;
        waiting.turn(self.own)
    }

    /// Everybody comes: what was waited for has lost its meaning.
    pub(super) fn woken(&self, part: &Partition) {
        if let Some(waiting) = self.all().get_mut(&part.stem) {
            waiting.next_due = None;
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        // No panic leaves it half changed.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// If what was waited for had come, those before the taker have not come in their turn. Who takes something again is
    /// known again.
    fn forget_those_before(&mut self, taker: u64, now: Timestamp) {
        if let Some(due) = self.next_due.filter(|due| *due <= now) {
            let at = place(taker, due);
            self.others.retain(|other| place(*other, due) >= at);
        }
    }

    fn turn(&self, own: u64) -> Duration {
        let Some(due) = self.next_due else {
            return Duration::ZERO;
        };
        let own = place(own, due);
        let others = self.others.iter();
        let before = others.filter(|other| place(**other, due) < own).count();
        let turn = self
            .step
            .saturating_mul(u32::try_from(before).unwrap_or(u32::MAX));
        turn.min(LAST)
    }
}

fn number_of(sender: &str) -> u64 {
    u64::from(crc32fast::hash(sender.as_bytes()))
}

/// Where an instance stands in the order of this due time. All instances reckon the same.
fn place(instance: u64, due: Timestamp) -> u64 {
    mix(instance ^ mix(due.as_millis().cast_unsigned()))
}

/// The output function of `SplitMix64` (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::keys::Keyspace;
    use super::*;
    use crate::name::{Namespace, TaskId, TaskType};
    use crate::task::{ClaimedTask, Headers, Lock, Trail};

    const NAMES: [&str; 4] = ["one", "two", "three", "four"];

    fn part() -> Arc<Partition> {
        let keys = Keyspace::new(Namespace::default());
        Arc::new(keys.whole(&TaskType::new("a").unwrap()))
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    const AT_ONCE: (bool, Duration) = (false, Duration::ZERO);

    /// Waits for a due time.
    fn wait(turns: &Turns, part: &Partition, due: i64) -> Duration {
        turns.claimed(part, &answer(0, due, 0), AT_ONCE)
    }

    /// Takes something.
    fn take(turns: &Turns, part: &Partition, now: i64) {
        let tells = turns.tells(part);
        turns.claimed(part, &answer(now, now + 1, 1), (tells, Duration::ZERO));
    }

    fn answer(now: i64, next_due: i64, tasks: usize) -> Claimed {
        let task = ClaimedTask {
            lock: Lock {
                id: TaskId::generate(),
                fence: 1,
            },
            lock_until: at(now),
            attempt: 1,
            due_at: at(now),
            submitted_at: at(now),
            expires_at: None,
            message: Vec::new(),
            headers: Headers::new(),
            trail: Trail::default(),
        };
        Claimed {
            now: at(now),
            store_now: at(now),
            past: Duration::ZERO,
            high_water: 0,
            tasks: vec![task; tasks],
            ended: Vec::new(),
            unheard: 0,
            next_due: Some(at(next_due)),
            turn: Duration::ZERO,
        }
    }

    /// Instances of which each has seen every other one take something.
    fn acquainted(part: &Partition) -> [Turns; 4] {
        let all = NAMES.map(Turns::new);
        for (own, turns) in NAMES.iter().zip(&all) {
            for other in NAMES.iter().filter(|other| *other != own) {
                turns.taken(part, other, (at(0), None));
            }
        }
        all
    }

    /// In their order for a due time, all waiting for it.
    fn in_order(part: &Partition, due: i64) -> [(&'static str, Turns); 4] {
        let mut all: Vec<_> = NAMES.into_iter().zip(acquainted(part)).collect();
        all.sort_by_key(|(_, turns)| wait(turns, part, due));
        all.try_into().unwrap()
    }

    #[test]
    fn each_due_time_has_an_order_in_which_all_go_first_alike() {
        let part = part();
        let all = acquainted(&part);
        let mut firsts = [0; 4];
        for due in 1..=1_000 {
            let mut turns = all.each_ref().map(|turns| wait(turns, &part, due));
            let first = turns.iter().position(Duration::is_zero).unwrap();
            firsts[first] += 1;
            turns.sort();
            assert_eq!(turns, [0, 1, 2, 3].map(|before| STEP * before));
        }
        assert!(
            firsts.iter().all(|count| (200..300).contains(count)),
            "{firsts:?}"
        );
    }

    #[test]
    fn who_does_not_come_in_its_turn_is_left_out_until_it_takes_something() {
        let part = part();
        let [(first, _), (_, second), (third, _), (_, last)] = in_order(&part, 7);
        second.taken(&part, third, (at(7), None));
        assert_eq!(wait(&second, &part, 7), Duration::ZERO);
        last.taken(&part, third, (at(6), None));
        assert_eq!(wait(&last, &part, 7), STEP * 3, "it was not their turn yet");
        last.taken(&part, third, (at(7), None));
        assert_eq!(wait(&last, &part, 7), STEP);
        last.taken(&part, first, (at(9), None));
        assert_eq!(wait(&last, &part, 7), STEP * 2);
    }

    #[test]
    fn who_comes_in_the_place_of_others_lets_them_go_first_no_more() {
        let part = part();
        let [.., (_, third), (_, last)] = in_order(&part, 7);
        take(&third, &part, 6);
        assert_eq!(wait(&third, &part, 7), STEP * 2, "woken by something else");
        take(&third, &part, 7);
        assert_eq!(wait(&third, &part, 7), Duration::ZERO);
        last.claimed(&part, &answer(7, 8, 0), AT_ONCE);
        assert_eq!(wait(&last, &part, 7), STEP * 3, "it took nothing");
    }

    #[test]
    fn far_away_turns_are_longer_and_never_too_long() {
        let part = part();
        let [.., (_, last)] = in_order(&part, 7);
        let turn = |ms| last.claimed(&part, &answer(0, 7, 0), (false, Duration::from_millis(ms)));
        assert_eq!(
            [0, 1, 2, 3, 900].map(turn),
            [12, 12, 12, 18, 20].map(Duration::from_millis)
        );
    }

    #[test]
    fn only_who_waited_tells_what_it_takes_and_to_nobody_now_and_then() {
        let (part, turns) = (part(), Turns::new("one"));
        assert!(!turns.tells(&part), "it has not waited");
        take(&turns, &part, 7);
        assert!(turns.tells(&part));
        take(&turns, &part, 8);
        assert!(!turns.tells(&part), "it has told a moment ago");
        turns.taken(&part, "two", (at(9), Some(at(10))));
        take(&turns, &part, 10);
        assert!(turns.tells(&part));
        turns.woken(&part);
        assert!(!turns.tells(&part), "all come by themselves");
        turns.claimed(&part, &answer(12, 12, 1), AT_ONCE);
        assert!(!turns.tells(&part), "there is more");
    }
}
