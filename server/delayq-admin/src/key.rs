//! The key that signs forms, so that no other site can submit one.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::said::hex;
use crate::viewer::Viewer;

/// A secret of this process, or one that the application shares between several.
#[derive(Clone)]
pub(crate) struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// A random key.
    ///
    /// # Panics
    /// If the operating system has no random numbers; nothing else would be safe then either.
    pub(crate) fn random() -> Self {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        Self(bytes)
    }

    pub(crate) fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The token in this viewer's forms, as 64 hexadecimal digits.
    pub(crate) fn token(&self, viewer: &Viewer) -> String {
        let tag = self.mac(viewer).map(|mac| mac.finalize().into_bytes());
        let tag = tag.as_ref().map_or(&[][..], |tag| &tag[..]);
        hex(tag)
    }

    /// Returns true if the token is this viewer's. Takes the same time for every wrong token.
    pub(crate) fn has_signed(&self, viewer: &Viewer, token: &str) -> bool {
        let bytes = token.as_bytes().chunks(2).map(|two| {
            let digits = str::from_utf8(two).ok().filter(|two| two.len() == 2)?;
            u8::from_str_radix(digits, 16).ok()
        });
        let bytes: Option<Vec<u8>> = bytes.collect();
        let (Some(bytes), Some(mac)) = (bytes, self.mac(viewer)) else {
            return false;
        };
        mac.verify_slice(&bytes).is_ok()
    }

    fn mac(&self, viewer: &Viewer) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(b"delayq admin form\0");
        mac.update(viewer.role.as_str().as_bytes());
        mac.update(b"\0");
        mac.update(viewer.name.as_bytes());
        Some(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viewer::Role;

    #[test]
    fn a_token_belongs_to_one_viewer_in_one_role_and_one_process() {
        let (key, ann) = (Key::random(), Viewer::new("ann", Role::Operator));
        let token = key.token(&ann);
        assert!(token.len() == 64 && key.has_signed(&ann, &token));
        assert!(!Key::random().has_signed(&ann, &token));
        for other in [
            Viewer::new("bob", Role::Operator),
            Viewer::new("ann", Role::Admin),
        ] {
            assert!(!key.has_signed(&other, &token));
        }
        for wrong in [
            "",
            "00",
            "zz",
            &token[..62],
            &token.replace(&token[..2], "é"),
        ] {
            assert!(!key.has_signed(&ann, wrong), "{wrong}");
        }
    }
}
