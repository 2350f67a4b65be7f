//! The macro's rule for task types is the one of delayq-core.

use delayq_plugin::{TaskType, TypePattern};

/// The macro's own file: a macro crate cannot be called, and can hardly depend on delayq-core.
#[path = "../../delayq-macros/src/name.rs"]
mod rule;

#[test]
fn the_macro_and_the_core_allow_the_same_names() {
    let long = "x".repeat(99);
    let mut names = vec![
        String::new(),
        long.clone(),
        format!("{long}x"),
        format!("{long}xx"),
        format!("{}.*", &long[..98]),
        format!("{long}.*"),
    ];
    for text in [
        "order.cancel",
        "a:b_c-D.9",
        "report.*",
        "*",
        "r-*",
        "r_*",
        "r:*",
        "rep*",
        "**",
    ] {
        names.push(text.to_owned());
    }
    for text in [
        "re*port.*",
        "a.*.b",
        "a b.*",
        "ä",
        "a\u{0}",
        ".*",
        "a/b",
        "a{b}",
        "a*b",
        ".",
        "a.* ",
    ] {
        names.push(text.to_owned());
    }
    // Every character alone, in a name, and before the star.
    for byte in 0..=u8::MAX {
        let character = char::from(byte);
        names.extend([
            format!("{character}"),
            format!("a{character}b"),
            format!("a{character}*"),
        ]);
    }
    for name in names {
        let pattern = TypePattern::new(&name);
        assert_eq!(
            rule::check_pattern(&name).is_ok(),
            pattern.is_ok(),
            "{name:?}"
        );
        let word = TaskType::new(&name);
        assert_eq!(rule::check_word(&name).is_ok(), word.is_ok(), "{name:?}");
        if let (Err(rule), Err(error)) = (rule::check_pattern(&name), pattern) {
            assert!(error.to_string().ends_with(rule), "{error} / {rule}");
        }
    }
}
