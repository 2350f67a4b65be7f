//! Claim stagger: instances that wait for the same due time claim one after the other, so that one
//! of them takes the task and not all of them ask at once.
//!
//! A claim that takes tasks while others wait publishes when the next task is due. An instance that
//! receives this answers its own next claim from it, without a call. Instances learn of one another
//! by these messages. Each due time has its own order of instances, so that the work rotates.
//! Nothing depends on this: if an instance does not claim in its turn, the next one does. A claim
//! that leaves due tasks wakes all instances.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::lock::lock;
use delayq_core::store::Claimed;
use delayq_core::{Bucket, Timestamp};

/// The minimum time between two turns; otherwise it is two round trips, in which a claim is
/// answered and the others hear of it.
const STEP: Duration = Duration::from_millis(4);
/// The latest turn.
const LAST: Duration = Duration::from_millis(20);
/// How often an instance publishes its claims while it knows of no other instance.
const ANNOUNCE: Duration = Duration::from_secs(1);
/// Maximum number of other instances known. One that has ended is known until its turn has passed.
const MAX_OTHERS: usize = 1_000;
/// How long claims are answered from messages of others: well below a poll interval, after which
/// the server is asked in any case.
const MAX_UNASKED: Duration = Duration::from_millis(500);

/// The stagger of one store.
#[derive(Debug)]
pub(crate) struct Stagger {
    own: u64,
    buckets: Mutex<HashMap<Bucket, WaitingInstances>>,
}

/// The instances that wait for the tasks of a bucket.
#[derive(Debug, Default)]
struct WaitingInstances {
    others: HashSet<u64>,
    /// The due time that all wait for, as far as this instance knows.
    next_due: Option<Timestamp>,
    /// The time of this instance's last message.
    told_at: Option<Instant>,
    /// The time between two turns.
    step: Duration,
    last: Option<LastClaim>,
    taken: Option<Taken>,
}

/// The last answered claim of this instance.
#[derive(Clone, Copy, Debug)]
struct LastClaim {
    sent: Instant,
    now: Timestamp,
    sub_ms: Duration,
    fence: u64,
}

/// Another instance's message about a bucket after its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The instance.
    pub(crate) by: u64,
    /// The time of its claim.
    pub(crate) now: Timestamp,
    /// The last fence issued to it.
    pub(crate) fence: u64,
    /// The time when the next claim can find something.
    pub(crate) next_at: Option<Timestamp>,
}

/// A claim of this instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnClaim {
    pub(crate) sent: Instant,
    pub(crate) round_trip: Duration,
    pub(crate) sub_ms: Duration,
    pub(crate) next_at: Option<Timestamp>,
    /// True if it published its result.
    pub(crate) tells: bool,
}

impl Stagger {
    pub(crate) fn new(instance: &str) -> Self {
        Self {
            own: number_of(instance),
            buckets: Mutex::default(),
        }
    }

    /// True if the next claim has to publish its result.
    pub(crate) fn tells(&self, bucket: &Bucket) -> bool {
        let buckets = lock(&self.buckets);
        buckets.get(bucket).is_some_and(|waiting| {
            let is_silent = waiting.told_at.is_none_or(|at| at.elapsed() >= ANNOUNCE);
            waiting.next_due.is_some() && (is_silent || !waiting.others.is_empty())
        })
    }

    /// The answer to a claim that would find nothing: another instance has taken the due tasks, and
    /// the rest is due later.
    pub(crate) fn known(&self, bucket: &Bucket) -> Option<Claimed> {
        let buckets = lock(&self.buckets);
        let waiting = buckets.get(bucket)?;
        let (last, taken) = (waiting.last?, waiting.taken?);
        let since = last.sent.elapsed();
        if taken.fence <= last.fence || since >= MAX_UNASKED {
            return None;
        }
        let now = last.now.as_millis();
        let passed = i64::try_from((last.sub_ms + since).as_millis()).ok()?;
        let now = Timestamp::from_millis(now + passed);
        let wait = match taken.next_at {
            Some(next_at) if next_at <= now => return None,
            Some(next_at) => Some(next_at.since(now).saturating_add(waiting.turn(self.own))),
            None => None,
        };
        let mut known = Claimed::nothing(now, now);
        // Not the fence of the message: anybody may publish.
        known.high_water = last.fence;
        known.next_in = wait;
        Some(known)
    }

    /// Called when a claim of this instance was answered. Returns the time for which other
    /// instances go first next time.
    pub(crate) fn claimed(&self, bucket: &Bucket, claimed: &Claimed, own: OwnClaim) -> Duration {
        let mut buckets = lock(&self.buckets);
        let waiting = buckets.entry(bucket.clone()).or_default();
        if !claimed.tasks.is_empty() {
            waiting.forget_those_before(self.own, claimed.now);
            if own.tells {
                waiting.told_at = Some(own.sent);
            }
        }
        let fences = claimed.tasks.iter().map(|task| task.lock.fence);
        waiting.last = (claimed.now == claimed.store_now).then_some(LastClaim {
            sent: own.sent,
            now: claimed.now,
            sub_ms: own.sub_ms,
            fence: fences.max().unwrap_or(claimed.high_water),
        });
        waiting.taken = None;
        waiting.next_due = own.next_at.filter(|due| *due > claimed.now);
        waiting.step = (own.round_trip * 2).clamp(STEP, LAST);
        waiting.turn(self.own)
    }

    /// Called when another instance has taken the task that was waited for. Ignored if this
    /// instance has never claimed from the bucket.
    pub(crate) fn taken(&self, bucket: &Bucket, taken: Taken) {
        let mut buckets = lock(&self.buckets);
        let Some(waiting) = buckets.get_mut(bucket) else {
            return;
        };
        waiting.forget_those_before(taken.by, taken.now);
        if waiting.others.len() < MAX_OTHERS {
            waiting.others.insert(taken.by);
        }
        waiting.next_due = taken.next_at;
        waiting.taken = Some(taken);
    }

    /// Called when all instances are woken: the expected due time no longer applies.
    pub(crate) fn woken(&self, bucket: &Bucket) {
        if let Some(waiting) = lock(&self.buckets).get_mut(bucket) {
            waiting.next_due = None;
            waiting.taken = None;
        }
    }

    /// The same for every bucket.
    pub(crate) fn woken_all(&self) {
        for waiting in lock(&self.buckets).values_mut() {
            waiting.next_due = None;
            waiting.taken = None;
        }
    }

    /// Called when a wake-up of this instance has come back over the channel. Messages that others
    /// published before it and that arrived after the submit are outdated. Returns true if there
    /// was one.
    pub(crate) fn drop_outdated(&self, bucket: &Bucket) -> bool {
        let mut buckets = lock(&self.buckets);
        let Some(waiting) = buckets.get_mut(bucket) else {
            return false;
        };
        waiting.taken.take().is_some()
    }
}

impl WaitingInstances {
    /// If the expected due time has come, the instances before the taker have missed their turn,
    /// and are forgotten. One that takes a task again is known again.
    fn forget_those_before(&mut self, taker: u64, now: Timestamp) {
        if let Some(due) = self.next_due.filter(|due| *due <= now) {
            let at = position(taker, due);
            self.others.retain(|other| position(*other, due) >= at);
        }
    }

    fn turn(&self, own: u64) -> Duration {
        let Some(due) = self.next_due else {
            return Duration::ZERO;
        };
        let own = position(own, due);
        let others = self.others.iter();
        let before = others.filter(|other| position(**other, due) < own).count();
        let before = u32::try_from(before).unwrap_or(u32::MAX);
        self.step.saturating_mul(before).min(LAST)
    }
}

/// The number that identifies an instance.
pub(crate) fn number_of(instance: &str) -> u64 {
    u64::from(crc32fast::hash(instance.as_bytes()))
}

/// The position of an instance in the order for this due time. All instances compute the same.
fn position(instance: u64, due: Timestamp) -> u64 {
    mix(instance ^ mix(due.as_millis().cast_unsigned()))
}

/// The output function of `SplitMix64` (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
/// Generators, 2014).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use delayq_core::TaskType;

    use super::*;

    fn bucket() -> Bucket {
        Bucket::whole(TaskType::new("a").unwrap())
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn own(next_at: i64) -> OwnClaim {
        OwnClaim {
            sent: Instant::now(),
            round_trip: Duration::ZERO,
            sub_ms: Duration::ZERO,
            next_at: Some(at(next_at)),
            tells: true,
        }
    }

    fn taken(by: &str, now: i64, next_at: Option<i64>) -> Taken {
        Taken {
            by: number_of(by),
            now: at(now),
            fence: 7,
            next_at: next_at.map(at),
        }
    }

    #[test]
    fn what_another_instance_took_is_not_asked_for() {
        let stagger = Stagger::new("me");
        let nothing = Claimed::nothing(at(1_000), at(1_000));
        stagger.claimed(&bucket(), &nothing, own(1_005));
        assert_eq!(stagger.known(&bucket()), None);
        stagger.taken(&bucket(), taken("you", 1_005, Some(60_000)));
        let known = stagger.known(&bucket()).unwrap();
        assert_eq!((known.taken(), known.high_water), (0, 0));
        assert!(known.next_in > Some(Duration::from_secs(58)));
        stagger.taken(&bucket(), taken("you", 1_006, None));
        assert_eq!(stagger.known(&bucket()).unwrap().next_in, None);
        stagger.woken(&bucket());
        assert_eq!(stagger.known(&bucket()), None);
    }

    #[test]
    fn what_is_due_is_asked_for_whoever_took_something() {
        let stagger = Stagger::new("me");
        let nothing = Claimed::nothing(at(1_000), at(1_000));
        stagger.claimed(&bucket(), &nothing, own(1_005));
        stagger.taken(&bucket(), taken("you", 1_000, Some(1_000)));
        assert_eq!(stagger.known(&bucket()), None);
    }

    #[test]
    fn instances_have_turns_of_their_own_which_go_around() {
        let names: Vec<String> = (0..4).map(|n| format!("instance {n}")).collect();
        let mut firsts = HashSet::new();
        for due in 0..40 {
            let mut turns = Vec::new();
            for own_name in &names {
                let stagger = Stagger::new(own_name);
                let nothing = Claimed::nothing(at(0), at(0));
                stagger.claimed(&bucket(), &nothing, own(1));
                for other in names.iter().filter(|name| *name != own_name) {
                    stagger.taken(&bucket(), taken(other, 0, Some(1_000 + due)));
                }
                let turn = lock(&stagger.buckets)[&bucket()].turn(stagger.own);
                turns.push((turn, own_name.clone()));
            }
            turns.sort();
            let spans: Vec<Duration> = turns.iter().map(|(turn, _)| *turn).collect();
            assert_eq!(spans, [0, 4, 8, 12].map(Duration::from_millis));
            firsts.insert(turns[0].1.clone());
        }
        assert_eq!(firsts.len(), 4);
    }

    #[test]
    fn an_instance_that_does_not_come_in_its_turn_is_forgotten() {
        let stagger = Stagger::new("me");
        let nothing = Claimed::nothing(at(0), at(0));
        stagger.claimed(&bucket(), &nothing, own(10));
        for n in 0..20 {
            stagger.taken(&bucket(), taken(&format!("gone {n}"), 0, Some(10)));
        }
        let last = (0..20).map(|n| number_of(&format!("gone {n}")));
        let last = last.max_by_key(|other| position(*other, at(10))).unwrap();
        let at_ten = Taken {
            by: last,
            ..taken("x", 10, Some(20))
        };
        stagger.taken(&bucket(), at_ten);
        assert_eq!(
            lock(&stagger.buckets)[&bucket()].others,
            HashSet::from([last])
        );
    }
}
