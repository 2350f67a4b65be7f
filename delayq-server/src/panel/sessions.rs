//! Who is signed in.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// Most sessions. A further one ends the oldest.
const MAX_SESSIONS: usize = 1_000;
/// Random bytes of a session: 256 bits.
const BYTES: usize = 32;

/// The sessions of this process. They end with it.
#[derive(Debug)]
pub(super) struct Sessions {
    lasts: Duration,
    /// By the hash of the secret, so that the time of a search says nothing about a secret.
    open: Mutex<HashMap<[u8; 32], Session>>,
}

#[derive(Debug)]
struct Session {
    /// The id of the token.
    token: String,
    until: Instant,
}

impl Sessions {
    pub(super) fn new(lasts: Duration) -> Self {
        Self {
            lasts,
            open: Mutex::default(),
        }
    }

    /// How long a session lasts.
    pub(super) fn lasts(&self) -> Duration {
        self.lasts
    }

    /// Begins a session of a token; its secret.
    pub(super) fn begin(&self, token: &str) -> Result<String, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        let secret = URL_SAFE_NO_PAD.encode(bytes);
        let now = Instant::now();
        let session = Session {
            token: token.to_owned(),
            until: now + self.lasts,
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, session| now < session.until);
        if open.len() >= MAX_SESSIONS {
            let oldest = open.iter().min_by_key(|(_, session)| session.until);
            let oldest = oldest.map(|(key, _)| *key);
            oldest.and_then(|key| open.remove(&key));
        }
        open.insert(key(&secret), session);
        Ok(secret)
    }

    /// The id of the token of a session.
    pub(super) fn token(&self, secret: &str) -> Option<String> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let session = open.get(&key(secret))?;
        (Instant::now() < session.until).then(|| session.token.clone())
    }

    /// Ends a session.
    pub(super) fn end(&self, secret: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(&key(secret));
    }
}

fn key(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_by_itself_and_by_a_logout() {
        let sessions = Sessions::new(Duration::from_mins(1));
        let (one, other) = (sessions.begin("a").unwrap(), sessions.begin("b").unwrap());
        assert_eq!(sessions.token(&one).as_deref(), Some("a"));
        sessions.end(&one);
        assert_eq!(sessions.token(&one), None);
        assert_eq!(sessions.token(&other).as_deref(), Some("b"));
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(sessions.token(&other), None);
    }

    #[test]
    fn there_are_no_more_than_a_thousand() {
        let sessions = Sessions::new(Duration::from_mins(1));
        let first = sessions.begin("first").unwrap();
        for _ in 0..MAX_SESSIONS {
            sessions.begin("more").unwrap();
        }
        assert_eq!(sessions.token(&first), None);
        assert_eq!(sessions.open.lock().unwrap().len(), MAX_SESSIONS);
    }
}
