//! The public task service: HTTP requests, gRPC calls and Kafka records at a given time. Each task
//! has its own target and retry policy, which the push of delayq carries out.

use axum::Router;
use axum::middleware::from_fn_with_state;
use tonic::service::Routes;

mod forms;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod grpc;
mod http;
mod place;
mod service;
mod state;
#[cfg(test)]
mod tests;
mod wanted;

use delayq_service::app::App;
use delayq_service::grpc_server::{SMALL_BYTES, reflected};
use delayq_service::requests::counted;
use service::Service;

/// The routes over HTTP and gRPC.
pub fn router(app: App) -> Router {
    let service = Service::new(app);
    let (health, health_service) = tonic_health::server::health_reporter();
    let health_service = health_service.max_decoding_message_size(SMALL_BYTES);
    tokio::spawn(grpc::report_health(health, service.app.stopping.clone()));
    let calls = Routes::new(grpc::service(service.clone())).add_service(health_service);
    let calls = reflected(calls, delayq_proto::TASKS_DESCRIPTORS);
    let calls = calls.into_axum_router().reset_fallback();
    let calls = calls.layer(from_fn_with_state(service.clone(), grpc::knock));
    counted(&service.app, http::router(service.clone()).merge(calls))
}
