//! What the fuzz targets share: inputs that get past the first check.
//!
//! The targets themselves are tests, `mod fuzz` beside the code that they attack, which is private; see
//! `docs/fuzzing.md`. Bytes alone rarely spell `redis://` or a date, so a target hands a list of words to
//! [`spell`], or lets [`damage`] loose on something valid.

pub use bolero;

/// Text that `bytes` spell: half of their values are one of `words` each, the others are characters.
#[must_use]
pub fn spell(bytes: &[u8], words: &[&str]) -> String {
    let mut text = String::with_capacity(bytes.len() * 4);
    for byte in bytes {
        match words.get(usize::from(*byte & 0x7f) % words.len().max(1)) {
            Some(word) if *byte >= 0x80 => text.push_str(word),
            _ => text.push(char::from(*byte)),
        }
    }
    text
}

/// One accident that happens to bytes: where (in 65536ths of the length), which one, and a byte for it.
pub type Accident = (u16, u8, u8);

/// Lets accidents happen to `bytes`: a bit flips, a byte is replaced, added or lost, or the end is lost.
pub fn damage(bytes: &mut Vec<u8>, accidents: &[Accident]) {
    for (place, kind, byte) in accidents {
        let at = usize::from(*place) * bytes.len() / 65_536;
        match (kind % 16, bytes.get_mut(at)) {
            (0, _) => bytes.truncate(at),
            (1..=3, _) => bytes.insert(at, *byte),
            (4..=6, Some(_)) => drop(bytes.remove(at)),
            (7..=10, Some(old)) => *old ^= 1 << (byte % 8),
            (_, Some(old)) => *old = *byte,
            (_, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_spell_characters_and_words() {
        assert_eq!(spell(b"a\x80b\x81\x82", &["one", "two"]), "aonebtwoone");
        assert_eq!(spell(b"\x80", &[]), "\u{80}");
    }

    #[test]
    fn every_accident_happens() {
        let after = |kind, byte| {
            let mut bytes = b"abcd".to_vec();
            damage(&mut bytes, &[(32_768, kind, byte)]);
            bytes
        };
        assert_eq!(after(0, 0), b"ab");
        assert_eq!(after(1, b'x'), b"abxcd");
        assert_eq!(after(4, 0), b"abd");
        assert_eq!(after(7, 1), b"abad");
        assert_eq!(after(11, b'x'), b"abxd");
        damage(&mut Vec::new(), &[(9, 5, 0), (9, 8, 0)]);
    }
}
