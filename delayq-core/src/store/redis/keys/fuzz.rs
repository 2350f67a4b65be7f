//! Fuzz target: the names of keys.

use std::collections::HashSet;

use delayq_fuzz::bolero::{check, produce};
use delayq_fuzz::{Reach, spell, words};

use super::{Keyspace, Place};
use crate::name::{Namespace, TaskType};

/// A partition: generation, number, suffix.
type Numbers = (u8, u8, u8);

/// Every name in Redis that belongs to a namespace and a partition of a type.
fn keys(namespace: &Namespace, task_type: &TaskType, place: Numbers) -> HashSet<String> {
    let (generation, number, suffix) = place;
    let place = Place {
        generation: generation.into(),
        number: number.into(),
        suffix: suffix.into(),
        count: 256,
    };
    Keyspace::new(namespace.clone())
        .partition(task_type, place)
        .keys
        .into()
}

/// Types that were never split have one partition.
fn known((generation, number, suffix): Numbers) -> Numbers {
    match generation {
        0 => (0, 0, 0),
        _ => (generation, number, suffix),
    }
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
        .with_generator((names(), names(), produce::<[Numbers; 2]>()))
        .for_each(|(one, other, places)| {
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
            let places = places.map(known);
            let mine = keys(&one.0, &one.1, places[0]);
            let theirs = keys(&other.0, &other.1, places[1]);
            assert_eq!(mine.len(), 9);
            let differ = one != other || places[0] != places[1];
            assert_eq!(
                mine.is_disjoint(&theirs),
                differ,
                "{one:?} {other:?} {places:?}"
            );
            let space = Keyspace::new(other.0);
            let names = [
                space.types(),
                space.layouts(),
                space.wake_channel(),
                space.probe(),
            ];
            for key in names {
                assert!(!mine.contains(&key), "{key}");
            }
        });
}
