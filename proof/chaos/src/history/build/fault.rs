//! Faults, joined from their phases.

use std::mem::discriminant;

use super::HistoryBuilder;
use crate::event::{Explains, Phase, What};
use crate::history::{FaultSpan, NEVER};

impl HistoryBuilder {
    pub(super) fn fault(&mut self, at: u64, what: What) {
        let What::Fault {
            id,
            kind,
            target,
            phase,
            explains,
        } = what
        else {
            return;
        };
        let span = self.faults.entry(id).or_insert(FaultSpan {
            id,
            kind,
            target,
            begun_ns: at,
            struck_ns: NEVER,
            ended_ns: NEVER,
            explains: explains.clone(),
        });
        match phase {
            Phase::Begun => {}
            Phase::Struck => span.struck_ns = at,
            Phase::Ended => {
                span.ended_ns = at;
                span.struck_ns = span.struck_ns.min(at);
                // What turned out not to have happened is no longer named.
                let is_named = |what: &Explains| {
                    let mut named = explains.iter();
                    named.any(|named| discriminant(named) == discriminant(what))
                };
                span.explains.retain(is_named);
            }
        }
    }
}
