//! Shares of `max_pending`: each shard of a type keeps its own.

use delayq_core::{Error, Result, TaskType};

/// Checks that a limit can be divided among `count` shards with at least 1 each, unless the limit
/// is 0 and closes the type.
///
/// # Errors
/// `InvalidInput` if it cannot.
pub(crate) fn check(whole: Option<u64>, count: usize, task_type: &TaskType) -> Result<()> {
    let parts = u64::try_from(count).unwrap_or(u64::MAX);
    let Some(few) = whole.filter(|whole| (1..parts).contains(whole)) else {
        return Ok(());
    };
    let reason = format!(
        "max_pending {few} is too little for the {count} shards of {task_type}, each of which keeps a share: \
         use at least {count}, or 0 to close the type"
    );
    Err(Error::invalid("setting", reason))
}

/// A limit divided by `count`, at least 1 each unless it closes the type.
pub(crate) fn bounds(whole: Option<u64>, count: usize) -> impl Iterator<Item = Option<u64>> {
    let parts = u64::try_from(count.max(1)).unwrap_or(1);
    (0..parts).map(move |at| whole.map(|whole| part_of(whole, at, parts).max(whole.min(1))))
}

fn part_of(whole: u64, at: u64, parts: u64) -> u64 {
    whole / parts + u64::from(at < whole % parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_together_what_the_whole_is() {
        let bounds: Vec<_> = bounds(Some(20), 6).flatten().collect();
        assert_eq!(bounds, [4, 4, 3, 3, 3, 3]);
    }

    #[test]
    fn a_bound_that_leaves_some_part_empty_is_too_small_unless_it_leaves_all_so() {
        let task_type = TaskType::new("a").unwrap();
        for good in [None, Some(0), Some(3), Some(4)] {
            assert_eq!(check(good, 3, &task_type), Ok(()));
        }
        for bad in [1, 2] {
            let refusal = check(Some(bad), 3, &task_type).unwrap_err().to_string();
            assert!(refusal.contains("max_pending") && refusal.contains("3 shards of a"));
        }
    }
}
