//! One random step, and how it is drawn. Times are few and small, so that they often meet.

use std::time::Duration;

use delayq_core::job::{Expiry, NewTask, OnConflict, When};
use delayq_core::operate::DeadFilter;
use delayq_core::store::AttemptEnd;
use delayq_core::task::Headers;
use delayq_core::{TaskId, TaskState, TaskType, Timestamp, millis};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// The ids of all tasks.
pub(crate) const IDS: [&str; 4] = ["a", "b", "c", "d"];

/// How an attempt ends, with what is noted.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) end: AttemptEnd,
    pub(crate) note: Option<String>,
}

/// A step. Absolute times count from the start of the case until [`Op::from`] moves them.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Submit(NewTask),
    Claim(Claim),
    /// `lock`: how many locks ago, the last one taken being 0; later the number of the lock.
    Settle {
        lock: usize,
        ending: Ending,
    },
    Extend {
        lock: usize,
        lock_for: Duration,
        /// Its holder runs nothing else.
        is_alone: bool,
    },
    Cancel(TaskId),
    Reschedule(TaskId, When),
    Update(TaskId, Vec<u8>),
    Requeue(DeadFilter, Duration),
    Discard(DeadFilter),
    Pause(Option<Timestamp>),
    Resume,
    Purge(TaskState),
    Advance(Duration),
}

#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) limit: usize,
    pub(crate) lock_for: Duration,
    /// How far the claimer's clock is behind the store's.
    pub(crate) behind: Duration,
    pub(crate) max_lock_expiries: u32,
    pub(crate) max_alone_expiries: Option<u32>,
}

pub(crate) fn task_type() -> TaskType {
    TaskType::new("order.cancel").unwrap()
}

impl Op {
    /// The step with its absolute times counted from `start`.
    pub(crate) fn from(mut self, start: Timestamp) -> Self {
        let shift = |time: &mut Timestamp| *time = start.plus(time.since(Timestamp::ZERO));
        let shift_when = |when: &mut When| match when {
            When::At(time) => shift(time),
            When::After(_) => {}
        };
        match &mut self {
            Self::Submit(task) => {
                shift_when(&mut task.when);
                if let Some(Expiry::At(time)) = &mut task.expiry {
                    shift(time);
                }
            }
            Self::Reschedule(_, when) => shift_when(when),
            Self::Requeue(filter, _) | Self::Discard(filter) => {
                if let DeadFilter::Matching {
                    died_before: Some(time),
                    ..
                } = filter
                {
                    shift(time);
                }
            }
            Self::Pause(Some(until)) => shift(until),
            _ => {}
        }
        self
    }
}

fn span() -> impl Strategy<Value = Duration> {
    prop_oneof![3 => Just(0_u64), 6 => 1_u64..25, 1 => Just(60_000)].prop_map(millis)
}

/// A lock: usually the last one or the one before.
fn lock() -> impl Strategy<Value = usize> {
    prop_oneof![6 => Just(0_usize), 3 => Just(1_usize), 2 => 2_usize..6]
}

/// An absolute time on a coarse grid, so that the same one is often drawn again.
fn time() -> impl Strategy<Value = Timestamp> {
    (0_i64..12).prop_map(|step| Timestamp::from_millis(step * 10))
}

fn id() -> impl Strategy<Value = TaskId> {
    prop::sample::select(&IDS[..]).prop_map(|id| TaskId::new(id).unwrap())
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![3 => span().prop_map(When::After), 2 => time().prop_map(When::At)]
}

fn expiry() -> impl Strategy<Value = Option<Expiry>> {
    prop_oneof![
        5 => Just(None),
        1 => time().prop_map(|time| Some(Expiry::At(time))),
        1 => span().prop_map(|span| Some(Expiry::AfterDue(span))),
    ]
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(b"one".to_vec()), Just(vec![0, 255, 34])]
}

fn headers() -> impl Strategy<Value = Headers> {
    let none = Just(Headers::new());
    let one = Just(Headers::from([("shop".to_owned(), "köln".to_owned())]));
    prop_oneof![3 => none, 1 => one]
}

fn on_conflict() -> impl Strategy<Value = OnConflict> {
    prop_oneof![
        Just(OnConflict::Reject),
        Just(OnConflict::Keep),
        Just(OnConflict::Replace),
        span().prop_map(|max_wait| OnConflict::Debounce { max_wait }),
    ]
}

fn submit() -> impl Strategy<Value = Op> {
    let rule = (on_conflict(), proptest::bool::weighted(0.3));
    let parts = (id(), when(), expiry(), rule, message(), headers());
    parts.prop_map(|(id, when, expiry, rule, message, headers)| {
        let mut task = NewTask::new(task_type(), id, message);
        task.when = when;
        task.expiry = expiry;
        (task.on_conflict, task.again_if_running) = rule;
        task.headers = headers;
        Op::Submit(task)
    })
}

fn claim() -> impl Strategy<Value = Op> {
    let limit = prop_oneof![1_usize..4, Just(100)];
    let behind = prop_oneof![5 => Just(0_u64), 1 => Just(510), 1 => Just(3_600_000)];
    let expiries = (1_u32..4, option::of(1_u32..4));
    (limit, span(), behind, expiries).prop_map(|(limit, lock_for, behind, expiries)| {
        Op::Claim(Claim {
            limit,
            lock_for,
            behind: millis(behind),
            max_lock_expiries: expiries.0,
            max_alone_expiries: expiries.1,
        })
    })
}

fn error() -> impl Strategy<Value = String> {
    prop_oneof![Just("closed".to_owned()), Just("gone".to_owned())]
}

fn succeeded() -> impl Strategy<Value = Vec<String>> {
    vec(Just("mailer".to_owned()), 0..2)
}

fn end() -> impl Strategy<Value = AttemptEnd> {
    let retry =
        (span(), error(), succeeded()).prop_map(|(after, error, succeeded)| AttemptEnd::Retry {
            after,
            error,
            succeeded,
        });
    let release = (span(), succeeded())
        .prop_map(|(after, succeeded)| AttemptEnd::Release { after, succeeded });
    prop_oneof![
        2 => Just(AttemptEnd::Done),
        3 => retry,
        2 => release,
        3 => (error(), succeeded())
            .prop_map(|(error, succeeded)| AttemptEnd::Dead { error, succeeded }),
        1 => Just(AttemptEnd::Expired),
    ]
}

fn ending() -> impl Strategy<Value = Ending> {
    let note = prop::sample::select(vec!["pri=1", "a\n\u{1d}\"b\""]);
    let note = option::weighted(0.4, note.prop_map(str::to_owned));
    (end(), note).prop_map(|(end, note)| Ending { end, note })
}

fn filter() -> impl Strategy<Value = DeadFilter> {
    let matching = (option::of(time()), option::of(error()), 0_usize..4);
    prop_oneof![
        Just(DeadFilter::all()),
        vec(id(), 0..4).prop_map(DeadFilter::Ids),
        matching.prop_map(
            |(died_before, error_contains, limit)| DeadFilter::Matching {
                died_before,
                error_contains,
                limit,
            }
        ),
    ]
}

fn state() -> impl Strategy<Value = TaskState> {
    prop::sample::select(vec![
        TaskState::Scheduled,
        TaskState::Dead,
        TaskState::Done,
        TaskState::Cancelled,
        TaskState::Expired,
    ])
}

/// Any step.
pub(crate) fn any() -> BoxedStrategy<Op> {
    prop_oneof![
        10 => submit(),
        12 => claim(),
        12 => (lock(), ending()).prop_map(|(lock, ending)| Op::Settle { lock, ending }),
        4 => (lock(), span(), proptest::bool::ANY).prop_map(|(lock, lock_for, is_alone)| Op::Extend {
            lock,
            lock_for,
            is_alone,
        }),
        4 => id().prop_map(Op::Cancel),
        4 => (id(), when()).prop_map(|(id, when)| Op::Reschedule(id, when)),
        2 => (id(), message()).prop_map(|(id, message)| Op::Update(id, message)),
        4 => (filter(), span()).prop_map(|(filter, interval)| Op::Requeue(filter, interval)),
        1 => filter().prop_map(Op::Discard),
        1 => option::of(time()).prop_map(Op::Pause),
        2 => Just(Op::Resume),
        1 => state().prop_map(Op::Purge),
        8 => (1_u64..20).prop_map(|ms| Op::Advance(millis(ms))),
    ]
    .boxed()
}
