//! The workers collected by the linker, and the components they are built from.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::worker::{TaskWorker, WorkerOptions};

/// One worker, registered by `#[task_worker]` at link time.
#[derive(Clone, Copy)]
pub struct WorkerRegistration {
    /// The task type or pattern that it serves.
    pub task_type: &'static str,
    /// Its stable name, which distinguishes the workers of one type, across restarts. Unique within
    /// a type.
    pub name: &'static str,
    /// Further task types that it serves, such as former names of the type.
    pub aliases: &'static [&'static str],
    /// Its options.
    pub options: WorkerOptions,
    /// The version of the messages that it is written for; 1 unless its attribute names another.
    pub version: u32,
    /// The schedule, if its type recurs.
    pub schedule: Option<WorkerSchedule>,
    /// Builds the worker once, when the plugin starts.
    pub build: fn(&Components) -> Result<Arc<dyn TaskWorker>, MissingComponent>,
}

/// The schedule of a worker, as written in its attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerSchedule {
    /// A cron expression or an interval.
    pub every: &'static str,
    /// The time zone of the expression; `None`: UTC.
    pub zone: Option<&'static str>,
}

impl fmt::Debug for WorkerRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerRegistration")
            .field("task_type", &self.task_type)
            .field("name", &self.name)
            .field("aliases", &self.aliases)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

inventory::collect!(WorkerRegistration);

/// All workers linked into this program.
///
/// If the linker drops a crate, its workers are not registered: refer to something in it, for
/// example with `use my_workers as _;`.
pub fn registered_workers() -> impl Iterator<Item = &'static WorkerRegistration> {
    inventory::iter::<WorkerRegistration>.into_iter()
}

/// Shared values that workers are built from, one of each type: pools, clients, configuration.
#[derive(Clone, Default)]
pub struct Components {
    by_type: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl Components {
    /// Adds `component`, replacing one of the same type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, component: T) {
        self.insert_arc(Arc::new(component));
    }

    /// Adds a value that is already in an `Arc`, as a `T`, which may be a `dyn Trait`, replacing
    /// one of the same type.
    pub fn insert_arc<T: ?Sized + Send + Sync + 'static>(&mut self, component: Arc<T>) {
        self.by_type.insert(TypeId::of::<T>(), Arc::new(component));
    }

    /// The component of type `T`, or the one inside a component of type `Arc<T>`.
    ///
    /// # Errors
    /// [`MissingComponent`], naming the type, if none was added.
    pub fn get<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>, MissingComponent> {
        let in_arc = || self.find::<Arc<T>>().map(|arc| Arc::clone(&**arc));
        let found = self.find::<T>().cloned().or_else(in_arc);
        found.ok_or(MissingComponent {
            type_name: type_name::<T>(),
        })
    }

    fn find<T: ?Sized + Send + Sync + 'static>(&self) -> Option<&Arc<T>> {
        self.by_type.get(&TypeId::of::<T>())?.downcast_ref()
    }
}

impl fmt::Debug for Components {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Components({})", self.by_type.len())
    }
}

/// A worker asks for a component that the application did not add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no component of type {type_name}: add it with .component(..) before start()")]
pub struct MissingComponent {
    /// The type asked for.
    pub type_name: &'static str,
}

/// Types that `#[task_worker]` can build from the application's components.
///
/// Every `Default` type implements it. Implement it for a worker that needs components:
///
/// ```
/// use delayq_core::registry::{Components, FromComponents, MissingComponent};
/// use std::sync::Arc;
///
/// struct Mailer;
/// struct SendMail { mailer: Arc<Mailer> }
///
/// impl FromComponents for SendMail {
///     fn from_components(components: &Components) -> Result<Self, MissingComponent> {
///         Ok(Self { mailer: components.get()? })
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`#[task_worker]` does not know how to build `{Self}`",
    label = "neither `Default` nor `FromComponents` is implemented for it",
    note = "add `#[derive(Default)]` to `{Self}`, or write `impl FromComponents for {Self}` to build \
            it from the application's components"
)]
pub trait FromComponents: Sized {
    /// Builds the value.
    ///
    /// # Errors
    /// [`MissingComponent`] if a component it needs was not added.
    fn from_components(components: &Components) -> Result<Self, MissingComponent>;
}

// Otherwise the compiler only asks for `Default` and never mentions components.
#[diagnostic::do_not_recommend]
impl<T: Default> FromComponents for T {
    fn from_components(_: &Components) -> Result<Self, MissingComponent> {
        Ok(Self::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_found_by_its_type_and_a_missing_one_is_named() {
        let mut components = Components::default();
        components.insert(7_u32);
        assert_eq!(*components.get::<u32>().unwrap(), 7);
        let error = components.get::<String>().unwrap_err().to_string();
        assert!(
            error.contains("alloc::string::String") && error.contains(".component("),
            "{error}"
        );
    }

    trait Greet: Send + Sync {
        fn greet(&self) -> &'static str;
    }

    struct Hello;

    impl Greet for Hello {
        fn greet(&self) -> &'static str {
            "hello"
        }
    }

    #[test]
    fn a_component_may_be_a_trait_object_and_may_come_in_an_arc() {
        let mut components = Components::default();
        components.insert_arc::<dyn Greet>(Arc::new(Hello));
        assert_eq!(components.get::<dyn Greet>().unwrap().greet(), "hello");
        assert!(components.get::<Hello>().is_err());

        let mut components = Components::default();
        components.insert::<Arc<dyn Greet>>(Arc::new(Hello));
        components.insert(Arc::new(7_u32));
        assert_eq!(components.get::<dyn Greet>().unwrap().greet(), "hello");
        assert_eq!(*components.get::<u32>().unwrap(), 7);
        components.insert(8_u32);
        assert_eq!(
            *components.get::<u32>().unwrap(),
            8,
            "the value itself is first"
        );
    }
}
