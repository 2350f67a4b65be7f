//! Moves of a namespace to another pool.

use std::sync::Arc;

use delayq_plugin::{Error, Result};
use delayq_proto::pb;
use delayq_service::place::{MoveStatus, Mover, Phase};
use delayq_service::problem::Problem;

use super::call::{Call, Run};
use super::refusal::CallError;

impl Run for pb::GetMoveRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        Ok(answer(mover(call)?.status().await?))
    }
}

impl Run for pb::BeginMoveRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let mover = mover(call)?;
        let to = call.app.config.destination(&self.to);
        let to = to.map_err(|text| Error::invalid("to", text))?;
        let operator = call.operator();
        let begun = mover.head_for(to, operator.actor(), &call.caller.origin);
        begun.await.map_err(Problem::of_move)?;
        Ok(answer(mover.status().await?))
    }
}

impl Run for pb::CancelMoveRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let mover = mover(call)?;
        mover.cancel().await.map_err(Problem::of_move)?;
        call.operator().note("cancel-move", "", "").await;
        Ok(answer(mover.status().await?))
    }
}

fn mover(call: &Call) -> Result<Mover, Problem> {
    call.caller.require_all_types()?;
    Ok(Mover::new(Arc::clone(&call.space.place)))
}

fn answer(status: MoveStatus) -> pb::MoveResponse {
    let about = status.to_string();
    let [scheduled, running, dead] = status.left;
    let phase = match status.place.phase {
        Phase::Preparing => pb::MovePhase::Preparing,
        Phase::Moving => pb::MovePhase::Moving,
        Phase::Done => pb::MovePhase::Done,
    };
    pb::MoveResponse {
        r#move: Some(pb::NamespaceMove {
            phase: phase.into(),
            from: status.place.from.filter(|_| phase != pb::MovePhase::Done),
            to: status.place.to,
            scheduled,
            running,
            dead,
            about,
        }),
    }
}
