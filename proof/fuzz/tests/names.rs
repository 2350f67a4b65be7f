//! Names and patterns: no text is taken that breaks its rule, and a refusal says the rule.

use bolero::{check, produce};
use delayq_core::{Namespace, Result, TaskId, TaskType, TypePattern};
use delayq_fuzz::{Reach, bytes, spell};

const WORDS: [&str; 12] = [
    "order.cancel",
    "report.*",
    "*",
    ".",
    "-",
    ":",
    "_",
    "a/b",
    "{",
    "}",
    "0123456789012345678901234567890123456789",
    "ä",
];

/// The rule of namespaces and types, said in another way than in the code.
fn is_a_name(text: &str, longest: usize) -> bool {
    let allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:";
    (1..=longest).contains(&text.chars().count()) && text.chars().all(|c| allowed.contains(c))
}

fn is_an_id(text: &str) -> bool {
    (1..=128).contains(&text.chars().count()) && text.chars().all(|c| ('!'..='~').contains(&c))
}

/// Whether `name` was taken as it should be; what was taken is the text, what was not is told why.
fn judge<T: ToString>(name: Result<T>, text: &str, fits: bool, rule: &str) {
    match name {
        Ok(name) => assert_eq!((name.to_string().as_str(), true), (text, fits)),
        Err(error) => {
            let message = error.to_string();
            assert!(!fits && message.contains(rule), "{text:?}: {message}");
            assert!(message.chars().count() < 600, "{text:?}: {message}");
        }
    }
}

/// `text` behind as many letters as bring it near the longest names, for every other `fill`.
fn filled(fill: u8, text: &str) -> String {
    format!(
        "{}{text}",
        "x".repeat(usize::from(fill.saturating_sub(128)))
    )
}

#[test]
fn names_follow_their_rules() {
    let reach = Reach::at_least(20);
    let inputs = (produce::<u8>(), bytes(4));
    check!().with_generator(inputs).for_each(|(fill, bytes)| {
        let text = filled(*fill, &spell(bytes, &WORDS));
        let rule = "use 1 to 64 of A-Z a-z 0-9 . _ - :";
        judge(Namespace::new(&text), &text, is_a_name(&text, 64), rule);
        let rule = "use 1 to 100 of A-Z a-z 0-9 . _ - :";
        judge(TaskType::new(&text), &text, is_a_name(&text, 100), rule);
        let rule = "use 1 to 128 visible ASCII characters";
        judge(TaskId::new(&text), &text, is_an_id(&text), rule);
        reach.count(is_an_id(&text));
    });
}

#[test]
fn patterns_follow_their_rules_and_match_what_they_say() {
    let short = |bytes: &[u8]| {
        spell(
            bytes,
            &["report.", "rep", "*", "x", "_", "-", ":", "report.*"],
        )
    };
    let reach = Reach::at_least(10);
    check!()
        .with_generator((produce::<u8>(), bytes(6), bytes(6)))
        .for_each(|(fill, pattern, rest)| {
            let text = filled(*fill, &short(pattern));
            let prefix = text.strip_suffix('*').filter(|text| {
                let ends = text.is_empty() || text.ends_with(['.', '_', '-', ':']);
                ends && (text.is_empty() || is_a_name(text, 99))
            });
            let rule = if text.ends_with('*') {
                "write the common beginning"
            } else {
                "use 1 to 100 of"
            };
            let parsed = TypePattern::new(&text);
            judge(
                parsed.clone(),
                &text,
                prefix.is_some() || is_a_name(&text, 100),
                rule,
            );
            reach.count(parsed.is_ok());
            let Ok(parsed) = parsed else { return };
            let candidates = [
                short(rest),
                format!("{}{}", prefix.unwrap_or(&text), short(rest)),
            ];
            for name in candidates
                .iter()
                .filter_map(|name| TaskType::new(name).ok())
            {
                let meant = match prefix {
                    Some(prefix) => name.as_str().get(..prefix.len()) == Some(prefix),
                    None => name.as_str() == text,
                };
                assert_eq!(parsed.matches(&name), meant, "{text} and {name}");
            }
        });
}
