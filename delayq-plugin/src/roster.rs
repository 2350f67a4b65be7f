//! Who serves which task type.

use std::fmt;
use std::sync::Arc;

use delayq_core::registry::registered_workers;
use delayq_core::{
    Components, Delivery, TaskType, TaskWorker, Trail, TypePattern, WorkerOptions,
    WorkerRegistration, seconds, time::MAX_DELAY,
};

use crate::error::StartError;
use crate::split;

/// One worker, built and ready.
#[derive(Clone)]
pub(crate) struct Hand {
    pub(crate) name: Arc<str>,
    pub(crate) pattern: TypePattern,
    pub(crate) options: WorkerOptions,
    pub(crate) worker: Arc<dyn TaskWorker>,
}

impl fmt::Debug for Hand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name, self.pattern)
    }
}

/// A worker, built, as the plugin is about to run it: see
/// [`map_workers`](crate::DelayQueuePluginBuilder::map_workers).
#[derive(Clone)]
#[non_exhaustive]
pub struct BuiltWorker {
    /// The type or pattern that it serves.
    pub task_type: String,
    /// Its stable name, which tells the workers of one type apart.
    pub name: String,
    /// Its options.
    pub options: WorkerOptions,
    /// The worker itself.
    pub worker: Arc<dyn TaskWorker>,
}

impl BuiltWorker {
    pub(crate) fn new(
        task_type: impl Into<String>,
        name: &str,
        options: WorkerOptions,
        worker: Arc<dyn TaskWorker>,
    ) -> Self {
        Self {
            task_type: task_type.into(),
            name: name.to_owned(),
            options,
            worker,
        }
    }

    /// Builds what the linker collected.
    pub(crate) fn registered(components: &Components) -> Result<Vec<Self>, StartError> {
        let build = |entry: &WorkerRegistration| {
            let (task_type, name) = (entry.task_type.to_owned(), entry.name.to_owned());
            let worker =
                (entry.build)(components).map_err(|missing| StartError::MissingComponent {
                    task_type,
                    name,
                    missing,
                })?;
            Ok(Self::new(
                entry.task_type,
                entry.name,
                entry.options,
                worker,
            ))
        };
        registered_workers().map(build).collect()
    }
}

impl fmt::Debug for BuiltWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name, self.task_type)
    }
}

/// All workers of this process.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    hands: Vec<Hand>,
}

impl Roster {
    pub(crate) fn add(&mut self, built: BuiltWorker) -> Result<(), StartError> {
        let BuiltWorker {
            task_type,
            name,
            options,
            worker,
        } = built;
        if let Some(reason) = invalid_option(&options) {
            return Err(StartError::InvalidOption {
                task_type,
                name,
                reason,
            });
        }
        let pattern = TypePattern::new(&task_type)?;
        // What has succeeded is remembered by name: two of one name in a crew would count as one.
        let may_meet = |hand: &Hand| overlap(&hand.pattern, &pattern) && *hand.name == *name;
        if self.hands.iter().any(may_meet) {
            return Err(StartError::DuplicateWorker { task_type, name });
        }
        self.hands.push(Hand {
            name: name.into(),
            pattern,
            options,
            worker,
        });
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hands.is_empty()
    }

    pub(crate) fn has_patterns(&self) -> bool {
        let is_prefix = |hand: &Hand| matches!(hand.pattern, TypePattern::Prefix(_));
        self.hands.iter().any(is_prefix)
    }

    /// The types that are served by name, each once.
    pub(crate) fn exact_types(&self) -> Vec<TaskType> {
        let mut types: Vec<_> = self.hands.iter().filter_map(exact_type).cloned().collect();
        types.sort();
        types.dedup();
        types
    }

    /// The crew that serves `task_type`, if anybody does: its own workers, else those of the patterns
    /// that match it.
    pub(crate) fn crew(&self, task_type: &TaskType) -> Option<Crew> {
        let serving = |exact: bool| {
            let hands = self
                .hands
                .iter()
                .filter(move |hand| exact_type(hand).is_some() == exact);
            hands
                .filter(|hand| hand.pattern.matches(task_type))
                .cloned()
                .collect::<Vec<_>>()
        };
        let hands = [serving(true), serving(false)]
            .into_iter()
            .find(|hands| !hands.is_empty());
        hands.map(|hands| Crew { hands })
    }

    /// The types and patterns served, for logs and errors.
    pub(crate) fn describe(&self) -> String {
        let mut names: Vec<_> = self
            .hands
            .iter()
            .map(|hand| hand.pattern.to_string())
            .collect();
        names.sort();
        names.dedup();
        names.join(", ")
    }
}

fn exact_type(hand: &Hand) -> Option<&TaskType> {
    match &hand.pattern {
        TypePattern::Exact(task_type) => Some(task_type),
        TypePattern::Prefix(_) => None,
    }
}

/// Whether some type has both in its crew.
fn overlap(one: &TypePattern, other: &TypePattern) -> bool {
    match (one, other) {
        (TypePattern::Prefix(one), TypePattern::Prefix(other)) => {
            one.starts_with(other.as_str()) || other.starts_with(one.as_str())
        }
        _ => one == other,
    }
}

fn invalid_option(options: &WorkerOptions) -> Option<&'static str> {
    if options.lock < seconds(1) {
        return Some("lock must be at least 1 s: shorter ones expire under an ordinary hiccup");
    }
    if options.lock > MAX_DELAY {
        return Some("lock must be at most 10 years");
    }
    if options.concurrency == 0 {
        return Some("concurrency must be at least 1");
    }
    if options.retry.max_attempts == 0 {
        return Some("max_attempts must be at least 1, which is one attempt and no retry");
    }
    if options.retry.jitter_percent > 100 {
        return Some("jitter_percent must be at most 100");
    }
    if options.timeout.is_zero() {
        return Some("timeout must be longer than 0");
    }
    if options.delivery == Delivery::AtMostOnce && options.fleet.concurrency.is_some() {
        return Some(
            "fleet_concurrency counts locks, which an at-most-once type gives up before its tasks start: \
             use concurrency or fleet_rate",
        );
    }
    if options.max_pending == Some(0) {
        return Some("max_pending must be at least 1: with 0 no task would ever be accepted");
    }
    options.fleet.problem().or(split::problem(options))
}

/// The workers of one type; never empty. All of them run for each task.
#[derive(Clone, Debug)]
pub(crate) struct Crew {
    pub(crate) hands: Vec<Hand>,
}

impl Crew {
    fn options(&self) -> impl Iterator<Item = WorkerOptions> {
        self.hands.iter().map(|hand| hand.options)
    }

    /// The options that the type as a whole is run with; see [`WorkerOptions`] for how they combine.
    pub(crate) fn combined(&self) -> WorkerOptions {
        let first = self.options().next().unwrap_or_default();
        self.options().fold(first, |all, one| WorkerOptions {
            timeout: all.timeout.max(one.timeout),
            lock: all.lock.max(one.lock),
            concurrency: all.concurrency.min(one.concurrency),
            delivery: match (all.delivery, one.delivery) {
                (Delivery::AtMostOnce, Delivery::AtMostOnce) => Delivery::AtMostOnce,
                _ => Delivery::AtLeastOnce,
            },
            fleet: all.fleet.tighter(one.fleet),
            max_pending: [all.max_pending, one.max_pending]
                .into_iter()
                .flatten()
                .min(),
            partitions: all.partitions.max(one.partitions),
            ..all
        })
    }

    /// The workers that have not succeeded yet, with their places in the crew.
    pub(crate) fn open(&self, trail: &Trail) -> impl Iterator<Item = (usize, &Hand)> {
        let open = |hand: &Hand| !trail.succeeded.iter().any(|name| **name == *hand.name);
        let hands = self.hands.iter().enumerate();
        hands.filter(move |(_, hand)| open(hand))
    }

    /// How many attempts the workers allow that have not succeeded yet: once one of them has none left,
    /// the task has none.
    pub(crate) fn max_attempts(&self, trail: &Trail) -> u32 {
        let allowed = self.open(trail);
        let allowed = allowed.map(|(_, hand)| hand.options.retry.max_attempts);
        allowed.min().unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use delayq_core::{FleetLimits, RetryPolicy, TaskContext, TaskResult, millis, minutes};

    use super::*;

    struct Nothing;

    #[async_trait]
    impl TaskWorker for Nothing {
        async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
            Ok(())
        }
    }

    fn roster(hands: &[(&str, &str, WorkerOptions)]) -> Roster {
        let mut roster = Roster::default();
        for (pattern, name, options) in hands {
            let built = BuiltWorker::new(*pattern, name, *options, Arc::new(Nothing));
            roster.add(built).unwrap();
        }
        roster
    }

    fn names(roster: &Roster, task_type: &str) -> Vec<String> {
        let crew = roster.crew(&TaskType::new(task_type).unwrap());
        let hands = crew.map_or_else(Vec::new, |crew| crew.hands);
        hands.iter().map(|hand| format!("{hand:?}")).collect()
    }

    #[test]
    fn a_types_own_workers_come_before_those_of_patterns() {
        let default = WorkerOptions::DEFAULT;
        let named = roster(&[("report.day", "day", default)]);
        assert!(!named.has_patterns());
        let both = roster(&[("report.*", "any", default), ("report.day", "day", default)]);
        assert!(both.has_patterns());
        assert_eq!(names(&both, "report.day"), ["day(report.day)"]);
        assert_eq!(names(&both, "report.week"), ["any(report.*)"]);
        assert_eq!(names(&both, "mail"), Vec::<String>::new());
    }

    #[test]
    fn a_crew_is_run_with_the_widest_times_and_the_fewest_places() {
        let options = |lock, timeout, concurrency, delivery| WorkerOptions {
            lock: minutes(lock),
            timeout: minutes(timeout),
            concurrency,
            delivery,
            ..WorkerOptions::DEFAULT
        };
        let combined = |one, other| {
            let roster = roster(&[("a", "one", one), ("a", "other", other)]);
            roster
                .crew(&TaskType::new("a").unwrap())
                .unwrap()
                .combined()
        };
        let (once, again) = (Delivery::AtMostOnce, Delivery::AtLeastOnce);
        let both = combined(options(2, 3, 9, once), options(4, 1, 7, again));
        let found = (both.lock, both.timeout, both.concurrency, both.delivery);
        assert_eq!(found, (minutes(4), minutes(3), 7, again));
        let swapped = combined(options(1, 5, 3, again), options(1, 6, 8, once));
        let found = (swapped.timeout, swapped.concurrency, swapped.delivery);
        assert_eq!(found, (minutes(6), 3, again));
        assert_eq!(
            combined(options(1, 1, 1, once), options(1, 1, 1, once)).delivery,
            once
        );
    }

    #[test]
    fn a_crew_keeps_the_tightest_limits_of_the_fleet_and_the_smallest_bound() {
        let options = |concurrency, max_pending| WorkerOptions {
            fleet: FleetLimits {
                concurrency,
                rate: None,
            },
            max_pending,
            ..WorkerOptions::DEFAULT
        };
        let hands = [
            ("a", "one", options(Some(3), None)),
            ("a", "two", options(Some(2), Some(7))),
            ("a", "three", options(None, Some(9))),
        ];
        let crew = roster(&hands).crew(&TaskType::new("a").unwrap()).unwrap();
        assert_eq!(crew.combined(), options(Some(2), Some(7)));
    }

    #[test]
    fn options_are_refused_beyond_their_limits_and_not_at_them() {
        let refused = |options: WorkerOptions| invalid_option(&options).is_some();
        let lock = |lock| WorkerOptions {
            lock,
            ..WorkerOptions::DEFAULT
        };
        assert!(!refused(lock(seconds(1))) && refused(lock(millis(999))));
        assert!(!refused(lock(MAX_DELAY)) && refused(lock(MAX_DELAY + millis(1))));
        let jitter = |jitter_percent| WorkerOptions {
            retry: RetryPolicy {
                jitter_percent,
                ..RetryPolicy::DEFAULT
            },
            ..WorkerOptions::DEFAULT
        };
        assert!(!refused(jitter(100)) && refused(jitter(101)));
    }
}
