//! The value of `fleet_rate`: a number of starts per span, as text.

use std::time::Duration;

use syn::Meta;

use super::value::{Value, name_of, spanned, text, wrong};

/// Maximum number of starts in one span, as in delayq-core.
const MAX_STARTS: u32 = 1_000_000;

/// A number of starts per span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) starts: u32,
    pub(crate) per: Duration,
}

pub(super) fn rate(item: &Meta) -> Value<Rate> {
    let (text, span) = text(item, "\"100/s\"")?;
    match parse_rate(&text) {
        Ok(rate) => Ok(Some(spanned(rate, &span))),
        Err(rule) => {
            let name = name_of(item);
            Err(wrong(
                &span,
                format!("{text:?} is not a rate: {rule}, as in `{name} = \"100/s\"`"),
            ))
        }
    }
}

/// `100/s`, `10/min`, `5/h`; spaces around the `/` are allowed.
pub(super) fn parse_rate(text: &str) -> Result<Rate, &'static str> {
    let (starts, unit) = text
        .split_once('/')
        .ok_or("write how many starts in which time")?;
    let per = match unit.trim() {
        "s" => Duration::from_secs(1),
        "min" => Duration::from_mins(1),
        "h" => Duration::from_hours(1),
        _ => return Err("the time is `s`, `min` or `h`"),
    };
    let starts = starts.trim();
    let is_number = !starts.is_empty() && starts.bytes().all(|byte| byte.is_ascii_digit());
    match starts.parse() {
        Ok(starts) if is_number && (1..=MAX_STARTS).contains(&starts) => Ok(Rate { starts, per }),
        _ => Err("the starts are a whole number, 1 to 1000000"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_of_starts_in_a_span() {
        let of = |starts, seconds| {
            Ok(Rate {
                starts,
                per: Duration::from_secs(seconds),
            })
        };
        assert_eq!(parse_rate("100/s"), of(100, 1));
        assert_eq!(parse_rate("10/min"), of(10, 60));
        assert_eq!(parse_rate(" 1000000 / h "), of(1_000_000, 3_600));
        for bad in [
            "",
            "100",
            "100/",
            "/s",
            "0/s",
            "-1/s",
            "+1/s",
            "1.5/s",
            "1000001/s",
            "1/d",
            "1/s/s",
        ] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
    }
}
