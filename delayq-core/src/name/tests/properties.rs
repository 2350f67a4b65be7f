//! Properties of names: no text is taken for a name that breaks its rule, and a refusal says the
//! rule.

use proptest::prelude::*;
use proptest::sample::select;

use crate::error::Result;
use crate::name::{Namespace, TaskId, TaskType, TypePattern};

const WORDS: [&str; 14] = [
    "order.cancel",
    "report.*",
    "report.",
    "rep",
    "*",
    ".",
    "-",
    ":",
    "_",
    "a/b",
    "{",
    "}",
    "\u{e4}",
    "0123456789012345678901234567890123456789",
];

/// Text that is often a name or nearly one, and often near the longest.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => select(&WORDS[..]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => "[ -~]",
    ];
    let pieces = prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat());
    let fill = prop_oneof![Just(0_usize), 50..130_usize];
    (fill, pieces).prop_map(|(fill, text)| format!("{}{text}", "x".repeat(fill)))
}

/// The rule of namespaces and types, said in another way than in the code.
fn is_a_name(text: &str, longest: usize) -> bool {
    let allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:";
    (1..=longest).contains(&text.chars().count()) && text.chars().all(|c| allowed.contains(c))
}

fn is_an_id(text: &str) -> bool {
    (1..=128).contains(&text.chars().count()) && text.chars().all(|c| ('!'..='~').contains(&c))
}

/// The beginning that a pattern of types names.
fn prefix(text: &str) -> Option<&str> {
    text.strip_suffix('*').filter(|text| {
        let ends = text.is_empty() || text.ends_with(['.', '_', '-', ':']);
        ends && (text.is_empty() || is_a_name(text, 99))
    })
}

/// Checks that a name was taken as it should be: as the text, or with a refusal that says the rule.
fn judge<T: ToString>(
    name: &Result<T>,
    text: &str,
    fits: bool,
    rule: &str,
) -> Result<(), TestCaseError> {
    match name {
        Ok(name) => {
            let name = name.to_string();
            prop_assert_eq!((name.as_str(), true), (text, fits));
        }
        Err(error) => {
            let message = error.to_string();
            prop_assert!(!fits && message.contains(rule), "{:?}: {}", text, message);
            prop_assert!(message.chars().count() < 600, "{:?}: {}", text, message);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn names_follow_their_rules(text in any_text()) {
        let rule = "use 1 to 64 of A-Z a-z 0-9 . _ - :";
        judge(&Namespace::new(&text), &text, is_a_name(&text, 64), rule)?;
        let rule = "use 1 to 100 of A-Z a-z 0-9 . _ - :";
        judge(&TaskType::new(&text), &text, is_a_name(&text, 100), rule)?;
        let rule = "use 1 to 128 visible ASCII characters";
        judge(&TaskId::new(&text), &text, is_an_id(&text), rule)?;
    }

    #[test]
    fn patterns_follow_their_rules_and_match_what_they_say(text in any_text(), rest in any_text()) {
        let prefix = prefix(&text);
        let rule = if text.ends_with('*') {
            "write the common beginning"
        } else if text.contains('*') {
            "the * stands at the end"
        } else {
            "use 1 to 100 of"
        };
        let pattern = TypePattern::new(&text);
        judge(&pattern, &text, prefix.is_some() || is_a_name(&text, 100), rule)?;
        let Ok(pattern) = pattern else { return Ok(()) };
        let longer = format!("{}{rest}", prefix.unwrap_or(&text));
        for name in [rest, longer] {
            let Ok(name) = TaskType::new(&name) else { continue };
            let expected = match prefix {
                Some(prefix) => name.as_str().get(..prefix.len()) == Some(prefix),
                None => name.as_str() == text,
            };
            prop_assert_eq!(pattern.matches(&name), expected, "{} and {}", text, name);
        }
    }
}
