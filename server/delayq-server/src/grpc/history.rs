//! The history: what became of tasks.

use delayq_plugin::history::{Forget, HistoryQuery, MAX_HISTORY_PAGE};
use delayq_plugin::{TaskId, TaskType};
use delayq_proto::{pb, read_life_outcome, read_span, read_time_if, required};
use delayq_service::operation::{forget_history, search_history, what_became_of};

use super::call::{Call, Run};
use super::refusal::CallError;

/// The default number of lives in an answer.
const LIVES: usize = 100;

impl Run for pb::SearchHistoryRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let mut query = HistoryQuery::default();
        query.task_type = self.task_type.map(TaskType::new).transpose()?;
        query.id = self.id.map(TaskId::new).transpose()?;
        query.group = self.group;
        query.project = self.project;
        let outcomes: Result<_, _> = self.outcomes.into_iter().map(read_life_outcome).collect();
        query.outcomes = outcomes?;
        query.since = read_time_if("since", self.since)?;
        query.until = read_time_if("until", self.until)?;
        query.error = self.error;
        let span = |field, span: Option<_>| span.map(|span| read_span(field, span)).transpose();
        query.late_by = span("late_by", self.late_by)?;
        query.longer_than = span("longer_than", self.longer_than)?;
        query.limit = match self.limit {
            0 => LIVES,
            // The search refuses what is above the maximum.
            limit => usize::try_from(limit).unwrap_or(MAX_HISTORY_PAGE + 1),
        };
        query.after = self.cursor.as_deref().map(str::parse).transpose()?;
        let page = search_history(call, &query).await?;
        Ok(pb::SearchHistoryResponse {
            lives: page.lives.into_iter().map(Into::into).collect(),
            next: page.next.map(|next| next.to_string()),
        })
    }
}

impl Run for pb::WhatBecameOfRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let (task_type, id) = call.task(&self.task_type, &self.id)?;
        let fate = what_became_of(call, task_type.as_str(), id.as_str()).await?;
        Ok(pb::WhatBecameOfResponse {
            now: fate.now.map(Into::into),
            lives: fate.lives.into_iter().map(Into::into).collect(),
            unread: fate.unread,
            history_error: fate.history_error.map(|error| error.to_string()),
        })
    }
}

impl Run for pb::ForgetHistoryRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        use pb::forget_history_request::Whom;
        let task_type = self.task_type.as_deref().map(|named| call.task_type(named));
        let task_type = task_type.transpose()?;
        let whom = match required("whom", self.whom)? {
            Whom::Id(id) => Forget::id(TaskId::new(id)?, task_type),
            Whom::Group(group) => Forget::group(&group, task_type),
        };
        let forgotten = forget_history(call, &whom).await?;
        Ok(pb::ForgetHistoryResponse {
            lives: forgotten.lives,
        })
    }
}
