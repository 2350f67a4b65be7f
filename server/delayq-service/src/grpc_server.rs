//! Parts common to all gRPC services of the server.

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

/// The largest request of reflection and of health, which anybody may send, in bytes.
pub const SMALL_BYTES: usize = 64 * 1_024;

/// Adds server reflection to services.
pub fn reflected(routes: Routes, descriptors: &'static [u8]) -> Routes {
    let descriptors = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(descriptors)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    match (descriptors().build_v1(), descriptors().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes
            .add_service(v1.max_decoding_message_size(SMALL_BYTES))
            .add_service(v1alpha.max_decoding_message_size(SMALL_BYTES)),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "cannot offer gRPC server reflection");
            routes
        }
    }
}

/// Reports a service as serving until the server begins to stop.
pub async fn report_health<S: NamedService>(health: HealthReporter, stopping: Stopping) {
    health.set_serving::<S>().await;
    stopping.left().await;
    for service in ["", S::NAME] {
        health
            .set_service_status(service, ServingStatus::NotServing)
            .await;
    }
}

/// Converts a problem to a gRPC status.
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
        // The namespace's store could not be opened, so nothing was done.
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            status_of(Error::unavailable("the store of the server", text))
        }
        _ => Status::internal(text),
    }
}
