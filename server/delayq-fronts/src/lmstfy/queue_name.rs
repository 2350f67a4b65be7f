//! The name of a queue, and of its task type.

use delayq_ops::lmstfy_type;
use delayq_plugin::{Result, TaskType};
use sha2::{Digest, Sha256};

/// Longest name of a namespace or queue.
pub(super) const MAX_NAME_BYTES: usize = 255;

/// A queue of a namespace of lmstfy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct QueueName {
    pub(super) namespace: String,
    pub(super) queue: String,
}

impl QueueName {
    /// A queue, whose names were checked.
    pub(super) fn new(namespace: &str, queue: &str) -> Self {
        let (namespace, queue) = (namespace.to_owned(), queue.to_owned());
        Self { namespace, queue }
    }

    /// Its task type: `NAMESPACE:QUEUE`, and a hash of that where it is too long.
    ///
    /// # Errors
    /// A name has characters that no name has.
    pub(super) fn task_type(&self) -> Result<TaskType> {
        lmstfy_type(&self.namespace, &self.queue)
    }

    /// Whether its type does not say its name.
    pub(super) fn is_hashed(&self) -> bool {
        let own = self.task_type();
        own.is_ok_and(|own| Self::read(own.as_str()).is_none())
    }

    /// The queue of this text; `None` if it is that of none.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (namespace, queue) = text.split_once(':')?;
        let is_name = is_name(namespace) && is_name(queue);
        is_name.then(|| Self::new(namespace, queue))
    }
}

/// Whether it can be the name of a namespace or queue.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_word)
}

/// Whether a name can have this character.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// A name of hexadecimal digits for a text of any length.
pub(super) fn hash(text: &str) -> String {
    use std::fmt::Write;
    let mut name = String::new();
    for byte in Sha256::digest(text.as_bytes()) {
        write!(name, "{byte:02x}").ok();
    }
    name
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
}
