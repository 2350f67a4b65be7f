//! Entrances of the fuzz targets: tokens as they are sent.

use axum::http::HeaderValue;

use super::right::bearer;
use super::secret::Presented;

/// The text of a token.
#[must_use]
pub fn token(text: &str) -> Option<String> {
    let presented = Presented::read(text)?;
    // Compared as that of a request is.
    presented.has_hash("");
    Some(presented.to_string())
}

/// The value of the header `Authorization`.
#[must_use]
pub fn authorization(bytes: &[u8]) -> Option<String> {
    let header = HeaderValue::from_bytes(bytes).ok()?;
    let token = bearer(&header)?;
    Some(format!("Bearer {token}"))
}
