//! Target of one task, in its headers.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use delayq_core::task::Headers;
use delayq_plugin::store::{Expected, WriteOutcome};
use delayq_plugin::{Error, Result, Store, TaskContext, TaskType};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::hidden::Hidden;
use super::{Courier, Target};
use crate::json::read_object;

/// The header of a task that has its target, as JSON.
pub(crate) const OWN_TARGET: &str = "delayq-target";
/// The header that says who put it there: a server, for somebody who may.
pub(crate) const SEAL: &str = "delayq-target-seal";

/// The folder and the name of the key of seals.
const FOLDER: &str = "target-seal";
const NAME: &str = "key";
/// Bytes of the key.
const KEY_BYTES: usize = 32;

/// Seals targets, so that whoever may send tasks by another way cannot give them one.
#[derive(Clone)]
pub(super) struct Sealer(Hmac<Sha256>);

impl Sealer {
    /// That of a namespace, made with its first use.
    pub(super) async fn of(store: &dyn Store) -> Result<Self> {
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key).map_err(|error| refused(&error.to_string()))?;
        let text = Hidden::new(URL_SAFE_NO_PAD.encode(key));
        let written = store.write_document(FOLDER, NAME, text.text(), Expected::Absent);
        let text = if let WriteOutcome::Written(_) = written.await? {
            text
        } else {
            let documents = store.folder(FOLDER).await?.documents;
            let found = documents.into_iter().find(|one| one.name == NAME);
            let found = found.map(|one| Hidden::new(one.body));
            found.ok_or_else(|| refused("it has gone"))?
        };
        let key = URL_SAFE_NO_PAD
            .decode(text.text())
            .map_err(|_| refused("it is damaged"))?;
        let key = Hmac::new_from_slice(&key).map_err(|_| refused("it is damaged"))?;
        Ok(Self(key))
    }

    fn mac(&self, task_type: &TaskType, target: &str) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(task_type.as_str().as_bytes());
        mac.update(b"\0");
        mac.update(target.as_bytes());
        mac
    }

    /// The headers of a task with a target. The same target gives the same headers, so that a
    /// repeated create is recognised.
    pub(super) fn headers(&self, task_type: &TaskType, target: &Target) -> Result<Headers> {
        let text = serde_json::to_string(target).map_err(|error| refused(&error.to_string()))?;
        let seal = self.mac(task_type, &text).finalize().into_bytes();
        let seal = URL_SAFE_NO_PAD.encode(seal);
        Ok([(OWN_TARGET.to_owned(), text), (SEAL.to_owned(), seal)].into())
    }

    /// Whether a server has put the target of a task there.
    pub(super) fn has_sealed(&self, cx: &TaskContext, target: &str) -> bool {
        let seal = cx
            .header(SEAL)
            .and_then(|seal| URL_SAFE_NO_PAD.decode(seal).ok());
        let mac = self.mac(cx.task_type(), target);
        seal.is_some_and(|seal| mac.verify_slice(&seal).is_ok())
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer")
    }
}

/// Reads a target as a client gives it for one task.
pub(super) fn read(text: &str, courier: &Courier) -> Result<Target, String> {
    let target: Target = read_object(text.as_bytes()).map_err(|error| error.to_string())?;
    target.check_of_task(&courier.guard, &courier.config)?;
    Ok(target)
}

fn refused(reason: &str) -> Error {
    Error::InvalidInput {
        what: "key of the targets of tasks",
        reason: reason.to_owned(),
    }
}
