//! Refusals of calls, as gRPC statuses.

use delayq_plugin::Error;
use delayq_proto::status_of;
use delayq_service::grpc_server::status_of_problem;
use delayq_service::problem::Problem;
use tonic::Status;

/// The reason why a call is refused.
#[derive(Debug)]
pub(super) enum CallError {
    /// An error of the store, or of a check on the way to it.
    Store(Error),
    /// A refusal by the server.
    Server(Problem),
    /// A ready-made status.
    Status(Box<Status>),
}

impl CallError {
    /// A refusal before anything was done.
    pub(super) fn untouched(problem: Problem) -> Self {
        Self::Server(problem.without_cause())
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<Problem> for CallError {
    fn from(problem: Problem) -> Self {
        Self::Server(problem)
    }
}

impl From<CallError> for Status {
    fn from(refusal: CallError) -> Self {
        match refusal {
            CallError::Store(error) => status_of(error),
            CallError::Status(status) => *status,
            CallError::Server(problem) => status_of_problem(&problem),
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
        let status = Status::from(CallError::from(problem.clone()));
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert_eq!(status.message(), "3 of 5 were changed");
        assert_eq!(error_of(&status), Some(lost));
        let status = Status::from(CallError::untouched(problem));
        assert_eq!(status.code(), Code::Unavailable);
        let status = Status::from(CallError::from(Problem::no_task("mail", "a")));
        assert_eq!((status.code(), error_of(&status)), (Code::NotFound, None));
    }
}
