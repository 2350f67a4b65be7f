//! Mistakes in the use of a builder: values given twice, or not valid.

use delayq_core::Components;

use crate::error::StartError;

/// Mistakes in the order in which they were made; `start` fails with the first one.
#[derive(Debug, Default)]
pub(super) struct Mistakes(Vec<StartError>);

impl Mistakes {
    /// Adds a mistake, if there is one.
    pub(super) fn note(&mut self, mistake: Option<StartError>) {
        self.0.extend(mistake);
    }

    /// Adds a setting that is not valid.
    pub(super) fn setting(&mut self, option: &'static str, reason: &'static str) {
        self.0.push(StartError::InvalidSetting { option, reason });
    }

    /// Adds a mistake if there is already a component of this type.
    pub(super) fn second<T: ?Sized + Send + Sync + 'static>(&mut self, components: &Components) {
        if components.get::<T>().is_ok() {
            let type_name = std::any::type_name::<T>();
            self.0.push(StartError::DuplicateComponent { type_name });
        }
    }

    /// The first mistake.
    pub(super) fn first(&mut self) -> Option<StartError> {
        self.0.drain(..).next()
    }
}
