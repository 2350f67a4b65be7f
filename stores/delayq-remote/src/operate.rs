//! Operators' methods.

use std::time::Duration;

use async_trait::async_trait;
use delayq_core::operate::{
    AuditReport, Cursor, DeadFilter, Page, Setting, TypeSettings, TypeStats,
};
use delayq_core::{Error, Operate, Result, TaskId, TaskState, TaskType, Timestamp};
use delayq_proto::{pb, required, span, state, time};

use crate::remote::{Client, RemoteStore};

#[async_trait]
impl Operate for RemoteStore {
    async fn types(&self) -> Result<Vec<TaskType>> {
        let request = pb::TypesRequest {
            namespace: self.namespace.to_string(),
        };
        let response = self.call(async move |mut client: Client| client.types(request).await);
        let types = response.await?.task_types;
        types.into_iter().map(TaskType::new).collect()
    }

    async fn register_type(&self, task_type: &TaskType) -> Result<()> {
        let request = pb::RegisterTypeRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
        };
        let response =
            self.call(async move |mut client: Client| client.register_type(request).await);
        response.await.map(drop)
    }

    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        if matches!(settings.history, Setting::To(_)) {
            return Err(Error::Unsupported("history"));
        }
        let request = pb::ConfigureTypeRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
            settings: Some(settings.clone().into()),
            create: true,
        };
        let response =
            self.call(async move |mut client: Client| client.configure_type(request).await);
        response.await.map(drop)
    }

    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        let request = pb::StatsRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
        };
        let response = self.call(async move |mut client: Client| client.stats(request).await);
        required("stats", response.await?.stats)?.try_into()
    }

    async fn list(
        &self,
        task_type: &TaskType,
        of: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        let request = pb::ListRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
            state: state(of),
            cursor: cursor.cloned().map(Into::into),
            limit: Some(u32::try_from(limit).unwrap_or(u32::MAX)),
        };
        let response = self.call(async move |mut client: Client| client.list(request).await);
        response.await?.try_into()
    }

    async fn due_histogram(
        &self,
        task_type: &TaskType,
        from: Timestamp,
        to: Timestamp,
        steps: usize,
    ) -> Result<Vec<u64>> {
        let request = pb::DueHistogramRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
            from: Some(time(from)),
            to: Some(time(to)),
            steps: u32::try_from(steps).unwrap_or(u32::MAX),
        };
        let response =
            self.call(async move |mut client: Client| client.due_histogram(request).await);
        Ok(response.await?.counts)
    }

    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        let request = pb::RequeueDeadRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
            filter: Some(filter.clone().into()),
            interval: Some(span(interval)),
        };
        let response =
            self.call(async move |mut client: Client| client.requeue_dead(request).await);
        response.await?.ids.into_iter().map(TaskId::new).collect()
    }

    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        let request = pb::DiscardDeadRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
            filter: Some(filter.clone().into()),
        };
        let response =
            self.call(async move |mut client: Client| client.discard_dead(request).await);
        response.await?.ids.into_iter().map(TaskId::new).collect()
    }

    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()> {
        let request = pb::PauseRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
            until: until.map(time),
            create: true,
        };
        let response = self.call(async move |mut client: Client| client.pause(request).await);
        response.await.map(drop)
    }

    async fn resume(&self, task_type: &TaskType) -> Result<()> {
        let request = pb::ResumeRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
        };
        let response = self.call(async move |mut client: Client| client.resume(request).await);
        response.await.map(drop)
    }

    async fn purge(&self, task_type: &TaskType, of: TaskState) -> Result<u64> {
        let request = pb::PurgeRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
            state: state(of),
        };
        let response = self.call(async move |mut client: Client| client.purge(request).await);
        Ok(response.await?.removed)
    }

    async fn drop_type(&self, task_type: &TaskType) -> Result<()> {
        let request = pb::DropTypeRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
        };
        let response = self.call(async move |mut client: Client| client.drop_type(request).await);
        response.await.map(drop)
    }

    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        let request = pb::AuditRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
            repair,
        };
        let response = self.call(async move |mut client: Client| client.audit(request).await);
        response.await.map(Into::into)
    }
}
