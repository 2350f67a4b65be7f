//! Routes of tubes.

use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::routing::{get, post};
use axum::{Json, Router};
use delayq_plugin::TaskType;
use delayq_service::access::Scope;

use super::Grape;
use super::asked::Params;
use super::refusal::GrapeError;
use super::tubes::{TubeStats, stats};

/// The routes, below `/api/tube`.
pub(super) fn routes() -> Router<Grape> {
    Router::new()
        .route("/create", post(create))
        .route("/delete", post(delete))
        .route("/list", get(list))
        .route("/set", get(list))
        .route("/stats", get(all_stats))
        .route("/stats/{tube}", get(stats_of))
}

async fn create(State(grape): State<Grape>, request: Request) -> Result<Json<bool>, GrapeError> {
    let (parts, _) = request.into_parts();
    let client = grape.client(&parts, Scope::Submit).await?;
    grape
        .tubes
        .create(&client, Params::of(&parts).tube()?)
        .await?;
    Ok(Json(true))
}

async fn delete(State(grape): State<Grape>, request: Request) -> Result<Json<bool>, GrapeError> {
    let (parts, _) = request.into_parts();
    let client = grape.client(&parts, Scope::Admin).await?;
    grape
        .tubes
        .delete(&client, Params::of(&parts).tube()?)
        .await?;
    Ok(Json(true))
}

async fn list(State(grape): State<Grape>, parts: Parts) -> Result<Json<Vec<TaskType>>, GrapeError> {
    let client = grape.client(&parts, Scope::Read).await?;
    Ok(Json(grape.tubes.all(&client).await?))
}

async fn all_stats(
    State(grape): State<Grape>,
    parts: Parts,
) -> Result<Json<Vec<TubeStats>>, GrapeError> {
    let client = grape.client(&parts, Scope::Read).await?;
    let mut all = Vec::new();
    for tube in grape.tubes.all(&client).await? {
        all.push(stats(&client, &tube).await?);
    }
    Ok(Json(all))
}

async fn stats_of(
    State(grape): State<Grape>,
    Path(tube): Path<String>,
    parts: Parts,
) -> Result<Json<TubeStats>, GrapeError> {
    let client = grape.client(&parts, Scope::Read).await?;
    let tube = grape.tubes.known(&client, &tube).await?;
    Ok(Json(stats(&client, &tube).await?))
}
