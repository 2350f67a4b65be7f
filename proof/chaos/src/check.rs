//! The checker: holds the history of a run against each promise.
//!
//! Each rule looks at one task at a time, in a `TaskView`. What a call did is certain when it was
//! answered and no fault may have undone it; everything else gets the benefit of the doubt, and
//! every repeat needs a cause of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;

use crate::history::History;

mod allowance;
mod answer;
mod cancel;
mod due;
mod ends;
mod expired_start;
mod expiry;
mod figures;
mod held;
mod hidden;
mod idle;
mod integrity;
mod lock;
mod lost;
mod pause;
mod recovery;
mod repeat;
mod report;
mod structure;
mod told;
mod trail;
mod validity;
mod view;
mod waits;
mod work;

#[cfg(test)]
mod tests;

pub use figures::{Figures, Span};
use view::{Run, TaskView};

/// Most violations of one rule that are kept with their histories: those with the shortest ones.
const KEPT: usize = 3;
/// How long due tasks may take to start after a fault, beyond the time of a lock, in milliseconds.
const RECOVERY_MS: u64 = 1_000;

/// The promises, as the documents number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// I1: never early.
    NeverEarly,
    /// I2: never lost.
    NeverLost,
    /// I3: one holder at a time.
    OneHolder,
    /// I4: one end.
    OneEnd,
    /// I5: explained repeats.
    ExplainedRepeats,
    /// I6: a cancel is final.
    CancelIsFinal,
    /// I7: it comes back.
    ComesBack,
    /// I8: integrity.
    Integrity,
    /// I9: isolation.
    Isolation,
    /// I10: structure.
    Structure,
}

impl Promise {
    /// All of them, in order.
    pub const ALL: [Self; 10] = [
        Self::NeverEarly,
        Self::NeverLost,
        Self::OneHolder,
        Self::OneEnd,
        Self::ExplainedRepeats,
        Self::CancelIsFinal,
        Self::ComesBack,
        Self::Integrity,
        Self::Isolation,
        Self::Structure,
    ];
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NeverEarly => "I1 never early",
            Self::NeverLost => "I2 never lost",
            Self::OneHolder => "I3 one holder",
            Self::OneEnd => "I4 one end",
            Self::ExplainedRepeats => "I5 explained repeats",
            Self::CancelIsFinal => "I6 cancel is final",
            Self::ComesBack => "I7 it comes back",
            Self::Integrity => "I8 integrity",
            Self::Isolation => "I9 isolation",
            Self::Structure => "I10 structure",
        })
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// How, in a few words; the same for all violations of a kind.
    pub rule: &'static str,
    /// The task, if it is about one.
    pub task: Option<String>,
    /// The numbers.
    pub detail: String,
    /// The task's history, one line an event.
    pub history: Vec<String>,
}

/// What a run proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every promise held.
    Held,
    /// A promise was broken.
    Broken,
    /// Nothing: something that was planned did not happen, or the record is not whole.
    Invalid,
}

/// 0: every promise held; 1: one was broken; 2: the run proves nothing.
impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(match outcome {
            Outcome::Held => 0,
            Outcome::Broken => 1,
            Outcome::Invalid => 2,
        })
    }
}

/// The result of a check.
#[derive(Debug)]
pub struct Verdict {
    /// For each rule that was broken, the violations with the shortest histories.
    pub violations: Vec<Violation>,
    /// How often each rule was broken.
    pub broken: BTreeMap<(Promise, &'static str), u64>,
    /// Why the run proves nothing; empty: it does.
    pub invalid: Vec<String>,
    /// The kinds of faults that the machine could not do.
    pub skipped: Vec<String>,
    /// What was counted and measured.
    pub figures: Figures,
}

impl Verdict {
    /// What the run proves. A broken promise counts even if the run was not as planned.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match (self.broken.is_empty(), self.invalid.is_empty()) {
            (false, _) => Outcome::Broken,
            (true, false) => Outcome::Invalid,
            (true, true) => Outcome::Held,
        }
    }

    /// Whether `promise` was broken.
    #[must_use]
    pub fn breaks(&self, promise: Promise) -> bool {
        self.broken.keys().any(|(broken, _)| *broken == promise)
    }
}

/// Collects violations.
#[derive(Debug, Default)]
struct Findings {
    kept: BTreeMap<(Promise, &'static str), Vec<Violation>>,
    counts: BTreeMap<(Promise, &'static str), u64>,
}

impl Findings {
    fn task(&mut self, promise: Promise, rule: &'static str, view: &TaskView<'_>, detail: String) {
        *self.counts.entry((promise, rule)).or_default() += 1;
        let kept = self.kept.entry((promise, rule)).or_default();
        let longest = kept.iter().map(|violation| violation.history.len()).max();
        if kept.len() >= KEPT && longest.is_some_and(|longest| longest <= view.rows.len()) {
            return;
        }
        kept.push(Violation {
            promise,
            rule,
            task: Some(view.name.to_owned()),
            detail,
            history: view.lines(),
        });
        kept.sort_by_key(|violation| violation.history.len());
        kept.truncate(KEPT);
    }

    fn run(&mut self, promise: Promise, rule: &'static str, detail: String) {
        *self.counts.entry((promise, rule)).or_default() += 1;
        let kept = self.kept.entry((promise, rule)).or_default();
        if kept.len() < KEPT {
            kept.push(Violation {
                promise,
                rule,
                task: None,
                detail,
                history: Vec::new(),
            });
        }
    }
}

/// Holds `history` against every promise.
#[must_use]
pub fn check(history: &History) -> Verdict {
    let run = Run::new(history);
    let mut findings = Findings::default();
    let mut figures = Figures {
        own_shortages: history.own_shortages.clone(),
        ..Figures::default()
    };
    let mut locked = 0;
    for number in 0..history.tasks.len() {
        let view = TaskView::new(&run, number);
        due::check(&view, &mut findings);
        lost::check(&view, &mut findings, &mut figures);
        lock::check(&view, &mut findings);
        ends::check(&view, &mut findings);
        repeat::check(&view, &mut findings);
        cancel::check(&view, &mut findings);
        held::check(&view, &mut findings);
        expired_start::check(&view, &mut findings);
        told::check(&view, &mut findings);
        integrity::check(&view, &mut findings);
        structure::check(&view, &mut findings);
        answer::check(&view, &mut findings);
        work::check(&view, &mut findings);
        expiry::check(&view, &mut findings);
        pause::check(&view, &mut findings);
        trail::check(&view, &mut findings);
        locked += u64::from(structure::is_locked_for_long(&view));
        figures.add(&view);
    }
    recovery::check(&run, &mut figures, &mut findings);
    structure::check_audits(&run, &mut findings);
    structure::check_left(&run, locked, &mut findings);
    lost::check_purges(history, &figures, &mut findings);
    let mut invalid = validity::check(&run, &figures);
    idle::check(&run, &figures, (&mut findings, &mut invalid));
    Verdict {
        violations: findings.kept.into_values().flatten().collect(),
        broken: findings.counts,
        invalid,
        skipped: history
            .plan
            .as_ref()
            .map_or_else(Vec::new, |plan| plan.skipped.clone()),
        figures,
    }
}
