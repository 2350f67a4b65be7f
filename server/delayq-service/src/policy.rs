//! Policies of types: how failed attempts are retried, and how many expired locks a task survives.
//! They hold for workers of every language and on every server of the namespace.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::documents::{Document, Expected, WriteOutcome};
use delayq_core::time::MAX_DELAY;
use delayq_plugin::{Backoff, Error, Result, RetryPolicy, Store, TaskType, TypePattern};
use serde::{Deserialize, Serialize};
use tracing::{error, warn};
use utoipa::ToSchema;

use crate::folder_cache::{Contents, FolderCache};
use crate::pattern_name::{name_of, pattern_of};
use crate::span::Span;

/// The folder of policies.
const FOLDER: &str = "policies";
/// The version of the stored form, and the newest that this release reads.
const VERSION: u32 = 1;
/// The largest number of attempts.
const MAX_ATTEMPTS: u32 = 1_000;
/// The largest number of lock expiries.
const MAX_LOCK_EXPIRIES: u32 = 1_000;

/// How failed attempts are retried. Each wait is up to 10 % shorter or longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// The number of attempts; 1 to 1000, default 5, for a `service` target 20. The task is dead
    /// after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// The wait before the second attempt; default 1 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Span>,
    /// The longest wait; default 10 min.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_wait: Option<Span>,
    /// True if all waits are equal, instead of doubling each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_fixed: Option<bool>,
}

impl Retry {
    /// The wait before the second attempt.
    fn base(&self) -> Duration {
        self.wait.map_or(RetryPolicy::DEFAULT.base, |span| span.0)
    }

    /// Refuses numbers beyond their limits, and a first wait that is longer than the longest one.
    pub fn check(&self) -> Result<(), String> {
        if self
            .attempts
            .is_some_and(|attempts| !(1..=MAX_ATTEMPTS).contains(&attempts))
        {
            return Err(format!("retry.attempts: 1 to {MAX_ATTEMPTS}"));
        }
        let waits = [("retry.wait", self.wait), ("retry.max_wait", self.max_wait)];
        let is_long = |wait: Option<Span>| wait.is_some_and(|wait| wait.0 > MAX_DELAY);
        if let Some((name, _)) = waits.into_iter().find(|(_, wait)| is_long(*wait)) {
            return Err(format!("{name}: at most 10 years"));
        }
        let base = self.base();
        match self.max_wait {
            Some(Span(most)) if base > most => Err(format!(
                "retry.max_wait: {most:?} is shorter than retry.wait, the first wait of {base:?}"
            )),
            _ => Ok(()),
        }
    }

    /// The policy, with `usual` attempts if it names no number.
    pub fn policy(&self, usual: u32) -> RetryPolicy {
        let (default, base) = (RetryPolicy::DEFAULT, self.base());
        RetryPolicy {
            max_attempts: self.attempts.unwrap_or(usual),
            base,
            cap: self.max_wait.map_or(default.cap, |span| span.0).max(base),
            backoff: match self.is_fixed {
                Some(true) => Backoff::Fixed,
                _ => default.backoff,
            },
            ..default
        }
    }
}

/// The policy of a type, or of all types of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TypePolicy {
    /// How failed attempts are retried, where the failure does not say it. A target with a `retry`
    /// of its own keeps that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The number of lock expiries after which a task is dead; 1 to 1000, default
    /// `limits.max_lock_expiries` of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lock_expiries: Option<u32>,
}

impl TypePolicy {
    /// Refuses an invalid policy, and one that sets nothing.
    pub fn check(&self) -> Result<(), String> {
        if *self == Self::default() {
            return Err("a policy sets retry, max_lock_expiries or both".to_owned());
        }
        let is_beyond = |most: u32| !(1..=MAX_LOCK_EXPIRIES).contains(&most);
        if self.max_lock_expiries.is_some_and(is_beyond) {
            return Err(format!("max_lock_expiries: 1 to {MAX_LOCK_EXPIRIES}"));
        }
        self.retry.map_or(Ok(()), |retry| retry.check())
    }
}

/// The stored form of a policy.
#[derive(Debug, Serialize, Deserialize)]
struct StoredPolicy {
    v: u32,
    policy: serde_json::Value,
}

/// The content of the folder.
#[derive(Debug, Default)]
struct PolicyFolder(BTreeMap<TypePattern, TypePolicy>);

impl Contents for PolicyFolder {
    fn read(documents: Vec<Document>) -> Result<Self> {
        let mut policies = BTreeMap::new();
        for document in documents {
            let name = &document.name;
            let Some(pattern) = pattern_of(name) else {
                error!(name, "the name of a policy is invalid; it has no effect");
                continue;
            };
            let stored = serde_json::from_str::<StoredPolicy>(&document.body);
            let policy = match stored {
                Ok(stored) if stored.v > VERSION => {
                    warn!(%pattern, "a newer release wrote this policy; it has no effect here");
                    continue;
                }
                Ok(stored) => serde_json::from_value(stored.policy),
                Err(error) => Err(error),
            };
            match policy {
                Ok(policy) => {
                    policies.insert(pattern, policy);
                }
                Err(error) => error!(%pattern, %error, "cannot read a policy; it has no effect"),
            }
        }
        Ok(Self(policies))
    }
}

impl PolicyFolder {
    /// The policy of a type: its own, or that of the longest matching pattern.
    fn of(&self, task_type: &TaskType) -> Option<TypePolicy> {
        if let Some(own) = self.0.get(&TypePattern::Exact(task_type.clone())) {
            return Some(*own);
        }
        let matching = self.0.iter().filter(|(one, _)| one.matches(task_type));
        let most = matching.max_by_key(|(pattern, _)| pattern.rank());
        most.map(|(_, policy)| *policy)
    }
}

/// The policies of a namespace: in its store, with a copy in memory.
#[derive(Debug)]
pub struct Policies {
    stored: FolderCache<PolicyFolder>,
    /// The number of lock expiries of a type without a policy.
    usual_lock_expiries: u32,
}

impl Policies {
    /// The policies of a store; call [`read`](Self::read) before the first use.
    pub fn new(store: Arc<dyn Store>, usual_lock_expiries: u32) -> Self {
        Self {
            stored: FolderCache::new(store, FOLDER),
            usual_lock_expiries,
        }
    }

    /// Reads all policies.
    pub async fn read(&self) -> Result<()> {
        self.stored.read().await
    }

    /// Follows changes by other servers; never returns.
    pub async fn follow(&self) {
        self.stored.follow().await;
    }

    /// The retry policy of a type, if one is set. One without a number of attempts has the usual
    /// one.
    pub fn retry(&self, task_type: &TaskType, usual_attempts: u32) -> Option<RetryPolicy> {
        let retry = self.stored.get().of(task_type)?.retry?;
        Some(retry.policy(usual_attempts))
    }

    /// The number of lock expiries after which a task of a type is dead, if one is set.
    pub fn set_lock_expiries(&self, task_type: &TaskType) -> Option<u32> {
        self.stored.get().of(task_type)?.max_lock_expiries
    }

    /// The same, or that of the configuration.
    pub fn max_lock_expiries(&self, task_type: &TaskType) -> u32 {
        let set = self.set_lock_expiries(task_type);
        set.unwrap_or(self.usual_lock_expiries)
    }

    /// All policies, after a look for changes.
    pub async fn all(&self) -> Result<Vec<(TypePattern, TypePolicy)>> {
        self.stored.refresh().await?;
        let stored = self.stored.get();
        let all = stored.0.iter();
        Ok(all
            .map(|(pattern, policy)| (pattern.clone(), *policy))
            .collect())
    }

    /// The policy that is set for a type or pattern, after a look for changes.
    pub async fn get(&self, pattern: &TypePattern) -> Result<Option<TypePolicy>> {
        self.stored.refresh().await?;
        Ok(self.stored.get().0.get(pattern).copied())
    }

    /// Sets the policy of a type or pattern.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid policy, and errors of the store.
    pub async fn set(&self, pattern: &TypePattern, policy: TypePolicy) -> Result<()> {
        let checked = policy.check();
        checked.map_err(|reason| Error::invalid("policy", reason))?;
        let record = StoredPolicy {
            v: VERSION,
            policy: serde_json::to_value(policy).map_err(Error::serialize)?,
        };
        let name = name_of(pattern);
        match self.stored.write(&name, &record, Expected::Any).await? {
            WriteOutcome::Written(_) | WriteOutcome::Conflict(_) => Ok(()),
            WriteOutcome::FolderFull => {
                let reason = "there are 10,000 in this namespace: use a pattern";
                Err(Error::invalid("policy", reason))
            }
        }
    }

    /// Removes the policy of a type or pattern; returns true if it existed.
    pub async fn remove(&self, pattern: &TypePattern) -> Result<bool> {
        self.stored.remove(&name_of(pattern)).await
    }
}

#[cfg(test)]
mod tests {
    use delayq_plugin::store::MemoryStore;

    use super::*;

    fn policy(text: &str) -> TypePolicy {
        serde_json::from_str(text).unwrap()
    }

    #[tokio::test]
    async fn the_own_policy_of_a_type_counts_before_that_of_the_longest_pattern() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let policies = Policies::new(Arc::clone(&store), 5);
        let set = async |pattern: &str, text: &str| {
            let pattern = TypePattern::new(pattern).unwrap();
            policies.set(&pattern, policy(text)).await
        };
        let most = |name: &str| policies.max_lock_expiries(&TaskType::new(name).unwrap());
        set("*", r#"{"max_lock_expiries": 1}"#).await.unwrap();
        set("mail.*", r#"{"max_lock_expiries": 2}"#).await.unwrap();
        let own = r#"{"retry": {"attempts": 7, "wait": "20m", "is_fixed": true}}"#;
        set("mail.send", own).await.unwrap();
        assert_eq!(["sms", "mail.a", "mail.send"].map(most), [1, 2, 5]);
        let retry = policies.retry(&TaskType::new("mail.send").unwrap(), 20);
        let retry = retry.unwrap();
        assert_eq!((retry.max_attempts, retry.backoff), (7, Backoff::Fixed));
        assert_eq!(
            (retry.base, retry.cap),
            (Duration::from_mins(20), retry.base)
        );
        assert_eq!(policies.retry(&TaskType::new("mail.a").unwrap(), 20), None);
        set("fax", r#"{"retry": {"wait": "30s"}}"#).await.unwrap();
        let retry = policies.retry(&TaskType::new("fax").unwrap(), 20);
        assert_eq!(retry.unwrap().max_attempts, 20);
        for bad in [
            "{}",
            r#"{"max_lock_expiries": 0}"#,
            r#"{"max_lock_expiries": 1001}"#,
            r#"{"retry": {"attempts": 0}}"#,
            r#"{"retry": {"attempts": 1001}}"#,
            r#"{"retry": {"wait": "1h", "max_wait": "1m"}}"#,
            r#"{"retry": {"wait": "4000d", "max_wait": "4000d"}}"#,
        ] {
            assert!(set("sms", bad).await.is_err(), "{bad}");
        }
        // Another server reads it from the store.
        let other = Policies::new(store, 5);
        other.read().await.unwrap();
        assert_eq!(other.max_lock_expiries(&TaskType::new("sms").unwrap()), 1);
    }
}
