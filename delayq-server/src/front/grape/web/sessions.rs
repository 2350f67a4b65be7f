//! Sessions of the web page, in the store: every server knows them.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use delayq_plugin::store::{Expected, WriteOutcome};
use delayq_plugin::{Clock, Namespace, Store, SystemClock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::Grape;
use super::super::refusal::Refusal;
use crate::problem::Problem;

/// The folder of documents that holds them.
const FOLDER: &str = "grape-sessions";
/// How long a session lasts.
const LASTS: Duration = Duration::from_hours(8);
/// Random bytes of a session: 256 bits.
const BYTES: usize = 32;

/// The stored form of a session.
#[derive(Debug, Serialize, Deserialize)]
struct Session {
    user: String,
    until: i64,
}

/// The sessions. A session is stored under the hash of its secret.
#[derive(Debug)]
pub(super) struct Sessions {
    store: Arc<dyn Store>,
    now: i64,
}

impl Sessions {
    pub(super) async fn of(grape: &Grape) -> Result<Self, Problem> {
        let namespace = Namespace::new(&grape.app.config.grape.namespace)?;
        let space = grape.app.spaces.of(&namespace).await?;
        Ok(Self {
            store: Arc::clone(space.tasks.store()),
            now: SystemClock.now().as_millis(),
        })
    }

    /// The user of a session.
    pub(super) async fn user(&self, secret: &str) -> Result<Option<String>, Refusal> {
        let name = name_of(secret);
        let documents = self.store.folder(FOLDER).await?.documents;
        let found = documents.into_iter().find(|one| one.name == name);
        let session = found.and_then(|one| serde_json::from_str::<Session>(&one.body).ok());
        Ok(session
            .filter(|one| self.now < one.until)
            .map(|one| one.user))
    }

    /// Begins a session; its secret.
    pub(super) async fn begin(&self, user: &str) -> Result<String, Refusal> {
        for old in self.store.folder(FOLDER).await?.documents {
            let session = serde_json::from_str::<Session>(&old.body);
            if session.map_or(true, |session| session.until <= self.now) {
                self.store.remove_document(FOLDER, &old.name).await?;
            }
        }
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(|error| Problem::unavailable(error.to_string()))?;
        let secret = URL_SAFE_NO_PAD.encode(bytes);
        let lasts = i64::try_from(LASTS.as_millis()).unwrap_or(i64::MAX);
        let session = Session {
            user: user.to_owned(),
            until: self.now + lasts,
        };
        let body = serde_json::to_string(&session)
            .map_err(|error| Problem::unavailable(error.to_string()))?;
        let name = name_of(&secret);
        let written = self
            .store
            .write_document(FOLDER, &name, &body, Expected::Absent);
        match written.await? {
            WriteOutcome::Written(_) => Ok(secret),
            _ => Err(Problem::unavailable("there are 10,000 sessions: log some out").into()),
        }
    }

    /// Ends a session.
    pub(super) async fn end(&self, secret: &str) -> Result<(), Refusal> {
        self.store.remove_document(FOLDER, &name_of(secret)).await?;
        Ok(())
    }
}

fn name_of(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(secret.as_bytes()))
}
