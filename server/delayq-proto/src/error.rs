//! Errors as messages, converted without loss.

use delayq_core::{Error, TaskState};

use crate::interned::interned;
use crate::pb;
use crate::pb::error::Kind;

/// The parts of an error: its kind, texts and numbers.
struct ErrorParts(pb::Error);

impl ErrorParts {
    fn new(kind: Kind, message: String) -> Self {
        Self(pb::Error {
            message,
            kind: kind.into(),
            ..pb::Error::default()
        })
    }

    fn text(mut self, name: &str, text: impl Into<String>) -> Self {
        self.0.texts.insert(name.to_owned(), text.into());
        self
    }

    fn number(mut self, name: &str, number: impl Into<u64>) -> Self {
        self.0.numbers.insert(name.to_owned(), number.into());
        self
    }
}

impl From<Error> for pb::Error {
    #[allow(
        clippy::too_many_lines,
        reason = "an arm for each variant, without a decision"
    )]
    fn from(error: Error) -> Self {
        let message = error.to_string();
        let new = |kind| ErrorParts::new(kind, message.clone());
        let of_store = |kind, store, detail: String| {
            let parts = new(kind).text("detail", detail);
            let store: String = store;
            parts.text("store", store)
        };
        let parts = match error {
            Error::InvalidName {
                what,
                value,
                reason,
            } => new(Kind::InvalidName)
                .text("what", what)
                .text("value", value)
                .text("reason", reason),
            Error::LimitExceeded {
                what,
                actual,
                limit,
            } => new(Kind::LimitExceeded)
                .text("what", what)
                .number("actual", actual)
                .number("limit", limit),
            Error::InvalidInput { what, reason } => new(Kind::InvalidInput)
                .text("what", what)
                .text("reason", reason),
            Error::Unsupported(what) => new(Kind::Unsupported).text("what", what),
            Error::FleetLimitOnShards { task_type, shards } => new(Kind::FleetLimitOnShards)
                .text("task_type", task_type)
                .number("shards", shards),
            Error::UnknownType { types, nearest } => new(Kind::UnknownType)
                .text("types", types)
                .text("nearest", nearest.unwrap_or_default()),
            Error::TypeInUse {
                task_type,
                scheduled,
                running,
                dead,
            } => new(Kind::TypeInUse)
                .text("task_type", task_type)
                .number("scheduled", scheduled)
                .number("running", running)
                .number("dead", dead),
            Error::Conflict {
                task_type,
                id,
                state,
            } => new(Kind::Conflict)
                .text("task_type", task_type)
                .text("id", id)
                .text("state", state.as_str()),
            Error::Serialize { reason } => new(Kind::Serialize).text("reason", reason),
            Error::Unavailable { store, detail } => of_store(Kind::Unavailable, store, detail),
            Error::Indeterminate { store, detail } => of_store(Kind::Indeterminate, store, detail),
            Error::Full { store, detail } => of_store(Kind::Full, store, detail),
            Error::QueueFull {
                task_type,
                pending,
                limit,
            } => new(Kind::QueueFull)
                .text("task_type", task_type)
                .number("pending", pending)
                .number("limit", limit),
            Error::ReadOnly { store, detail } => of_store(Kind::ReadOnly, store, detail),
            Error::Misconfigured {
                store,
                setting,
                fix,
            } => new(Kind::Misconfigured)
                .text("store", store)
                .text("setting", setting)
                .text("fix", fix),
            Error::Corrupt { key, detail } => {
                new(Kind::Corrupt).text("key", key).text("detail", detail)
            }
            Error::Incompatible {
                what,
                found,
                supported,
            } => new(Kind::Incompatible)
                .text("what", what)
                .number("found", found)
                .number("supported", supported),
            Error::NoRuntime => new(Kind::NoRuntime),
            Error::TaskFailed {
                task_type,
                id,
                error,
            } => new(Kind::TaskFailed)
                .text("task_type", task_type)
                .text("id", id)
                .text("error", error),
            Error::Closed(what) => new(Kind::Closed).text("what", what),
            _ => new(Kind::Unspecified),
        };
        parts.0
    }
}

/// An error of a kind unknown to this release becomes a damaged answer with its message.
impl From<pb::Error> for Error {
    fn from(mut error: pb::Error) -> Self {
        let kind = error.kind();
        let mut texts = std::mem::take(&mut error.texts);
        let mut text = |name: &str| texts.remove(name).unwrap_or_default();
        let number = |name: &str| error.numbers.get(name).copied().unwrap_or_default();
        let small = |name: &str| u32::try_from(number(name)).unwrap_or(u32::MAX);
        match kind {
            Kind::InvalidName => Self::InvalidName {
                what: interned(&text("what"), "name"),
                value: text("value"),
                reason: interned(&text("reason"), "it is not of the allowed form"),
            },
            Kind::LimitExceeded => Self::LimitExceeded {
                what: interned(&text("what"), "a size"),
                actual: number("actual"),
                limit: number("limit"),
            },
            Kind::InvalidInput => Self::InvalidInput {
                what: interned(&text("what"), "argument"),
                reason: text("reason"),
            },
            Kind::Unsupported => Self::Unsupported(interned(&text("what"), "this operation")),
            Kind::FleetLimitOnShards => Self::FleetLimitOnShards {
                task_type: text("task_type"),
                shards: small("shards"),
            },
            Kind::UnknownType => Self::UnknownType {
                types: text("types"),
                nearest: Some(text("nearest")).filter(|name| !name.is_empty()),
            },
            Kind::TypeInUse => Self::TypeInUse {
                task_type: text("task_type"),
                scheduled: number("scheduled"),
                running: number("running"),
                dead: number("dead"),
            },
            Kind::Conflict => Self::Conflict {
                task_type: text("task_type"),
                id: text("id"),
                state: named_state(&text("state")),
            },
            Kind::Serialize => Self::serialize(text("reason")),
            Kind::Unavailable => Self::unavailable(text("store"), text("detail")),
            Kind::Indeterminate => Self::indeterminate(text("store"), text("detail")),
            Kind::Full => Self::full(text("store"), text("detail")),
            Kind::QueueFull => Self::QueueFull {
                task_type: text("task_type"),
                pending: number("pending"),
                limit: number("limit"),
            },
            Kind::ReadOnly => Self::read_only(text("store"), text("detail")),
            Kind::Misconfigured => Self::misconfigured(text("store"), text("setting"), text("fix")),
            Kind::Corrupt => Self::corrupt(text("key"), text("detail")),
            Kind::Incompatible => Self::Incompatible {
                what: text("what"),
                found: small("found"),
                supported: small("supported"),
            },
            Kind::NoRuntime => Self::NoRuntime,
            Kind::TaskFailed => Self::TaskFailed {
                task_type: text("task_type"),
                id: text("id"),
                error: text("error"),
            },
            Kind::Closed => Self::Closed(interned(&text("what"), "the server")),
            Kind::Unspecified => Self::corrupt("the answer of the server", error.message),
        }
    }
}

fn named_state(name: &str) -> TaskState {
    let states = [
        TaskState::Scheduled,
        TaskState::Running,
        TaskState::Dead,
        TaskState::Done,
        TaskState::Cancelled,
    ];
    let found = states.into_iter().find(|state| state.as_str() == name);
    found.unwrap_or(TaskState::Expired)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each variant.
    pub(crate) fn all() -> Vec<Error> {
        vec![
            Error::InvalidName {
                what: "task type",
                value: "a b".to_owned(),
                reason: "no blanks",
            },
            Error::LimitExceeded {
                what: "message size in bytes",
                actual: 9,
                limit: 5,
            },
            Error::invalid("URL", "write another one"),
            Error::Unsupported("stats"),
            Error::FleetLimitOnShards {
                task_type: "a".to_owned(),
                shards: 7,
            },
            Error::UnknownType {
                types: "sms.snt".to_owned(),
                nearest: Some("sms.send".to_owned()),
            },
            Error::TypeInUse {
                task_type: "a".to_owned(),
                scheduled: 1,
                running: 2,
                dead: 3,
            },
            Error::Conflict {
                task_type: "a".to_owned(),
                id: "b".to_owned(),
                state: TaskState::Running,
            },
            Error::serialize("no"),
            Error::unavailable("redis://a", "refused"),
            Error::indeterminate("redis://a", "lost"),
            Error::full("redis://a", "maxmemory"),
            Error::QueueFull {
                task_type: "a".to_owned(),
                pending: 5,
                limit: 5,
            },
            Error::read_only("redis://a", "a replica"),
            Error::misconfigured("redis://a", "appendonly no", "set it"),
            Error::corrupt("key", "damaged"),
            Error::Incompatible {
                what: "a record".to_owned(),
                found: 9,
                supported: 1,
            },
            Error::NoRuntime,
            Error::TaskFailed {
                task_type: "a".to_owned(),
                id: "b".to_owned(),
                error: "no van".to_owned(),
            },
            Error::Closed("the store"),
        ]
    }

    #[test]
    fn every_error_arrives_as_what_it_was() {
        for error in all() {
            let message = pb::Error::from(error.clone());
            assert_eq!(message.message, error.to_string());
            assert_eq!(Error::from(message), error);
            assert_eq!(
                crate::error_of(&crate::status_of(error.clone())),
                Some(error)
            );
        }
    }
}
