//! Error texts with a static lifetime, as `Error` requires them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The largest number of texts kept. The errors of a release have fewer than a hundred.
const MOST: usize = 512;
/// The longest text that is kept, in bytes.
const MOST_BYTES: usize = 300;

/// A static copy of the text. Returns `otherwise` if the text is too long or too many different
/// texts are kept already.
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
