//! Secrets of tokens. A secret is shown once; only its hash is kept.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Random bytes of a secret: 256 bits.
const BYTES: usize = 32;
/// The longest id, and the shortest secret, of a token that somebody made up.
const MAX_ID_BYTES: usize = 40;
const MIN_SECRET_BYTES: usize = 32;
/// The prefix of every token, so that secret scanners find it in source code.
const PREFIX: &str = "dq";

/// A token as its user holds it: `dq_ID_SECRET`.
#[derive(Debug)]
pub(super) struct Presented<'a> {
    pub(super) id: &'a str,
    secret: &'a str,
}

impl<'a> Presented<'a> {
    /// Reads a token; `None` for a text of another form.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        let (prefix, rest) = text.split_once('_')?;
        let (id, secret) = rest.split_once('_')?;
        let is_token = prefix == PREFIX && !id.is_empty() && !secret.is_empty();
        is_token.then_some(Self { id, secret })
    }

    /// Reads a token that somebody made up. Its secret must be too long to be guessed.
    ///
    /// # Errors
    /// The form that a token must have.
    pub(super) fn given(text: &'a str) -> Result<Self, &'static str> {
        let is_id =
            |id: &str| id.len() <= MAX_ID_BYTES && id.bytes().all(|c| c.is_ascii_alphanumeric());
        let is_secret = |secret: &str| {
            secret.len() >= MIN_SECRET_BYTES && secret.bytes().all(|c| c.is_ascii_graphic())
        };
        let read = Self::read(text).filter(|one| is_id(one.id));
        read.filter(|one| is_secret(one.secret)).ok_or(
            "a token is dq_ID_SECRET: an id of letters and digits, and a secret of at least 32 \
             characters without blanks, such as dq_first_ and the output of `openssl rand -hex 32`",
        )
    }

    /// The hash of the secret, to be stored.
    pub(super) fn stored_hash(&self) -> String {
        hash_of(self.secret)
    }

    /// The hash of the secret.
    pub(super) fn hash(&self) -> SecretHash {
        SecretHash(hash_of(self.secret))
    }
}

/// The hash of a secret. It may be stored, as the secret cannot be found from it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SecretHash(String);

impl SecretHash {
    /// Compares in constant time.
    pub fn is(&self, hash: &str) -> bool {
        self.0.as_bytes().ct_eq(hash.as_bytes()).into()
    }
}

impl fmt::Display for Presented<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}_{}_{}", self.id, self.secret)
    }
}

/// Makes a new secret for the token `id`. Returns the text of the token, and the hash of the
/// secret.
///
/// # Errors
/// The system has no random numbers.
pub(super) fn generate(id: &str) -> Result<(String, String), getrandom::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)?;
    let secret = URL_SAFE_NO_PAD.encode(bytes);
    let hash = hash_of(&secret);
    Ok((format!("{PREFIX}_{id}_{secret}"), hash))
}

/// Refuses an id and a hash that no token can have.
///
/// # Errors
/// Their forms.
pub(super) fn check_hashed(id: &str, hash: &str) -> Result<(), &'static str> {
    let is_word = |id: &str| id.bytes().all(|c| c.is_ascii_alphanumeric());
    if id.is_empty() || id.len() > MAX_ID_BYTES || !is_word(id) {
        return Err("id: 1 to 40 letters and digits, as they are in dq_ID_SECRET");
    }
    match URL_SAFE_NO_PAD.decode(hash) {
        Ok(bytes) if bytes.len() == BYTES => Ok(()),
        _ => Err(
            "hash: the SHA-256 of the SECRET in dq_ID_SECRET, in base64 for URLs without padding",
        ),
    }
}

/// SHA-256 without salt or rounds, because a secret of 256 random bits cannot be guessed.
fn hash_of(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(secret.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_secret_alone() {
        let (text, hash) = generate("01ABC").unwrap();
        let token = Presented::read(&text).unwrap();
        assert!(token.id == "01ABC" && token.hash().is(&hash));
        assert!(text.len() == "dq_01ABC_".len() + 43);
        let (_, other) = generate("01ABC").unwrap();
        assert!(!token.hash().is(&other) && !token.hash().is(""));
        for bad in ["", "dq", "dq_01ABC", "dq_01ABC_", "dq__x", "bearer_a_b"] {
            assert!(Presented::read(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_token_that_is_given_has_a_secret_that_nobody_guesses() {
        let secret = "0123456789abcdef0123456789abcdef";
        assert!(Presented::given(&format!("dq_first_{secret}")).is_ok());
        for bad in [
            "",
            secret,
            "dq_first_secret",
            &format!("dq_fi-rst_{secret}"),
            &format!("dq_first_{secret} "),
        ] {
            assert!(Presented::given(bad).is_err(), "{bad}");
        }
    }
}
