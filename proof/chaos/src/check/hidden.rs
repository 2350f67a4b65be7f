//! Claims whose answer was lost: each may have taken locks that nobody knows of.

use std::collections::HashMap;

use super::allowance::Allowances;
use crate::history::History;

/// A lock is counted from a time in whole milliseconds, rounded down: it lasts for up to so much
/// less.
const ROUNDING_NS: u64 = 1_000_000;

/// The lost claims of a run, by type, that a fault explains: without one, answers are not lost.
#[derive(Debug)]
pub(super) struct Hidden<'a>(HashMap<&'a str, Vec<(u64, u64)>>);

impl<'a> Hidden<'a> {
    pub(super) fn new(history: &'a History, allowances: &Allowances) -> Self {
        let mut by_type: HashMap<&str, Vec<_>> = HashMap::new();
        for claim in &history.lost_claims {
            let Some(process) = history.processes.get(usize::from(claim.process)) else {
                continue;
            };
            let span = (claim.from, claim.to.min(history.gone_ns(process)));
            if allowances.held_up(&process.name, span) {
                // What a store that hangs has been sent, it does once it is back.
                let until = allowances.store_answers(span);
                let claims = by_type.entry(claim.task_type.as_str()).or_default();
                claims.push((claim.from, until));
            }
        }
        for claims in by_type.values_mut() {
            claims.sort_unstable();
        }
        Self(by_type)
    }

    /// How many locks there may have been, one after the other, that began within the span and
    /// ended by themselves within it: each lasted for `length_ns`.
    pub(super) fn locks(&self, task_type: &str, (from, to): (u64, u64), length_ns: u64) -> u32 {
        let claims = self.0.get(task_type).map_or(&[][..], Vec::as_slice);
        let length_ns = length_ns.saturating_sub(ROUNDING_NS);
        let latest = to.saturating_sub(length_ns);
        let before = claims.partition_point(|(sent, _)| *sent <= latest);
        let claims = claims.get(..before).unwrap_or_default().iter();
        let count = claims.filter(|(_, until)| *until >= from).count();
        let fit = to.saturating_sub(from).checked_div(length_ns);
        u32::try_from(fit.map_or(count as u64, |fit| fit.min(count as u64))).unwrap_or(u32::MAX)
    }
}
