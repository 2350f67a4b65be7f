//! Shared helpers for the tests of the crates above.

use crate::access::{NewToken, Scope};
use crate::app::App;
use crate::config::{Config, NamespaceConfig};

/// A configuration in memory, with one namespace in addition to the default one.
pub fn in_memory() -> Config {
    Config {
        store: "memory:".to_owned(),
        durability: "memory".to_owned(),
        namespaces: [("shop".to_owned(), NamespaceConfig::default())].into(),
        ..Config::default()
    }
}

/// Creates a token named `name`.
pub async fn new_token(
    app: &App,
    name: &str,
    scopes: &[Scope],
    namespace: &str,
    types: &[&str],
) -> String {
    let new = NewToken {
        name: name.to_owned(),
        scopes: scopes.iter().copied().collect(),
        namespace: namespace.to_owned(),
        types: types.iter().map(ToString::to_string).collect(),
        expires_at: None,
        rate: None,
        max_message_bytes: None,
        max_pending: None,
    };
    app.tokens.create(new).await.expect("the name is new").1
}
