//! Entry points of the fuzz targets for requests to the task service over HTTP and gRPC.

use delayq_proto::pb::tasks;
use delayq_proto::pb::tasks::{
    CreateGrpcTaskRequest, CreateHttpTaskRequest, CreateKafkaTaskRequest,
};
use delayq_service::config::Config;
use delayq_service::push::{KafkaConfig, PushConfig};

use super::forms::{TaskForm, TaskView, WhichForm};
use super::place::{Place, Which};
use super::service::read_retry;
use super::wanted::Wanted;

/// A configuration with a Kafka cluster.
fn config() -> Config {
    Config {
        push: PushConfig {
            kafka: [("main".to_owned(), KafkaConfig::default())].into(),
            ..PushConfig::default()
        },
        ..Config::default()
    }
}

/// Takes a task and returns its message and its target.
///
/// # Panics
/// If the task exceeds its limits, its id does not lead back to it, or its retry policy differs.
fn taken(wanted: &Wanted) -> Option<(Vec<u8>, String)> {
    let options = &wanted.options;
    let place = Place::new(&options.project, &options.group).ok()?;
    let which = place.task(&options.request_id).ok()?;
    let again = Which::read(&which.task_id());
    assert_eq!(again.as_ref().ok(), Some(&which));
    let (asked, kept) = (
        options.retry.unwrap_or_default(),
        read_retry(&wanted.target),
    );
    assert!(asked.count <= 999 && asked.interval <= 86_400);
    assert_eq!(kept, Some(asked));
    Some((options.body.clone(), wanted.target.clone()))
}

/// Parses a form: `kind` 0 is HTTP, 1 is gRPC, any other is Kafka.
fn wanted(kind: u8, form: TaskForm) -> Option<Wanted> {
    let wanted = match kind {
        0 => Wanted::http(form.http().ok()?),
        1 => Wanted::grpc(form.grpc().ok()?, &config()),
        _ => Wanted::kafka(form.kafka().ok()?, &config()),
    };
    wanted.ok()
}

/// Parses a body that creates a task over HTTP; `None` is a refusal.
#[must_use]
pub fn task_form(kind: u8, body: &[u8]) -> Option<(Vec<u8>, String)> {
    let form: TaskForm = serde_json::from_slice(body).ok()?;
    taken(&wanted(kind, form)?)
}

/// Parses a gRPC message that creates an HTTP task.
#[must_use]
pub fn http_task(request: CreateHttpTaskRequest) -> Option<(Vec<u8>, String)> {
    taken(&Wanted::http(request).ok()?)
}

/// Parses a message that creates a gRPC task.
#[must_use]
pub fn grpc_task(request: CreateGrpcTaskRequest) -> Option<(Vec<u8>, String)> {
    taken(&Wanted::grpc(request, &config()).ok()?)
}

/// Parses a message that creates a Kafka task.
#[must_use]
pub fn kafka_task(request: CreateKafkaTaskRequest) -> Option<(Vec<u8>, String)> {
    taken(&Wanted::kafka(request, &config()).ok()?)
}

/// Parses a request that identifies a task. Returns its id, unless the request id identifies it.
#[must_use]
pub fn which_task(body: &[u8]) -> Option<String> {
    let form: WhichForm = serde_json::from_slice(body).ok()?;
    Some(Which::of(&form).ok()?.task_id())
}

/// Parses a task id as returned by a create.
#[must_use]
pub fn task_id(text: &str) -> Option<String> {
    Some(Which::of(&WhichForm::of(text.to_owned())).ok()?.task_id())
}

/// Writes the HTTP answer about a task. The body is the same, as text or in base64.
#[must_use]
pub fn task_view(answer: tasks::QueryTaskResponse) -> serde_json::Value {
    serde_json::to_value(TaskView::from(answer)).unwrap_or_default()
}
