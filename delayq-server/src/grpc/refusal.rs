//! Why a call is refused, as a gRPC status.

use axum::body::Bytes;
use axum::http::StatusCode;
use delayq_plugin::Error;
use delayq_proto::status_of;
use delayq_service::problem::Problem;
use tonic::Status;

/// Why a call is refused.
#[derive(Debug)]
pub(super) enum Refusal {
    /// By the store, or by what stands before it.
    Store(Error),
    /// By the server.
    Server(Problem),
    /// As this status says.
    Status(Box<Status>),
}

impl Refusal {
    /// Of a problem before anything was done.
    pub(super) fn untouched(problem: Problem) -> Self {
        Self::Server(problem.without_cause())
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Server(problem)
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let problem = match refusal {
            Refusal::Store(error) => return status_of(error),
            Refusal::Status(status) => return *status,
            Refusal::Server(problem) => problem,
        };
        let text = problem.to_string();
        if let Some(error) = problem.cause() {
            let status = status_of(error.clone());
            let details = Bytes::copy_from_slice(status.details());
            return Self::with_details(status.code(), text, details);
        }
        match problem.status() {
            StatusCode::UNAUTHORIZED => Self::unauthenticated(text),
            StatusCode::FORBIDDEN => Self::permission_denied(text),
            StatusCode::NOT_FOUND => Self::not_found(text),
            StatusCode::BAD_REQUEST => Self::invalid_argument(text),
            StatusCode::CONFLICT => Self::failed_precondition(text),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE => {
                Self::resource_exhausted(text)
            }
            // The store of the namespace was not opened, so nothing was done.
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                status_of(Error::unavailable("the store of the server", text))
            }
            _ => Self::internal(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use delayq_proto::error_of;
    use tonic::Code;

    use super::*;

    #[test]
    fn what_is_in_doubt_is_said_so_unless_nothing_was_done() {
        let lost = Error::indeterminate("redis://a", "lost");
        let problem = Problem::from(lost.clone()).saying("3 of 5 were changed".to_owned());
        let status = Status::from(Refusal::from(problem.clone()));
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert_eq!(status.message(), "3 of 5 were changed");
        assert_eq!(error_of(&status), Some(lost));
        let status = Status::from(Refusal::untouched(problem));
        assert_eq!(status.code(), Code::Unavailable);
        let status = Status::from(Refusal::from(Problem::no_task("mail", "a")));
        assert_eq!((status.code(), error_of(&status)), (Code::NotFound, None));
    }
}
