use std::time::Duration;

use super::super::keys::Keyspace;
use super::*;
use crate::name::Namespace;
use crate::store::StoreOptions;

fn part(name: &str) -> Arc<Partition> {
    let keys = Keyspace::new(Namespace::default());
    Arc::new(keys.whole(&TaskType::new(name).unwrap()))
}

fn prepared(part: &Arc<Partition>, id: &str, bytes: usize) -> Prepared {
    Prepared {
        part: Arc::clone(part),
        id: TaskId::new(id).unwrap(),
        policy: b'r',
        record: vec![0; bytes],
        fence: 0,
    }
}

/// How many tasks each call of a flight has.
fn calls(tasks: Vec<Prepared>) -> Vec<usize> {
    let scope = Scope::new(StoreOptions::default(), false, Duration::ZERO);
    let flight = Flight::new(vec![tasks], &scope);
    flight.calls.iter().map(|call| call.places.len()).collect()
}

#[test]
fn a_call_takes_so_many_tasks_of_one_partition_with_different_ids() {
    let (a, b) = (part("a"), part("b"));
    let many = (0..300).map(|n| prepared(&a, &n.to_string(), 9));
    assert_eq!(
        calls(many.collect()),
        [MAX_BATCH, MAX_BATCH, 300 - 2 * MAX_BATCH]
    );
    let two = [&a, &b, &a].map(|part| prepared(part, "1", 9));
    assert_eq!(calls(two.into()), [1, 1, 1]);
    let twice = ["1", "2", "1", "3"].map(|id| prepared(&a, id, 9));
    assert_eq!(calls(twice.into()), [2, 2]);
}

#[test]
fn a_call_takes_so_many_bytes_but_at_least_one_task() {
    let a = part("a");
    let sizes = [
        MAX_CALL_BYTES + 1,
        9,
        MAX_CALL_BYTES - 9,
        1,
        MAX_CALL_BYTES - 1,
        9,
    ];
    let tasks = sizes.into_iter().enumerate();
    let tasks = tasks.map(|(n, size)| prepared(&a, &n.to_string(), size));
    assert_eq!(calls(tasks.collect()), [1, 2, 2, 1]);
}
