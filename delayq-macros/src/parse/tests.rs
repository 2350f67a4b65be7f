//! Properties of the values and options between the parentheses of `#[task_worker(..)]`.

use std::time::Duration;

use proc_macro2::TokenStream;
use proptest::prelude::*;
use quote::ToTokens;

use super::args::{Args, Retry, RetryArgs};
use super::recording::Recording;
use super::value::{TypeName, parse_duration};
use crate::name::{check_pattern, check_word};

const TIMES: [&str; 32] = [
    "1w ",
    "2d ",
    "3h ",
    "30m ",
    "90s",
    "1.5h",
    "250ms",
    "PT1H",
    "0",
    "1",
    "9",
    "30",
    "1.5",
    ".",
    "-",
    "+",
    " ",
    "ns",
    "us",
    "ms",
    "s",
    "m",
    "h",
    "d",
    "w",
    "mo",
    "y",
    "P",
    "T",
    ":",
    "ago",
    "99999999999999999999",
];
const UNITS: [(&str, u64); 6] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

/// Up to `most` words, or any characters.
fn text(words: &'static [&str], most: usize) -> impl Strategy<Value = String> {
    let word = prop_oneof![
        3 => prop::sample::select(words).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(word, 0..most).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_duration_is_understood_as_it_is_written(one: u16, two: u16, unit in 0_usize..5) {
        let (large, large_ms) = UNITS[unit + 1];
        let (small, small_ms) = UNITS[unit];
        let text = format!("{one}{large} {two}{small}");
        let ms = u64::from(one) * large_ms + u64::from(two) * small_ms;
        prop_assert_eq!(parse_duration(&text), Some(Duration::from_millis(ms)), "{}", text);
    }

    #[test]
    fn a_duration_that_is_understood_is_read_back(text in text(&TIMES, 4)) {
        if let Some(duration) = parse_duration(&text) {
            let again = format!("{}s {}ns", duration.as_secs(), duration.subsec_nanos());
            prop_assert_eq!(parse_duration(&again), Some(duration), "{}", text);
        }
    }

    #[test]
    fn an_attribute_is_understood_or_refused_in_words(
        options in prop::collection::vec(prop::sample::select(&OPTIONS[..]), 0..4),
        wild in prop::option::of(text(&WORDS, 4)),
    ) {
        let mut attribute = vec!["type = \"order.cancel\""];
        attribute.extend(options);
        attribute.extend(wild.as_deref());
        let attribute = attribute.join(", ");
        let Ok(tokens) = attribute.parse::<TokenStream>() else {
            return Ok(());
        };
        match Args::parse(tokens.clone()) {
            Ok(args) => {
                assert_valid(&args);
                let again = written(&args);
                let same = Args::parse(again.parse().expect("tokens")).map(|args| written(&args));
                prop_assert_eq!(same.ok(), Some(again), "{}", attribute);
            }
            Err(errors) => {
                for error in errors {
                    let message = error.to_string();
                    let has_advice = message.contains(": ") || message.contains('`');
                    prop_assert!(has_advice, "{attribute}: {message}");
                }
            }
        }
        let _ = Args::type_only(tokens);
    }
}

const WORDS: [&str; 74] = [
    "type = ",
    "\"order.cancel\"",
    "\"report.*\"",
    "\"a b\"",
    ", ",
    ", ",
    ", ",
    ", ",
    "name = ",
    "\"cancel\"",
    "retry(",
    "retry = never",
    ")",
    "(",
    "max = ",
    "backoff = ",
    "fixed",
    "exponential",
    "base = ",
    "cap = ",
    "jitter = ",
    "0.1",
    "1.5",
    "0.123",
    "timeout = ",
    "lock = ",
    "\"1s\"",
    "\"1m 30s\"",
    "\"10m\"",
    "\"11m\"",
    "\"3650d\"",
    "\"3651d\"",
    "\"0s\"",
    "\"1ns\"",
    "30",
    "0",
    "8",
    "-",
    "4294967296",
    "concurrency = ",
    "delivery = ",
    "at_most_once",
    "at_least_once",
    "blocking",
    "on_late = ",
    "run",
    "drop",
    "dead",
    "late_after = ",
    "weight = ",
    "fleet_concurrency = ",
    "fleet_rate = ",
    "\"5/h\"",
    "\"0/s\"",
    "max_pending = ",
    "max_releases = ",
    "shards = ",
    "history = ",
    "\"1kB\"",
    "\"0B\"",
    "late",
    "=",
    "::",
    "{",
    "}",
    "'a'",
    "b\"x\"",
    "\u{e4}",
    "1_000",
    "30s",
    "\"",
    "#",
    "r#type = ",
    "type = \"order.cancel\", ",
];

/// One valid option each, so that most attributes are nearly right.
const OPTIONS: [&str; 31] = [
    "quote_message",
    "name = \"cancel\"",
    "retry = never",
    "retry(max = 3)",
    "retry(base = \"1s\", cap = \"1m\", jitter = 0.25)",
    "retry(backoff = fixed, base = \"20m\")",
    "retry(backoff = exponential, base = \"20m\")",
    "retry(base = \"2m\", cap = \"1m\")",
    "timeout = \"30s\"",
    "lock = \"1500ms\"",
    "concurrency = 8",
    "pool = \"mail\"",
    "weight = 8",
    "delivery = at_most_once",
    "delivery = at_least_once",
    "blocking",
    "on_late = drop",
    "on_late = run",
    "on_late = spread",
    "late_spread = \"30m\"",
    "late_after = \"1d\"",
    "fleet_concurrency = 10",
    "fleet_rate = \"100/s\"",
    "fleet_rate = \"10 / min\"",
    "max_pending = 1_000",
    "max_releases = 8",
    "shards = 8",
    "history = \"off\"",
    "history_retention = \"30d\"",
    "history_retention = \"forever\"",
    "history = \"2 kB\"",
];

/// The attribute as it would be written from what was understood.
fn written(args: &Args) -> String {
    let mut options = Vec::new();
    let time = |name: &str, time: Duration| {
        format!("{name} = \"{}s {}ns\"", time.as_secs(), time.subsec_nanos())
    };
    let choice = |name: &str, word: String| format!("{name} = {}", snake(&word));
    options.extend(
        args.task_type
            .as_deref()
            .map(|name| format!("type = {}", name.to_token_stream())),
    );
    options.extend(args.name.as_deref().map(|text| format!("name = {text:?}")));
    options.extend(args.timeout.as_deref().map(|t| time("timeout", *t)));
    options.extend(args.lock.as_deref().map(|t| time("lock", *t)));
    options.extend(args.late_after.as_deref().map(|t| time("late_after", *t)));
    options.extend(args.history_retention.as_deref().map(|t| match *t {
        Duration::MAX => "history_retention = \"forever\"".to_owned(),
        t => time("history_retention", t),
    }));
    options.extend(args.late_spread.as_deref().map(|t| time("late_spread", *t)));
    options.extend(args.pool.as_deref().map(|text| format!("pool = {text:?}")));
    options.extend(
        args.concurrency
            .as_deref()
            .map(|n| format!("concurrency = {n}")),
    );
    options.extend(
        args.delivery
            .as_deref()
            .map(|w| choice("delivery", w.to_string())),
    );
    options.extend(
        args.on_late
            .as_deref()
            .map(|w| choice("on_late", w.to_string())),
    );
    let counts = [
        ("weight", &args.weight),
        ("fleet_concurrency", &args.fleet_concurrency),
        ("max_pending", &args.max_pending),
        ("max_releases", &args.max_releases),
        ("shards", &args.shards),
    ];
    for (name, count) in counts {
        options.extend(count.as_deref().map(|n| format!("{name} = {n}")));
    }
    options.extend(args.fleet_rate.as_deref().map(|rate| {
        let unit = match rate.per.as_secs() {
            1 => "s",
            60 => "min",
            _ => "h",
        };
        format!("fleet_rate = \"{}/{unit}\"", rate.starts)
    }));
    options.extend(args.history.as_deref().map(|recording| match recording {
        Recording::Off => "history = \"off\"".to_owned(),
        Recording::On => "history = \"on\"".to_owned(),
        Recording::First(bytes) => format!("history = \"{bytes}B\""),
        Recording::All => "history = \"all\"".to_owned(),
    }));
    options.extend(args.blocking.then(|| "blocking".to_owned()));
    options.extend(args.quote_message.then(|| "quote_message".to_owned()));
    match args.retry.as_deref() {
        Some(Retry::Never) => options.push("retry = never".to_owned()),
        Some(Retry::Policy(retry)) => options.push(format!("retry({})", written_retry(retry))),
        None => {}
    }
    options.join(", ")
}

fn written_retry(retry: &RetryArgs) -> String {
    let time = |name: &str, time: Duration| {
        format!("{name} = \"{}s {}ns\"", time.as_secs(), time.subsec_nanos())
    };
    let mut options = Vec::new();
    options.extend(retry.max.as_deref().map(|n| format!("max = {n}")));
    let backoff = retry.backoff.as_deref();
    options.extend(backoff.map(|w| format!("backoff = {}", snake(&w.to_string()))));
    options.extend(retry.base.as_deref().map(|t| time("base", *t)));
    options.extend(retry.cap.as_deref().map(|t| time("cap", *t)));
    let jitter = retry.jitter.as_deref();
    options.extend(jitter.map(|percent| format!("jitter = {}", f64::from(*percent) / 100.0)));
    options.join(", ")
}

/// `AtMostOnce` as `at_most_once`.
fn snake(variant: &str) -> String {
    let mut word = String::new();
    for letter in variant.chars() {
        if letter.is_ascii_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(letter.to_ascii_lowercase());
    }
    word
}

/// What the documentation says of every attribute that is accepted.
fn assert_valid(args: &Args) {
    let longest = Duration::from_hours(87_600);
    let within = |time: &Option<darling::util::SpannedValue<Duration>>, least: Duration| {
        time.as_deref()
            .is_none_or(|time| (least..=longest).contains(time))
    };
    let task_type = args.task_type.as_deref().expect("always there");
    if let TypeName::Text(text) = task_type {
        assert_eq!(check_pattern(text), Ok(()));
    }
    assert!(
        args.name
            .as_deref()
            .is_none_or(|name| check_word(name).is_ok())
    );
    assert!(within(&args.lock, Duration::from_secs(1)));
    assert!(within(&args.timeout, Duration::from_millis(1)));
    assert!(within(&args.late_after, Duration::ZERO));
    assert!(args.concurrency.as_deref().is_none_or(|n| *n >= 1));
    let is_sharded = args.shards.as_deref().is_some_and(|n| *n > 1);
    assert!(!is_sharded || (args.fleet_concurrency.is_none() && args.fleet_rate.is_none()));
    let late = args
        .on_late
        .as_deref()
        .is_some_and(|action| action != "Run");
    assert_eq!(late, args.late_after.is_some());
    let spread = args
        .on_late
        .as_deref()
        .is_some_and(|action| action == "Spread");
    assert_eq!(spread, args.late_spread.is_some());
    assert!(
        args.weight
            .as_deref()
            .is_none_or(|n| (1..=100).contains(n) && args.pool.is_some())
    );
    let Some(Retry::Policy(retry)) = args.retry.as_deref() else {
        return;
    };
    assert!(
        args.delivery
            .as_deref()
            .is_none_or(|delivery| delivery != "AtMostOnce")
    );
    assert!(retry.max.as_deref().is_none_or(|n| *n >= 1));
    assert!(within(&retry.base, Duration::ZERO) && within(&retry.cap, Duration::ZERO));
    assert!(
        retry
            .jitter
            .as_deref()
            .is_none_or(|percent| *percent <= 100)
    );
    let cap = retry.cap().unwrap_or(Duration::from_mins(10));
    assert!(retry.base.as_deref().is_none_or(|base| *base <= cap));
}
