//! A token: what it may do, where, and until when.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use delayq_plugin::{Namespace, TaskType, Timestamp, TypePattern};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::secret::Presented;

/// What a token may do.
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

    /// Its name.
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

/// A token as it is stored: everything but its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// The version of the stored form.
    pub v: u32,
    /// Its id, which stands in the token and in the log of actions.
    pub id: String,
    /// What it is for, in words.
    pub name: String,
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
    /// The namespace that it is for; `*`: every one.
    pub namespace: String,
    /// The types or patterns that it is for; empty: all.
    pub types: Vec<String>,
    /// When it was made.
    pub created_at: i64,
    /// When it stops being valid; `None`: never.
    pub expires_at: Option<i64>,
    /// Most requests a second; `None`: as the configuration says.
    #[serde(default)]
    pub rate: Option<u32>,
    /// Most bytes of a message; `None`: as the configuration says.
    #[serde(default)]
    pub max_message_bytes: Option<usize>,
    /// Most scheduled and running tasks of its types in a namespace; `None`: no limit of its own.
    #[serde(default)]
    pub max_pending: Option<u64>,
    /// The hash of its secret.
    pub hash: String,
    /// The hash of the secret before the last rotation, and until when it is valid.
    pub earlier: Option<EarlierSecret>,
}

/// A secret that was rotated away and is still valid for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierSecret {
    pub hash: String,
    pub until: i64,
}

impl Token {
    /// The version that this release writes, and the newest that it reads.
    pub const VERSION: u32 = 1;

    /// Whether this is the token that was presented, and is valid now.
    pub fn admits(&self, presented: &Presented<'_>, at: Timestamp) -> bool {
        let now = at.as_millis();
        let is_own = presented.has_hash(&self.hash);
        let earlier = self.earlier.as_ref();
        let is_earlier =
            earlier.is_some_and(|old| presented.has_hash(&old.hash) && now < old.until);
        (is_own || is_earlier) && !self.is_expired(at)
    }

    /// Whether its time is over.
    pub fn is_expired(&self, at: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| at.as_millis() >= end)
    }

    /// Whether it gives a right. Admin gives all, and each gives no other.
    pub fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }

    /// Whether it is for a namespace.
    pub fn is_for(&self, namespace: &Namespace) -> bool {
        self.namespace == "*" || self.namespace == namespace.as_str()
    }

    /// Whether it is for a type.
    pub fn covers(&self, task_type: &TaskType) -> bool {
        let patterns = self
            .types
            .iter()
            .filter_map(|text| TypePattern::new(text).ok());
        self.types.is_empty() || patterns.into_iter().any(|one| one.matches(task_type))
    }

    /// Whether it is for every type that a pattern matches.
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
    use super::super::secret::generate;
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
        let [old, new] = [&old_text, &new_text].map(|text| Presented::read(text).unwrap());
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
