//! Writes histories by hand: every step takes a millisecond, the store's clock is the real one.

use std::collections::HashMap;

use delayq_core::{TaskState, Timestamp};

use super::super::{Verdict, check};
use crate::event::{
    Asked, CancelAnswer, Change, ChangeAnswer, ClaimedLock, ConflictRule, End, EndedByClaim, Event,
    ExtendAnswer, HeldLock, Plan, SettleAnswer, SettledLock, SubmitAnswer, Submitted, What,
};
use crate::history::HistoryBuilder;

mod dump;
mod faults;

/// The time of day when a scene begins, in milliseconds.
const BEGIN: i64 = 1_767_225_600_000;
/// How long locks last, in milliseconds.
pub(super) const LOCK: i64 = 10_000;
/// The digest of every message that nobody alters.
pub(super) const BYTES: u64 = 7;

/// Everything that happens, at milliseconds since the scene's begin.
#[derive(Debug)]
pub(super) struct Scene {
    builder: HistoryBuilder,
    calls: u64,
    faults: u64,
    end: i64,
    /// The expiry of the next submit.
    pub(super) expiry: Option<Asked>,
    /// How far the store's clock is ahead, in milliseconds.
    pub(super) store_ahead: i64,
    /// How far the clock of whoever claims is behind it, beyond the guard, in milliseconds.
    pub(super) claimer_behind: i64,
    /// When each task is due: by its submit, and by the failure of its last attempt.
    set: HashMap<String, (i64, Option<i64>)>,
    /// Of each claim, by id and fence.
    dues: HashMap<(String, u64), Timestamp>,
    pub(super) plan: Plan,
}

/// The time of day at `ms`.
pub(super) fn real(ms: i64) -> Timestamp {
    Timestamp::from_millis(BEGIN + ms)
}

fn name(id: &str) -> String {
    format!("mail/{id}")
}

impl Scene {
    /// A submitter `s`, workers `w1` and `w2`, and a task that nothing happens to.
    pub(super) fn new() -> Self {
        let mut scene = Self {
            builder: HistoryBuilder::default(),
            calls: 0,
            faults: 0,
            end: 0,
            expiry: None,
            store_ahead: 0,
            claimer_behind: 0,
            set: HashMap::new(),
            dues: HashMap::new(),
            plan: Plan {
                lock_ms: LOCK.unsigned_abs(),
                retention_ms: 600_000,
                ..Plan::default()
            },
        };
        for process in ["s", "w1", "w2"] {
            scene.up(process, "default");
        }
        let real_ns = BEGIN.unsigned_abs() * 1_000_000;
        let spread_ns = 0;
        scene.at(0, "driver", What::Clock { real_ns, spread_ns });
        scene.submit(0, "bystander", 0);
        scene.works(5, "w1", "bystander", (1, 1));
        scene.done(8, "w1", "bystander", 1);
        scene
    }

    pub(super) fn up(&mut self, process: &str, namespace: &str) {
        let up = What::Up {
            name: process.to_owned(),
            pid: 1,
            incarnation: 1,
            namespace: namespace.to_owned(),
        };
        self.at(0, process, up);
    }

    pub(super) fn at(&mut self, ms: i64, process: &str, what: What) {
        self.end = self.end.max(ms);
        let at_ns = ms.unsigned_abs() * 1_000_000;
        self.builder.add(process, Event { at_ns, what });
    }

    /// An invocation at `ms`, and an answer half a millisecond later.
    fn call(&mut self, ms: i64, who: &str, invoked: What, answered: Option<What>) {
        self.at(ms, who, invoked);
        if let Some(what) = answered {
            let at_ns = ms.unsigned_abs() * 1_000_000 + 500_000;
            self.builder.add(who, Event { at_ns, what });
        }
    }

    fn next_call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    pub(super) fn submit(&mut self, ms: i64, id: &str, after: i64) {
        let due = real(ms + after);
        let replaced = false;
        let when = Asked::After(after.unsigned_abs());
        self.submit_answered(ms, id, when, Some(SubmitAnswer::Accepted { due, replaced }));
    }

    /// `None`: the answer is lost.
    pub(super) fn submit_answered(
        &mut self,
        ms: i64,
        id: &str,
        when: Asked,
        answer: Option<SubmitAnswer>,
    ) {
        let due = match (&answer, when) {
            (Some(SubmitAnswer::Accepted { due, .. }), _) => Some(due.as_millis() - BEGIN),
            (None, Asked::At(due)) => Some(due.as_millis() - BEGIN),
            (None, Asked::After(after)) => i64::try_from(after).ok().map(|after| ms + after),
            _ => None,
        };
        if let Some(due) = due {
            self.set.insert(id.to_owned(), (due, None));
        }
        let call = self.next_call();
        let expiry = self.expiry.take();
        let tasks = vec![Submitted {
            task: name(id),
            digest: BYTES,
            headers: None,
            when,
            expiry,
            on_conflict: ConflictRule::Reject,
        }];
        let answered = answer.map(|answer| What::SubmitAnswered {
            call,
            answers: vec![answer],
        });
        self.call(ms, "s", What::SubmitInvoked { call, tasks }, answered);
    }

    /// A claim of a task that is due when the last submit or settlement said: fence and attempt.
    pub(super) fn claim(&mut self, ms: i64, who: &str, id: &str, (fence, attempt): (u64, u32)) {
        let set = self.set.get_mut(id);
        let due = set.map_or(ms, |(sent, again)| again.take().unwrap_or(*sent));
        self.claim_due(ms, who, id, (fence, attempt, due));
    }

    /// A claim: fence, attempt, and when it was due.
    pub(super) fn claim_due(&mut self, ms: i64, who: &str, id: &str, lock: (u64, u32, i64)) {
        let (fence, attempt, due) = lock;
        self.dues.insert((id.to_owned(), fence), real(due));
        let tasks = vec![ClaimedLock {
            id: id.to_owned(),
            fence,
            attempt,
            due: real(due),
            lock_until: real(ms + self.store_ahead + LOCK),
        }];
        self.claimed(ms, who, tasks, Vec::new());
    }

    /// A claim that ends a task.
    pub(super) fn claim_ends(&mut self, ms: i64, id: &str, state: TaskState, damaged: bool) {
        let id = id.to_owned();
        let ended = vec![EndedByClaim { id, state, damaged }];
        self.claimed(ms, "w1", Vec::new(), ended);
    }

    /// A claim that finds nothing.
    pub(super) fn claim_of_nothing(&mut self, ms: i64, who: &str) {
        self.claimed(ms, who, Vec::new(), Vec::new());
    }

    fn claimed(&mut self, ms: i64, who: &str, tasks: Vec<ClaimedLock>, ended: Vec<EndedByClaim>) {
        let call = self.next_call();
        let task_type = "mail".to_owned();
        let invoked = What::ClaimInvoked {
            call,
            task_type: task_type.clone(),
        };
        let answered = What::ClaimAnswered {
            call,
            task_type,
            store_now: real(ms + self.store_ahead),
            now: real(ms + self.store_ahead - self.claimer_behind),
            tasks,
            ended,
        };
        self.call(ms, who, invoked, Some(answered));
    }

    /// A claim whose answer is lost.
    pub(super) fn claim_lost(&mut self, ms: i64, who: &str) {
        let call = self.next_call();
        let task_type = "mail".to_owned();
        self.call(ms, who, What::ClaimInvoked { call, task_type }, None);
    }

    /// A worker's start.
    pub(super) fn start(&mut self, ms: i64, who: &str, id: &str, (fence, attempt): (u64, u32)) {
        self.start_with(ms, who, id, (fence, attempt, BYTES));
    }

    /// A worker's start: fence, attempt, digest of what it was given.
    pub(super) fn start_with(&mut self, ms: i64, who: &str, id: &str, lock: (u64, u32, u64)) {
        let (fence, attempt, digest) = lock;
        let start = What::WorkerStart {
            task: name(id),
            worker: String::new(),
            serves: "mail".to_owned(),
            attempt,
            fence,
            due: self
                .dues
                .get(&(id.to_owned(), fence))
                .copied()
                .unwrap_or(real(0)),
            digest,
            headers: None,
        };
        self.at(ms, who, start);
    }

    /// A claim, and a start a millisecond later.
    pub(super) fn works(&mut self, ms: i64, who: &str, id: &str, (fence, attempt): (u64, u32)) {
        self.claim(ms, who, id, (fence, attempt));
        self.start(ms + 1, who, id, (fence, attempt));
    }

    pub(super) fn done(&mut self, ms: i64, who: &str, id: &str, fence: u64) {
        self.settle(ms, who, id, (fence, End::Done));
    }

    pub(super) fn settle(&mut self, ms: i64, who: &str, id: &str, (fence, end): (u64, End)) {
        let answer = Some(SettleAnswer::Settled);
        self.settle_answered(ms, who, id, (fence, end, answer));
    }

    /// A worker's end and its settlement: fence, end, and the answer, if any.
    pub(super) fn settle_answered(
        &mut self,
        ms: i64,
        who: &str,
        id: &str,
        (fence, end, answer): (u64, End, Option<SettleAnswer>),
    ) {
        self.ends(ms, who, id, (fence, end));
        self.settle_only(ms, who, id, (fence, end, answer));
    }

    /// A worker's end, just before the millisecond.
    pub(super) fn ends(&mut self, ms: i64, who: &str, id: &str, lock: (u64, End)) {
        self.ends_told((ms, who), id, lock, false);
    }

    /// The same; `told`: its context said cancelled.
    pub(super) fn ends_told(
        &mut self,
        (ms, who): (i64, &str),
        id: &str,
        (fence, end): (u64, End),
        told: bool,
    ) {
        let what = What::WorkerEnd {
            task: name(id),
            worker: String::new(),
            fence,
            end,
            told,
        };
        let at_ns = ms.unsigned_abs() * 1_000_000 - 1;
        self.builder.add(who, Event { at_ns, what });
    }

    /// A settlement without a worker's end.
    pub(super) fn settle_only(
        &mut self,
        ms: i64,
        who: &str,
        id: &str,
        (fence, end, answer): (u64, End, Option<SettleAnswer>),
    ) {
        if let (End::Retry { after } | End::Release { after }, Some((_, again))) =
            (end, self.set.get_mut(id))
        {
            *again = i64::try_from(after).ok().map(|after| ms + after);
        }
        let call = self.next_call();
        let id = id.to_owned();
        let locks = vec![SettledLock { id, fence, end }];
        let invoked = What::SettleInvoked {
            call,
            task_type: "mail".to_owned(),
            locks,
        };
        let answered = answer.map(|answer| What::SettleAnswered {
            call,
            answers: vec![answer],
        });
        self.call(ms, who, invoked, answered);
    }

    pub(super) fn extend(&mut self, ms: i64, who: &str, id: &str, fence: u64) {
        let until = real(ms + self.store_ahead + LOCK);
        self.extend_to(ms, who, (id, fence), until);
    }

    /// An extension whose answer keeps the end that the lock got at `since`.
    pub(super) fn keep(&mut self, ms: i64, who: &str, lock: (&str, u64), since: i64) {
        self.extend_to(ms, who, lock, real(since + self.store_ahead + LOCK));
    }

    fn extend_to(&mut self, ms: i64, who: &str, (id, fence): (&str, u64), until: Timestamp) {
        let call = self.next_call();
        let id = id.to_owned();
        let locks = vec![HeldLock { id, fence }];
        let invoked = What::ExtendInvoked {
            call,
            task_type: "mail".to_owned(),
            locks,
        };
        let answers = vec![ExtendAnswer::Extended(until)];
        let answered = What::ExtendAnswered { call, answers };
        self.call(ms, who, invoked, Some(answered));
    }

    pub(super) fn cancel(&mut self, ms: i64, id: &str, answer: CancelAnswer) {
        let call = self.next_call();
        let invoked = What::ChangeInvoked {
            call,
            task: name(id),
            change: Change::Cancel,
        };
        let answered = What::CancelAnswered { call, answer };
        self.call(ms, "s", invoked, Some(answered));
    }

    /// `None`: the answer is lost.
    pub(super) fn reschedule(
        &mut self,
        ms: i64,
        id: &str,
        when: Asked,
        answer: Option<ChangeAnswer>,
    ) {
        self.reschedule_by("s", (ms, id), when, answer);
    }

    pub(super) fn reschedule_by(
        &mut self,
        who: &str,
        (ms, id): (i64, &str),
        when: Asked,
        answer: Option<ChangeAnswer>,
    ) {
        let call = self.next_call();
        let invoked = What::ChangeInvoked {
            call,
            task: name(id),
            change: Change::Reschedule { when },
        };
        let answered = answer.map(|answer| What::ChangeAnswered { call, answer });
        self.call(ms, who, invoked, answered);
    }

    pub(super) fn requeue(&mut self, ms: i64, id: &str) {
        let call = self.next_call();
        self.set.insert(id.to_owned(), (ms, None));
        let ids = vec![id.to_owned()];
        let invoked = What::DeadInvoked {
            call,
            task_type: "mail".to_owned(),
            requeue: true,
            ids: ids.clone(),
        };
        self.call(ms, "s", invoked, Some(What::DeadAnswered { call, ids }));
    }

    /// The verdict on everything so far.
    pub(super) fn verdict(mut self) -> Verdict {
        let end = self.end;
        let plan = std::mem::take(&mut self.plan);
        self.at(0, "driver", What::Plan(plan));
        let store_now = real(end);
        self.at(end, "driver", What::Dumped { store_now });
        check(&self.builder.finish())
    }
}
