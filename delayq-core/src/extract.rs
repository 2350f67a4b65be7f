//! Types for the arguments and results of worker functions with `#[task_worker]`: [`Json`],
//! [`Component`] and [`IntoTaskResult`].

use std::any::type_name;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::Deserialize;

pub(crate) mod argument;
mod decode_error;
mod decode_path;

use self::decode_error::redacted;
use self::decode_path::path;
use crate::registry::{Components, FromComponents, MissingComponent};
use crate::worker::{TaskError, TaskResult};

/// The message of a task, parsed as JSON.
///
/// As an argument of a worker function: `async fn cancel(Json(order): Json<Order>) -> TaskResult`.
/// `Order` derives `serde::Deserialize`; to send it with the function's typed `job(..)` it derives
/// `serde::Serialize` too. A task whose message does not parse as `Order` goes to dead, because a
/// retry cannot help.
///
/// In an `impl TaskWorker`, [`Json::from_message`] does the same:
///
/// ```
/// use delayq_core::{Json, TaskError};
///
/// # fn main() -> Result<(), TaskError> {
/// let Json(numbers) = Json::<Vec<u32>>::from_message(b"[1, 2]")?;
/// assert_eq!(numbers, [1, 2]);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Json<T>(pub T);

impl<'a, T: Deserialize<'a>> Json<T> {
    /// Parses `message`. The result may borrow from it.
    ///
    /// # Errors
    /// [`TaskError::Dead`] if the message is not a `T`, with the kind of the mistake, the expected
    /// type, and the place, such as `lines[3].price`. The error quotes no value of the message and
    /// no key of a map, because it is logged and stored.
    pub fn from_message(message: &'a [u8]) -> Result<Self, TaskError> {
        Self::read(message, false)
    }

    /// As [`from_message`](Self::from_message), for messages without secrets: the error is serde's
    /// full text, which may quote values of the message.
    ///
    /// # Errors
    /// [`TaskError::Dead`] if the message is not a `T`.
    pub fn from_message_quoting(message: &'a [u8]) -> Result<Self, TaskError> {
        Self::read(message, true)
    }

    fn read(message: &'a [u8], quoting: bool) -> Result<Self, TaskError> {
        serde_json::from_slice(message).map(Self).map_err(|error| {
            let place = path::<T>(message, &error, quoting);
            let error = if quoting {
                error.to_string()
            } else {
                redacted(&error)
            };
            let place = place.map_or_else(String::new, |place| format!("{place}: "));
            let name = type_name::<T>();
            TaskError::dead(format!(
                "the message is not a {name} in JSON: {place}{error}"
            ))
        })
    }
}

impl<T> Deref for Json<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Json<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A value that the application shares with its workers: a pool, a client, its configuration.
///
/// As an argument of a worker function: `pool: Component<Pool>`, used like a `&Pool`. It is looked
/// up when the plugin starts, so that a missing one is an error of `start()` and not of the first
/// task.
///
/// `Component<dyn Mailer>` comes from `.component_arc::<dyn Mailer>(Arc::new(Smtp))`, for a trait
/// with the supertraits `Send` and `Sync`. Tests can pass another implementation.
///
/// As a field of a worker that implements [`FromComponents`]:
///
/// ```
/// use delayq_core::registry::{Components, FromComponents, MissingComponent};
/// use delayq_core::Component;
///
/// struct Mailer;
/// struct SendMail { mailer: Component<Mailer> }
///
/// impl FromComponents for SendMail {
///     fn from_components(components: &Components) -> Result<Self, MissingComponent> {
///         Ok(Self { mailer: Component::from_components(components)? })
///     }
/// }
/// ```
///
/// Fields of the component are in reach as they are, also those of a tuple struct:
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use delayq_core::Component;
///
/// struct Db(Mutex<u32>);
///
/// let db = Component::new(Arc::new(Db(Mutex::new(1))));
/// *db.0.lock().unwrap() += 1;
/// assert_eq!(*db.0.lock().unwrap(), 2);
/// ```
// The field is private, or `db.0` would be the `Arc` and not the field of the component.
pub struct Component<T: ?Sized>(Arc<T>);

impl<T: ?Sized> Component<T> {
    /// A component of its own, for a test that calls a worker function.
    #[must_use]
    pub fn new(shared: Arc<T>) -> Self {
        Self(shared)
    }

    /// The shared value, to keep or to pass on. A function and no method, so that it hides none of
    /// the component's.
    #[must_use]
    pub fn to_arc(this: &Self) -> Arc<T> {
        Arc::clone(&this.0)
    }
}

// Otherwise the compiler suggests `Component` for every worker that cannot be built.
#[diagnostic::do_not_recommend]
impl<T: ?Sized + Send + Sync + 'static> FromComponents for Component<T> {
    fn from_components(components: &Components) -> Result<Self, MissingComponent> {
        components.get().map(Self)
    }
}

impl<T: ?Sized> Deref for Component<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> Clone for Component<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> fmt::Debug for Component<T> {
    /// Shows only the type: a component may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Component<{}>", type_name::<T>())
    }
}

/// Return types of worker functions: [`TaskResult`], `()`, or `Result<(), E>` with an error that
/// converts to a [`TaskError`] as `?` does: every `std::error::Error`, `anyhow::Error`, text.
#[diagnostic::on_unimplemented(
    message = "a worker function cannot return `{Self}`",
    label = "return `TaskResult`, `()`, or `Result<(), E>` where `E` is an error",
    note = "an error is a `std::error::Error` that is `Send + Sync + 'static`, `anyhow::Error`, or \
            text; turn another one into a failed attempt with `.map_err(TaskError::retry)?` and \
            return `TaskResult`"
)]
pub trait IntoTaskResult {
    /// Converts the result for the handler.
    ///
    /// # Errors
    /// The function's own error, converted.
    fn into_task_result(self) -> TaskResult;
}

impl IntoTaskResult for () {
    fn into_task_result(self) -> TaskResult {
        Ok(())
    }
}

// Otherwise the compiler explains the missing `Into<TaskError>` instead of what to return.
#[diagnostic::do_not_recommend]
impl<E: Into<TaskError>> IntoTaskResult for Result<(), E> {
    fn into_task_result(self) -> TaskResult {
        self.map_err(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_no_such_json_is_dead_and_says_where_it_is_wrong() {
        let error = Json::<Vec<u32>>::from_message(b"[1, x]").unwrap_err();
        let TaskError::Dead(text) = error else {
            panic!("{error:?}")
        };
        assert!(
            text.contains("Vec<u32>") && text.contains("line 1 column 5"),
            "{text}"
        );
    }

    #[test]
    fn an_error_quotes_a_value_of_the_message_only_when_asked_to() {
        let read = |quoting| {
            let message = br#"["hunter2"]"#;
            let read = if quoting {
                Json::<Vec<u32>>::from_message_quoting
            } else {
                Json::<Vec<u32>>::from_message
            };
            format!("{:?}", read(message).unwrap_err())
        };
        assert!(read(true).contains("hunter2"));
        assert!(!read(false).contains("hunter2"), "{}", read(false));
    }

    #[test]
    fn json_may_borrow_from_the_message() {
        let message = b"[\"a\"]".to_vec();
        let Json(names) = Json::<Vec<&str>>::from_message(&message).unwrap();
        assert_eq!(names, ["a"]);
    }

    #[test]
    fn a_component_is_shared_not_copied_and_does_not_print_its_value() {
        let mut components = Components::default();
        components.insert("secret".to_owned());
        let first = Component::<String>::from_components(&components).unwrap();
        let second = Component::<String>::from_components(&components).unwrap();
        assert!(Arc::ptr_eq(&first.0, &second.0));
        assert_eq!(format!("{first:?}"), "Component<alloc::string::String>");
    }

    #[test]
    fn an_error_of_a_function_means_another_attempt() {
        let failed = "x".parse::<u32>().map(|_| ());
        assert!(matches!(
            failed.into_task_result(),
            Err(TaskError::Retry(_))
        ));
        let dead: TaskResult = Err(TaskError::dead("no"));
        assert!(matches!(dead.into_task_result(), Err(TaskError::Dead(_))));
        assert!(matches!(().into_task_result(), Ok(())));
    }
}
