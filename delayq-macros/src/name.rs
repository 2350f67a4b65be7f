//! Rules for task types, patterns and worker names.
//!
//! The rules are copied from delayq-core: with a dependency on that crate, every build would wait
//! for it before the first macro runs. `tests/macros.rs` compares the two.

const MAX_BYTES: usize = 100;

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':')
}

/// Checks a task type or a worker's name.
pub(crate) fn check_word(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.len() > MAX_BYTES || !text.bytes().all(is_word) {
        return Err("use 1 to 100 of A-Z a-z 0-9 . _ - :");
    }
    Ok(())
}

/// Checks a task type or a pattern such as `report.*`.
pub(crate) fn check_pattern(text: &str) -> Result<(), &'static str> {
    let Some(prefix) = text.strip_suffix('*') else {
        if text.contains('*') {
            return Err("the * stands at the end, as in report.*");
        }
        return check_word(text);
    };
    let separated = prefix.is_empty() || prefix.ends_with(['.', '_', '-', ':']);
    if prefix.len() >= MAX_BYTES || !separated || !prefix.bytes().all(is_word) {
        return Err("write the common beginning up to a separator, then *, as in report.*");
    }
    Ok(())
}
