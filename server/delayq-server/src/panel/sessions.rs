//! Sessions of the web page, in the store for all servers on it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use delayq_core::documents::{Document, Expected, WriteOutcome};
use delayq_plugin::{Clock, Result, Store};
use delayq_service::access::{Admission, SecretHash, TokenBook};
use delayq_service::folder_cache::{Contents, FolderCache, kept};
use delayq_service::problem::Problem;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The folder of the sessions.
const FOLDER: &str = "page-sessions";
/// The folder of the form secret.
const SECRET_FOLDER: &str = "page";
/// The document of the form secret.
const FORM_SECRET: &str = "form-secret";
/// The largest number of sessions. A new one above this ends the oldest.
const MAX_SESSIONS: usize = 1_000;
/// Random bytes in a session secret and in the form secret: 256 bits.
const BYTES: usize = 32;

/// The sessions of the web page. A session that ends is ended on every server.
#[derive(Debug)]
pub(super) struct Sessions {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    lasts: Duration,
    open: FolderCache<OpenSessions>,
}

/// The stored form of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredSession {
    v: u8,
    /// The id of the token.
    token: String,
    /// The secret that the user signed in with. The session ends with it.
    secret: SecretHash,
    /// The end, in milliseconds since the epoch.
    until: i64,
}

impl StoredSession {
    const VERSION: u8 = 1;
}

/// Sessions by the hash of their secret. A leaked store reveals no session, and the time of a
/// look-up says nothing about a secret.
#[derive(Debug, Default)]
struct OpenSessions(HashMap<String, StoredSession>);

impl Contents for OpenSessions {
    /// Drops sessions that cannot be read.
    fn read(documents: Vec<Document>) -> Result<Self> {
        let sessions = documents.into_iter().filter_map(|document| {
            let session: StoredSession = serde_json::from_str(&document.body).ok()?;
            (session.v <= StoredSession::VERSION).then_some((document.name, session))
        });
        Ok(Self(sessions.collect()))
    }
}

impl Sessions {
    pub(super) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, lasts: Duration) -> Self {
        Self {
            open: FolderCache::new(Arc::clone(&store), FOLDER),
            store,
            clock,
            lasts,
        }
    }

    /// The lifetime of a session.
    pub(super) fn lasts(&self) -> Duration {
        self.lasts
    }

    /// Begins a session for a token; returns the secret of the session.
    pub(super) async fn begin(&self, admitted: &Admission) -> Result<String, Problem> {
        self.make_room().await?;
        let secret = URL_SAFE_NO_PAD.encode(random()?);
        let lasts = i64::try_from(self.lasts.as_millis()).unwrap_or(i64::MAX);
        let session = StoredSession {
            v: StoredSession::VERSION,
            token: admitted.token.id.clone(),
            secret: admitted.secret.clone(),
            until: self.now().saturating_add(lasts),
        };
        let name = name_of(&secret);
        let written = self.open.write(&name, &session, Expected::Absent).await?;
        match written {
            WriteOutcome::Written(_) => Ok(secret),
            _ => Err(Problem::unavailable("there are too many sessions")),
        }
    }

    /// The token of a session, while the session and the secret that began it are valid.
    pub(super) async fn admission(
        &self,
        secret: &str,
        tokens: &TokenBook,
    ) -> Result<Option<Admission>> {
        self.open.refresh().await?;
        Ok(self.known_admission(secret, tokens))
    }

    /// The same as [`admission`](Self::admission), as of the last read of the sessions.
    pub(super) fn known_admission(&self, secret: &str, tokens: &TokenBook) -> Option<Admission> {
        let open = self.open.get();
        let session = open.0.get(&name_of(secret));
        let session = session.filter(|session| self.now() < session.until)?;
        tokens.admit_by(&session.token, session.secret.clone())
    }

    /// Ends a session.
    pub(super) async fn end(&self, secret: &str) -> Result<()> {
        self.open.remove(&name_of(secret)).await?;
        Ok(())
    }

    /// The secret that signs forms; the same on every server.
    pub(super) async fn form_secret(&self) -> Result<[u8; BYTES], Problem> {
        let new = URL_SAFE_NO_PAD.encode(random()?);
        let kept = kept(&*self.store, SECRET_FOLDER, FORM_SECRET, new).await?;
        let bytes = URL_SAFE_NO_PAD.decode(kept).ok();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| {
            let text = format!("the document {SECRET_FOLDER}/{FORM_SECRET} cannot be read");
            Problem::unavailable(text)
        })
    }

    /// Removes expired sessions, and the oldest ones if there are too many.
    async fn make_room(&self) -> Result<()> {
        self.open.refresh().await?;
        let open = self.open.get();
        let mut sessions: Vec<_> = open.0.iter().collect();
        sessions.sort_by_key(|(_, session)| session.until);
        let now = self.now();
        let over = sessions.partition_point(|(_, session)| session.until <= now);
        let too_many = (sessions.len() + 1).saturating_sub(MAX_SESSIONS);
        for (name, _) in sessions.into_iter().take(over.max(too_many)) {
            self.store.remove_document(FOLDER, name).await?;
        }
        Ok(())
    }

    fn now(&self) -> i64 {
        self.clock.now().as_millis()
    }
}

fn random() -> Result<[u8; BYTES], Problem> {
    let mut bytes = [0; BYTES];
    let filled = getrandom::fill(&mut bytes);
    let no_random =
        |error| Problem::unavailable(format!("the system has no random numbers: {error}"));
    filled.map(|()| bytes).map_err(no_random)
}

fn name_of(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(secret.as_bytes()))
}

#[cfg(test)]
mod tests {
    use delayq_plugin::store::MemoryStore;
    use delayq_service::access::{NewToken, Scope};
    use delayq_testing::VirtualClock;

    use super::*;

    const LASTS: Duration = Duration::from_mins(1);

    /// The sessions of two servers on one store, and their tokens.
    struct TwoServers {
        clock: Arc<VirtualClock>,
        tokens: Arc<TokenBook>,
        sessions: [Sessions; 2],
    }

    impl TwoServers {
        async fn open() -> Self {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
            let clock = Arc::new(VirtualClock::default());
            let open = || Sessions::new(Arc::clone(&store), Arc::clone(&clock) as _, LASTS);
            let tokens = TokenBook::open(Arc::clone(&store), Arc::clone(&clock) as _);
            Self {
                tokens: tokens.await.unwrap(),
                sessions: [open(), open()],
                clock,
            }
        }

        async fn token(&self, name: &str) -> Admission {
            let new = NewToken {
                name: name.to_owned(),
                scopes: [Scope::Read].into(),
                namespace: "*".to_owned(),
                types: Vec::new(),
                expires_at: None,
                rate: None,
                max_message_bytes: None,
                max_pending: None,
            };
            let (_, text) = self.tokens.create(new).await.unwrap();
            self.tokens.admit(&text).unwrap()
        }

        /// The name of the token that each server knows for a session.
        async fn names(&self, session: &str) -> [Option<String>; 2] {
            let [one, other] = &self.sessions;
            let name = async |server: &Sessions| {
                let admitted = server.admission(session, &self.tokens).await.unwrap();
                admitted.map(|admitted| admitted.token.name.clone())
            };
            [name(one).await, name(other).await]
        }
    }

    fn both(name: &str) -> [Option<String>; 2] {
        [Some(name.to_owned()), Some(name.to_owned())]
    }

    #[tokio::test]
    async fn a_session_begins_and_ends_on_every_server() {
        let servers = TwoServers::open().await;
        let [one, other] = &servers.sessions;
        let a = one.begin(&servers.token("a").await).await.unwrap();
        let b = other.begin(&servers.token("b").await).await.unwrap();
        assert_eq!(servers.names(&a).await, both("a"));
        assert_eq!(servers.names(&b).await, both("b"));
        one.end(&a).await.unwrap();
        assert_eq!(servers.names(&a).await, [None, None], "ended elsewhere");
        servers.clock.advance(LASTS);
        assert_eq!(servers.names(&b).await, [None, None], "over");
        let secret = one.form_secret().await.unwrap();
        assert_eq!(secret, other.form_secret().await.unwrap());
    }

    #[tokio::test]
    async fn a_session_lasts_no_longer_than_the_secret_that_began_it() {
        let servers = TwoServers::open().await;
        let token = servers.token("a").await;
        let id = &token.token.id;
        let first = servers.sessions[0].begin(&token).await.unwrap();
        let overlap = LASTS / 2;
        let rotated = servers.tokens.rotate(id, overlap).await.unwrap();
        let (_, text) = rotated.unwrap();
        let token = servers.tokens.admit(&text).unwrap();
        let second = servers.sessions[1].begin(&token).await.unwrap();
        assert_eq!(servers.names(&first).await, both("a"), "overlap");
        servers.clock.advance(overlap);
        assert_eq!(servers.names(&first).await, [None, None]);
        assert_eq!(servers.names(&second).await, both("a"));
        let at_once = Duration::ZERO;
        servers.tokens.rotate(id, at_once).await.unwrap().unwrap();
        assert_eq!(servers.names(&second).await, [None, None]);
    }

    #[tokio::test]
    async fn there_are_no_more_than_a_thousand_and_none_that_is_over() {
        let servers = TwoServers::open().await;
        let (server, token) = (&servers.sessions[0], servers.token("a").await);
        let first = server.begin(&token).await.unwrap();
        servers.clock.advance(Duration::from_millis(1));
        let more = StoredSession {
            v: 1,
            token: token.token.id.clone(),
            secret: token.secret.clone(),
            until: server.now() + 60_000,
        };
        let more = serde_json::to_string(&more).unwrap();
        for n in 1..MAX_SESSIONS {
            let name = n.to_string();
            let written = server
                .store
                .write_document(FOLDER, &name, &more, Expected::Any);
            let _ = written.await.unwrap();
        }
        server.begin(&token).await.unwrap();
        assert_eq!(servers.names(&first).await, [None, None]);
        assert_eq!(server.open.get().0.len(), MAX_SESSIONS);
        servers.clock.advance(LASTS);
        server.begin(&token).await.unwrap();
        assert_eq!(server.open.get().0.len(), 1);
    }
}
