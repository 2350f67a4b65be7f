//! The values of options: text, durations, numbers, choices.
//!
//! Each function parses `name = value` and reports a mistake with a line to write instead.

use std::time::Duration;

use darling::util::SpannedValue;
use darling::{Error, Result};
use jiff::{SignedDuration, SpanRelativeTo};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident};
use syn::spanned::Spanned;
use syn::{Expr, ExprPath, Lit, Meta};

use crate::name::{check_pattern, check_word};

/// The longest duration, as delayq-core's `MAX_DELAY`: longer ones are unit mistakes.
const MAX_DURATION: Duration = Duration::from_hours(87_600);
/// The shortest lock: below it a busy machine could not extend its locks in time.
const MIN_LOCK: Duration = Duration::from_secs(1);
/// The shortest time limit: delayq measures whole milliseconds.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);

pub(super) type Value<T> = Result<Option<SpannedValue<T>>>;

pub(super) fn wrong(at: &impl Spanned, message: impl std::fmt::Display) -> Error {
    Error::custom(message).with_span(&at.span())
}

pub(super) fn spanned<T>(value: T, at: &impl Spanned) -> SpannedValue<T> {
    SpannedValue::new(value, at.span())
}

pub(super) fn name_of(item: &Meta) -> String {
    darling::util::path_to_string(item.path())
}

/// The value of `name = value`; `example` is a valid value for the error.
fn value<'a>(item: &'a Meta, example: &str) -> Result<&'a Expr> {
    let Meta::NameValue(pair) = item else {
        let name = name_of(item);
        return Err(wrong(
            item,
            format!("`{name}` takes a value: write `{name} = {example}`"),
        ));
    };
    Ok(bare(&pair.value))
}

/// `expr` without the invisible groups that a `macro_rules!` macro adds around it.
fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => bare(&group.expr),
        _ => expr,
    }
}

fn literal(expr: &Expr) -> Option<&Lit> {
    match expr {
        Expr::Lit(expr) => Some(&expr.lit),
        _ => None,
    }
}

pub(super) fn text(item: &Meta, example: &str) -> Result<(String, proc_macro2::Span)> {
    let value = value(item, example)?;
    match literal(value) {
        Some(Lit::Str(text)) => Ok((text.value(), text.span())),
        _ => Err(wrong(
            value,
            format!(
                "expected text in quotes: write `{} = {example}`",
                name_of(item)
            ),
        )),
    }
}

/// A task type, or a pattern of task types.
pub(crate) enum TypeName {
    Text(String),
    /// A constant; its text is checked at compile time.
    Constant(ExprPath),
}

impl TypeName {
    pub(crate) fn is_pattern(&self) -> bool {
        matches!(self, Self::Text(text) if text.ends_with('*'))
    }
}

impl ToTokens for TypeName {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Text(text) => text.to_tokens(tokens),
            Self::Constant(path) => path.to_tokens(tokens),
        }
    }
}

pub(super) fn task_type(item: &Meta) -> Value<TypeName> {
    if let Meta::NameValue(pair) = item
        && let Some(path) = constant(bare(&pair.value))
    {
        return Ok(Some(spanned(TypeName::Constant(path.clone()), path)));
    }
    let (text, span) = text(item, "\"order.cancel\"")?;
    check_pattern(&text).map_err(|rule| {
        let instead = stars_at_the_end(&text);
        wrong(
            &span,
            format!("invalid task type {text:?}: {rule}{instead}"),
        )
    })?;
    Ok(Some(spanned(TypeName::Text(text), &span)))
}

/// A path written like a constant; other words are texts without their quotes.
fn constant(value: &Expr) -> Option<&ExprPath> {
    let Expr::Path(path) = value else { return None };
    let name = path.path.segments.last()?.ident.to_string();
    let is_constant = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.chars().all(is_constant).then_some(path)
}

/// The correct form of a pattern with a star in the middle.
fn stars_at_the_end(text: &str) -> String {
    let pattern = text.split_inclusive('*').next().unwrap_or_default();
    if pattern == text || pattern == "*" || check_pattern(pattern).is_err() {
        return String::new();
    }
    format!(": write `type = {pattern:?}`, and look at `cx.task_type()` for the rest")
}

pub(super) fn worker_name(item: &Meta) -> Value<String> {
    let (text, span) = text(item, "\"cancel-order\"")?;
    check_word(&text)
        .map_err(|rule| wrong(&span, format!("invalid worker name {text:?}: {rule}")))?;
    Ok(Some(spanned(text, &span)))
}

pub(super) fn pool(item: &Meta) -> Value<String> {
    let (text, span) = text(item, "\"mail\"")?;
    check_word(&text).map_err(|rule| wrong(&span, format!("invalid pool {text:?}: {rule}")))?;
    Ok(Some(spanned(text, &span)))
}

pub(super) fn duration(item: &Meta) -> Value<Duration> {
    let value = value(item, "\"30s\"")?;
    let name = name_of(item);
    let text = match literal(value) {
        Some(Lit::Str(text)) => text.value(),
        Some(Lit::Int(number)) if number.suffix().is_empty() => number.to_string(),
        _ => {
            let example = unquoted(value).unwrap_or_else(|| "30s".to_owned());
            return Err(wrong(
                value,
                format!("a duration is text in quotes: write `{name} = \"{example}\"`"),
            ));
        }
    };
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong(
            value,
            format!("`{text}` has no unit: write `{name} = \"{text}s\"` (units: ms, s, m, h, d)"),
        ));
    }
    let duration = parse_duration(&text).ok_or_else(|| {
        wrong(
            value,
            format!(
                "{text:?} is not a duration: write for example `{name} = \"30s\"` (units: ms, s, m, \
                 h, d; they combine as in \"1m 30s\")"
            ),
        )
    })?;
    if duration > MAX_DURATION {
        return Err(wrong(
            value,
            format!(
                "{text:?} is longer than the limit of 10 years: write at most `{name} = \"3650d\"`"
            ),
        ));
    }
    Ok(Some(spanned(duration, value)))
}

/// A duration, or `"forever"`.
pub(super) fn kept_for(item: &Meta) -> Value<Duration> {
    let value = value(item, "\"30d\"")?;
    match literal(value) {
        Some(Lit::Str(text)) if text.value() == "forever" => {
            Ok(Some(spanned(Duration::MAX, value)))
        }
        _ => duration(item),
    }
}

/// `30s` or `1.5h`, written without quotes.
fn unquoted(value: &Expr) -> Option<String> {
    let text = value.to_token_stream().to_string();
    parse_duration(&text).map(|_| text)
}

pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let days = SpanRelativeTo::days_are_24_hours();
    let duration = match text.parse::<SignedDuration>() {
        Ok(duration) => duration,
        // jiff's durations have no days, but its spans do. A day has 24 hours, as everywhere in
        // delayq.
        Err(_) => text.parse::<jiff::Span>().ok()?.to_duration(days).ok()?,
    };
    Duration::try_from(duration).ok()
}

pub(super) fn lock(item: &Meta) -> Value<Duration> {
    at_least(
        duration(item)?,
        &MIN_LOCK,
        "a lock lasts at least 1 s: write `lock = \"1s\"` or more",
    )
}

pub(super) fn late_spread(item: &Meta) -> Value<Duration> {
    at_least(
        duration(item)?,
        &MIN_TIMEOUT,
        "late tasks are spread over at least 1 ms: write for example `late_spread = \"30m\"`",
    )
}

pub(super) fn timeout(item: &Meta) -> Value<Duration> {
    at_least(
        duration(item)?,
        &MIN_TIMEOUT,
        "an attempt has at least 1 ms: write for example `timeout = \"30s\"`",
    )
}

fn at_least<T: PartialOrd>(given: Option<SpannedValue<T>>, least: &T, rule: &str) -> Value<T> {
    match &given {
        Some(value) if **value < *least => Err(wrong(&value.span(), rule)),
        _ => Ok(given),
    }
}

/// A count of at least 1 that fits into 32 bits.
pub(super) fn count(item: &Meta) -> Value<u32> {
    let value = value(item, "8")?;
    let number = match literal(value) {
        Some(Lit::Int(number)) => number.base10_parse().ok(),
        _ => None,
    };
    match number {
        Some(0) => Err(wrong(value, zero_count(&name_of(item)))),
        Some(number) => Ok(Some(spanned(number, value))),
        None => Err(wrong(
            value,
            format!(
                "expected a whole number, 1 or more: write for example `{} = 8`",
                name_of(item)
            ),
        )),
    }
}

/// Maximum number of shards of a type, as in the store.
const MAX_SHARDS: u32 = 256;
/// The largest share of a pool, as in delayq-plugin.
const MAX_WEIGHT: u32 = 100;

/// The number of shards of a type.
pub(super) fn shards(item: &Meta) -> Value<u32> {
    at_most(item, MAX_SHARDS, "each instance polls each of them")
}

/// A share of a pool.
pub(super) fn weight(item: &Meta) -> Value<u32> {
    at_most(item, MAX_WEIGHT, "give the other types less instead")
}

fn at_most(item: &Meta, most: u32, why: &str) -> Value<u32> {
    let given = count(item)?;
    match &given {
        Some(many) if **many > most => Err(wrong(
            value(item, "6")?,
            format!("`{}` is at most {most}: {why}", name_of(item)),
        )),
        _ => Ok(given),
    }
}

fn zero_count(name: &str) -> &'static str {
    match name {
        "max" => {
            "`max` counts every attempt, the first one too: it is 1 or more (for no retry write \
             `retry = never`)"
        }
        "max_releases" => {
            "`max_releases` is 1 or more: a worker that never releases needs no limit"
        }
        "concurrency" => "`concurrency` is 1 or more: with 0 no task would ever run",
        "fleet_concurrency" => "`fleet_concurrency` is 1 or more: with 0 no task would ever run",
        "weight" => "`weight` is 1 or more: with 0 no task would ever run",
        "shards" => "`shards` is 1 or more: 1 is a type that is not sharded",
        "max_pending" => "`max_pending` is 1 or more: with 0 no task would ever be accepted",
        "version" => "`version` is 1 or more: 1 is the version of a message that names none",
        _ => "expected 1 or more",
    }
}

/// A fraction from 0 to 1 in whole percent, as a percentage.
pub(super) fn percent(item: &Meta) -> Value<u8> {
    let value = value(item, "0.1")?;
    let fraction: Option<f64> = match literal(value) {
        Some(Lit::Float(number)) => number.base10_parse().ok(),
        Some(Lit::Int(number)) => number.base10_parse().ok(),
        _ => None,
    };
    let range = "`jitter` is a fraction of the wait, from 0.0 to 1.0: write for example \
                 `jitter = 0.1` for 10 percent";
    let Some(fraction) = fraction.filter(|fraction| (0.0..=1.0).contains(fraction)) else {
        return Err(wrong(value, range));
    };
    let percent = (0..=100_u8).find(|p| (f64::from(*p) - fraction * 100.0).abs() < 1e-6);
    match percent {
        Some(percent) => Ok(Some(spanned(percent, value))),
        None => Err(wrong(
            value,
            "`jitter` is a whole number of percents: two digits after the point, as in 0.12",
        )),
    }
}

/// One of `choices`, with or without quotes, as the variant given for it.
fn choice(item: &Meta, choices: &[(&str, &str)]) -> Value<Ident> {
    let found = match item {
        Meta::NameValue(pair) => word(bare(&pair.value)),
        _ => String::new(),
    };
    let Some((_, variant)) = choices.iter().find(|(word, _)| *word == found) else {
        return Err(no_choice(item, choices));
    };
    let span = match item {
        Meta::NameValue(pair) => pair.value.span(),
        _ => item.span(),
    };
    Ok(Some(SpannedValue::new(format_ident!("{variant}"), span)))
}

fn word(value: &Expr) -> String {
    match literal(value) {
        Some(Lit::Str(text)) => text.value(),
        _ => value.to_token_stream().to_string(),
    }
}

fn no_choice(item: &Meta, choices: &[(&str, &str)]) -> Error {
    let name = name_of(item);
    let lines = choices.iter().map(|(word, _)| format!("`{name} = {word}`"));
    let lines = lines.collect::<Vec<_>>().join(" or ");
    match item {
        Meta::NameValue(pair) => wrong(&pair.value, format!("unknown value: write {lines}")),
        _ => wrong(item, format!("`{name}` takes a value: write {lines}")),
    }
}

/// True if `item` is `name = word`, with or without quotes.
pub(super) fn is_word(item: &Meta, word: &'static str) -> bool {
    choice(item, &[(word, word)]).is_ok()
}

pub(super) fn backoff(item: &Meta) -> Value<Ident> {
    choice(item, &[("fixed", "Fixed"), ("exponential", "Exponential")])
}

pub(super) fn delivery(item: &Meta) -> Value<Ident> {
    choice(
        item,
        &[
            ("at_least_once", "AtLeastOnce"),
            ("at_most_once", "AtMostOnce"),
        ],
    )
}

pub(super) fn on_late(item: &Meta) -> Value<Ident> {
    choice(
        item,
        &[
            ("run", "Run"),
            ("drop", "Drop"),
            ("dead", "Dead"),
            ("spread", "Spread"),
        ],
    )
}

/// `blocking`, a word without a value.
pub(super) fn flag(item: &Meta) -> Result<bool> {
    if matches!(item, Meta::Path(_)) {
        return Ok(true);
    }
    let name = name_of(item);
    Err(wrong(
        item,
        format!("`{name}` takes no value: write it alone, or leave it out"),
    ))
}
