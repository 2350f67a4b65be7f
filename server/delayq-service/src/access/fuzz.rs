//! Entry points of the fuzz targets for tokens.

use axum::http::HeaderValue;

use super::right::bearer;
use super::secret::Presented;

/// The text of a token.
#[must_use]
pub fn token(text: &str) -> Option<String> {
    let presented = Presented::read(text)?;
    // Compares the secret, as a request does.
    presented.hash().is("");
    Some(presented.to_string())
}

/// The value of the header `Authorization`.
#[must_use]
pub fn authorization(bytes: &[u8]) -> Option<String> {
    let header = HeaderValue::from_bytes(bytes).ok()?;
    let token = bearer(&header)?;
    Some(format!("Bearer {token}"))
}
