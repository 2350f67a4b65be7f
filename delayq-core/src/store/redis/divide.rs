//! What a whole type may do, divided among its partitions. Each keeps its part by itself, so that the sum is never
//! more than the whole; where the tasks are spread unevenly it is less. The exception are partitions that drain: where the
//! whole is enough without them, each of them has a little of its own, or it would never be done.

use crate::error::{Error, Result};
use crate::fleet::{FleetLimits, Rate};
use crate::name::TaskType;

/// A bound divided by so many, at least 1 each unless it closes the type.
pub(super) fn bounds(whole: Option<u64>, count: usize) -> impl Iterator<Item = Option<u64>> {
    let parts = u64::try_from(count.max(1)).unwrap_or(1);
    (0..parts).map(move |at| whole.map(|whole| part_of(whole, at, parts).max(whole.min(1))))
}

/// The limits of the fleet for each of so many partitions of the newest generation and of the `older` ones.
///
/// # Errors
/// `InvalidInput` for limits that are too small to be divided among the newest.
pub(super) fn limits(
    whole: FleetLimits,
    task_type: &TaskType,
    newest: usize,
    older: usize,
) -> Result<Vec<FleetLimits>> {
    let count = |count: usize| u32::try_from(count.max(1)).unwrap_or(1);
    let (least, parts) = (count(newest), count(newest + older));
    let too_small = |what: &str| {
        let reason = format!(
            "{what} is too little for the {least} partitions of {task_type}, which each keep a part of it"
        );
        Error::InvalidInput(reason)
    };
    if let Some(most) = whole.concurrency.filter(|most| *most < least) {
        return Err(too_small(&format!("fleet_concurrency {most}")));
    }
    let slower = |parts| {
        whole.rate.map(Rate::clamped).map(|rate| Rate {
            per: rate.per.saturating_mul(parts),
            ..rate
        })
    };
    if slower(least).is_some_and(|slow| slow.clamped() != slow) {
        return Err(too_small("the fleet_rate"));
    }
    let slow = slower(parts).map(Rate::clamped);
    let part = |at: u32| {
        let part = |whole: u32| whole / parts + u32::from(at < whole % parts);
        FleetLimits {
            concurrency: whole.concurrency.map(|most| part(most).max(1)),
            rate: slow.map(|slow| slow.with_burst(part(slow.burst).max(1))),
        }
    };
    Ok((0..parts).map(part).collect())
}

fn part_of(whole: u64, at: u64, parts: u64) -> u64 {
    whole / parts + u64::from(at < whole % parts)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_parts_are_together_what_the_whole_is() {
        let bounds: Vec<_> = bounds(Some(20), 6).flatten().collect();
        assert_eq!(bounds, [4, 4, 3, 3, 3, 3]);
        let task_type = TaskType::new("a").unwrap();
        let whole = FleetLimits {
            concurrency: Some(7),
            rate: Some(Rate::per_second(100).with_burst(4)),
        };
        let parts = limits(whole, &task_type, 2, 1).unwrap();
        let concurrency: Vec<_> = parts.iter().filter_map(|part| part.concurrency).collect();
        assert_eq!(concurrency, [3, 2, 2]);
        let rates: Vec<_> = parts.iter().filter_map(|part| part.rate).collect();
        let slow = Rate::new(100, Duration::from_secs(3));
        assert_eq!(rates, [2, 1, 1].map(|burst| slow.with_burst(burst)));
        assert_eq!(
            limits(FleetLimits::NONE, &task_type, 2, 0),
            Ok(vec![FleetLimits::NONE; 2])
        );
    }

    #[test]
    fn what_is_too_little_to_be_divided_is_refused() {
        let task_type = TaskType::new("a").unwrap();
        let most = FleetLimits {
            concurrency: Some(2),
            rate: None,
        };
        let refusal = limits(most, &task_type, 3, 0).unwrap_err().to_string();
        assert!(
            refusal.contains("fleet_concurrency 2") && refusal.contains("3 partitions"),
            "{refusal}"
        );
        let slow = FleetLimits {
            concurrency: None,
            rate: Some(Rate::new(1, Duration::from_hours(10))),
        };
        let enough = limits(most, &task_type, 2, 0).unwrap();
        assert!(enough.iter().all(|part| part.concurrency == Some(1)));
        assert!(limits(slow, &task_type, 2, 0).is_ok());
        assert!(limits(slow, &task_type, 3, 0).is_err());
    }

    #[test]
    fn partitions_that_drain_have_a_part_of_what_is_enough_for_the_others() {
        let task_type = TaskType::new("a").unwrap();
        let whole = FleetLimits {
            concurrency: Some(2),
            rate: Some(Rate::new(1, Duration::from_hours(10))),
        };
        let parts = limits(whole, &task_type, 2, 2).unwrap();
        assert_eq!(parts.len(), 4);
        for part in parts {
            assert_eq!(part.concurrency, Some(1));
            let rate = part.rate.unwrap();
            assert_eq!((rate.starts, rate.per), (1, Duration::from_hours(24)));
        }
    }
}
