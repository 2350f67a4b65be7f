//! Figures, and actions of operators.

use delayq_core::chronicle::{Action, ActionEnd, Figures, LoggedAction, Spell, Step};
use delayq_core::{Error, Result};

use crate::field::{required, unknown};
use crate::pb;
use crate::time::{read_time, time};

impl From<Figures> for pb::Figures {
    fn from(figures: Figures) -> Self {
        Self {
            started: figures.started,
            done: figures.done,
            failed: figures.failed,
            dead: figures.dead,
            run_ms: figures.run_ms,
            longest_run_ms: figures.longest_run_ms,
            lateness: figures.lateness.counts().to_vec(),
        }
    }
}

impl From<pb::Figures> for Figures {
    fn from(sent: pb::Figures) -> Self {
        let mut figures = Self::default();
        figures.started = sent.started;
        figures.done = sent.done;
        figures.failed = sent.failed;
        figures.dead = sent.dead;
        figures.run_ms = sent.run_ms;
        figures.longest_run_ms = sent.longest_run_ms;
        for (bucket, count) in sent.lateness.into_iter().enumerate() {
            figures.lateness.add(bucket, count);
        }
        figures
    }
}

impl From<Spell> for pb::Spell {
    fn from(spell: Spell) -> Self {
        Self {
            at: Some(time(spell.at)),
            figures: Some(spell.figures.into()),
        }
    }
}

impl TryFrom<pb::Spell> for Spell {
    type Error = Error;

    fn try_from(sent: pb::Spell) -> Result<Self> {
        Ok(Self {
            at: read_time("spell.at", required("spell.at", sent.at)?)?,
            figures: sent.figures.unwrap_or_default().into(),
        })
    }
}

impl From<Step> for pb::Step {
    fn from(step: Step) -> Self {
        match step {
            Step::Minute => Self::Minute,
            Step::Hour => Self::Hour,
        }
    }
}

impl TryFrom<pb::Step> for Step {
    type Error = Error;

    fn try_from(step: pb::Step) -> Result<Self> {
        match step {
            pb::Step::Minute => Ok(Self::Minute),
            pb::Step::Hour => Ok(Self::Hour),
            pb::Step::Unspecified => Err(unknown("step", 0)),
        }
    }
}

impl From<Action> for pb::Action {
    fn from(action: Action) -> Self {
        let end = match action.end {
            ActionEnd::Begun => pb::ActionEnd::Begun,
            ActionEnd::Done => pb::ActionEnd::Done,
            ActionEnd::Refused => pb::ActionEnd::Refused,
            ActionEnd::Failed => pb::ActionEnd::Failed,
            _ => pb::ActionEnd::Unspecified,
        };
        Self {
            actor: action.actor,
            origin: action.origin,
            verb: action.verb,
            task_type: action.task_type,
            target: action.target,
            count: action.count,
            end: end.into(),
            detail: action.detail,
        }
    }
}

/// Texts are cut to the same lengths as in any other action.
impl TryFrom<pb::Action> for Action {
    type Error = Error;

    fn try_from(sent: pb::Action) -> Result<Self> {
        let end = match pb::ActionEnd::try_from(sent.end) {
            Ok(pb::ActionEnd::Begun) => ActionEnd::Begun,
            Ok(pb::ActionEnd::Done) => ActionEnd::Done,
            Ok(pb::ActionEnd::Refused) => ActionEnd::Refused,
            Ok(pb::ActionEnd::Failed) => ActionEnd::Failed,
            Ok(pb::ActionEnd::Unspecified) | Err(_) => {
                return Err(unknown("action.end", sent.end));
            }
        };
        let action = Self::new(sent.actor, sent.origin, sent.verb, sent.task_type);
        let mut action = action.on(sent.target).ended(end, sent.detail);
        action.count = sent.count;
        Ok(action)
    }
}

impl From<LoggedAction> for pb::LoggedAction {
    fn from(logged: LoggedAction) -> Self {
        Self {
            number: logged.number,
            at: Some(time(logged.at)),
            action: Some(logged.action.into()),
        }
    }
}

impl TryFrom<pb::LoggedAction> for LoggedAction {
    type Error = Error;

    fn try_from(sent: pb::LoggedAction) -> Result<Self> {
        let at = read_time("at", required("at", sent.at)?)?;
        let action = required("action", sent.action)?.try_into()?;
        Ok(Self::new(sent.number, at, action))
    }
}
