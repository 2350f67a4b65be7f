//! Limits of tokens and namespaces: request rate, number of tasks and message size.

mod bucket;
mod charge;
mod pending;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use delayq_plugin::Namespace;
use tokio::time::Instant;

pub use self::bucket::TokenBucket;
pub use self::charge::{Charge, Ledger};
pub(crate) use self::pending::Bounded;
pub use self::pending::Pending;
use crate::config::{Config, NamespaceLimits};

/// The largest number of buckets kept. Full buckets are dropped first, because a new one is equal.
const MAX_BUCKETS: usize = 20_000;

/// The owner of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum BucketOwner {
    Token(String),
    Namespace(Namespace),
}

impl BucketOwner {
    fn policy(&self) -> &'static str {
        match self {
            Self::Token(_) => "token",
            Self::Namespace(_) => "namespace",
        }
    }
}

/// The token and the namespace that a request is charged to.
#[derive(Clone, Copy, Debug)]
pub struct Payer<'a> {
    /// The id of the token.
    pub token: &'a str,
    /// The token's own rate, if any.
    pub rate: Option<u32>,
    pub namespace: &'a Namespace,
}

/// The request counts of tokens and namespaces on this server.
#[derive(Debug)]
pub struct Limits {
    config: Arc<Config>,
    buckets: Mutex<HashMap<BucketOwner, TokenBucket>>,
}

impl Limits {
    pub fn new(config: &Arc<Config>) -> Self {
        Self {
            config: Arc::clone(config),
            buckets: Mutex::default(),
        }
    }

    /// The limits of a namespace.
    pub fn of(&self, namespace: &Namespace) -> NamespaceLimits {
        let general = &self.config.limits.namespace;
        match self.config.namespaces.get(namespace.as_str()) {
            Some(own) => own.limits.or(general),
            None => general.clone(),
        }
    }

    /// Takes `cost` requests from the token and from its namespace. If either lacks them, takes
    /// nothing and returns a charge that is not granted.
    pub fn charge(&self, payer: Payer<'_>, cost: u32) -> Charge {
        self.charge_at(payer, cost, Instant::now())
    }

    fn charge_at(&self, payer: Payer<'_>, cost: u32, now: Instant) -> Charge {
        let token_rate = payer.rate.or(self.config.limits.token_rate);
        let token = token_rate.map(|rate| (BucketOwner::Token(payer.token.to_owned()), rate));
        let rate = self.of(payer.namespace).rate;
        let namespace = rate.map(|rate| (BucketOwner::Namespace(payer.namespace.clone()), rate));
        let wanted: Vec<_> = token.into_iter().chain(namespace).collect();
        if wanted.is_empty() {
            return Charge::new(cost);
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_BUCKETS {
            buckets.retain(|_, bucket| !bucket.is_full(now));
        }
        let mut charge = Charge::new(cost);
        for (holder, rate) in &wanted {
            let bucket = buckets
                .entry(holder.clone())
                .or_insert_with(|| TokenBucket::a_second(*rate, now));
            bucket.set_rate(*rate, now);
            charge.require(bucket.wait(cost, now));
        }
        for (holder, rate) in wanted {
            if let Some(bucket) = buckets.get_mut(&holder) {
                if charge.is_granted() {
                    bucket.take(cost, now);
                }
                charge.note(holder, rate, bucket.reading(now));
            }
        }
        charge
    }

    /// Waits until the rates allow `cost` requests, then takes them.
    pub async fn pace(&self, payer: Payer<'_>, cost: u32) -> Charge {
        loop {
            let charge = self.charge(payer, cost);
            if charge.is_granted() {
                return charge;
            }
            tokio::time::sleep(charge.wait()).await;
        }
    }

    /// Refunds charged requests that failed through no fault of the client.
    pub fn refund(&self, charge: &mut Charge, requests: u32) {
        let now = Instant::now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        charge.give_back(requests, |holder, cost| {
            let bucket = buckets.get_mut(holder)?;
            bucket.give_back(cost, now);
            Some(bucket.reading(now))
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::NamespaceConfig;

    fn limits(token_rate: u32, namespace_rate: u32) -> Limits {
        let mut config = Config::default();
        config.limits.token_rate = Some(token_rate);
        let shop = NamespaceConfig {
            limits: NamespaceLimits {
                rate: Some(namespace_rate),
                ..NamespaceLimits::default()
            },
            ..NamespaceConfig::default()
        };
        config.namespaces.insert("shop".to_owned(), shop);
        Limits::new(&Arc::new(config))
    }

    #[test]
    fn a_request_is_charged_to_token_and_namespace_or_to_none() {
        let limits = limits(2, 3);
        let shop = Namespace::new("shop").unwrap();
        let now = Instant::now();
        let charge = |token, at| {
            let payer = Payer {
                token,
                rate: None,
                namespace: &shop,
            };
            limits.charge_at(payer, 1, at)
        };
        assert!(charge("a", now).is_granted() && charge("a", now).is_granted());
        let refused = charge("a", now);
        assert!(!refused.is_granted());
        assert_eq!(refused.wait(), Duration::from_millis(500));
        assert!(
            charge("b", now).is_granted(),
            "the refusal cost the namespace nothing"
        );
        assert!(!charge("c", now).is_granted(), "the namespace has no more");
        assert!(charge("c", now + Duration::from_millis(400)).is_granted());
    }

    #[test]
    fn a_refund_makes_room_again_and_a_rate_of_its_own_goes_over_the_general_one() {
        let limits = limits(1, 100);
        let shop = Namespace::new("shop").unwrap();
        let charge = |rate| {
            let payer = Payer {
                token: "a",
                rate,
                namespace: &shop,
            };
            limits.charge_at(payer, 1, Instant::now())
        };
        let mut first = charge(Some(2));
        assert!(first.is_granted() && charge(Some(2)).is_granted());
        limits.refund(&mut first, u32::MAX);
        assert!(charge(Some(2)).is_granted());
    }
}
