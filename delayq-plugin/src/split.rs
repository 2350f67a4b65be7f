//! What workers may say of the partitions of their type.

use delayq_core::WorkerOptions;
use delayq_core::store::MAX_PARTITIONS;

/// Why a type cannot be split as these options say, if so.
pub(crate) fn problem(options: &WorkerOptions) -> Option<&'static str> {
    let partitions = options.partitions.unwrap_or(1);
    if !(1..=MAX_PARTITIONS).contains(&partitions) {
        return Some("partitions must be 1 to 256");
    }
    let most = options.fleet.concurrency.unwrap_or(u32::MAX);
    (most < partitions).then_some(
        "fleet_concurrency is divided among the partitions: it must be at least as large as their number",
    )
}

#[cfg(test)]
mod tests {
    use delayq_core::FleetLimits;

    use super::*;

    #[test]
    fn partitions_are_refused_beyond_their_limits_and_not_at_them() {
        let problem = |partitions, concurrency| {
            let fleet = FleetLimits {
                concurrency,
                rate: None,
            };
            problem(&WorkerOptions {
                partitions: Some(partitions),
                fleet,
                ..WorkerOptions::DEFAULT
            })
        };
        for bad in [problem(0, None), problem(257, None), problem(3, Some(2))] {
            assert!(bad.is_some());
        }
        for good in [problem(1, None), problem(256, None), problem(3, Some(3))] {
            assert_eq!(good, None);
        }
        assert_eq!(super::problem(&WorkerOptions::DEFAULT), None);
    }
}
