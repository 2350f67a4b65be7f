//! Requirements on the arguments of a worker function, with error messages for authors of workers.
//!
//! `#[task_worker]` sees only names. With these traits the compiler checks that a name refers to
//! the expected type.

use serde::Deserialize;

use super::{Component, Json};
use crate::registry::{Components, MissingComponent};
use crate::worker::TaskError;

/// An argument of a type named `Json<T>`.
#[diagnostic::on_unimplemented(
    message = "this is another `Json`: write `delayq_plugin::Json`",
    label = "`{Self}` is not the `Json` of delayq_plugin",
    note = "beside another `Json` import delayq's by another name: `use delayq_plugin::Json as \
            TaskJson;`"
)]
pub trait JsonArgument<T>: Sized {
    /// Converts the parsed message into the argument.
    fn from_json(message: Json<T>) -> Self;
}

impl<T> JsonArgument<T> for Json<T> {
    fn from_json(message: Json<T>) -> Self {
        message
    }
}

/// An argument `J<T>` with a name that the macro does not know, such as `Json` imported as `J`.
#[diagnostic::on_unimplemented(
    message = "a worker function cannot take `{Self}`",
    label = "this is not the `Json` of delayq_plugin",
    note = "for a JSON message write `Json<{Self}>`; a shared value is a `Component<T>`, which may \
            not be imported by another name"
)]
pub trait RenamedArgument<'a>: Sized {
    /// Parses the message. With `quoting`, an error may quote its values.
    ///
    /// # Errors
    /// As [`Json::from_message`].
    fn read(message: &'a [u8], quoting: bool) -> Result<Self, TaskError>;
}

impl<'a, T: Deserialize<'a>> RenamedArgument<'a> for Json<T> {
    fn read(message: &'a [u8], quoting: bool) -> Result<Self, TaskError> {
        if quoting {
            Self::from_message_quoting(message)
        } else {
            Self::from_message(message)
        }
    }
}

/// An argument of a type named `Component<T>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be shared by the threads that run workers",
    label = "this has to be the `Component<T>` of delayq_plugin, of a `T` that is `Send + Sync`",
    note = "use `Arc` instead of `Rc`, and `Mutex` or an atomic instead of `RefCell` or `Cell`; for \
            `Component<dyn Mailer>` write `trait Mailer: Send + Sync`"
)]
pub trait ComponentArgument: Sized {
    /// The component that the application added.
    ///
    /// # Errors
    /// [`MissingComponent`], naming the type, if it added none.
    fn find(components: &Components) -> Result<Self, MissingComponent>;
}

// Otherwise the compiler only says what lacks `Send`, and not what to write.
#[diagnostic::do_not_recommend]
impl<T: ?Sized + Send + Sync + 'static> ComponentArgument for Component<T> {
    fn find(components: &Components) -> Result<Self, MissingComponent> {
        components.get().map(Self)
    }
}
