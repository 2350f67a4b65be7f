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
    /// How the page's script writes the local time beside it: `day`, `whole`, or not at all.
    clock: &'static str,
    /// True if the exact time stands below.
    is_exact: bool,
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
        Self {
            at,
            said,
            clock: "",
            is_exact: false,
        }
    }

    /// As [`seen_from`](Self::seen_from), with the exact time below.
    pub(crate) fn exact(now: Timestamp, at: Timestamp) -> Self {
        Self {
            is_exact: at != Timestamp::MAX,
            ..Self::seen_from(now, at)
        }
    }

    /// The time of day: `08:31:05`.
    pub(crate) fn of_day(at: Timestamp) -> Self {
        let text = at.to_string();
        Self {
            at,
            said: text.get(11..19).unwrap_or(&text).to_owned(),
            clock: "day",
            is_exact: false,
        }
    }

    /// The full date and time, to the second.
    pub(crate) fn whole(at: Timestamp) -> Self {
        Self {
            at,
            said: to_the_second(at),
            clock: "whole",
            is_exact: false,
        }
    }
}

fn to_the_second(at: Timestamp) -> String {
    let text = at.to_string();
    let day = text.get(..10).unwrap_or(&text);
    format!("{day} {}", text.get(11..19).unwrap_or_default())
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at, said, clock, ..
        } = self;
        write!(f, "<time datetime=\"{at}\" title=\"{at}\"")?;
        if !clock.is_empty() {
            write!(f, " data-clock=\"{clock}\"")?;
        }
        write!(f, ">{said}</time>")?;
        if self.is_exact {
            let exact = to_the_second(*at);
            write!(
                f,
                "<span class=\"exact\"><span class=\"utc\"><time datetime=\"{at}\" data-clock=\"day\">{exact}</time> \
                 UTC</span></span>"
            )?;
        }
        Ok(())
    }
}
