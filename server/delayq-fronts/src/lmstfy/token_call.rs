//! Tokens of a namespace, as the administration makes, lists and removes them.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use ulid::Ulid;

use super::answer::{Refused, bad, empty, failed, indented};
use super::params::Params;
use super::queue_name::{MAX_NAME_BYTES, is_name};
use super::state::Lmstfy;
use super::token_key::{TokenKey, pool_or_default, split_token};

/// Fewest characters of a token that somebody brings.
const MIN_TOKEN: usize = 20;
/// Most of them.
const MAX_TOKEN: usize = 1_024;

/// A call about the tokens of a namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenCall<'a> {
    pub(super) front: &'a Lmstfy,
    pub(super) namespace: &'a str,
}

impl TokenCall<'_> {
    fn check_pool(&self, pool: &str) -> Result<(), Refused> {
        if self.front.pools.contains_key(pool_or_default(pool)) {
            return Ok(());
        }
        Err(bad("the pool was not exists"))
    }

    /// All tokens of the namespace; those of a pool that is named are shown with it.
    pub(super) async fn list(&self, pool: Option<&str>) -> Result<Response, Refused> {
        let named = pool.unwrap_or_default();
        self.check_pool(named)?;
        let refreshed = self.front.tokens.refresh().await;
        refreshed.map_err(|error| failed(&error))?;
        let pool = pool_or_default(named);
        let is_its = |key: &TokenKey| key.pool == pool && key.namespace == self.namespace;
        let tokens: BTreeMap<_, _> = self
            .front
            .tokens
            .all(is_its)
            .into_iter()
            .map(|(key, description)| (shown(named, &key.token), description))
            .collect();
        Ok(indented(StatusCode::OK, &json!({ "tokens": tokens })))
    }

    /// Makes a token.
    pub(super) async fn make(&self, pool: &str, params: &Params) -> Result<Response, Refused> {
        let description = params.text("description");
        let own = params.text("token");
        if description.is_empty() {
            return Err(bad("invalid description"));
        }
        if !own.is_empty() && own.len() < MIN_TOKEN {
            return Err(bad("the user token was too short"));
        }
        if own.len() > MAX_TOKEN || description.len() > MAX_TOKEN {
            return Err(bad("the user token was too long"));
        }
        if self.namespace.len() > MAX_NAME_BYTES {
            return Err(bad("the namespace name was too long"));
        }
        if !is_name(self.namespace) {
            return Err(bad("namespace name contains forbidden characters"));
        }
        let (pool, token) = match own.split_once(':') {
            _ if own.is_empty() => (pool, Ulid::generate().to_string()),
            Some((pool, token)) if !token.contains(':') => (pool, token.to_owned()),
            _ => (pool, own.to_owned()),
        };
        self.check_pool(pool)?;
        let key = TokenKey::new(pool_or_default(pool), self.namespace, &token);
        let known = self.front.tokens.find(&key).await;
        if known.map_err(|error| failed(&error))?.is_some() {
            return Err(bad("the token has already existed"));
        }
        let made = self.front.tokens.put(&key, &description.to_owned()).await;
        made.map_err(|error| failed(&error))?;
        let body = json!({ "token": shown(pool, &token) });
        Ok(indented(StatusCode::CREATED, &body))
    }

    /// Ends a token, with its limit. Every server refuses it within a second.
    pub(super) async fn delete(&self, text: &str) -> Result<Response, Refused> {
        let (pool, token) = split_token(text);
        self.check_pool(pool)?;
        let key = TokenKey::new(pool, self.namespace, token);
        let removed = self.front.tokens.remove(&key).await;
        removed.map_err(|error| failed(&error))?;
        let removed = self.front.limits.remove(&key).await;
        removed.map_err(|error| failed(&error))?;
        Ok(empty(StatusCode::NO_CONTENT))
    }
}

/// A token with its pool, where that is named.
fn shown(pool: &str, token: &str) -> String {
    if pool.is_empty() {
        return token.to_owned();
    }
    format!("{pool}:{token}")
}
