//! Required fields of a message.

use delayq_core::{Error, Namespace, Result, TaskId, TaskType};

/// The value of a field.
///
/// # Errors
/// `InvalidInput` that names the field if it is absent.
pub fn required<T>(field: &'static str, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| Error::invalid(field, "it is missing: set it"))
}

/// The type named in a message.
///
/// # Errors
/// `InvalidInput` if it is missing, `InvalidName` if it is not a valid name.
pub fn required_type(task_type: &str) -> Result<TaskType> {
    if task_type.is_empty() {
        return Err(Error::invalid("task_type", "it is missing: set it"));
    }
    TaskType::new(task_type)
}

/// The namespace named in a message; the default is `default`.
///
/// # Errors
/// `InvalidName` if it is not a valid name.
pub fn namespace(namespace: &str) -> Result<Namespace> {
    if namespace.is_empty() {
        return Ok(Namespace::default());
    }
    Namespace::new(namespace)
}

/// The ids in a message.
pub(crate) fn ids(ids: Vec<String>) -> Result<Vec<TaskId>> {
    ids.into_iter().map(TaskId::new).collect()
}

/// The error for an enum value that is unset or from a newer release.
pub(crate) fn unknown(field: &'static str, value: i32) -> Error {
    if value == 0 {
        return Error::invalid(field, "it is missing: set it");
    }
    Error::invalid(
        field,
        format!("the value {value} is not known to this release"),
    )
}
