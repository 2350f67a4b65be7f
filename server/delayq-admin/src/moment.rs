//! A time on the page.

use std::fmt;

use askama::filters::HtmlSafe;
use delayq_plugin::Timestamp;

use crate::said::span;

/// A time as an HTML `time` element: its distance from now, with the exact time as a tooltip. It
/// contains no foreign text, so it is not escaped.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    at: Timestamp,
    said: String,
}

impl HtmlSafe for Moment {}

impl Moment {
    /// `in 5m` or `3 s ago`, relative to `now`.
    pub(crate) fn seen_from(now: Timestamp, at: Timestamp) -> Self {
        let said = match at {
            Timestamp::MAX => "never".to_owned(),
            _ if at == now => "now".to_owned(),
            _ if at > now => format!("in {}", span(at.since(now))),
            _ => format!("{} ago", span(now.since(at))),
        };
        Self { at, said }
    }

    /// The time of day: `08:31:05`.
    pub(crate) fn of_day(at: Timestamp) -> Self {
        let text = at.to_string();
        let said = text.get(11..19).unwrap_or(&text).to_owned();
        Self { at, said }
    }

    /// The full date and time, to the second.
    pub(crate) fn whole(at: Timestamp) -> Self {
        let text = at.to_string();
        let day = text.get(..10).unwrap_or(&text);
        let said = format!("{day} {}", text.get(11..19).unwrap_or_default());
        Self { at, said }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, said } = self;
        write!(f, "<time datetime=\"{at}\" title=\"{at}\">{said}</time>")
    }
}
