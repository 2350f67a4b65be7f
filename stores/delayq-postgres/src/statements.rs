//! Statements, with the schema in the place of `{s}`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The statements of a store. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    schema: Arc<str>,
    known: Arc<Mutex<HashMap<&'static str, Arc<str>>>>,
}

impl Statements {
    pub(crate) fn new(schema: &str) -> Self {
        Self {
            schema: schema.into(),
            known: Arc::default(),
        }
    }

    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// The text for this schema.
    pub(crate) fn sql(&self, text: &'static str) -> Arc<str> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || text.replace("{s}", &self.schema).into();
        Arc::clone(known.entry(text).or_insert_with(made))
    }
}
