//! The content type of a message, as given by its sender.

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use delayq_service::problem::Problem;

/// The default content types of HTTP clients, which say nothing about the message.
const UNCHOSEN: [&str; 2] = [
    "application/x-www-form-urlencoded",
    "application/octet-stream",
];

/// The content type of a message, if its sender chose one. It is checked with the job.
pub(super) fn read_kind<'a>(
    headers: &'a HeaderMap,
    message: &[u8],
) -> Result<Option<&'a str>, Problem> {
    let Some(named) = headers.get(CONTENT_TYPE).filter(|_| !message.is_empty()) else {
        return Ok(None);
    };
    let named = named.to_str().map_err(|_| {
        Problem::bad_request("the content type has other characters than visible ASCII")
    })?;
    let essence = named.split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    if essence.is_empty() || UNCHOSEN.contains(&essence.as_str()) {
        return Ok(None);
    }
    Ok(Some(named))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    /// The type, or why the message is refused.
    fn kept(kind: &str, message: &[u8]) -> Result<Option<String>, String> {
        let mut headers = HeaderMap::new();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_bytes(kind.as_bytes()).unwrap(),
        );
        let kind = read_kind(&headers, message).map_err(|problem| problem.to_string())?;
        Ok(kind.map(str::to_owned))
    }

    #[test]
    fn a_chosen_type_is_kept_and_json_is_read() {
        for kind in ["text/csv", "image/png", "application/json; charset=utf-8"] {
            assert_eq!(kept(kind, b"{\"a\": [1]}").unwrap().as_deref(), Some(kind));
        }
        for kind in ["", UNCHOSEN[0], UNCHOSEN[1]] {
            assert_eq!(kept(kind, b"a=1").unwrap(), None);
        }
        assert_eq!(kept("application/json", b"").unwrap(), None);
        assert_eq!(
            kept("text/plain", b"\xff{").unwrap().as_deref(),
            Some("text/plain")
        );
    }
}
