//! A message about the last action, shown once.

use std::borrow::Cow;

use axum::http::{HeaderMap, HeaderValue, header};

use crate::said::one_line;

/// The name of the cookie that carries the message over the redirect.
const COOKIE: &str = "delayq_flash";

/// The longest message, in characters. A cookie holds 4 KiB, and a character takes up to twelve
/// bytes.
const MAX_CHARS: usize = 300;

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flash {
    pub(crate) is_good: bool,
    pub(crate) text: String,
}

impl Flash {
    /// A message about success.
    pub(crate) fn done(text: impl AsRef<str>) -> Self {
        Self {
            is_good: true,
            text: one_line(text.as_ref(), MAX_CHARS),
        }
    }

    /// A message about failure.
    pub(crate) fn failed(text: impl AsRef<str>) -> Self {
        Self {
            is_good: false,
            text: one_line(text.as_ref(), MAX_CHARS),
        }
    }

    /// The cookie that shows the message on the next page under `prefix`.
    pub(crate) fn cookie(&self, prefix: &str) -> Option<HeaderValue> {
        let text: String = form_urlencoded::byte_serialize(self.text.as_bytes()).collect();
        let kind = if self.is_good { '+' } else { '-' };
        let cookie = format!(
            "{COOKIE}={kind}{text}; Path={}; Max-Age=20; HttpOnly; SameSite=Strict",
            root(prefix)
        );
        HeaderValue::try_from(cookie).ok()
    }

    /// The cookie that deletes the message.
    pub(crate) fn end(prefix: &str) -> Option<HeaderValue> {
        let cookie = format!(
            "{COOKIE}=; Path={}; Max-Age=0; HttpOnly; SameSite=Strict",
            root(prefix)
        );
        HeaderValue::try_from(cookie).ok()
    }

    /// The message in a request's cookie.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let cookies = headers.get_all(header::COOKIE).iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|line| line.split(';'));
        let value = pairs.find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))?;
        let (kind, text) = value.split_at_checked(1)?;
        let mut decoded = form_urlencoded::parse(text.as_bytes());
        let text = decoded.next().map_or(Cow::Borrowed(""), |(text, _)| text);
        let is_good = kind == "+";
        let text = one_line(&text, MAX_CHARS);
        (!text.is_empty()).then_some(Self { is_good, text })
    }
}

/// The path of the page's root.
fn root(prefix: &str) -> &str {
    if prefix.is_empty() { "/" } else { prefix }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_travels_in_a_cookie() {
        let flash = Flash::failed("not done: \"a=b; c\" – &");
        let cookie = flash.cookie("/delayq").unwrap();
        let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, cookie.parse().unwrap());
        assert_eq!(Flash::of(&headers), Some(flash));
    }
}
