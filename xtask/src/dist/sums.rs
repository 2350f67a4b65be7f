//! Sums of files, in hexadecimal digits.

use std::fmt::Write as _;

use md5::Md5;
use sha2::{Digest, Sha256};

/// SHA-256.
pub(crate) fn sha256(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

/// MD5, which Debian has for accidents, not for forgeries.
pub(crate) fn md5(content: &[u8]) -> String {
    hex(&Md5::digest(content))
}

fn hex(sum: &[u8]) -> String {
    sum.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_sums_are_those_of_the_standards() {
        assert!(super::sha256(b"abc").starts_with("ba7816bf8f01cfea"));
        assert!(super::md5(b"abc").starts_with("900150983cd24fb0"));
    }
}
