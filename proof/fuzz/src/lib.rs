//! What the fuzz targets share: inputs that get past the first check.
//!
//! The targets are the tests of this package; they attack what is public, see `docs/fuzzing.md`.
//! What is private has properties beside it. Bytes alone rarely spell `redis://` or a date, so a
//! target hands a list of words to [`spell`], or lets [`damage`] loose on something valid. What is
//! short is valid more often, and is made faster, so [`bytes`], [`text`] and [`list`] are short but
//! for one in a thousand.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use bolero::generator::bolero_generator::Driver;
use bolero::{TypeGenerator, TypeGeneratorWithParams, ValueGenerator, produce};

mod samples;

pub use samples::{again, damaged, each_damaged, is_read_the_same};

/// The longest that anything is made: all that the engine draws for one input unless told
/// otherwise.
pub const LONGEST: usize = 4_096;

/// What is not ASCII, at the edges of UTF-8 and of JSON.
const FOREIGN: [&str; 8] = [
    "\u{80}",
    "\u{e4}",
    "\u{7ff}",
    "\u{800}",
    "\u{2028}",
    "\u{fffd}",
    "\u{1f600}",
    "\u{10ffff}",
];

/// A length of at most `usual`, but for one in a thousand, which is at most [`LONGEST`].
#[derive(Clone, Copy, Debug)]
struct Length {
    usual: usize,
}

impl ValueGenerator for Length {
    type Output = usize;

    fn generate<D: Driver>(&self, driver: &mut D) -> Option<usize> {
        let die = driver.gen_u16(Bound::Included(&0), Bound::Included(&999))?;
        let longest = if die == 999 { LONGEST } else { self.usual };
        driver.gen_usize(Bound::Included(&0), Bound::Included(&longest))
    }
}

/// A list of at most `usual` of `items`, one in a thousand longer.
pub fn list<Items>(usual: usize, items: Items) -> impl ValueGenerator<Output = Vec<Items::Output>>
where
    Items: ValueGenerator<Output: TypeGenerator>,
{
    let lists = Vec::<Items::Output>::gen_with();
    lists.values(items).len(Length { usual })
}

/// At most `usual` bytes, one in a thousand longer.
#[must_use]
pub fn bytes(usual: usize) -> impl ValueGenerator<Output = Vec<u8>> {
    list(usual, produce::<u8>())
}

/// At most `usual` bytes that [`spell`] words alone, one in a thousand longer.
#[must_use]
pub fn words(usual: usize) -> impl ValueGenerator<Output = Vec<u8>> {
    bytes(usual).map_gen(|bytes| bytes.iter().map(|byte| byte | 0x80).collect())
}

/// At most `usual` characters, one in a thousand longer: half are ASCII, with its quotes and
/// controls.
#[must_use]
pub fn text(usual: usize) -> impl ValueGenerator<Output = String> {
    bytes(usual).map_gen(|bytes| spell(&bytes, &FOREIGN))
}

/// Counts the inputs that get past the first check of what a target attacks, and says so at the
/// end.
///
/// A target of which too few do attacks nothing: it fails.
#[derive(Debug)]
pub struct Reach {
    least_percent: u64,
    inputs: AtomicU64,
    past: AtomicU64,
}

impl Reach {
    /// At least `percent` of the inputs are to get past the first check.
    #[must_use]
    pub const fn at_least(percent: u64) -> Self {
        Self {
            least_percent: percent,
            inputs: AtomicU64::new(0),
            past: AtomicU64::new(0),
        }
    }

    /// An input got past the first check, or did not.
    pub fn count(&self, is_past: bool) {
        self.inputs.fetch_add(1, Ordering::Relaxed);
        self.past.fetch_add(is_past.into(), Ordering::Relaxed);
    }
}

impl Drop for Reach {
    fn drop(&mut self) {
        let (inputs, past) = (*self.inputs.get_mut(), *self.past.get_mut());
        // One input that is run again says nothing of all others.
        if std::thread::panicking() || inputs < 1_000 {
            return;
        }
        #[expect(
            clippy::print_stdout,
            reason = "what a run did, as bolero prints its length"
        )]
        {
            println!("{past} of {inputs} inputs got past the first check");
        }
        let least = self.least_percent;
        assert!(
            past * 100 >= inputs * least,
            "{past} of {inputs} inputs are less than {least} %"
        );
    }
}

/// Text that `bytes` spell: half of their values are one of `words` each, the others are
/// characters.
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

/// One accident that happens to bytes: where (in 65536ths of the length), which one, and a byte for
/// it.
pub type Accident = (u16, u8, u8);

/// Lets accidents happen to `bytes`: a bit flips, a byte is replaced, added or lost, or the end is
/// lost.
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
    use std::collections::HashSet;

    use bolero::check;

    use super::*;

    #[test]
    fn what_is_made_is_short_and_now_and_then_long() {
        let mut lengths = Vec::new();
        let made = std::panic::AssertUnwindSafe(std::cell::RefCell::new(&mut lengths));
        check!()
            .with_iterations(50_000)
            .with_generator(bytes(8))
            .for_each(|bytes| made.borrow_mut().push(bytes.len()));
        let usual: HashSet<_> = lengths.iter().filter(|length| **length <= 8).collect();
        let long = lengths.iter().filter(|length| **length > 8).count();
        assert_eq!(usual.len(), 9);
        assert!((10..200).contains(&long), "{long} of 50000");
        assert!(lengths.iter().any(|length| *length > LONGEST / 2));
        assert!(lengths.iter().all(|length| *length <= LONGEST));
    }

    #[test]
    #[should_panic(expected = "599 of 2000 inputs are less than 30 %")]
    fn a_target_that_attacks_nothing_fails() {
        let reach = Reach::at_least(30);
        (0..2_000).for_each(|n| reach.count(n < 599));
    }

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
