//! What workers may say of the partitions of their type.

use delayq_core::WorkerOptions;
use delayq_core::store::MAX_PARTITIONS;

/// Why a type cannot be split as these options say, if so.
pub(crate) fn problem(options: &WorkerOptions) -> Option<&'static str> {
    let partitions = options.partitions.unwrap_or(1);
    let is_possible = (1..=MAX_PARTITIONS).contains(&partitions);
    (!is_possible).then_some("partitions must be 1 to 256")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_refused_beyond_their_limits_and_not_at_them() {
        let problem = |partitions| {
            problem(&WorkerOptions {
                partitions,
                ..WorkerOptions::DEFAULT
            })
        };
        for bad in [Some(0), Some(257)] {
            assert!(problem(bad).is_some());
        }
        for good in [None, Some(1), Some(256)] {
            assert_eq!(problem(good), None);
        }
    }
}
