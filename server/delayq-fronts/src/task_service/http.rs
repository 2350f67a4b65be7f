//! The service over HTTP: methods by name, and as resources.

use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use delayq_service::access::Scope;
use delayq_service::problem::Problem;
use serde::de::DeserializeOwned;

use super::forms::{CancelledForm, CreatedForm, TaskForm, TaskView, WhichForm};
use super::service::Service;
use super::wanted::Wanted;
use crate::body::read_body;
use delayq_service::context::Context;

/// The routes.
pub(super) fn router(service: Service) -> Router {
    Router::new()
        .route("/CreateHttpTask", post(create_http))
        .route("/CreateGrpcTask", post(create_grpc))
        .route("/CreateKafkaTask", post(create_kafka))
        .route("/CancelTask", post(cancel))
        .route("/QueryTask", post(query).get(query_by_name))
        .route("/v1/tasks/http", post(create_http))
        .route("/v1/tasks/grpc", post(create_grpc))
        .route("/v1/tasks/kafka", post(create_kafka))
        .route("/v1/tasks/{task_id}", get(task).delete(cancel_task))
        .fallback(|| async {
            Problem::no_route("there is no such route: see the guide on the task service")
        })
        .method_not_allowed_fallback(|| async {
            Problem::method_not_allowed("the path has other methods")
        })
        .layer(DefaultBodyLimit::disable())
        .with_state(service)
}

/// The caller, with the required scope.
async fn client_of(service: &Service, parts: &Parts, scope: Scope) -> Result<Context, Problem> {
    service
        .client(&parts.headers, &parts.extensions, scope)
        .await
}

/// The caller and the form in the body.
async fn read<T: DeserializeOwned>(
    service: &Service,
    request: Request,
    scope: Scope,
) -> Result<(Context, T), Problem> {
    let (parts, body) = request.into_parts();
    let client = client_of(service, &parts, scope).await?;
    let body = read_body(&service.app, body).await?;
    let form = serde_json::from_slice(&body);
    let form = form.map_err(|error| Problem::bad_request(format!("the body: {error}")))?;
    Ok((client, form))
}

/// Creates a task.
async fn make(service: &Service, client: &Context, wanted: Wanted) -> Result<Response, Problem> {
    let answer = CreatedForm::from(service.create(client, wanted).await?);
    let status = if answer.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(answer)).into_response())
}

async fn create_http(
    State(service): State<Service>,
    request: Request,
) -> Result<Response, Problem> {
    let (client, form): (_, TaskForm) = read(&service, request, Scope::Submit).await?;
    make(&service, &client, Wanted::http(form.http()?)?).await
}

async fn create_grpc(
    State(service): State<Service>,
    request: Request,
) -> Result<Response, Problem> {
    let (client, form): (_, TaskForm) = read(&service, request, Scope::Submit).await?;
    let wanted = Wanted::grpc(form.grpc()?, &service.app.config)?;
    make(&service, &client, wanted).await
}

async fn create_kafka(
    State(service): State<Service>,
    request: Request,
) -> Result<Response, Problem> {
    let (client, form): (_, TaskForm) = read(&service, request, Scope::Submit).await?;
    let wanted = Wanted::kafka(form.kafka()?, &service.app.config)?;
    make(&service, &client, wanted).await
}

async fn cancel(
    State(service): State<Service>,
    request: Request,
) -> Result<Json<CancelledForm>, Problem> {
    let (client, form): (_, WhichForm) = read(&service, request, Scope::Submit).await?;
    Ok(Json(service.cancel(&client, &form).await?.into()))
}

async fn query(
    State(service): State<Service>,
    request: Request,
) -> Result<Json<TaskView>, Problem> {
    let (client, form): (_, WhichForm) = read(&service, request, Scope::Read).await?;
    Ok(Json(service.query(&client, &form).await?.into()))
}

async fn query_by_name(
    State(service): State<Service>,
    Query(form): Query<WhichForm>,
    parts: Parts,
) -> Result<Json<TaskView>, Problem> {
    let client = client_of(&service, &parts, Scope::Read).await?;
    Ok(Json(service.query(&client, &form).await?.into()))
}

async fn task(
    State(service): State<Service>,
    Path(task_id): Path<String>,
    parts: Parts,
) -> Result<Json<TaskView>, Problem> {
    let client = client_of(&service, &parts, Scope::Read).await?;
    let form = WhichForm::of(task_id);
    Ok(Json(service.query(&client, &form).await?.into()))
}

async fn cancel_task(
    State(service): State<Service>,
    Path(task_id): Path<String>,
    parts: Parts,
) -> Result<Json<CancelledForm>, Problem> {
    let client = client_of(&service, &parts, Scope::Submit).await?;
    let form = WhichForm::of(task_id);
    Ok(Json(service.cancel(&client, &form).await?.into()))
}
