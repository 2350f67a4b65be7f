//! Types: list, configure, count, pause, purge, drop; and information about the store.

use delayq_plugin::{Result, TaskType};
use delayq_proto::{pb, read_state, read_time, read_time_if, required};
use delayq_service::operation::concerns;

use super::call::{Call, Run};
use super::refusal::CallError;

impl Run for pb::InfoRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let store = call.store();
        Ok(pb::InfoResponse {
            store: store.name(),
            durability: store.durability().as_str().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            max_message_bytes: call.app.config.max_message_bytes as u64,
        })
    }
}

impl Run for pb::CheckRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        call.store().check().await?;
        let concerns = concerns(call).await;
        let concerns = concerns.into_iter().map(|one| pb::Concern {
            found: one.found,
            why: one.why,
            fix: one.fix,
        });
        Ok(pb::CheckResponse {
            concerns: concerns.collect(),
        })
    }
}

impl Run for pb::TypesRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let types = call.store().types().await?;
        let types = types.iter().filter(|one| call.caller.token.covers(one));
        Ok(pb::TypesResponse {
            task_types: types.map(ToString::to_string).collect(),
        })
    }
}

impl Run for pb::RegisterTypeRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        call.store().register_type(&task_type).await?;
        Ok(pb::RegisterTypeResponse {})
    }
}

impl Run for pb::ConfigureTypeRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        let settings = required("settings", self.settings)?.try_into()?;
        let operator = call.store_operator().creating(self.create);
        operator
            .configure_type(task_type.as_str(), &settings)
            .await?;
        Ok(pb::ConfigureTypeResponse {})
    }
}

impl Run for pb::StatsRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        let stats = call.store().stats(&task_type).await?;
        Ok(pb::StatsResponse {
            stats: Some(stats.into()),
        })
    }
}

impl Run for pb::DueHistogramRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        let from = read_time("from", required("from", self.from)?)?;
        let to = read_time("to", required("to", self.to)?)?;
        let steps = usize::try_from(self.steps).unwrap_or(usize::MAX);
        let store = call.store();
        let counts = store.due_histogram(&task_type, from, to, steps).await?;
        Ok(pb::DueHistogramResponse { counts })
    }
}

impl Run for pb::PauseRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let types = call.types(&self.task_type)?;
        let until = read_time_if("until", self.until)?;
        let paused = if call.is_store_of_caller {
            let task_type = TaskType::new(types)?;
            call.store().pause(&task_type, until).await?;
            vec![task_type]
        } else {
            let operator = call.operator().creating(self.create);
            operator.pause(types, until).await?
        };
        Ok(pb::PauseResponse {
            task_types: paused.iter().map(ToString::to_string).collect(),
        })
    }
}

impl Run for pb::ResumeRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let types = call.types(&self.task_type)?;
        let resumed = call.store_operator().resume(types).await?;
        Ok(pb::ResumeResponse {
            task_types: resumed.iter().map(ToString::to_string).collect(),
        })
    }
}

impl Run for pb::PurgeRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        let state = read_state(self.state)?;
        let operator = call.store_operator();
        let removed = operator.purge(task_type.as_str(), state).await?;
        Ok(pb::PurgeResponse { removed })
    }
}

impl Run for pb::DropTypeRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        call.store_operator().drop_type(task_type.as_str()).await?;
        Ok(pb::DropTypeResponse {})
    }
}

impl Run for pb::AuditRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        let report = if self.repair {
            call.store_operator().repair(task_type.as_str()).await?
        } else {
            call.store().audit(&task_type, false).await?
        };
        Ok(report.into())
    }
}
