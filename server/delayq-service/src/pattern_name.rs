//! Names of documents about a type, or about all types of a pattern.

use delayq_plugin::{TaskType, TypePattern};

/// The name of the document of a type or pattern. A letter separates types from patterns, because
/// a type may be spelled like the prefix of a pattern.
pub(crate) fn name_of(pattern: &TypePattern) -> String {
    match pattern {
        TypePattern::Exact(task_type) => format!("t:{task_type}"),
        TypePattern::Prefix(prefix) => format!("p:{prefix}"),
    }
}

/// The type or pattern with a document of this name.
pub(crate) fn pattern_of(name: &str) -> Option<TypePattern> {
    match name.split_once(':')? {
        ("t", task_type) => TaskType::new(task_type).ok().map(TypePattern::Exact),
        ("p", prefix) => TypePattern::new(&format!("{prefix}*")).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_and_pattern_has_a_name_of_its_own() {
        for text in ["mail", "mail.", "mail.*", "*", "a:b", "p:mail.", "t:x"] {
            let pattern = TypePattern::new(text).unwrap();
            assert_eq!(pattern_of(&name_of(&pattern)), Some(pattern), "{text}");
        }
        assert_eq!(pattern_of("mail"), None);
    }
}
