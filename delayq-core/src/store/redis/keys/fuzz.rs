//! Fuzz target: the names of keys.

use std::collections::HashSet;

use delayq_fuzz::bolero::check;
use delayq_fuzz::{Reach, spell, words};

use super::Keyspace;
use crate::name::{Namespace, TaskType};

/// Every name in Redis that belongs to a namespace and a type.
fn keys(namespace: &Namespace, task_type: &TaskType) -> HashSet<String> {
    Keyspace::new(namespace.clone())
        .whole(task_type)
        .keys
        .into()
}

#[test]
fn two_names_never_share_a_key() {
    const WORDS: [&str; 10] = [
        "due", ":", "a", ".", "running", ":due", "types", "_", "-", "tasks:",
    ];
    type Name = (Vec<u8>, Vec<u8>);
    let reach = Reach::at_least(20);
    // Names are made of them; a single other character would have most inputs refused.
    let names = || (words(3), words(3));
    check!()
        .with_generator((names(), names()))
        .for_each(|(one, other)| {
            let name = |(namespace, task_type): &Name| {
                Some((
                    Namespace::new(spell(namespace, &WORDS)).ok()?,
                    TaskType::new(spell(task_type, &WORDS)).ok()?,
                ))
            };
            let (one, other) = (name(one), name(other));
            reach.count(one.is_some() && other.is_some());
            let (Some(one), Some(other)) = (one, other) else {
                return;
            };
            let (mine, theirs) = (keys(&one.0, &one.1), keys(&other.0, &other.1));
            assert_eq!(mine.len(), 9);
            assert_eq!(mine.is_disjoint(&theirs), one != other, "{one:?} {other:?}");
            let space = Keyspace::new(other.0);
            for key in [space.types(), space.wake_channel(), space.probe()] {
                assert!(!mine.contains(&key), "{key}");
            }
        });
}
