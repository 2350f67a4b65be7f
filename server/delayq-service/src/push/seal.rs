//! Seals prove that a server gave a task its target.
//!
//! A seal covers one task: its namespace, type, id, message and target. In the headers of another
//! task, or with another message, it is invalid.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use delayq_core::task::Headers;
use delayq_plugin::store::Document;
use delayq_plugin::{
    Clock, Error, Namespace, Result, Store, SystemClock, TaskId, TaskType, Timestamp,
};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use super::Target;
use super::own_target::OWN_TARGET;
use crate::folder_cache::kept;

/// The header with the seal.
pub(super) const SEAL: &str = "delayq-target-seal2";
/// The header of the earlier release's seal, which covers only type and target. It is still
/// written, because servers of that release push no task without it.
pub(super) const EARLIER_SEAL: &str = "delayq-target-seal";

/// The folder of the seal keys.
const FOLDER: &str = "target-seal";
/// The name of the key.
const NAME: &str = "key2";
/// The name of the key for earlier seals.
const EARLIER_NAME: &str = "key";
/// The length of a key, in bytes.
const KEY_BYTES: usize = 32;
/// How long servers of the earlier release may run beside this one, in milliseconds. Counts from
/// the first server of this release.
const OVERLAP_MS: i64 = 24 * 60 * 60 * 1_000;

/// The task that a seal covers.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) task_type: &'a TaskType,
    pub(super) id: &'a TaskId,
    pub(super) message: &'a [u8],
}

/// The stored key.
#[derive(Serialize, Deserialize)]
struct StoredKey {
    key: String,
    /// Tasks submitted before this time may have only an earlier seal.
    earlier_until: i64,
}

/// Seals targets, so that a client cannot forge one by sending a task another way.
#[derive(Clone)]
pub(super) struct Sealer {
    namespace: Namespace,
    key: Hmac<Sha256>,
    earlier: Hmac<Sha256>,
    earlier_until: Timestamp,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer")
    }
}

fn new_key() -> Result<String> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(|error| refused(&error.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(key))
}

fn read_key(text: &str) -> Result<Hmac<Sha256>> {
    let key = URL_SAFE_NO_PAD.decode(text);
    let key = key.map_err(|_| refused("it is damaged"))?;
    Hmac::new_from_slice(&key).map_err(|_| refused("it is damaged"))
}

fn shown(mac: Hmac<Sha256>) -> String {
    URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
}

fn holds(mac: Hmac<Sha256>, seal: Option<&String>) -> bool {
    let seal = seal.and_then(|seal| URL_SAFE_NO_PAD.decode(seal).ok());
    seal.is_some_and(|seal| mac.verify_slice(&seal).is_ok())
}

impl Sealer {
    /// The sealer of a namespace; makes its keys on first use.
    async fn of(store: &dyn Store, namespace: Namespace) -> Result<Self> {
        let folder = store.folder(FOLDER).await?;
        let is_earlier = |one: &Document| one.name == EARLIER_NAME;
        // Without an earlier key, no earlier release has sealed anything here.
        let earlier_until = if folder.documents.iter().any(is_earlier) {
            SystemClock.now().as_millis().saturating_add(OVERLAP_MS)
        } else {
            0
        };
        let own = StoredKey {
            key: new_key()?,
            earlier_until,
        };
        let own = serde_json::to_string(&own).map_err(Error::serialize)?;
        // The new key is written first. A server that finds only the earlier key thus knows that an
        // earlier release was here.
        let own = kept(store, FOLDER, NAME, own).await?;
        let own = serde_json::from_str(&own);
        let own: StoredKey = own.map_err(|_| refused("it is damaged"))?;
        let earlier = kept(store, FOLDER, EARLIER_NAME, new_key()?).await?;
        Ok(Self {
            namespace,
            key: read_key(&own.key)?,
            earlier: read_key(&earlier)?,
            earlier_until: Timestamp::from_millis(own.earlier_until),
        })
    }

    fn mac(&self, subject: Subject<'_>, target: &str) -> Hmac<Sha256> {
        let (mut mac, message) = (self.key.clone(), Sha256::digest(subject.message));
        for part in [
            self.namespace.as_str().as_bytes(),
            subject.task_type.as_str().as_bytes(),
            subject.id.as_str().as_bytes(),
            &message,
            target.as_bytes(),
        ] {
            // Each part is preceded by its length, so that different lists of parts never give the
            // same bytes.
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }

    fn earlier_mac(&self, task_type: &TaskType, target: &str) -> Hmac<Sha256> {
        let mut mac = self.earlier.clone();
        mac.update(task_type.as_str().as_bytes());
        mac.update(b"\0");
        mac.update(target.as_bytes());
        mac
    }

    /// The headers of a task with a target. The same task and target give the same headers, so that
    /// a repeated submit is recognised.
    pub(super) fn headers(&self, subject: Subject<'_>, target: &Target) -> Result<Headers> {
        let text = serde_json::to_string(target).map_err(|error| refused(&error.to_string()))?;
        let seal = shown(self.mac(subject, &text));
        let earlier = shown(self.earlier_mac(subject.task_type, &text));
        let headers = [(OWN_TARGET, text), (SEAL, seal), (EARLIER_SEAL, earlier)];
        let headers = headers.map(|(name, value)| (name.to_owned(), value));
        Ok(headers.into())
    }

    /// Returns true if a server gave the task the target in its headers.
    pub(super) fn has_sealed(
        &self,
        subject: Subject<'_>,
        headers: &Headers,
        submitted_at: Timestamp,
    ) -> bool {
        let Some(target) = headers.get(OWN_TARGET) else {
            return false;
        };
        if holds(self.mac(subject, target), headers.get(SEAL)) {
            return true;
        }
        let earlier = self.earlier_mac(subject.task_type, target);
        submitted_at < self.earlier_until && holds(earlier, headers.get(EARLIER_SEAL))
    }
}

/// The seals of a namespace. Their keys are read or made on first use.
#[derive(Debug)]
pub struct Seals {
    store: Arc<dyn Store>,
    namespace: Namespace,
    sealer: OnceCell<Sealer>,
}

impl Seals {
    pub(super) fn new(store: Arc<dyn Store>, namespace: Namespace) -> Self {
        Self {
            store,
            namespace,
            sealer: OnceCell::new(),
        }
    }

    pub(super) async fn sealer(&self) -> Result<&Sealer> {
        let sealer = || Sealer::of(&*self.store, self.namespace.clone());
        self.sealer.get_or_try_init(sealer).await
    }

    /// The headers to set when a task's message is replaced: a new seal, if the task has a valid
    /// one. The seal of the earlier release does not cover the message and stays valid.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn of_update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: &[u8],
    ) -> Result<Headers> {
        let none = Headers::new();
        let Some(task) = self.store.find(task_type, id).await? else {
            return Ok(none);
        };
        let Some(target) = task.headers.get(OWN_TARGET) else {
            return Ok(none);
        };
        let subject = |message| Subject {
            task_type,
            id,
            message,
        };
        let present = task.message.as_deref().unwrap_or_default();
        let submitted_at = task.submitted_at.unwrap_or(Timestamp::MAX);
        let sealer = self.sealer().await?;
        if !sealer.has_sealed(subject(present), &task.headers, submitted_at) {
            return Ok(none);
        }
        let seal = shown(sealer.mac(subject(message), target));
        Ok([(SEAL.to_owned(), seal)].into())
    }
}

fn refused(reason: &str) -> Error {
    Error::InvalidInput {
        what: "key of the targets of tasks",
        reason: reason.to_owned(),
    }
}
