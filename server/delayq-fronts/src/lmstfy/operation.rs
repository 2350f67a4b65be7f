//! The operations of the API, by method and path.

use axum::http::Method;

use super::throttle::Action;

/// An operation of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Publish,
    PublishAll,
    Republish,
    Consume,
    Peek,
    Job,
    Delete,
    Size,
    Destroy,
    Dead,
    DeadSize,
    Respawn,
    DeleteDead,
}

impl Operation {
    /// The operation of a path behind the queue.
    pub(super) fn of(method: &Method, tail: &[&str]) -> Option<Self> {
        Some(match (method.as_str(), tail) {
            ("PUT", []) => Self::Publish,
            ("GET", []) => Self::Consume,
            ("DELETE", []) => Self::Destroy,
            ("PUT", ["bulk"]) => Self::PublishAll,
            ("GET", ["peek"]) => Self::Peek,
            ("GET", ["size"]) => Self::Size,
            ("GET", ["deadletter"]) => Self::Dead,
            ("PUT", ["deadletter"]) => Self::Respawn,
            ("DELETE", ["deadletter"]) => Self::DeleteDead,
            ("GET", ["deadletter", "size"]) => Self::DeadSize,
            (_, ["job", ""]) => return None,
            ("PUT", ["job", _]) => Self::Republish,
            ("GET", ["job", _]) => Self::Job,
            ("DELETE", ["job", _]) => Self::Delete,
            _ => return None,
        })
    }

    /// Whether it takes no token.
    pub(super) fn is_public(self) -> bool {
        matches!(self, Self::Size | Self::DeadSize)
    }

    /// What it counts as, where the token has a limit.
    pub(super) fn action(self) -> Option<Action> {
        match self {
            Self::Publish | Self::PublishAll => Some(Action::Produce),
            Self::Consume => Some(Action::Consume),
            _ => None,
        }
    }

    /// Its path in metrics.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Publish | Self::Consume | Self::Destroy => "/api/:namespace/:queue",
            Self::PublishAll => "/api/:namespace/:queue/bulk",
            Self::Peek => "/api/:namespace/:queue/peek",
            Self::Size => "/api/:namespace/:queue/size",
            Self::Dead | Self::Respawn | Self::DeleteDead => "/api/:namespace/:queue/deadletter",
            Self::DeadSize => "/api/:namespace/:queue/deadletter/size",
            Self::Republish | Self::Job | Self::Delete => "/api/:namespace/:queue/job/:job_id",
        }
    }
}
