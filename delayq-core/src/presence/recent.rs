//! An instance's work in the last minutes.

use serde::{Deserialize, Serialize};

use crate::chronicle::{Figures, Lateness};
use crate::name::TaskType;
use crate::time::Timestamp;

/// Maximum number of types with figures in an announcement: those with the most starts.
pub const MAX_RECENT_TYPES: usize = 20;

/// An instance's work in the last minutes, as announced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RecentWork {
    /// The start of these minutes, by the instance's clock.
    pub since: Timestamp,
    /// The figures of its busiest types, at most [`MAX_RECENT_TYPES`].
    pub types: Vec<TypeWork>,
}

/// An instance's work on the tasks of one type. In JSON the figures' fields are flattened into this
/// object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(
    clippy::exhaustive_structs,
    reason = "a type and what belongs to it, nothing else"
)]
pub struct TypeWork {
    /// The type.
    pub task_type: TaskType,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
}

impl RecentWork {
    /// The work since `since`. If there are more than [`MAX_RECENT_TYPES`] types, the busiest are
    /// kept; types without work are left out.
    #[must_use]
    pub fn new(since: Timestamp, mut types: Vec<TypeWork>) -> Self {
        types.retain(|work| !work.figures.is_empty());
        types.sort_by_key(|work| std::cmp::Reverse(work.figures.started));
        types.truncate(MAX_RECENT_TYPES);
        Self { since, types }
    }

    /// The figures of a type.
    #[must_use]
    pub fn of(&self, task_type: &TaskType) -> Option<&Figures> {
        let mut types = self.types.iter();
        let work = types.find(|work| work.task_type == *task_type);
        work.map(|work| &work.figures)
    }
}

/// The stored format.
#[derive(Serialize, Deserialize)]
pub(super) struct Stored {
    since: i64,
    types: Vec<StoredType>,
}

/// Name; started, done, failed, dead, milliseconds run, longest run; buckets and counts of
/// lateness.
#[derive(Serialize, Deserialize)]
struct StoredType(String, [u64; 6], Vec<(usize, u64)>);

impl From<&RecentWork> for Stored {
    fn from(recent: &RecentWork) -> Self {
        let types = recent.types.iter().map(|TypeWork { task_type, figures }| {
            let Figures {
                started,
                done,
                failed,
                dead,
                run_ms,
                longest_run_ms,
                ..
            } = *figures;
            let numbers = [started, done, failed, dead, run_ms, longest_run_ms];
            let buckets = figures.lateness.counts().iter().copied().enumerate();
            let buckets = buckets.filter(|(_, count)| *count > 0);
            StoredType(task_type.to_string(), numbers, buckets.collect())
        });
        Self {
            since: recent.since.as_millis(),
            types: types.collect(),
        }
    }
}

impl From<Stored> for RecentWork {
    fn from(stored: Stored) -> Self {
        let types = stored.types.into_iter().filter_map(|work| {
            let StoredType(name, numbers, buckets) = work;
            let [started, done, failed, dead, run_ms, longest_run_ms] = numbers;
            let mut lateness = Lateness::default();
            for (bucket, count) in buckets {
                lateness.add(bucket, count);
            }
            Some(TypeWork {
                task_type: TaskType::new(name).ok()?,
                figures: Figures {
                    started,
                    done,
                    failed,
                    dead,
                    run_ms,
                    longest_run_ms,
                    lateness,
                },
            })
        });
        Self::new(Timestamp::from_millis(stored.since), types.collect())
    }
}
