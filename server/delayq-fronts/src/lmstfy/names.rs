//! Names of queues, tokens and jobs.

use std::sync::{Mutex, PoisonError};

use delayq_ops::lmstfy_type;
use delayq_plugin::{Result, TaskType, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use ulid::{Generator, Overflow, Ulid};

/// The longest name of a namespace or queue, in bytes.
pub(super) const MAX_NAME_BYTES: usize = 255;
/// The prefix of the id of a job with attributes.
const VERSION: &str = "1";
/// The length of an id without a version, in characters.
const LENGTH: usize = 26;

/// A queue of a namespace of lmstfy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct QueueName {
    pub(super) namespace: String,
    pub(super) queue: String,
}

impl QueueName {
    /// A queue with names that were already checked.
    pub(super) fn new(namespace: &str, queue: &str) -> Self {
        let (namespace, queue) = (namespace.to_owned(), queue.to_owned());
        Self { namespace, queue }
    }

    /// The task type of the queue: `NAMESPACE:QUEUE`, or a hash of it if that is too long.
    ///
    /// # Errors
    /// A name contains an invalid character.
    pub(super) fn task_type(&self) -> Result<TaskType> {
        lmstfy_type(&self.namespace, &self.queue)
    }

    /// Returns true if the type is a hash, so that the name cannot be read from it.
    pub(super) fn is_hashed(&self) -> bool {
        let own = self.task_type();
        own.is_ok_and(|own| Self::read(own.as_str()).is_none())
    }

    /// Parses a type; `None` if it is not `NAMESPACE:QUEUE`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (namespace, queue) = text.split_once(':')?;
        let is_name = is_name(namespace) && is_name(queue);
        is_name.then(|| Self::new(namespace, queue))
    }
}

/// Returns true for a valid name of a namespace or queue.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_word)
}

/// Returns true for a character that is valid in a name.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// A hash of a text, in hexadecimal digits.
pub(super) fn hash(text: &str) -> String {
    use std::fmt::Write;
    let mut name = String::new();
    for byte in Sha256::digest(text.as_bytes()) {
        write!(name, "{byte:02x}").ok();
    }
    name
}

/// A token, by its pool and namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct TokenKey {
    pub(super) pool: String,
    pub(super) namespace: String,
    pub(super) token: String,
}

impl TokenKey {
    pub(super) fn new(pool: &str, namespace: &str, token: &str) -> Self {
        Self {
            pool: pool.to_owned(),
            namespace: namespace.to_owned(),
            token: token.to_owned(),
        }
    }

    /// The name of its document. The parts stay unambiguous, because pools and namespaces contain
    /// no slash.
    pub(super) fn document(&self) -> String {
        hash(&format!("{}/{}/{}", self.pool, self.namespace, self.token))
    }
}

/// The pool and the token of `POOL:TOKEN`; a token alone belongs to the pool `default`.
pub(super) fn split_token(text: &str) -> (&str, &str) {
    match text.split_once(':') {
        Some((pool, token)) => (pool_or_default(pool), token),
        None => (pool_or_default(""), text),
    }
}

/// The pool with this name; the empty name means the pool `default`.
pub(super) fn pool_or_default(pool: &str) -> &str {
    if pool.is_empty() { "default" } else { pool }
}

/// Makes ids. A later id sorts after an earlier one, so that jobs of one millisecond stay in order.
#[derive(Debug)]
pub(super) struct JobIds(Mutex<Generator>);

impl Default for JobIds {
    fn default() -> Self {
        Self(Mutex::new(Generator::new()))
    }
}

impl JobIds {
    /// A new id, for a job with or without attributes.
    pub(super) fn next(&self, has_version: bool) -> String {
        let mut generator = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let made = generator.generate();
        let id = made.unwrap_or_else(Overflow::commit_overflow_increment);
        let version = if has_version { VERSION } else { "" };
        format!("{version}{id}")
    }
}

/// Milliseconds since the job with this id was made; 0 for an id of another format.
pub(super) fn age_ms(id: &str, now: Timestamp) -> i64 {
    let ulid = id.get(id.len().saturating_sub(LENGTH)..).unwrap_or(id);
    let made: Option<Ulid> = ulid.parse().ok();
    let made = made.and_then(|made| i64::try_from(made.timestamp_ms()).ok());
    made.map_or(0, |made| (now.as_millis() - made).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_has_a_type_of_its_own() {
        let short = QueueName::new("shop", "mail");
        assert_eq!(short.task_type().unwrap().as_str(), "shop:mail");
        assert_eq!(QueueName::read("shop:mail"), Some(short));
        assert!(QueueName::read("mail").is_none() && QueueName::read("a:b:c").is_none());
        let long = QueueName::new(&"n".repeat(255), &"q".repeat(255));
        let other = QueueName::new(&"n".repeat(255), &"q".repeat(254));
        assert!(long.is_hashed());
        let (one, two) = (long.task_type().unwrap(), other.task_type().unwrap());
        assert!(one != two && QueueName::read(one.as_str()).is_none());
    }

    #[test]
    fn ids_grow_and_tell_their_age() {
        let ids = JobIds::default();
        let made: Vec<_> = (0..1_000).map(|_| ids.next(false)).collect();
        assert!(made.is_sorted() && made.iter().all(|id| id.len() == 26));
        assert_eq!(ids.next(true).len(), 27);
        let ulid = Ulid::from_parts(1_000, 7).to_string();
        let now = Timestamp::from_millis(1_250);
        assert_eq!(age_ms(&ulid, now), 250);
        assert_eq!(age_ms(&format!("1{ulid}"), now), 250);
        assert_eq!(age_ms("x", now), 0);
    }
}
