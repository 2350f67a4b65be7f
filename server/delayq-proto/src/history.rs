//! Lives of tasks.

use delayq_core::Result;
use delayq_core::history::{Life, LifeOutcome};
use delayq_core::time::millis;

use crate::field::unknown;
use crate::pb;
use crate::time::{span, time};

impl From<LifeOutcome> for pb::LifeOutcome {
    fn from(outcome: LifeOutcome) -> Self {
        match outcome {
            LifeOutcome::Done => Self::Done,
            LifeOutcome::Dead => Self::Dead,
            LifeOutcome::Expired => Self::Expired,
            LifeOutcome::Cancelled => Self::Cancelled,
            LifeOutcome::Discarded => Self::Discarded,
            _ => Self::Unspecified,
        }
    }
}

/// The way in which a life ended, in a message.
///
/// # Errors
/// `InvalidInput` if it is unknown.
pub fn read_life_outcome(value: i32) -> Result<LifeOutcome> {
    match pb::LifeOutcome::try_from(value) {
        Ok(pb::LifeOutcome::Done) => Ok(LifeOutcome::Done),
        Ok(pb::LifeOutcome::Dead) => Ok(LifeOutcome::Dead),
        Ok(pb::LifeOutcome::Expired) => Ok(LifeOutcome::Expired),
        Ok(pb::LifeOutcome::Cancelled) => Ok(LifeOutcome::Cancelled),
        Ok(pb::LifeOutcome::Discarded) => Ok(LifeOutcome::Discarded),
        Ok(pb::LifeOutcome::Unspecified) | Err(_) => Err(unknown("outcome", value)),
    }
}

impl From<Life> for pb::Life {
    fn from(life: Life) -> Self {
        Self {
            task_type: life.task_type.to_string(),
            id: life.id.to_string(),
            outcome: pb::LifeOutcome::from(life.outcome).into(),
            submitted_at: Some(time(life.submitted_at)),
            due_at: Some(time(life.due_at)),
            started_at: life.started_at.map(time),
            ended_at: Some(time(life.ended_at)),
            run: life.run_ms.map(|ms| span(millis(ms))),
            fence: life.fence,
            attempts: life.attempts,
            group: life.group,
            project: life.project,
            holder: life.holder,
            error: life.error,
            errors: life.errors.into_iter().map(Into::into).collect(),
            message_bytes: life.message_bytes,
            message: life.message,
        }
    }
}
