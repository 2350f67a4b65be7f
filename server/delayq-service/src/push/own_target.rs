//! The target of a single task, in its headers, and the task kept as its own reply.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_core::task::Headers;
use delayq_plugin::store::Reply;
use delayq_plugin::{Error, Result, TaskContext, TaskResult};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Courier, Target};
use crate::json::read_object;

/// The header with a task's own target, as JSON. Other headers of the server about the target begin
/// with this name as well: see [`is_reserved`].
pub const OWN_TARGET: &str = "delayq-target";

/// Returns true for a header that only the server may set. It is hidden from clients and refused
/// from them.
pub(super) fn is_reserved(name: &str) -> bool {
    let begin = name.get(..OWN_TARGET.len());
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(OWN_TARGET))
}

/// Refuses headers that only the server may set.
///
/// # Errors
/// `InvalidInput`; the text says how to give a task a target.
pub fn refuse_reserved<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Result<()> {
    if !names.into_iter().any(|name| is_reserved(name.as_ref())) {
        return Ok(());
    }
    let reason = "a task gets its target by the header Delayq-Target of its create, or by `target` \
                  over gRPC: headers of a task that begin with delayq-target are not taken";
    Err(Error::invalid("header", reason))
}

/// Removes headers that clients must not see.
pub fn veil(headers: &mut Headers) {
    if headers.keys().any(|name| is_reserved(name)) {
        headers.retain(|name, _| !is_reserved(name));
    }
}

/// Reads a client's target for one task.
pub(super) fn read(text: &str, courier: &Courier) -> Result<Target, String> {
    let target: Target = read_object(text.as_bytes()).map_err(|error| error.to_string())?;
    target.check_of_task(&courier.guard, &courier.config)?;
    Ok(target)
}

/// Reads the target of a stored task. A server has checked it when the task was created.
pub(super) fn read_stored(text: &str, courier: &Courier) -> Result<Target, String> {
    let target: Target = read_object(text.as_bytes()).map_err(|error| error.to_string())?;
    target.allowed(&courier.guard, &courier.config)?;
    Ok(target)
}

/// A finished task, kept as its own reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptTask {
    /// The time of submission, in milliseconds since the epoch.
    pub submitted_at: i64,
    /// The headers, without reserved ones.
    pub headers: Headers,
    /// The message in base64; empty if it was too large to be kept.
    message: String,
    /// The retry options of the task's own target. The rest of the target is never shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry: Option<Value>,
}

impl KeptTask {
    /// Keeps a task as its reply.
    pub(super) fn keep(cx: &TaskContext, message: &[u8], kept_for: Duration) -> TaskResult {
        let mut kept = Self {
            submitted_at: cx.submitted_at().as_millis(),
            headers: cx.headers().clone(),
            message: STANDARD.encode(message),
            retry: cx.header(OWN_TARGET).and_then(retry),
        };
        veil(&mut kept.headers);
        let mut reply = kept.reply()?;
        if reply.check().is_err() {
            kept.message.clear();
            reply = kept.reply()?;
        }
        Ok(cx.reply_with(reply.keep_for(kept_for))?)
    }

    fn reply(&self) -> serde_json::Result<Reply> {
        let reply = Reply::bytes(serde_json::to_vec(self)?);
        Ok(reply.content_type("application/json"))
    }

    /// Reads a task from its reply.
    pub fn read(reply: &[u8]) -> Option<Self> {
        let mut kept: Self = serde_json::from_slice(reply).ok()?;
        if let Some(retry) = &kept.retry {
            let target = json!({ "retry": retry }).to_string();
            kept.headers.insert(OWN_TARGET.to_owned(), target);
        }
        Some(kept)
    }

    /// The message.
    pub fn message(&self) -> Vec<u8> {
        STANDARD.decode(&self.message).unwrap_or_default()
    }
}

/// The retry options of a target.
fn retry(target: &str) -> Option<Value> {
    let target: Value = serde_json::from_str(target).ok()?;
    target.get("retry").cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_about_the_target_are_the_servers_however_they_are_written() {
        for name in [
            "delayq-target",
            "Delayq-Target",
            "DELAYQ-TARGET-SEAL",
            "delayq-target-x",
        ] {
            assert!(is_reserved(name), "{name}");
            let said = refuse_reserved(["a", name]).unwrap_err().to_string();
            assert!(said.contains("Delayq-Target"), "{said}");
        }
        let others = [
            "delayq-version",
            "delayq-batch",
            "target",
            "x-delayq-target",
            "delayq-ta",
        ];
        refuse_reserved(others).unwrap();
    }
}
