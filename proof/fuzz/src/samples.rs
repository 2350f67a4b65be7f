//! Valid samples, after accidents, and what is read as it was written.

use std::panic::RefUnwindSafe;

use bolero::{check, produce};

use crate::{Accident, Reach, damage, list};

/// Reads what was written again, which has to be the same; whether it is understood.
///
/// # Panics
/// If it is another one.
pub fn again(read: impl Fn(&str) -> Option<String>, text: &str) -> bool {
    let written = read(text);
    if let Some(written) = &written {
        assert_eq!(read(written).as_ref(), Some(written), "of {text:?}");
    }
    written.is_some()
}

/// Something valid, after accidents.
#[must_use]
pub fn damaged(valid: &str, accidents: &[Accident]) -> Vec<u8> {
    let mut bytes = valid.as_bytes().to_vec();
    damage(&mut bytes, accidents);
    bytes
}

/// Reads samples after accidents; `read` says whether it understood one.
///
/// # Panics
/// If it understood less than one in twenty.
pub fn each_damaged(samples: &[&str], read: impl Fn(&[u8]) -> bool + RefUnwindSafe) {
    let reach = Reach::at_least(5);
    let accidents = list(3, produce::<Accident>());
    let inputs = (produce::<u8>(), accidents);
    check!()
        .with_generator(inputs)
        .for_each(|(which, accidents)| {
            let sample = samples.iter().cycle().nth(usize::from(*which));
            let sample = sample.expect("no samples");
            reach.count(read(&damaged(sample, accidents)));
        });
}

/// Whether it is understood, and then read as what it is written as.
///
/// # Panics
/// If it is another one.
pub fn is_read_the_same(text: &[u8], read: impl Fn(&[u8]) -> Option<String>) -> bool {
    let written = read(text);
    if let Some(written) = &written {
        assert_eq!(read(written.as_bytes()).as_ref(), Some(written));
    }
    written.is_some()
}
