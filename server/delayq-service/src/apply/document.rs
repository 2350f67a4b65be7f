//! A declared state, as its files have it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use delayq_plugin::Namespace;
use serde::Deserialize;
use serde_json::Value;

use super::token_state::TokenState;
use super::wanted::{RecurringState, TypeState, of};
use super::{Refusal, source};

/// The name of a state that has none.
const NAME: &str = "default";

/// The form of a document, with what differs by place as it stands there.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Form {
    name: Option<String>,
    namespaces: BTreeMap<String, NamespaceForm>,
    tokens: BTreeMap<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NamespaceForm {
    types: BTreeMap<String, Value>,
    recurring: BTreeMap<String, Value>,
}

/// A declared state. What it does not name is left as it is.
#[derive(Debug)]
pub struct State {
    /// Whose state it is. Of two states each prunes only what it made itself.
    pub name: String,
    pub(super) namespaces: BTreeMap<Namespace, NamespaceState>,
    pub(super) tokens: BTreeMap<String, TokenState>,
}

/// The declared state of a namespace.
#[derive(Debug, Default)]
pub(super) struct NamespaceState {
    /// By type or pattern.
    pub(super) types: Vec<TypeState>,
    /// By id.
    pub(super) recurring: Vec<RecurringState>,
}

impl State {
    /// Reads files, and the TOML and JSON files of folders.
    ///
    /// # Errors
    /// A file cannot be read, or its content is no state.
    pub fn read(paths: &[PathBuf]) -> Result<Self, Refusal> {
        Self::of(source::read(paths)?)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// It is no state.
    pub fn of(document: Value) -> Result<Self, Refusal> {
        let form: Form = of("the state", document)?;
        let name = form.name.unwrap_or_else(|| NAME.to_owned());
        delayq_core::documents::check_document_name("name", &name)?;
        let mut namespaces = BTreeMap::new();
        for (name, form) in form.namespaces {
            let place = format!("namespaces.{name}");
            let namespace = Namespace::new(&name).map_err(|error| Refusal::at(&place, error))?;
            let mut state = NamespaceState::default();
            for (pattern, value) in form.types {
                let place = format!("{place}.types.{pattern}");
                state.types.push(TypeState::read(&place, &pattern, value)?);
            }
            for (id, value) in form.recurring {
                let place = format!("{place}.recurring.{id}");
                state
                    .recurring
                    .push(RecurringState::read(&place, id, value)?);
            }
            namespaces.insert(namespace, state);
        }
        let mut tokens = BTreeMap::new();
        for (name, value) in form.tokens {
            let place = format!("tokens.{name}");
            tokens.insert(name, TokenState::read(&place, value)?);
        }
        Ok(Self {
            name,
            namespaces,
            tokens,
        })
    }
}
