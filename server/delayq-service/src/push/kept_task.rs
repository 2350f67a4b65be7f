//! A task that stays with its reply: what whoever asks after its end is told of it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_core::task::Headers;
use delayq_plugin::store::Reply;
use delayq_plugin::{TaskContext, TaskResult};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::own_target::{OWN_TARGET, veil};

/// A task that is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptTask {
    /// When it was accepted, in milliseconds since the epoch.
    pub submitted_at: i64,
    /// Its headers.
    pub headers: Headers,
    /// Its message in base64; empty where it was too large to be kept.
    message: String,
    /// What its own target said of repeats. The target itself is shown to nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry: Option<Value>,
}

impl KeptTask {
    /// Keeps a task as its reply.
    pub(super) fn keep(cx: &TaskContext, message: &[u8]) -> TaskResult {
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
        Ok(cx.reply_with(reply)?)
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

    /// Its message.
    pub fn message(&self) -> Vec<u8> {
        STANDARD.decode(&self.message).unwrap_or_default()
    }
}

/// What a target says of repeats.
fn retry(target: &str) -> Option<Value> {
    let target: Value = serde_json::from_str(target).ok()?;
    target.get("retry").cloned()
}
