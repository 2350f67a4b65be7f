//! What is measured of each contender, and how much of it.

use std::time::Duration;

use serde::Serialize;

/// The cases on Redis and beanstalkd, in their order.
pub(crate) const OF_REDIS: [Case; 8] = [
    Case::SubmitInBulk,
    Case::SubmitSingly,
    Case::DrainFew,
    Case::Drain,
    Case::Memory,
    Case::Lateness(5),
    Case::Lateness(500),
    Case::Herd,
];

/// The cases on PostgreSQL.
pub(crate) const OF_POSTGRES: [Case; 8] = [
    Case::SubmitInBulk,
    Case::SubmitSingly,
    Case::Drain,
    Case::Log,
    Case::Commits,
    Case::Lateness(5),
    Case::Lateness(500),
    Case::Herd,
];

/// As many due tasks as no peer stumbles over: apalis-redis does at about 8,000.
const FEW: usize = 5_000;

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Case {
    SubmitInBulk,
    SubmitSingly,
    /// Few enough for every peer.
    DrainFew,
    Drain,
    Memory,
    /// What a task's whole life writes to the server's log.
    Log,
    /// The transactions of a task's whole life.
    Commits,
    /// At so many tasks a second.
    Lateness(u32),
    Herd,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Scale {
    /// Rounds that count of the cases about throughput, after one that warms up.
    rounds: usize,
    bulk: usize,
    single: usize,
    drain: usize,
    memory: usize,
    herd: usize,
    /// For so many seconds 5 tasks a second are sent.
    calm_s: u32,
    /// For so many seconds 500 tasks a second are sent.
    busy_s: u32,
    /// How many seconds a drain may take, and how long tasks are waited for that should have
    /// started.
    limit_s: u64,
}

impl Scale {
    pub(crate) const FULL: Self = Self {
        rounds: 5,
        bulk: 100_000,
        single: 50_000,
        drain: 50_000,
        memory: 100_000,
        herd: 10_000,
        calm_s: 30,
        busy_s: 30,
        limit_s: 60,
    };

    /// Each commit waits for a disk: as many tasks as above would take an hour.
    pub(crate) const POSTGRES: Self = Self {
        rounds: 3,
        bulk: 50_000,
        single: 10_000,
        drain: 20_000,
        ..Self::FULL
    };

    /// Large enough to see that all works; the figures vary a lot.
    pub(crate) const QUICK: Self = Self {
        rounds: 2,
        bulk: 10_000,
        single: 10_000,
        drain: 10_000,
        memory: 20_000,
        herd: 10_000,
        calm_s: 6,
        busy_s: 4,
        limit_s: 10,
    };
}

impl Case {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SubmitInBulk => "submit in bulk",
            Self::SubmitSingly => "submit singly, 64 in flight",
            Self::DrainFew => "drain of 5,000 due tasks",
            Self::Drain => "drain of due tasks",
            Self::Memory => "memory",
            Self::Log => "log, whole life",
            Self::Commits => "commits, whole life",
            Self::Lateness(5) => "lateness, 5 tasks/s",
            Self::Lateness(_) => "lateness, 500 tasks/s",
            Self::Herd => "all due at once",
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Memory | Self::Log => "bytes/task",
            Self::Commits => "commits/1,000 tasks",
            Self::SubmitInBulk | Self::SubmitSingly | Self::DrainFew | Self::Drain => "tasks/s",
            Self::Lateness(_) | Self::Herd => "ms",
        }
    }

    /// Whether several rounds are made of it, of which the first does not count.
    pub(crate) fn warms_up(self) -> bool {
        self.unit() == "tasks/s"
    }

    pub(crate) fn rounds(self, scale: &Scale) -> usize {
        if self.warms_up() { scale.rounds + 1 } else { 1 }
    }

    /// The words that follow the peer's name on the command line.
    pub(crate) fn words(self, scale: &Scale) -> Vec<String> {
        let (word, count, rate) = match self {
            Self::SubmitInBulk => ("submit-in-bulk", scale.bulk, 0),
            Self::SubmitSingly => ("submit-singly", scale.single, 0),
            Self::DrainFew => ("drain", FEW, 0),
            Self::Drain | Self::Log | Self::Commits => ("drain", scale.drain, 0),
            Self::Memory => ("memory", scale.memory, 0),
            Self::Lateness(rate) => {
                let span_s = if rate <= 5 {
                    scale.calm_s
                } else {
                    scale.busy_s
                };
                ("lateness", (rate * span_s) as usize, rate)
            }
            Self::Herd => ("herd", scale.herd, 0),
        };
        let (count, rate, limit) = (
            count.to_string(),
            rate.to_string(),
            scale.limit_s.to_string(),
        );
        [word, "--count", &count, "--rate", &rate, "--limit", &limit]
            .map(str::to_owned)
            .to_vec()
    }

    /// What the server counts for each task, of `[bytes of its log, transactions]`; `None` when the
    /// process says what came out.
    pub(crate) fn counted(self, scale: &Scale, [bytes, commits]: [u64; 2]) -> Option<f64> {
        #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
        let each = |all: u64| all as f64 / scale.drain as f64;
        match self {
            Self::Log => Some(each(bytes)),
            Self::Commits => Some(each(commits) * 1e3),
            _ => None,
        }
    }

    /// Whether the server counts, and not the process.
    pub(crate) fn is_counted(self) -> bool {
        matches!(self, Self::Log | Self::Commits)
    }

    /// When the process is taken to hang: sending and starting have their time beside the limit.
    pub(crate) fn patience(scale: &Scale) -> Duration {
        Duration::from_secs(2 * scale.limit_s + u64::from(scale.calm_s) + 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_counts_is_told_by_the_task() {
        let scale = Scale::QUICK;
        assert_eq!(Case::Log.counted(&scale, [20_000, 50]), Some(2.0));
        assert_eq!(Case::Commits.counted(&scale, [20_000, 50]), Some(5.0));
        for case in OF_POSTGRES {
            let counted = case.counted(&scale, [1, 1]);
            assert_eq!(counted.is_some(), case.is_counted(), "{case:?}");
        }
    }

    #[test]
    fn the_words_are_those_that_the_program_takes() {
        let words = Case::Lateness(500).words(&Scale::QUICK).join(" ");
        assert_eq!(words, "lateness --count 2000 --rate 500 --limit 10");
    }
}
