//! Names, by examples.

mod properties;

use super::*;

#[test]
fn a_task_id_takes_every_visible_ascii_character_and_nothing_else() {
    for byte in 0..=u8::MAX {
        let id = char::from(byte).to_string();
        assert_eq!(TaskId::new(&id).is_ok(), byte.is_ascii_graphic(), "{id:?}");
    }
    assert!(TaskId::new("").is_err());
    assert!(TaskId::new("x".repeat(MAX_TASK_ID_BYTES)).is_ok());
    assert!(TaskId::new("x".repeat(MAX_TASK_ID_BYTES + 1)).is_err());
}

#[test]
fn names_cannot_hold_what_separates_parts_of_a_key() {
    for bad in ["", "a/b", "a{b", "a}b", "a b", "a*", "ä", "a\n", "a\0"] {
        assert!(TaskType::new(bad).is_err(), "{bad:?}");
        assert!(Namespace::new(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_refusal_says_what_is_allowed() {
    let message = TaskType::new("order cancel").unwrap_err().to_string();
    assert_eq!(
        message,
        "invalid task type \"order cancel\": use 1 to 100 of A-Z a-z 0-9 . _ - :"
    );
}

#[test]
fn a_pattern_matches_by_its_beginning() {
    let pattern = TypePattern::new("report.*").unwrap();
    assert!(pattern.matches(&TaskType::new("report.daily").unwrap()));
    assert!(!pattern.matches(&TaskType::new("reports").unwrap()));
    for bad in ["rep*", "re*port.*", "**", "a b.*"] {
        assert!(TypePattern::new(bad).is_err(), "{bad}");
    }
}

#[test]
fn generated_ids_are_valid_short_and_ordered_by_time() {
    let id = TaskId::generate();
    assert_eq!(id.as_str().len(), 26);
    assert!(TaskId::new(id.as_str()).is_ok());
}
