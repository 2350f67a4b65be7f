//! Types: listed, configured, counted, paused, purged, dropped; and the store itself.

use delayq_core::operate::AuditReport;
use delayq_plugin::{Result, TaskType};
use delayq_proto::{pb, read_state, read_time, read_time_if, required};

use super::call::{Call, Operation};
use super::deed::{Deed, of_type};
use super::refusal::Refusal;
use crate::access::Scope;

impl Operation for pb::InfoRequest {
    type Answer = pb::InfoResponse;
    const SCOPE: Option<Scope> = None;

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let store = call.store();
        Ok(pb::InfoResponse {
            store: store.name(),
            durability: store.durability().as_str().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            max_message_bytes: call.app.config.max_message_bytes as u64,
        })
    }
}

impl Operation for pb::CheckRequest {
    type Answer = pb::CheckResponse;
    const SCOPE: Option<Scope> = None;

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        call.store().check().await?;
        Ok(pb::CheckResponse {})
    }
}

impl Operation for pb::TypesRequest {
    type Answer = pb::TypesResponse;
    const SCOPE: Option<Scope> = Some(Scope::Read);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let types = call.store().types().await?;
        let types = types.iter().filter(|one| call.caller.token.covers(one));
        Ok(pb::TypesResponse {
            task_types: types.map(ToString::to_string).collect(),
        })
    }
}

impl Operation for pb::RegisterTypeRequest {
    type Answer = pb::RegisterTypeResponse;
    const SCOPE: Option<Scope> = Some(Scope::Work);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let task_type = call.task_type(&self.task_type)?;
        call.store().register_type(&task_type).await?;
        Ok(pb::RegisterTypeResponse {})
    }
}

impl Operation for pb::ConfigureTypeRequest {
    type Answer = pb::ConfigureTypeResponse;
    const SCOPE: Option<Scope> = Some(Scope::Admin);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let task_type = call.task_type(&self.task_type)?;
        let settings = required("settings", self.settings)?.try_into()?;
        let store = call.store();
        let configured = store.configure_type(&task_type, &settings);
        of_type("configure", &task_type)
            .log(call, configured, |()| None)
            .await?;
        Ok(pb::ConfigureTypeResponse {})
    }
}

impl Operation for pb::StatsRequest {
    type Answer = pb::StatsResponse;
    const SCOPE: Option<Scope> = Some(Scope::Read);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let task_type = call.task_type(&self.task_type)?;
        let stats = call.store().stats(&task_type).await?;
        Ok(pb::StatsResponse {
            stats: Some(stats.into()),
        })
    }
}

impl Operation for pb::DueHistogramRequest {
    type Answer = pb::DueHistogramResponse;
    const SCOPE: Option<Scope> = Some(Scope::Read);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let task_type = call.task_type(&self.task_type)?;
        let from = read_time("from", required("from", self.from)?)?;
        let to = read_time("to", required("to", self.to)?)?;
        let steps = usize::try_from(self.steps).unwrap_or(usize::MAX);
        let store = call.store();
        let counts = store.due_histogram(&task_type, from, to, steps).await?;
        Ok(pb::DueHistogramResponse { counts })
    }
}

impl Operation for pb::PauseRequest {
    type Answer = pb::PauseResponse;
    const SCOPE: Option<Scope> = Some(Scope::Operate);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let types = call.types(&self.task_type)?;
        let until = read_time_if("until", self.until)?;
        let Ok(task_type) = TaskType::new(types) else {
            let paused = call.operator().pause(types, until).await?;
            return Ok(pb::PauseResponse {
                task_types: paused.iter().map(ToString::to_string).collect(),
            });
        };
        let paused = call.store().pause(&task_type, until);
        of_type("pause", &task_type)
            .log(call, paused, |()| None)
            .await?;
        Ok(pb::PauseResponse {
            task_types: vec![task_type.to_string()],
        })
    }
}

impl Operation for pb::ResumeRequest {
    type Answer = pb::ResumeResponse;
    const SCOPE: Option<Scope> = Some(Scope::Operate);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let types = call.types(&self.task_type)?;
        let Ok(task_type) = TaskType::new(types) else {
            let resumed = call.operator().resume(types).await?;
            return Ok(pb::ResumeResponse {
                task_types: resumed.iter().map(ToString::to_string).collect(),
            });
        };
        let resumed = call.store().resume(&task_type);
        of_type("resume", &task_type)
            .log(call, resumed, |()| None)
            .await?;
        Ok(pb::ResumeResponse {
            task_types: vec![task_type.to_string()],
        })
    }
}

impl Operation for pb::PurgeRequest {
    type Answer = pb::PurgeResponse;
    const SCOPE: Option<Scope> = Some(Scope::Admin);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let task_type = call.task_type(&self.task_type)?;
        let state = read_state(self.state)?;
        let deed = Deed {
            target: format!("all {state}"),
            ..of_type("purge", &task_type)
        };
        let purged = call.store().purge(&task_type, state);
        let removed = deed.log(call, purged, |removed| Some(*removed)).await?;
        Ok(pb::PurgeResponse { removed })
    }
}

impl Operation for pb::DropTypeRequest {
    type Answer = pb::DropTypeResponse;
    const SCOPE: Option<Scope> = Some(Scope::Admin);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let task_type = call.task_type(&self.task_type)?;
        let dropped = call.store().drop_type(&task_type);
        of_type("drop-type", &task_type)
            .log(call, dropped, |()| None)
            .await?;
        Ok(pb::DropTypeResponse {})
    }
}

impl Operation for pb::AuditRequest {
    type Answer = pb::AuditResponse;
    const SCOPE: Option<Scope> = Some(Scope::Operate);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let task_type = call.task_type(&self.task_type)?;
        let store = call.store();
        let audited = store.audit(&task_type, self.repair);
        let report = if self.repair {
            let repair = of_type("repair", &task_type);
            let count = |report: &AuditReport| Some(report.problems.len() as u64);
            repair.log(call, audited, count).await?
        } else {
            audited.await?
        };
        Ok(report.into())
    }
}
