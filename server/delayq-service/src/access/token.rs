//! A token: its rights, its namespace, its types and its expiry.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use delayq_plugin::{Namespace, TaskType, Timestamp, TypePattern};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::secret::SecretHash;

/// A right that a token grants.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Create, cancel, move and change tasks.
    Submit,
    /// Claim tasks, and settle, extend and release them.
    Work,
    /// Look at tasks, counts and instances.
    Read,
    /// Pause, requeue, discard, and change many tasks.
    Operate,
    /// Everything, on every namespace that it is for: settings, purges, namespaces, tokens.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 5] = [
        Self::Submit,
        Self::Work,
        Self::Read,
        Self::Operate,
        Self::Admin,
    ];

    /// The name of the scope.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Work => "work",
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or_else(|| {
            format!("{text:?} is no scope: use submit, work, read, operate or admin")
        })
    }
}

/// A token as stored, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// The version of the stored form.
    pub v: u32,
    /// The id, which is part of the token's text and of the log of actions.
    pub id: String,
    /// The purpose, as free text.
    pub name: String,
    /// The scopes that the token grants.
    pub scopes: BTreeSet<Scope>,
    /// The namespace that the token covers; `*` means every namespace.
    pub namespace: String,
    /// The types or patterns that the token covers; empty means all types.
    pub types: Vec<String>,
    /// The time of creation, in milliseconds since the epoch.
    pub created_at: i64,
    /// The time of expiry, in milliseconds since the epoch; `None` means never.
    pub expires_at: Option<i64>,
    /// The limit of requests a second; `None` means the limit of the configuration.
    #[serde(default)]
    pub rate: Option<u32>,
    /// The largest message, in bytes; `None` means the limit of the configuration.
    #[serde(default)]
    pub max_message_bytes: Option<usize>,
    /// The limit of scheduled and running tasks of the token's types in a namespace; `None` means
    /// no limit.
    #[serde(default)]
    pub max_pending: Option<u64>,
    /// The hash of the secret.
    pub hash: String,
    /// The hash of the secret before the last rotation, and the end of its validity.
    pub earlier: Option<EarlierSecret>,
}

/// A secret that was replaced by a rotation and is still valid for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierSecret {
    pub hash: String,
    pub until: i64,
}

impl Token {
    /// The version that this release writes, and the newest that it reads.
    pub const VERSION: u32 = 1;

    /// Returns true if the secret is this token's, and if both are valid now.
    pub fn admits(&self, secret: &SecretHash, at: Timestamp) -> bool {
        let now = at.as_millis();
        let is_own = secret.is(&self.hash);
        let earlier = self.earlier.as_ref();
        let is_earlier = earlier.is_some_and(|old| secret.is(&old.hash) && now < old.until);
        (is_own || is_earlier) && !self.is_expired(at)
    }

    /// Returns true if the token has expired.
    pub fn is_expired(&self, at: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| at.as_millis() >= end)
    }

    /// Returns true if the token grants a scope. `Admin` grants all scopes; every other scope
    /// grants only itself.
    pub fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }

    /// Returns true if the token covers a namespace.
    pub fn is_for(&self, namespace: &Namespace) -> bool {
        self.namespace == "*" || self.namespace == namespace.as_str()
    }

    /// Returns true if the token covers a type.
    pub fn covers(&self, task_type: &TaskType) -> bool {
        let patterns = self
            .types
            .iter()
            .filter_map(|text| TypePattern::new(text).ok());
        self.types.is_empty() || patterns.into_iter().any(|one| one.matches(task_type))
    }

    /// Returns true if the token covers every type that a pattern matches.
    pub fn covers_all(&self, pattern: &TypePattern) -> bool {
        let TypePattern::Prefix(prefix) = pattern else {
            return matches!(pattern, TypePattern::Exact(task_type) if self.covers(task_type));
        };
        let own = self.types.iter().filter_map(|text| text.strip_suffix('*'));
        self.types.is_empty() || own.into_iter().any(|own| prefix.starts_with(own))
    }
}

#[cfg(test)]
mod tests {
    use super::super::secret::{Presented, generate};
    use super::*;

    fn token(hash: &str) -> Token {
        Token {
            v: Token::VERSION,
            id: "01ABC".to_owned(),
            name: "ci".to_owned(),
            scopes: [Scope::Submit].into(),
            namespace: "shop".to_owned(),
            types: vec!["mail.*".to_owned(), "order.cancel".to_owned()],
            created_at: 0,
            expires_at: Some(100),
            rate: None,
            max_message_bytes: None,
            max_pending: None,
            hash: hash.to_owned(),
            earlier: None,
        }
    }

    #[test]
    fn a_token_is_valid_until_its_end_and_an_earlier_secret_for_its_overlap() {
        let (old_text, old_hash) = generate("01ABC").unwrap();
        let (new_text, new_hash) = generate("01ABC").unwrap();
        let [old, new] = [&old_text, &new_text].map(|text| Presented::read(text).unwrap().hash());
        let mut rotated = token(&new_hash);
        let earlier = EarlierSecret {
            hash: old_hash,
            until: 50,
        };
        rotated.earlier = Some(earlier);
        let at = Timestamp::from_millis;
        assert!(rotated.admits(&new, at(99)) && !rotated.admits(&new, at(100)));
        assert!(rotated.admits(&old, at(49)) && !rotated.admits(&old, at(50)));
    }

    #[test]
    fn a_right_is_one_scope_one_namespace_and_some_types() {
        let mut token = token("");
        let covers = |token: &Token, name| token.covers(&TaskType::new(name).unwrap());
        assert!(token.has(Scope::Submit) && !token.has(Scope::Read));
        assert!(token.is_for(&Namespace::new("shop").unwrap()));
        assert!(!token.is_for(&Namespace::new("shop2").unwrap()));
        assert!(covers(&token, "mail.send") && covers(&token, "order.cancel"));
        assert!(!covers(&token, "order.cancelled") && !covers(&token, "mailx"));
        let covers_all = |text| token.covers_all(&TypePattern::new(text).unwrap());
        assert!(covers_all("mail.*") && covers_all("mail.vip.*") && covers_all("order.cancel"));
        assert!(!covers_all("*") && !covers_all("order.*") && !covers_all("order.cancel.*"));
        token.scopes = [Scope::Admin].into();
        token.namespace = "*".to_owned();
        token.types.clear();
        assert!(Scope::ALL.iter().all(|scope| token.has(*scope)) && covers(&token, "any"));
    }
}
