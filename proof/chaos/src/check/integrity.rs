//! I8: a worker gets the bytes that were sent. I9: of its own namespace and type.

use super::view::TaskView;
use super::{Findings, Promise};
use crate::event::ChangeAnswer;
use crate::history::{Row, Step, SubmitResult};

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings) {
    for row in view.rows {
        match row.step {
            Step::Start {
                digest,
                headers,
                right_type,
                ..
            } => {
                bytes(view, row, digest, findings);
                same_headers(view, row, headers, findings);
                place(view, row, right_type, findings);
            }
            Step::EndedByClaim { damaged: true, .. } if !view.run.allowances.damaged(view.name) => {
                let detail = "nobody has damaged its record".to_owned();
                findings.task(Promise::Integrity, "found damaged", view, detail);
            }
            _ => {}
        }
    }
}

/// What was sent and not replaced before the task was handed out.
fn bytes(view: &TaskView<'_>, start: &Row, digest: u64, findings: &mut Findings) {
    let sent: Vec<_> = view
        .rows
        .iter()
        .filter(|row| row.from <= start.from)
        .filter_map(|row| message(row).map(|digest| (row, digest)))
        .collect();
    let replaced = |old: &Row| {
        let mut newer = sent
            .iter()
            .map(|(row, _)| row)
            .filter(|row| view.run.is_certain(row));
        newer.any(|new| new.from > old.to && new.to < claimed_from(view, start))
    };
    let mut current = sent.iter().filter(|(row, _)| !replaced(row));
    if !sent.is_empty() && !current.any(|(_, sent)| *sent == digest) {
        let was_sent = sent.iter().any(|(_, sent)| *sent == digest);
        let (rule, detail) = if was_sent {
            ("an old message", "it had been replaced before the claim")
        } else {
            ("altered bytes", "nobody has sent these bytes")
        };
        let detail = format!("{detail}: digest {digest:016x}");
        findings.task(Promise::Integrity, rule, view, detail);
    }
}

/// The headers are those of a submit: nothing else sets them.
fn same_headers(view: &TaskView<'_>, start: &Row, headers: u32, findings: &mut Findings) {
    let mut sent = view.rows.iter().filter_map(|row| match row.step {
        Step::Submit {
            headers,
            result: SubmitResult::Accepted { .. } | SubmitResult::InDoubt,
            ..
        } if row.from <= start.from => Some(headers),
        _ => None,
    });
    let mut any = sent.by_ref().peekable();
    if any.peek().is_some() && !any.any(|sent| sent == headers) {
        let detail = "nobody has sent these headers".to_owned();
        findings.task(Promise::Integrity, "altered headers", view, detail);
    }
}

fn message(row: &Row) -> Option<u64> {
    match row.step {
        Step::Submit {
            digest,
            result: SubmitResult::Accepted { .. } | SubmitResult::InDoubt,
            ..
        }
        | Step::Update {
            digest,
            answer: Some(ChangeAnswer::Changed { .. }) | None,
        } => Some(digest),
        _ => None,
    }
}

fn claimed_from(view: &TaskView<'_>, start: &Row) -> u64 {
    let Step::Start { fence, .. } = start.step else {
        return start.from;
    };
    view.lock(fence).map_or(start.from, |lock| lock.row.from)
}

fn place(view: &TaskView<'_>, start: &Row, right_type: bool, findings: &mut Findings) {
    if !right_type {
        let detail = "its worker serves another type".to_owned();
        findings.task(
            Promise::Isolation,
            "started by the wrong worker",
            view,
            detail,
        );
    }
    let namespace = |row: &Row| {
        view.run
            .history
            .process_of(row)
            .map(|p| p.namespace.as_str())
    };
    let submits = || {
        view.rows
            .iter()
            .filter(|row| matches!(row.step, Step::Submit { .. }))
    };
    if submits().next().is_none() {
        let detail = "nobody has sent it".to_owned();
        findings.task(Promise::Isolation, "a task out of nowhere", view, detail);
    } else if !submits().any(|row| namespace(row) == namespace(start)) {
        let detail = format!("started in {:?}", namespace(start).unwrap_or_default());
        findings.task(
            Promise::Isolation,
            "started in another namespace",
            view,
            detail,
        );
    }
}
