//! The operations of the service, for HTTP and gRPC.

use std::time::Duration;

use axum::http::{Extensions, HeaderMap};
use delayq_plugin::store::SubmitOutcome;
use delayq_plugin::{CancelOutcome, DelayQueueJob, TaskInfo, TaskState, Timestamp};
use delayq_proto::pb::tasks::{CancelTaskResponse, CreateTaskResponse, QueryTaskResponse, Retry};
use delayq_service::access::Scope;
use delayq_service::app::App;
use delayq_service::context::Context;
use delayq_service::operation::{Submission, submit_one};
use delayq_service::problem::Problem;
use delayq_service::push::{KeptTask, OWN_TARGET};
use serde_json::Value;

use super::forms::WhichForm;
use super::place::{Place, Which};
use super::state;
use super::wanted::{Wanted, check_format};
use crate::client::{Entry, admit, caller_of};

/// Headers of a task, in addition to `group`.
const PROJECT: &str = "project";
const KIND: &str = "task-kind";
const FORMAT: &str = "format";
const REQUEST_ID: &str = "request-id";
const TRIGGER_AT: &str = "trigger-at";

/// The service.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) app: App,
}

impl Service {
    pub(super) fn new(app: App) -> Self {
        Self { app }
    }

    /// The caller, with the required scope.
    pub(super) async fn client(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
        scope: Scope,
    ) -> Result<Context, Problem> {
        admit(&self.app, &self.entry(), headers, extensions, scope).await
    }

    /// Refuses a caller without a token, if one is required.
    pub(super) fn check_caller(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<(), Problem> {
        caller_of(&self.app, &self.entry(), headers, extensions).map(drop)
    }

    fn entry(&self) -> Entry<'_> {
        let config = &self.app.config.task_service;
        Entry {
            token: config.token,
            namespace: &config.namespace,
        }
    }

    /// Creates a task, unless an earlier call with the same request id did.
    pub(super) async fn create(
        &self,
        client: &Context,
        wanted: Wanted,
    ) -> Result<CreateTaskResponse, Problem> {
        let options = wanted.options;
        let which = Place::new(&options.project, &options.group)?.task(&options.request_id)?;
        let task_type = client.caller.require_type(which.place.task_type.as_str())?;
        if !options.request_id.is_empty()
            && let Some(task) = self.find(client, &which).await?
        {
            return Ok(created(&which, false, state::of_task(&task)));
        }
        check_format(&options)?;
        let job = DelayQueueJob::raw(task_type.as_str(), options.body)
            .id(which.id.as_str())
            .keep()
            .group(&which.place.group)
            .header(PROJECT, &which.place.project)
            .header(KIND, wanted.kind);
        let named = [(FORMAT, options.format), (REQUEST_ID, options.request_id)];
        let named = named.into_iter().filter(|(_, value)| !value.is_empty());
        let mut job = named.fold(job, |job, (name, value)| job.header(name, value));
        if options.trigger_at < 0 {
            return Err(Problem::bad_request(
                "trigger_at: milliseconds since the epoch",
            ));
        }
        if options.trigger_at > 0 {
            job = job.at(Timestamp::from_millis(options.trigger_at));
            job = job.header(TRIGGER_AT, options.trigger_at.to_string());
        }
        let task = Submission::of_job(client, job).await?;
        let receipt = submit_one(client, task.to(Some(wanted.target))).await?;
        Ok(match receipt.outcome {
            SubmitOutcome::AlreadyExists { state } => {
                created(&which, false, state::of_state(state))
            }
            _ => created(&which, true, state::of_state(TaskState::Scheduled)),
        })
    }

    /// Cancels a task.
    pub(super) async fn cancel(
        &self,
        client: &Context,
        form: &WhichForm,
    ) -> Result<CancelTaskResponse, Problem> {
        use delayq_proto::pb::tasks::State;
        let which = of_client(client, form)?;
        let (tasks, task_type) = (&client.space.tasks, &which.place.task_type);
        let outcome = tasks.cancel(task_type.as_str(), which.id.as_str()).await?;
        let state = match outcome {
            CancelOutcome::Cancelled => State::Cancelled,
            CancelOutcome::Running => State::Running,
            CancelOutcome::Finished(state) => state::of_state(state),
            _ => return Err(unknown(&which)),
        };
        Ok(CancelTaskResponse {
            cancelled: state == State::Cancelled,
            state: state.into(),
        })
    }

    /// Returns the known facts of a task.
    pub(super) async fn query(
        &self,
        client: &Context,
        form: &WhichForm,
    ) -> Result<QueryTaskResponse, Problem> {
        let which = of_client(client, form)?;
        let task = self.find(client, &which).await?;
        let mut task = task.ok_or_else(|| unknown(&which))?;
        if task.state == TaskState::Done {
            restore(client, &which, &mut task).await?;
        }
        Ok(known(&which, task))
    }

    async fn find(&self, client: &Context, which: &Which) -> Result<Option<TaskInfo>, Problem> {
        let task_type = which.place.task_type.as_str();
        // Includes the target of the task, which contains its retry policy.
        Ok(client
            .space
            .within
            .find(task_type, which.id.as_str())
            .await?)
    }
}

fn created(
    which: &Which,
    created: bool,
    state: delayq_proto::pb::tasks::State,
) -> CreateTaskResponse {
    CreateTaskResponse {
        task_id: which.task_id(),
        created,
        state: state.into(),
    }
}

/// The task that a client identifies; refused if its token does not cover the type.
fn of_client(client: &Context, form: &WhichForm) -> Result<Which, Problem> {
    let which = Which::of(form)?;
    client.caller.require_type(which.place.task_type.as_str())?;
    Ok(which)
}

fn unknown(which: &Which) -> Problem {
    Problem::not_found(format!("there is no task {}", which.task_id()))
}

/// Restores the facts of a finished task that were kept as its reply.
async fn restore(client: &Context, which: &Which, task: &mut TaskInfo) -> Result<(), Problem> {
    let (task_type, id) = (which.place.task_type.as_str(), which.id.as_str());
    let tasks = &client.space.tasks;
    let reply = tasks.wait_for_reply(task_type, id, Duration::ZERO).await?;
    if let Some(kept) = reply.body().and_then(KeptTask::read) {
        let submitted_at = Timestamp::from_millis(kept.submitted_at);
        task.submitted_at = Some(submitted_at);
        task.due_at = Some(submitted_at);
        task.message = Some(kept.message());
        task.headers = kept.headers;
    }
    Ok(())
}

fn known(which: &Which, mut task: TaskInfo) -> QueryTaskResponse {
    let state = state::of_task(&task).into();
    let ms = |time: Option<Timestamp>| time.map_or(0, Timestamp::as_millis);
    let retry = task
        .headers
        .get(OWN_TARGET)
        .and_then(|text| read_retry(text));
    let mut header = |name| task.headers.remove(name).unwrap_or_default();
    let asked = header(TRIGGER_AT).parse().ok();
    QueryTaskResponse {
        task_id: which.task_id(),
        project: which.place.project.clone(),
        group: which.place.group.clone(),
        state,
        state_at: task.at.as_millis(),
        attempts: task.attempt,
        kind: header(KIND),
        trigger_at: asked.unwrap_or(ms(task.due_at)),
        created_at: ms(task.submitted_at),
        retry,
        format: header(FORMAT),
        request_id: header(REQUEST_ID),
        body: task.message.unwrap_or_default(),
        last_error: task.history.last_error.unwrap_or_default(),
    }
}

/// The retry policy in a target, in the form in which it was created.
pub(super) fn read_retry(target: &str) -> Option<Retry> {
    let target: Value = serde_json::from_str(target).ok()?;
    let number = |name| target.get("retry")?.get(name)?.as_u64();
    let count = u32::try_from(number("attempts")?.saturating_sub(1)).ok()?;
    let interval = u32::try_from(number("wait")? / 1_000).ok()?;
    Some(Retry { count, interval })
}
