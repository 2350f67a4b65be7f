//! What faults may explain.

use std::collections::{BTreeSet, HashMap};

use delayq_core::store::CLOCK_GUARD;
use delayq_core::time::duration_ms;

use crate::event::{Explains, Target};
use crate::history::History;

/// The faults of a run, by what they explain.
#[derive(Debug, Default)]
pub(super) struct Allowances {
    locks_of_process: HashMap<String, Vec<Window>>,
    locks_of_task: HashMap<String, Vec<Window>>,
    locks_of_store: Vec<Window>,
    /// By when they end.
    rollbacks: Vec<Window>,
    /// When the store lost its last writes, by time.
    losses: Vec<u64>,
    clocks: Vec<Clock>,
    /// How far some server's clock is ahead all the time. It explains no lock that is lost, and
    /// none that lasts.
    skew_ms: i64,
    /// The same, merged, by time: most of what is looked at is in none of them.
    rollback_spans: Vec<(u64, u64)>,
    clock_spans: Vec<(u64, u64)>,
    damaged: BTreeSet<String>,
    store_damaged: bool,
    /// When something was done to the store as a whole.
    store: Vec<Window>,
    /// Every fault with the time to recover from it, merged, by time.
    unquiet: Vec<(u64, u64)>,
}

/// When a fault may be the cause of something, monotonic, and which it is: a place in
/// [`History::faults`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) fault: usize,
}

/// A store's clock that was wrong: everywhere, or in one process.
#[derive(Debug)]
struct Clock {
    window: Window,
    ahead_ms: i64,
    process: Option<String>,
}

/// By how much the store's clock may have been wrong when something was done.
#[allow(clippy::struct_field_names, reason = "names say their unit")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Off {
    pub(super) ahead_ms: i64,
    pub(super) behind_ms: i64,
    /// How much of it the guard does not hold back from starting tasks.
    pub(super) early_ms: i64,
    /// Whether somebody has set a clock: not if servers only differ all the time.
    pub(super) is_set: bool,
}

impl Off {
    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// A lock that was lost: whose, on what, from the last time it was given or extended until it ran
/// out, and by whom and when the task was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss<'a> {
    pub(super) holder: &'a str,
    pub(super) task: &'a str,
    pub(super) alive: u64,
    /// Until when a fault has to last, if the holder still was alive when it ran out.
    pub(super) lasts_to: u64,
    pub(super) ran_out: u64,
    pub(super) taker: &'a str,
    pub(super) taken: (u64, u64),
}

impl Window {
    pub(super) fn touches(&self, from: u64, to: u64) -> bool {
        self.from <= to && self.to >= from
    }
}

impl Allowances {
    pub(super) fn new(history: &History, recovery_ms: u64) -> Self {
        let skew_ms = history.plan.as_ref().map_or(0, |plan| plan.skew_ms);
        let mut allowances = Self {
            skew_ms: i64::try_from(skew_ms).unwrap_or(i64::MAX),
            ..Self::default()
        };
        let mut spans = Vec::new();
        for (number, fault) in history.faults.iter().enumerate() {
            let window = Window {
                from: fault.begun_ns,
                to: fault.ended_ns,
                fault: number,
            };
            let recovered = fault.ended_ns.saturating_add(recovery_ms * 1_000_000);
            spans.push((fault.begun_ns, recovered));
            if fault.target == Target::Store {
                allowances.store.push(window);
            }
            for explains in &fault.explains {
                allowances.add(*explains, &fault.target, (window, fault.struck_ns));
            }
        }
        allowances.rollbacks.sort_by_key(|window| window.to);
        allowances.losses.sort_unstable();
        allowances.unquiet = merged(spans);
        let span = |window: &Window| (window.from, window.to);
        allowances.rollback_spans = merged(allowances.rollbacks.iter().map(span).collect());
        let clocks = allowances.clocks.iter().map(|clock| span(&clock.window));
        allowances.clock_spans = merged(clocks.collect());
        allowances
    }

    fn add(&mut self, explains: Explains, target: &Target, (window, struck): (Window, u64)) {
        match (explains, target) {
            (Explains::LostLock, Target::Store) => self.locks_of_store.push(window),
            (Explains::LostLock, Target::Process(name)) => {
                let windows = self.locks_of_process.entry(name.clone()).or_default();
                windows.push(window);
            }
            (Explains::LostLock, Target::Task(task)) => {
                let windows = self.locks_of_task.entry(task.clone()).or_default();
                windows.push(window);
            }
            (Explains::Rollback { window_ms }, _) => {
                let from = window.from.saturating_sub(window_ms * 1_000_000);
                let to = struck;
                self.rollbacks.push(Window { from, to, ..window });
                self.losses.push(struck);
            }
            (Explains::Emptied, _) => {
                let (from, to) = (0, struck);
                self.rollbacks.push(Window { from, to, ..window });
            }
            (Explains::StoreClock { ahead_ms }, target) => self.clocks.push(Clock {
                window,
                ahead_ms,
                process: match target {
                    Target::Process(name) => Some(name.clone()),
                    _ => None,
                },
            }),
            (Explains::Damage, Target::Task(task)) => {
                self.damaged.insert(task.clone());
            }
            (Explains::Damage, _) => self.store_damaged = true,
        }
    }

    /// The fault that explains why a lock was lost: it came between the holder and the lock while
    /// the lock lasted, and was not over so early that the holder could still have extended it; or
    /// it set a clock that the lock was given or taken by.
    pub(super) fn lost_lock(&self, loss: Loss<'_>) -> Option<usize> {
        let of_process = self.locks_of_process.get(loss.holder).into_iter().flatten();
        let of_task = self.locks_of_task.get(loss.task).into_iter().flatten();
        let windows = of_process.chain(of_task).chain(&self.locks_of_store);
        let found = windows.filter(|window| {
            window.touches(loss.alive, loss.ran_out) && window.to >= loss.lasts_to
        });
        let clocks = self.clocks.iter().filter(|clock| {
            let taken = clock.ahead_ms > 0
                && clock.is_of(loss.taker)
                && clock.window.touches(loss.taken.0, loss.taken.1);
            // Given or extended by a clock that is behind, it runs out before its time.
            let given = clock.ahead_ms < 0
                && clock.is_of(loss.holder)
                && clock.window.touches(loss.alive, loss.taken.1);
            taken || given
        });
        let found = found.chain(clocks.map(|clock| &clock.window));
        let last = found.max_by_key(|window| window.from);
        last.map(|window| window.fault)
    }

    /// Whether a fault kept `process` from hearing an answer, or its holder from starting, in the
    /// span.
    pub(super) fn held_up(&self, process: &str, (from, to): (u64, u64)) -> bool {
        let of_process = self.locks_of_process.get(process).into_iter().flatten();
        let mut windows = of_process.chain(&self.locks_of_store);
        windows.any(|window| window.touches(from, to))
    }

    /// When the last thing is over that was done to the store within the span; its end without any.
    pub(super) fn store_answers(&self, (from, to): (u64, u64)) -> u64 {
        let windows = self.store.iter().filter(|window| window.touches(from, to));
        windows.map(|window| window.to).fold(to, u64::max)
    }

    /// The fault that may have undone what was done in the span.
    pub(super) fn undone(&self, (from, to): (u64, u64)) -> Option<&Window> {
        self.rollbacks((from, to)).next()
    }

    /// The faults that may have undone something that was done in the span.
    pub(super) fn rollbacks(&self, (from, to): (u64, u64)) -> impl Iterator<Item = &Window> {
        let first = if touch(&self.rollback_spans, from, to) {
            self.rollbacks.partition_point(|window| window.to < from)
        } else {
            self.rollbacks.len()
        };
        let windows = self.rollbacks.get(first..).unwrap_or_default().iter();
        windows.filter(move |window| window.touches(from, to))
    }

    /// How old what was done since `from`, and was known at `known`, was when the store lost its
    /// last writes, the next time that it did; in nanoseconds.
    pub(super) fn age_at_loss(&self, (from, known): (u64, u64)) -> Option<u64> {
        let next = self.losses.partition_point(|struck| *struck < from);
        let struck = self.losses.get(next)?;
        Some(struck.saturating_sub(known))
    }

    /// By how much the store's clock, as `process` has it, may have been wrong within the span.
    pub(super) fn clock_off(&self, process: &str, (from, to): (u64, u64)) -> Off {
        let mut off = Off {
            ahead_ms: self.skew_ms,
            behind_ms: 0,
            early_ms: self.skew_ms.min(duration_ms(CLOCK_GUARD)),
            is_set: false,
        };
        if !touch(&self.clock_spans, from, to) {
            return off;
        }
        let clocks = self.clocks.iter();
        for clock in clocks.filter(|clock| clock.is_of(process) && clock.window.touches(from, to)) {
            off.is_set = true;
            off.ahead_ms = off.ahead_ms.max(clock.ahead_ms);
            off.behind_ms = off.behind_ms.max(clock.ahead_ms.saturating_neg());
            let guard = match clock.process {
                // Whoever claims has the same clock: nobody can know better.
                Some(_) => i64::MAX,
                None => duration_ms(CLOCK_GUARD),
            };
            off.early_ms = off.early_ms.max(clock.ahead_ms.min(guard));
        }
        off
    }

    /// How much shorter than given a lock may have been, as the server of whoever took over was
    /// ahead.
    pub(super) fn skew_ns(&self) -> u64 {
        self.skew_ms.unsigned_abs() * 1_000_000
    }

    /// How far ahead a clock was at most.
    pub(super) fn most_ahead_ms(&self) -> i64 {
        let ahead = self.clocks.iter().map(|clock| clock.ahead_ms);
        ahead.fold(self.skew_ms, i64::max)
    }

    /// Whether somebody has damaged the record of `task`.
    pub(super) fn damaged(&self, task: &str) -> bool {
        self.store_damaged || self.damaged.contains(task)
    }

    /// Whether no fault was under way or being recovered from, anywhere in the span.
    pub(super) fn is_quiet(&self, from: u64, to: u64) -> bool {
        !touch(&self.unquiet, from, to)
    }
}

/// Whether any of the merged spans touches this one.
fn touch(spans: &[(u64, u64)], from: u64, to: u64) -> bool {
    let next = spans.partition_point(|(_, end)| *end < from);
    spans.get(next).is_some_and(|(begin, _)| *begin <= to)
}

impl Clock {
    fn is_of(&self, process: &str) -> bool {
        self.process.as_deref().is_none_or(|name| name == process)
    }
}

pub(super) fn merged(mut spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    spans.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in spans {
        match merged.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((begin, end)),
        }
    }
    merged
}
