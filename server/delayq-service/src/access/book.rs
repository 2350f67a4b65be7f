//! All tokens of a server: kept in the store, with a copy in memory that is at most a second old.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use delayq_core::documents::{Document, Expected, WriteOutcome};
use delayq_plugin::{Clock, Error, Result, Store, Timestamp};
use tracing::{error, warn};

use super::secret::{Presented, SecretHash, generate};
use super::token::EarlierSecret;
use super::{Scope, Token};
use crate::folder_cache::{Contents, FolderCache};
use crate::server_metric::TOKENS;

/// The folder of documents that holds the tokens.
const FOLDER: &str = "tokens";

/// How often a change is tried while others change the same token.
const MAX_TRIES: usize = 20;

/// The states of tokens in the metric.
const VALID: &str = "valid";
const ENDING: &str = "ending";
const ENDED: &str = "ended";
/// A token for longer than this counts as ending in its last days.
const LONG_MS: i64 = 30 * DAY_MS;
const SOON_MS: i64 = 7 * DAY_MS;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// The properties of a new token.
#[derive(Clone, Debug)]
pub struct NewToken {
    pub name: String,
    pub scopes: BTreeSet<Scope>,
    pub namespace: String,
    pub types: Vec<String>,
    pub expires_at: Option<Timestamp>,
    pub rate: Option<u32>,
    pub max_message_bytes: Option<usize>,
    pub max_pending: Option<u64>,
}

impl NewToken {
    /// The properties of a stored token.
    pub fn of(token: &Token) -> Self {
        Self {
            name: token.name.clone(),
            scopes: token.scopes.clone(),
            namespace: token.namespace.clone(),
            types: token.types.clone(),
            expires_at: token.expires_at.map(Timestamp::from_millis),
            rate: token.rate,
            max_message_bytes: token.max_message_bytes,
            max_pending: token.max_pending,
        }
    }
}

/// A token, and the secret that its user has shown. What is admitted by a secret ends with it.
#[derive(Clone, Debug)]
pub struct Admission {
    pub token: Arc<Token>,
    pub secret: SecretHash,
}

/// The tokens of all servers on one store. Every server refuses a revoked token within a second.
#[derive(Debug)]
pub struct TokenBook {
    clock: Arc<dyn Clock>,
    tokens: FolderCache<Tokens>,
}

/// Tokens by their ids, each with the revision of its document.
#[derive(Debug, Default)]
struct Tokens(HashMap<String, (Arc<Token>, u64)>);

impl Contents for Tokens {
    fn read(documents: Vec<Document>) -> Result<Self> {
        let mut tokens = HashMap::new();
        for document in documents {
            let token: Result<Token, _> = serde_json::from_str(&document.body);
            match token {
                Ok(token) if token.v <= Token::VERSION => {
                    tokens.insert(document.name, (Arc::new(token), document.revision));
                }
                Ok(_) => warn!(
                    id = document.name,
                    "a newer release wrote this token; this server refuses it"
                ),
                Err(error) => {
                    error!(id = document.name, %error, "cannot read a token; it is refused");
                }
            }
        }
        Ok(Self(tokens))
    }
}

impl TokenBook {
    /// Opens the book and reads all tokens from the store.
    pub async fn open(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        let tokens = FolderCache::new(store, FOLDER).staying();
        tokens.read().await?;
        Ok(Arc::new(Self { clock, tokens }))
    }

    /// Follows changes by other servers; never returns.
    pub async fn follow(self: Arc<Self>) {
        self.tokens.follow().await;
    }

    /// The reason why no token is known any more, if the store has lost them.
    pub fn loss(&self) -> Option<&'static str> {
        self.tokens.is_lost().then_some(
            "the store of the server has lost its data, tokens included: it was emptied, or \
             another one took its place. Restore it, or create tokens with `delayq-server token \
             create`",
        )
    }

    fn get(&self, id: &str) -> Option<Arc<Token>> {
        let tokens = self.tokens.get();
        tokens.0.get(id).map(|(token, _)| Arc::clone(token))
    }

    /// Admits the token with this text, if it is valid now.
    pub fn admit(&self, text: &str) -> Option<Admission> {
        let presented = Presented::read(text)?;
        self.admit_by(presented.id, presented.hash())
    }

    /// The id in the text of a token, if there is a token with this id.
    pub fn id_of(&self, text: &str) -> Option<String> {
        let presented = Presented::read(text)?;
        self.get(presented.id).map(|token| token.id.clone())
    }

    /// Admits the token with this id and this secret, if both are valid now.
    pub fn admit_by(&self, id: &str, secret: SecretHash) -> Option<Admission> {
        let token = self.get(id)?;
        let is_admitted = token.admits(&secret, self.clock.now());
        is_admitted.then_some(Admission { token, secret })
    }

    /// Returns true while the secret that was admitted is valid. It ends with its token, and with a
    /// rotation.
    pub fn is_valid(&self, admitted: &Admission) -> bool {
        let present = self.get(&admitted.token.id);
        present.is_some_and(|present| present.admits(&admitted.secret, self.clock.now()))
    }

    /// Sets the metric of the tokens, by their state.
    pub(crate) fn measure(&self) {
        let now = self.clock.now().as_millis();
        let states = self.tokens.get();
        let states = states.0.values().map(|(token, _)| state(token, now));
        let mut counts = [(VALID, 0_u32), (ENDING, 0), (ENDED, 0)];
        for state in states {
            let counted = counts.iter_mut().find(|(name, _)| *name == state);
            if let Some((_, count)) = counted {
                *count += 1;
            }
        }
        for (state, count) in counts {
            metrics::gauge!(TOKENS, "state" => state).set(count);
        }
    }

    /// All tokens, sorted by id.
    pub fn all(&self) -> Vec<Arc<Token>> {
        let tokens = self.tokens.get();
        let tokens = tokens.0.values().map(|(token, _)| Arc::clone(token));
        let mut tokens: Vec<_> = tokens.collect();
        tokens.sort_by(|one, other| one.id.cmp(&other.id));
        tokens
    }

    /// Creates a token. Returns its text, which is never shown again.
    pub async fn create(&self, new: NewToken) -> Result<(Token, String)> {
        let id = ulid::Ulid::generate().to_string();
        let (text, hash) = generate(&id).map_err(no_random)?;
        let token = self.token(new, id, hash);
        self.write(&token, Expected::Absent).await?;
        Ok((token, text))
    }

    /// Refuses a text that cannot be a token.
    ///
    /// # Errors
    /// The form of a token.
    pub fn check_given(text: &str) -> std::result::Result<(), &'static str> {
        Presented::given(text).map(drop)
    }

    /// Creates a token with a text that somebody made up. Another server may have done so at the
    /// same time.
    ///
    /// # Errors
    /// The text has another form than a token; a store error.
    pub async fn create_given(&self, new: NewToken, text: &str) -> Result<()> {
        let given = Presented::given(text).map_err(refused)?;
        let token = self.token(new, given.id.to_owned(), given.stored_hash());
        let written = self.write(&token, Expected::Absent).await;
        if written.is_err() {
            self.tokens.read().await?;
            if self.admit(text).is_some() {
                return Ok(());
            }
        }
        written
    }

    /// The text of a new token, which nobody knows until it is created.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new_text() -> Result<String> {
        let id = ulid::Ulid::generate().to_string();
        let (text, _) = generate(&id).map_err(no_random)?;
        Ok(text)
    }

    /// The id in a text that somebody made up, and the hash of its secret.
    ///
    /// # Errors
    /// The form of a token.
    pub fn hash_given(text: &str) -> std::result::Result<(String, String), &'static str> {
        let given = Presented::given(text)?;
        Ok((given.id.to_owned(), given.stored_hash()))
    }

    /// Refuses an id and a hash that no token can have.
    ///
    /// # Errors
    /// Their forms.
    pub fn check_hashed(id: &str, hash: &str) -> std::result::Result<(), &'static str> {
        super::secret::check_hashed(id, hash)
    }

    /// Creates a token of whose secret only the hash is known.
    ///
    /// # Errors
    /// Another token has the id; a store error.
    pub async fn create_hashed(&self, new: NewToken, id: &str, hash: String) -> Result<()> {
        let token = self.token(new, id.to_owned(), hash);
        self.write(&token, Expected::Absent).await
    }

    /// Changes the properties of a token, and its secret if `hash` is that of another one. Returns
    /// false if there is no such token.
    ///
    /// # Errors
    /// Others change it again and again; a store error.
    pub async fn change(&self, id: &str, new: NewToken, hash: Option<String>) -> Result<bool> {
        let revised = self.revise(id, |known| {
            let (hash, earlier) = match &hash {
                Some(hash) => (hash.clone(), None),
                None => (known.hash.clone(), known.earlier.clone()),
            };
            Token {
                created_at: known.created_at,
                earlier,
                ..self.token(new.clone(), id.to_owned(), hash)
            }
        });
        Ok(revised.await?.is_some())
    }

    /// Stores what `made` makes of a token, unless somebody else has revoked or changed it since it
    /// was read: then it is read again. Returns `None` if there is no such token.
    async fn revise(
        &self,
        id: &str,
        made: impl Fn(&Token) -> Token + Send,
    ) -> Result<Option<Token>> {
        for _ in 0..MAX_TRIES {
            self.tokens.read().await?;
            let Some((known, revision)) = self.tokens.get().0.get(id).cloned() else {
                return Ok(None);
            };
            let (token, expected) = (made(&known), Expected::Revision(revision));
            if let WriteOutcome::Written(_) = self.tokens.write(id, &token, expected).await? {
                return Ok(Some(token));
            }
        }
        Err(refused("others change it at the same time: try again"))
    }

    fn token(&self, new: NewToken, id: String, hash: String) -> Token {
        Token {
            v: Token::VERSION,
            id,
            name: new.name,
            scopes: new.scopes,
            namespace: new.namespace,
            types: new.types,
            created_at: self.clock.now().as_millis(),
            expires_at: new.expires_at.map(Timestamp::as_millis),
            rate: new.rate,
            max_message_bytes: new.max_message_bytes,
            max_pending: new.max_pending,
            hash,
            earlier: None,
        }
    }

    /// Gives a token a new secret. The present secret stays valid for `overlap`. Returns `None` if
    /// there is no such token.
    ///
    /// # Errors
    /// The system has no random numbers, others change it again and again; a store error.
    pub async fn rotate(&self, id: &str, overlap: Duration) -> Result<Option<(Token, String)>> {
        let (text, hash) = generate(id).map_err(no_random)?;
        let revised = self.revise(id, |known| {
            let mut token = known.clone();
            token.earlier = Some(EarlierSecret {
                hash: std::mem::replace(&mut token.hash, hash.clone()),
                until: self.clock.now().plus(overlap).as_millis(),
            });
            token
        });
        Ok(revised.await?.map(|token| (token, text)))
    }

    /// Revokes a token; returns true if it existed. Every server refuses it within a second.
    pub async fn revoke(&self, id: &str) -> Result<bool> {
        self.tokens.remove(id).await
    }

    async fn write(&self, token: &Token, expected: Expected) -> Result<()> {
        match self.tokens.write(&token.id, token, expected).await? {
            WriteOutcome::Written(_) => Ok(()),
            WriteOutcome::Conflict(_) => Err(refused("another one has this id: try again")),
            WriteOutcome::FolderFull => Err(refused("there are 10,000: revoke some")),
        }
    }
}

/// The state of a token as a metric label. A token that was made for a short time does not count as
/// ending: whoever made it knows.
fn state(token: &Token, now: i64) -> &'static str {
    let Some(end) = token.expires_at else {
        return VALID;
    };
    let is_long = end.saturating_sub(token.created_at) > LONG_MS;
    match end.saturating_sub(now) {
        ..=0 => ENDED,
        left if is_long && left < SOON_MS => ENDING,
        _ => VALID,
    }
}

fn refused(reason: &str) -> Error {
    Error::InvalidInput {
        what: "token",
        reason: reason.to_owned(),
    }
}

fn no_random(error: getrandom::Error) -> Error {
    refused(&format!("the system has no random numbers: {error}"))
}

#[cfg(test)]
mod tests;
