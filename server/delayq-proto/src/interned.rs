//! Texts of errors that live as long as the program, as `Error` has them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Most texts that are kept. The errors of a release have fewer than a hundred.
const MOST: usize = 512;
/// Most bytes of one.
const MOST_BYTES: usize = 300;

/// The text for as long as the program runs; `otherwise` for one that is too long, or once too many
/// different ones came.
pub(crate) fn interned(text: &str, otherwise: &'static str) -> &'static str {
    static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text) {
        return known;
    }
    if text.len() > MOST_BYTES || texts.len() >= MOST {
        return otherwise;
    }
    let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
    texts.insert(text);
    text
}
