//! Reply: a worker's answer to callers that wait for its task.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::time::{Timestamp, hours};

/// Maximum size of the body of a reply, in bytes.
pub const MAX_REPLY_BYTES: usize = 64 * 1_024;
/// Maximum length of the content type of a reply, in bytes.
pub const MAX_CONTENT_TYPE_BYTES: usize = 127;
/// How long a reply is kept unless the worker sets a time.
pub const DEFAULT_REPLY_RETENTION: Duration = hours(1);
/// Longest time that a reply is kept.
pub const MAX_REPLY_RETENTION: Duration = hours(7 * 24);

const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

/// A worker's answer to callers that wait for its task.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// The content type of the body, as in HTTP.
    pub content_type: String,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// How long the reply is kept, from the moment when the store has it.
    pub retention: Duration,
}

impl Reply {
    /// Raw bytes, as `application/octet-stream`, for [`DEFAULT_REPLY_RETENTION`].
    #[must_use]
    pub fn bytes(body: impl Into<Vec<u8>>) -> Self {
        Self {
            content_type: BYTES.to_owned(),
            body: body.into(),
            retention: DEFAULT_REPLY_RETENTION,
        }
    }

    /// A value as JSON, for [`DEFAULT_REPLY_RETENTION`].
    ///
    /// # Errors
    /// `Serialize` for a value without a JSON form.
    pub fn json<R: Serialize + ?Sized>(value: &R) -> Result<Self> {
        let body = serde_json::to_vec(value).map_err(Error::serialize)?;
        Ok(Self::bytes(body).content_type(JSON))
    }

    /// The same reply with this content type, such as `text/csv; charset=utf-8`.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = content_type.into();
        self
    }

    /// The same reply, kept for `retention`, at most [`MAX_REPLY_RETENTION`].
    #[must_use]
    pub fn keep_for(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Refuses an invalid reply.
    ///
    /// # Errors
    /// `InvalidInput` for a body over [`MAX_REPLY_BYTES`], a content type that is not visible ASCII
    /// or over [`MAX_CONTENT_TYPE_BYTES`], and a retention of zero or over [`MAX_REPLY_RETENTION`].
    pub fn check(&self) -> Result<()> {
        let refused = |reason: String| Err(Error::invalid("reply", reason));
        let bytes = self.body.len();
        if bytes > MAX_REPLY_BYTES {
            return refused(format!(
                "it has {bytes} bytes, and at most {MAX_REPLY_BYTES} are kept: store it elsewhere \
                 and reply where it is"
            ));
        }
        let is_visible = |byte: u8| (0x20..0x7f).contains(&byte);
        let name = &self.content_type;
        if name.len() > MAX_CONTENT_TYPE_BYTES || !name.bytes().all(is_visible) {
            return refused(format!(
                "its content type cannot be one: use up to {MAX_CONTENT_TYPE_BYTES} characters of \
                 visible ASCII"
            ));
        }
        if self.retention.is_zero() || self.retention > MAX_REPLY_RETENTION {
            let asked = self.retention;
            return refused(format!("it cannot be kept for {asked:?}: use up to 7 days"));
        }
        Ok(())
    }
}

impl fmt::Debug for Reply {
    /// Shows only the length of the body.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("content_type", &self.content_type)
            .field("bytes", &self.body.len())
            .field("retention", &self.retention)
            .finish()
    }
}

/// A reply as a store has it.
#[derive(Clone, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "a proof, a time and what the worker gave, nothing else"
)]
pub struct KeptReply {
    /// The fence of the attempt that gave the reply. The reply belongs to the task whose end has
    /// the same fence, see [`TaskInfo::settled_fence`](crate::TaskInfo::settled_fence).
    pub fence: u64,
    /// The time when it was kept, by the store's clock.
    pub at: Timestamp,
    /// The content type of the body.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

impl fmt::Debug for KeptReply {
    /// Shows only the length of the body.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptReply")
            .field("fence", &self.fence)
            .field("at", &self.at)
            .field("content_type", &self.content_type)
            .field("bytes", &self.body.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::days;

    #[test]
    fn a_reply_is_checked_for_its_size_its_content_type_and_its_retention() {
        let most = Reply::bytes(vec![0; MAX_REPLY_BYTES]).keep_for(days(7));
        assert!(most.check().is_ok());
        let larger = Reply::bytes(vec![0; MAX_REPLY_BYTES + 1]);
        let longer = Reply::bytes("a").keep_for(days(7) + Duration::from_millis(1));
        let never = Reply::bytes("a").keep_for(Duration::ZERO);
        let split = Reply::bytes("a").content_type("text/plain\r\nset-cookie: a=b");
        let wide = Reply::bytes("a").content_type("x".repeat(128));
        for refused in [larger, longer, never, split, wide] {
            assert!(refused.check().is_err(), "{refused:?}");
        }
    }

    #[test]
    fn a_value_is_kept_as_json_and_shown_by_its_length_alone() {
        let reply = Reply::json(&vec![1, 2]).unwrap();
        assert_eq!((&*reply.content_type, &*reply.body), (JSON, &b"[1,2]"[..]));
        let shown = format!("{reply:?}");
        assert!(
            shown.contains("bytes: 5") && !shown.contains('['),
            "{shown}"
        );
    }
}
