//! A run, as the rules look at it.

use std::collections::{BTreeSet, HashMap};

use super::type_of;
use crate::check::RECOVERY_MS;
use crate::check::allowance::{Allowances, Off, merged};
use crate::check::hidden::Hidden;
use crate::event::{Explains, Target, TypeChange};
use crate::history::{FaultSpan, History, NEVER, Row, Step};

/// A run, and what its faults explain.
#[derive(Debug)]
pub(in crate::check) struct Run<'a> {
    pub(in crate::check) history: &'a History,
    pub(in crate::check) allowances: Allowances,
    pub(in crate::check) hidden: Hidden<'a>,
    /// How long due tasks may take to start after a fault, in milliseconds.
    pub(in crate::check) recovery_ms: u64,
    /// Whether any worker recorded that it started.
    pub(in crate::check) has_starts: bool,
    /// How many tasks each type has, and who claims them.
    types: HashMap<&'a str, TypeView<'a>>,
    /// When each type may have been paused.
    pauses: HashMap<&'a str, Vec<(u64, u64)>>,
}

/// What is known of a type.
#[derive(Debug, Default)]
struct TypeView<'a> {
    tasks: usize,
    claimers: BTreeSet<&'a str>,
}

impl<'a> Run<'a> {
    pub(in crate::check) fn new(history: &'a History) -> Self {
        let plan = history.plan.clone().unwrap_or_default();
        let recovery_ms = match plan.recovery_ms {
            0 => plan.lock_ms + RECOVERY_MS,
            planned => planned,
        };
        let allowances = Allowances::new(history, recovery_ms);
        let mut rows = history.rows.iter();
        let mut types: HashMap<&str, TypeView<'_>> = HashMap::new();
        for (number, task) in history.tasks.iter().enumerate() {
            let of_type = types.entry(type_of(task)).or_default();
            of_type.tasks += 1;
            let claims = history.rows_of(number).iter();
            let claims = claims.filter(|row| matches!(row.step, Step::Claim { .. }));
            let claimers = claims.filter_map(|row| history.process_of(row));
            of_type
                .claimers
                .extend(claimers.map(|process| process.name.as_str()));
        }
        Self {
            types,
            pauses: pauses(history),
            history,
            hidden: Hidden::new(history, &allowances),
            allowances,
            recovery_ms,
            has_starts: rows.any(|row| matches!(row.step, Step::Start { .. })),
        }
    }

    /// Whether it is certain that what `row` did was done and stayed.
    pub(in crate::check) fn is_certain(&self, row: &Row) -> bool {
        row.to != NEVER && self.allowances.undone((row.from, row.to)).is_none()
    }

    /// How long the longest lock lasts, in milliseconds; 0: nobody said so.
    pub(in crate::check) fn lock_ms(&self) -> u64 {
        self.history.plan.as_ref().map_or(0, |plan| plan.lock_ms)
    }

    /// Whether tasks are moved between stores, which may make them due later.
    pub(in crate::check) fn moves(&self) -> bool {
        self.history.plan.as_ref().is_some_and(|plan| plan.moves)
    }

    /// Whether a server gives back what a claim has locked whose answer was lost.
    pub(in crate::check) fn gives_back(&self) -> bool {
        self.history
            .plan
            .as_ref()
            .is_some_and(|plan| plan.gives_back)
    }

    /// How many tasks are of this type.
    pub(in crate::check) fn tasks_of(&self, task_type: &str) -> usize {
        self.types.get(task_type).map_or(0, |of_type| of_type.tasks)
    }

    /// Whether nobody but `process` has ever claimed a task of this type.
    pub(in crate::check) fn is_only_claimer(&self, task_type: &str, process: &str) -> bool {
        let of_type = self.types.get(task_type);
        of_type.is_some_and(|of_type| of_type.claimers.iter().all(|name| *name == process))
    }

    /// Whether `fault` may keep tasks of this type from starting, while it lasts: it was done to
    /// the store or to somebody who claims them, not to one task or to who sends.
    pub(in crate::check) fn disturbs(&self, fault: &FaultSpan, task_type: &str) -> bool {
        match &fault.target {
            Target::Store => {
                let mut explains = fault.explains.iter();
                explains.any(|what| *what != Explains::Damage)
            }
            Target::Process(name) => {
                let of_type = self.types.get(task_type);
                of_type.is_some_and(|of_type| of_type.claimers.contains(name.as_str()))
            }
            Target::Task(_) => false,
        }
    }

    /// When something disturbed this type; merged, by time.
    pub(in crate::check) fn disturbances(&self, task_type: &str) -> Vec<(u64, u64)> {
        let faults = self.history.faults.iter();
        let faults = faults.filter(|fault| self.disturbs(fault, task_type));
        merged(
            faults
                .map(|fault| (fault.begun_ns, fault.ended_ns))
                .collect(),
        )
    }

    /// When the last pause of this type may have ended of those that touch the span, or else its
    /// begin.
    pub(in crate::check) fn resumed_at(&self, task_type: &str, (from, to): (u64, u64)) -> u64 {
        let pauses = self.pauses_of(task_type).iter();
        let touching = pauses.filter(|(begun, over)| *begun <= to && *over >= from);
        let last = touching.map(|(_, over)| *over).max();
        last.map_or(from, |over| over.min(to).max(from))
    }

    /// For how long the type may have been paused within the span.
    pub(in crate::check) fn paused_ns(&self, task_type: &str, (from, to): (u64, u64)) -> u64 {
        let pauses = self.pauses_of(task_type).iter();
        let within = pauses.map(|(begun, over)| to.min(*over).saturating_sub(from.max(*begun)));
        within.sum()
    }

    fn pauses_of(&self, task_type: &str) -> &[(u64, u64)] {
        self.pauses.get(task_type).map_or(&[], Vec::as_slice)
    }

    /// The name of the process of a row.
    pub(in crate::check) fn process(&self, row: &Row) -> &'a str {
        let process = self.history.process_of(row);
        process.map_or("", |process| process.name.as_str())
    }

    /// By how much the store's clock may have been wrong when `row` was done, no later than
    /// `until`.
    pub(in crate::check) fn clock_off(&self, row: &Row, until: u64) -> Off {
        let span = (row.from, row.to.min(until).max(row.from));
        self.allowances.clock_off(self.process(row), span)
    }
}

/// Each pause until the next call that changes or ends it, or until it ends by itself.
fn pauses(history: &History) -> HashMap<&str, Vec<(u64, u64)>> {
    let mut pauses: HashMap<&str, Vec<(u64, u64)>> = HashMap::new();
    for call in &history.type_calls {
        let of_type = pauses.entry(call.task_type.as_str()).or_default();
        let until = match call.change {
            TypeChange::Purge { .. } => continue,
            TypeChange::Resume => None,
            TypeChange::Pause { until } => {
                Some(until.map_or(NEVER, |until| history.clock.monotonic_ns(until.as_millis())))
            }
        };
        if let Some((_, over)) = of_type.last_mut() {
            *over = (*over).min(call.to);
        }
        of_type.extend(until.map(|until| (call.from, until)));
    }
    pauses
}
