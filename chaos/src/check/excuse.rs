//! What faults may explain.

use std::collections::{BTreeSet, HashMap};

use crate::event::{Explains, Target};
use crate::history::{History, Row};

/// The faults of a run, by what they explain.
#[derive(Debug, Default)]
pub(super) struct Excuses {
    locks_of_process: HashMap<String, Vec<Window>>,
    locks_of_task: HashMap<String, Vec<Window>>,
    locks_of_store: Vec<Window>,
    rollbacks: Vec<Window>,
    clocks: Vec<(Window, u64)>,
    damaged: BTreeSet<String>,
    store_damaged: bool,
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

impl Window {
    fn touches(&self, from: u64, to: u64) -> bool {
        self.from <= to && self.to >= from
    }
}

impl Excuses {
    pub(super) fn new(history: &History, recovery_ms: u64) -> Self {
        let mut excuses = Self::default();
        let mut spans = Vec::new();
        for (number, fault) in history.faults.iter().enumerate() {
            let window = Window {
                from: fault.begun_ns,
                to: fault.ended_ns,
                fault: number,
            };
            let recovered = fault.ended_ns.saturating_add(recovery_ms * 1_000_000);
            spans.push((fault.begun_ns, recovered));
            for explains in &fault.explains {
                excuses.add(*explains, &fault.target, window);
            }
        }
        excuses.unquiet = merged(spans);
        excuses
    }

    fn add(&mut self, explains: Explains, target: &Target, window: Window) {
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
                self.rollbacks.push(Window { from, ..window });
            }
            (Explains::Emptied, _) => self.rollbacks.push(Window { from: 0, ..window }),
            (Explains::StoreClock { off_ms }, _) => self.clocks.push((window, off_ms)),
            (Explains::Damage, Target::Task(task)) => {
                self.damaged.insert(task.clone());
            }
            (Explains::Damage, _) => self.store_damaged = true,
        }
    }

    /// The fault that explains why `process` lost its lock on `task`, taken and lost within the span.
    pub(super) fn lost_lock(&self, process: &str, task: &str, span: (u64, u64)) -> Option<usize> {
        let of_process = self.locks_of_process.get(process).into_iter().flatten();
        let of_task = self.locks_of_task.get(task).into_iter().flatten();
        let windows = of_process.chain(of_task).chain(&self.locks_of_store);
        let found = windows.filter(|window| window.touches(span.0, span.1));
        let last = found.max_by_key(|window| window.from);
        last.map(|window| window.fault)
    }

    /// Whether a fault may have undone what `row` did.
    pub(super) fn undone(&self, row: &Row) -> bool {
        let mut windows = self.rollbacks.iter();
        windows.any(|window| window.touches(row.from, row.to))
    }

    /// By how much times of the store may differ from real ones, if set or compared within the span.
    pub(super) fn clock_off_ms(&self, span: (u64, u64)) -> i64 {
        let meant = self.clocks.iter();
        let meant = meant.filter(|(window, _)| window.touches(span.0, span.1));
        let off = meant.map(|(_, off_ms)| *off_ms).max().unwrap_or(0);
        i64::try_from(off).unwrap_or(i64::MAX)
    }

    /// Whether somebody has damaged the record of `task`.
    pub(super) fn damaged(&self, task: &str) -> bool {
        self.store_damaged || self.damaged.contains(task)
    }

    /// Whether no fault was under way or being recovered from, anywhere in the span.
    pub(super) fn is_quiet(&self, from: u64, to: u64) -> bool {
        let next = self.unquiet.partition_point(|(_, end)| *end < from);
        self.unquiet.get(next).is_none_or(|(begin, _)| *begin > to)
    }
}

fn merged(mut spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
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
