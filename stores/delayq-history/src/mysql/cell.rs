//! Values of the client.

use mysql_async::Value;

/// The number in a value.
pub(super) fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::UInt(number) => i64::try_from(*number).ok(),
        Value::Bytes(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}

/// The text in a value.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::Bytes(bytes) => String::from_utf8(bytes.clone()).ok(),
        _ => None,
    }
}

/// The bytes in a value.
pub(super) fn blob(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::Bytes(bytes) => Some(bytes.clone()),
        _ => None,
    }
}

/// The bytes that a value takes in a statement, or a few more.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Bytes(bytes) => bytes.len() + 12,
        _ => 12,
    }
}
