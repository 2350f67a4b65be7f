//! Secrets of tokens. A secret is shown once; only its hash is kept.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Random bytes of a secret: 256 bits.
const BYTES: usize = 32;
/// The prefix of every token, so that secret scanners find it in source code.
const PREFIX: &str = "dq";

/// A token as its user holds it: `dq_ID_SECRET`.
#[derive(Debug)]
pub struct Presented<'a> {
    pub id: &'a str,
    secret: &'a str,
}

impl<'a> Presented<'a> {
    /// Reads a token; `None` for a text of another form.
    pub fn read(text: &'a str) -> Option<Self> {
        let (prefix, rest) = text.split_once('_')?;
        let (id, secret) = rest.split_once('_')?;
        let is_token = prefix == PREFIX && !id.is_empty() && !secret.is_empty();
        is_token.then_some(Self { id, secret })
    }

    /// Returns true if the secret has this hash. Compares in constant time.
    pub fn has_hash(&self, hash: &str) -> bool {
        let own = hash_of(self.secret);
        own.as_bytes().ct_eq(hash.as_bytes()).into()
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
        assert!(token.id == "01ABC" && token.has_hash(&hash));
        assert!(text.len() == "dq_01ABC_".len() + 43);
        let (_, other) = generate("01ABC").unwrap();
        assert!(!token.has_hash(&other) && !token.has_hash(""));
        for bad in ["", "dq", "dq_01ABC", "dq_01ABC_", "dq__x", "bearer_a_b"] {
            assert!(Presented::read(bad).is_none(), "{bad}");
        }
    }
}
