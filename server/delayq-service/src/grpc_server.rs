//! What every gRPC service of the server has.

use axum::body::Bytes;
use axum::http::StatusCode;
use delayq_plugin::Error;
use delayq_proto::status_of;
use tonic::Status;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::problem::Problem;
use crate::stop::Stopping;

/// The same services, and server reflection for them.
pub fn reflected(routes: Routes, descriptors: &'static [u8]) -> Routes {
    let descriptors = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(descriptors)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    match (descriptors().build_v1(), descriptors().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes.add_service(v1).add_service(v1alpha),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "there is no server reflection");
            routes
        }
    }
}

/// The service is there until the server begins to end.
pub async fn report_health<S: NamedService>(health: HealthReporter, stopping: Stopping) {
    health.set_serving::<S>().await;
    stopping.left().await;
    for service in ["", S::NAME] {
        health
            .set_service_status(service, ServingStatus::NotServing)
            .await;
    }
}

/// A problem as a status.
pub fn status_of_problem(problem: &Problem) -> Status {
    let text = problem.to_string();
    if let Some(error) = problem.cause() {
        let status = status_of(error.clone());
        let details = Bytes::copy_from_slice(status.details());
        return Status::with_details(status.code(), text, details);
    }
    match problem.status() {
        StatusCode::UNAUTHORIZED => Status::unauthenticated(text),
        StatusCode::FORBIDDEN => Status::permission_denied(text),
        StatusCode::NOT_FOUND => Status::not_found(text),
        StatusCode::BAD_REQUEST => Status::invalid_argument(text),
        StatusCode::CONFLICT => Status::failed_precondition(text),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE => {
            Status::resource_exhausted(text)
        }
        // The store of the namespace was not opened, so nothing was done.
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            status_of(Error::unavailable("the store of the server", text))
        }
        _ => Status::internal(text),
    }
}
