//! Calls of the store, joined from invocation and answer, as rows.

use super::{Frame, HistoryBuilder, short};
use crate::event::{
    Asked, Change, HeldLock, SettledLock, SubmitAnswer, Submitted, TypeChange, What,
};
use crate::history::{ClaimCall, LostClaim, Step, SubmitResult, TypeCall};

impl HistoryBuilder {
    /// A call, from its invocation to its answer.
    pub(super) fn joined(&mut self, frame: Frame, invoked: What, answered: What) {
        let failed = match answered {
            What::Failed { certain, .. } => Some(certain),
            _ => None,
        };
        match invoked {
            What::SubmitInvoked { tasks, .. } => self.submits(frame, tasks, answered, failed),
            _ if failed == Some(true) => {}
            What::ChangeInvoked { task, change, .. } => {
                let step = changed(&change, &answered);
                self.row(frame, &task, step);
            }
            What::DeadInvoked {
                task_type,
                requeue,
                ids,
                ..
            } => self.operated(frame, &task_type, requeue, (ids, answered)),
            What::TypeInvoked {
                task_type, change, ..
            } => self.changed_type(frame, task_type, change, &answered),
            What::ClaimInvoked { task_type, .. } => self.claimed(frame, &task_type, answered),
            What::SettleInvoked {
                task_type, locks, ..
            } => self.settled(frame, &task_type, &locks, &answered),
            What::ExtendInvoked {
                task_type, locks, ..
            } => self.extended(frame, &task_type, &locks, &answered),
            _ => {}
        }
    }

    fn submits(
        &mut self,
        frame: Frame,
        tasks: Vec<Submitted>,
        answered: What,
        failed: Option<bool>,
    ) {
        let answers = match answered {
            What::SubmitAnswered { answers, .. } => answers,
            _ => Vec::new(),
        };
        let mut answers = answers.into_iter();
        for sent in tasks {
            let result = match (answers.next(), failed) {
                (Some(answer), _) => submit_result(&answer),
                (None, Some(true)) => SubmitResult::Refused,
                (None, _) => SubmitResult::InDoubt,
            };
            let in_doubt = result == SubmitResult::InDoubt;
            let step = Step::Submit {
                digest: sent.digest,
                headers: short(sent.headers),
                when: sent.when,
                expiry: self.expiry(sent.expiry),
                on_conflict: sent.on_conflict,
                result,
            };
            self.row(frame.open_if(in_doubt), &sent.task, step);
        }
    }

    fn operated(
        &mut self,
        frame: Frame,
        task_type: &str,
        requeue: bool,
        (ids, answered): (Vec<String>, What),
    ) {
        let (certain, ids) = match answered {
            What::DeadAnswered { ids, .. } => (true, ids),
            _ => (false, ids),
        };
        if !certain && ids.is_empty() {
            let lost = (task_type.to_owned(), frame.from, requeue);
            self.history.lost_operations.push(lost);
        }
        for id in ids {
            let step = if requeue {
                Step::Requeue { certain }
            } else {
                Step::Discard { certain }
            };
            self.row(frame, &format!("{task_type}/{id}"), step);
        }
    }

    fn changed_type(
        &mut self,
        frame: Frame,
        task_type: String,
        change: TypeChange,
        answered: &What,
    ) {
        let removed = match answered {
            What::TypeAnswered { removed, .. } => *removed,
            _ => 0,
        };
        self.history.type_calls.push(TypeCall {
            task_type,
            process: frame.process,
            from: frame.from,
            to: frame.to,
            change,
            removed,
        });
    }

    /// The place of an expiry, 0 for none.
    fn expiry(&mut self, expiry: Option<Asked>) -> u32 {
        let Some(expiry) = expiry else { return 0 };
        self.history.expiries.push(expiry);
        u32::try_from(self.history.expiries.len()).unwrap_or(u32::MAX)
    }

    /// A claim whose answer was lost.
    fn lose_claim(&mut self, task_type: &str, frame: Frame) {
        self.history.lost_claims.push(LostClaim {
            task_type: task_type.to_owned(),
            process: frame.process,
            from: frame.from,
            to: frame.over,
        });
    }

    fn claimed(&mut self, frame: Frame, task_type: &str, answered: What) {
        let What::ClaimAnswered {
            store_now,
            now,
            tasks,
            ended,
            ..
        } = answered
        else {
            self.lose_claim(task_type, frame);
            return;
        };
        let call = u32::try_from(self.history.claims.len()).unwrap_or(u32::MAX);
        if !tasks.is_empty() {
            self.history.claims.push(ClaimCall { store_now, now });
        }
        for lock in tasks {
            let step = Step::Claim {
                call,
                fence: lock.fence,
                attempt: lock.attempt,
                due: lock.due,
                until: lock.lock_until,
            };
            self.row(frame, &format!("{task_type}/{}", lock.id), step);
        }
        for end in ended {
            let step = Step::EndedByClaim {
                state: end.state,
                damaged: end.damaged,
            };
            self.row(frame, &format!("{task_type}/{}", end.id), step);
        }
    }

    fn settled(&mut self, frame: Frame, task_type: &str, locks: &[SettledLock], answered: &What) {
        let answers = match answered {
            What::SettleAnswered { answers, .. } => answers.as_slice(),
            _ => &[],
        };
        for (index, lock) in locks.iter().enumerate() {
            let step = Step::Settle {
                fence: lock.fence,
                end: lock.end,
                answer: answers.get(index).copied(),
            };
            self.row(frame, &format!("{task_type}/{}", lock.id), step);
        }
    }

    fn extended(&mut self, frame: Frame, task_type: &str, locks: &[HeldLock], answered: &What) {
        let answers = match answered {
            What::ExtendAnswered { answers, .. } => answers.as_slice(),
            _ => &[],
        };
        for (index, lock) in locks.iter().enumerate() {
            let step = Step::Extend {
                fence: lock.fence,
                answer: answers.get(index).copied(),
            };
            self.row(frame, &format!("{task_type}/{}", lock.id), step);
        }
    }
}

fn changed(change: &Change, answered: &What) -> Step {
    let answer = match answered {
        What::ChangeAnswered { answer, .. } => Some(*answer),
        _ => None,
    };
    match *change {
        Change::Cancel => Step::Cancel {
            answer: match answered {
                What::CancelAnswered { answer, .. } => Some(*answer),
                _ => None,
            },
        },
        Change::Reschedule { when } => Step::Reschedule { when, answer },
        Change::Update { digest } => Step::Update { digest, answer },
    }
}

fn submit_result(answer: &SubmitAnswer) -> SubmitResult {
    match answer {
        SubmitAnswer::Accepted { due, replaced } => SubmitResult::Accepted {
            due: *due,
            replaced: *replaced,
        },
        SubmitAnswer::Exists { state } => SubmitResult::Exists(*state),
        SubmitAnswer::Conflict { state } => SubmitResult::Conflict(*state),
        SubmitAnswer::Refused { certain: true, .. } => SubmitResult::Refused,
        SubmitAnswer::Refused { certain: false, .. } => SubmitResult::InDoubt,
    }
}
