//! The declared state of a token.

use std::collections::BTreeSet;

use delayq_plugin::{IntoTime, Namespace, Timestamp, TypePattern};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Refusal;
use super::wanted::of;
use crate::access::{NewToken, Scope, Token, TokenBook};
use crate::config::is_own_namespace;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenForm {
    scopes: BTreeSet<Scope>,
    #[serde(default = "default_namespace")]
    namespace: String,
    #[serde(default)]
    types: Vec<String>,
    expires_at: Option<String>,
    rate: Option<u32>,
    max_message_bytes: Option<usize>,
    max_pending: Option<u64>,
    secret: Option<String>,
    id: Option<String>,
    hash: Option<String>,
}

fn default_namespace() -> String {
    Namespace::default().as_str().to_owned()
}

/// The declared state of a token; its name is its key.
#[derive(Debug)]
pub(super) struct TokenState {
    pub(super) expires_at: Option<Timestamp>,
    pub(super) scopes: BTreeSet<Scope>,
    pub(super) namespace: String,
    pub(super) types: Vec<String>,
    pub(super) rate: Option<u32>,
    pub(super) max_message_bytes: Option<usize>,
    pub(super) max_pending: Option<u64>,
    /// The id and the hash of a secret that the operator gives.
    pub(super) given: Option<(String, String)>,
}

impl TokenState {
    pub(super) fn read(place: &str, value: Value) -> Result<Self, Refusal> {
        if !value.is_object() {
            // It may be a secret, and is not repeated.
            let text = "a token is a table: write [tokens.NAME], with scopes";
            return Err(Refusal::at(place, text));
        }
        let form: TokenForm = of(place, value)?;
        let at = |error: &dyn std::fmt::Display| Refusal::at(place, error);
        if form.scopes.is_empty() {
            return Err(at(&"scopes: name at least one"));
        }
        if form.namespace != "*" {
            Namespace::new(&form.namespace).map_err(|error| at(&error))?;
        }
        if is_own_namespace(&form.namespace) {
            let text = "namespace: the server keeps its tokens in it, and no token is for it";
            return Err(at(&text));
        }
        for pattern in &form.types {
            TypePattern::new(pattern).map_err(|error| at(&error))?;
        }
        if form.rate == Some(0) {
            return Err(at(&"rate: at least 1 request a second"));
        }
        let expires_at = match &form.expires_at {
            Some(text) => {
                let time = text.as_str().into_time();
                Some(time.map_err(|error| at(&format!("expires_at: {error}")))?)
            }
            None => None,
        };
        let given = match (form.secret, form.id, form.hash) {
            (None, None, None) => None,
            (Some(text), None, None) => {
                Some(TokenBook::hash_given(&text).map_err(|reason| at(&reason))?)
            }
            (None, Some(id), Some(hash)) => {
                TokenBook::check_hashed(&id, &hash).map_err(|reason| at(&reason))?;
                Some((id, hash))
            }
            _ => return Err(at(&"give secret, or id and hash, or none of them")),
        };
        Ok(Self {
            expires_at,
            scopes: form.scopes,
            namespace: form.namespace,
            types: form.types,
            rate: form.rate,
            max_message_bytes: form.max_message_bytes,
            max_pending: form.max_pending,
            given,
        })
    }

    /// The token to create or change.
    pub(super) fn token(&self, name: &str) -> NewToken {
        NewToken {
            name: name.to_owned(),
            scopes: self.scopes.clone(),
            namespace: self.namespace.clone(),
            types: self.types.clone(),
            expires_at: self.expires_at,
            rate: self.rate,
            max_message_bytes: self.max_message_bytes,
            max_pending: self.max_pending,
        }
    }

    /// Its rights, as they are shown and compared.
    pub(super) fn rights(&self) -> Value {
        rights(&self.token(""))
    }
}

/// The rights of a stored token, as they are shown and compared.
pub(super) fn rights_of(token: &Token) -> Value {
    rights(&NewToken::of(token))
}

fn rights(token: &NewToken) -> Value {
    let mut shown = json!({
        "scopes": token.scopes, "namespace": token.namespace,
    });
    let more = [
        (
            "types",
            (!token.types.is_empty()).then(|| json!(token.types)),
        ),
        (
            "expires_at",
            token.expires_at.map(|time| json!(time.to_string())),
        ),
        ("rate", token.rate.map(Value::from)),
        (
            "max_message_bytes",
            token.max_message_bytes.map(Value::from),
        ),
        ("max_pending", token.max_pending.map(Value::from)),
    ];
    for (name, value) in more {
        if let (Some(fields), Some(value)) = (shown.as_object_mut(), value) {
            fields.insert(name.to_owned(), value);
        }
    }
    shown
}
