//! The cases, and what is measured of which store.

use crate::Failure;
use crate::figure::{Figure, Goal};
use crate::lateness::{self, Lateness, Load};
use crate::load::{Ids, MESSAGE_BYTES, Size};
use crate::stage::{Place, Stage};
use crate::{backlog, bare_sqlite, herd, idle, latency, memory, postgres, reopen, throughput};

/// Bytes of Redis memory that a task may take beside the message, with an id of 16 bytes.
const OVERHEAD_BYTES: usize = 225;
/// Types of the drain over several.
const SEVERAL_TYPES: usize = 16;

/// What a case yields.
#[derive(Debug)]
pub(crate) enum Outcome {
    Figure(Figure),
    Lateness(Lateness),
}

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    SubmitInBulk,
    SubmitSingly,
    /// By one caller, one after the other.
    SubmitAlone,
    /// The bare script likewise, from another thread than that of its connection.
    BareApart,
    /// By id, by many callers.
    Cancel,
    /// Of so many types.
    Drain(usize),
    /// What a task's whole life costs the server.
    LifeCpu,
    /// What claims and settlements cost the server.
    DrainCpu,
    /// Log, transactions and disk of the server.
    Costs,
    Lateness(Load),
    Idle,
    Memory(Ids),
    /// Very many due at once.
    Herd,
    /// A file after a kill.
    Reopen,
}

/// The cases of a store, in their order.
pub(crate) fn of(place: Place) -> Vec<Case> {
    let steady = |rate| Case::Lateness(Load::Steady(rate));
    let mut cases = vec![
        Case::SubmitInBulk,
        Case::SubmitSingly,
        Case::Cancel,
        Case::Drain(1),
    ];
    match place {
        Place::Redis => {
            cases.splice(2..2, [Case::SubmitAlone, Case::BareApart]);
            cases.extend([Case::Drain(SEVERAL_TYPES), Case::LifeCpu]);
            cases.extend([5, 500, 2_000, 20_000].map(steady));
            cases.extend([
                Case::Lateness(Load::Sooner),
                Case::Idle,
                Case::Memory(Ids::Own),
                Case::Memory(Ids::Generated),
                Case::Herd,
            ]);
        }
        Place::Sqlite => {
            cases.extend([5, 500].map(steady));
            cases.extend([Case::Lateness(Load::Sooner), Case::Reopen]);
        }
        Place::Postgres => {
            cases.extend([Case::DrainCpu, Case::Costs]);
            cases.extend([5, 500].map(steady));
            cases.push(Case::Lateness(Load::Sooner));
        }
        Place::Memory => {}
    }
    cases
}

impl Case {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SubmitInBulk => "submit in bulk",
            Self::SubmitSingly => "submit singly, 64 in flight",
            Self::SubmitAlone => "submit singly, one after the other, p50",
            Self::BareApart => "the bare call, across threads, p50",
            Self::Cancel => "cancel by id, 64 in flight",
            Self::Drain(1) => "drain of due tasks",
            Self::Drain(_) => "drain of due tasks, 16 types",
            Self::LifeCpu => "processor time of the server, whole life",
            Self::DrainCpu => "processor time of the server, claimed and settled",
            Self::Costs => "costs: log, transactions, disk",
            Self::Lateness(Load::Steady(_)) => "lateness",
            Self::Lateness(Load::Sooner) => "lateness of a sooner task",
            Self::Idle => "idle",
            Self::Memory(Ids::Own) => "memory, ids of 16 bytes",
            Self::Memory(Ids::Generated) => "memory, generated ids",
            Self::Herd => "herd",
            Self::Reopen => "reopen after a kill",
        }
    }

    pub(crate) async fn measure(self, stage: &Stage, size: &Size) -> Result<Vec<Outcome>, Failure> {
        let figure = match self {
            Self::Lateness(load) => {
                let lateness = lateness::measure(stage, load, size).await?;
                return Ok(vec![Outcome::Lateness(lateness)]);
            }
            Self::Herd => return herd(size.herd).await,
            Self::Costs => {
                let figures = postgres::costs(stage, size).await?;
                return Ok(figures.into_iter().map(Outcome::Figure).collect());
            }
            Self::Idle => {
                let figures = idle::figures(stage, size.span).await?;
                return Ok(figures.into_iter().map(Outcome::Figure).collect());
            }
            Self::SubmitInBulk
            | Self::SubmitSingly
            | Self::SubmitAlone
            | Self::BareApart
            | Self::Cancel
            | Self::Drain(_)
            | Self::LifeCpu
            | Self::DrainCpu => self.in_turns(stage, size).await?,
            Self::Memory(ids) => {
                let bare = stage.bare_redis().await?.memory(size.memory, ids).await?;
                let sample = memory::measure(stage, size.memory, ids).await?;
                self.figure(stage.place, vec![sample], vec![bare])
            }
            Self::Reopen => {
                let samples = reopen::measure(stage, size.herd, size.rounds).await?;
                self.figure(stage.place, samples, Vec::new())
            }
        };
        Ok(vec![Outcome::Figure(figure)])
    }

    /// Rounds of delayq and of the bare script take turns, so that both see the same machine.
    async fn in_turns(self, stage: &Stage, size: &Size) -> Result<Figure, Failure> {
        let (mut samples, mut bare) = (Vec::new(), Vec::new());
        for round in 0..=size.rounds {
            let ceiling = self.bare_round(stage, size).await?;
            let sample = self.round(stage, size).await?;
            // The first round warms up.
            if round > 0 {
                samples.push(sample);
                bare.extend(ceiling);
            }
        }
        Ok(self.figure(stage.place, samples, bare))
    }

    async fn round(self, stage: &Stage, size: &Size) -> Result<f64, Failure> {
        match self {
            Self::SubmitInBulk => throughput::submit_in_bulk(stage, size.bulk).await,
            Self::SubmitSingly => throughput::submit_singly(stage, size.single).await,
            Self::SubmitAlone => latency::of_send(stage, size.alone).await,
            Self::BareApart => latency::of_bare_apart(stage, size.alone).await,
            Self::LifeCpu => backlog::life_cpu(stage, size.drain).await,
            Self::DrainCpu => postgres::drain_cpu(stage, size.drain).await,
            Self::Cancel => throughput::cancel(stage, size.single).await,
            Self::Drain(types) => throughput::drain(stage, types, size.drain).await,
            _ => Err(format!("{} has no rounds", self.name()).into()),
        }
    }

    async fn bare_round(self, stage: &Stage, size: &Size) -> Result<Option<f64>, Failure> {
        let rate = match (stage.place, self) {
            (Place::Memory, _) | (_, Self::Cancel) | (Place::Sqlite, Self::SubmitSingly) => {
                return Ok(None);
            }
            (Place::Redis, case) => {
                let mut redis = stage.bare_redis().await?;
                match case {
                    Self::SubmitInBulk => redis.submit_in_bulk(size.bulk).await?,
                    Self::SubmitSingly => redis.submit_singly(size.single).await?,
                    Self::SubmitAlone | Self::BareApart => {
                        redis.submit_latency(size.alone, None).await?
                    }
                    Self::LifeCpu => redis.life_cpu(size.drain).await?,
                    _ => redis.drain(size.drain).await?,
                }
            }
            (Place::Postgres, Self::DrainCpu) => {
                postgres::bare_drain_cpu(stage, size.drain).await?
            }
            (Place::Postgres, case) => {
                let bare = stage.bare_postgres().await?;
                match case {
                    Self::SubmitInBulk => bare.submit_in_bulk(size.bulk).await?,
                    Self::SubmitSingly => bare.submit_singly(size.single).await?,
                    _ => bare.drain(size.drain).await?,
                }
            }
            (Place::Sqlite, case) => {
                let (file, size) = (stage.bare_file(), *size);
                let run = move || match case {
                    Self::SubmitInBulk => bare_sqlite::submit_in_bulk(&file, size.bulk),
                    _ => bare_sqlite::drain(&file, size.drain),
                };
                tokio::task::spawn_blocking(run).await??
            }
        };
        Ok(Some(rate))
    }

    fn figure(self, store: Place, samples: Vec<f64>, bare: Vec<f64>) -> Figure {
        let unit = match self {
            Self::SubmitAlone | Self::BareApart => "µs",
            Self::LifeCpu | Self::DrainCpu => "µs/task",
            Self::Memory(_) => "bytes/task",
            Self::Reopen => "ms",
            _ => "tasks/s",
        };
        Figure {
            name: self.name(),
            store,
            unit,
            goal: self.goal(store),
            samples,
            bare,
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "the goals are small numbers")]
    fn goal(self, store: Place) -> Goal {
        match (store, self) {
            (Place::Redis | Place::Postgres, Self::SubmitInBulk) => Goal::RatioAtLeast(0.8),
            (Place::Redis, Self::SubmitSingly) => Goal::RatioAtLeast(0.7),
            (Place::Redis, Self::SubmitAlone) => Goal::RatioAtMost(1.3),
            (Place::Redis, Self::Drain(_)) => Goal::RatioAtLeast(0.6),
            (Place::Redis, Self::LifeCpu) => Goal::AtMost(8.0),
            (Place::Redis, Self::Memory(Ids::Own)) => {
                Goal::AtMost((MESSAGE_BYTES + OVERHEAD_BYTES) as f64)
            }
            (Place::Postgres, Self::SubmitSingly) => Goal::RatioAtLeast(4.0),
            (Place::Postgres, Self::DrainCpu) => Goal::RatioAtMost(10.0),
            (Place::Sqlite, Self::SubmitInBulk) => Goal::AtLeast(80_000.0),
            (Place::Sqlite, Self::SubmitSingly) => Goal::AtLeast(50_000.0),
            (Place::Sqlite, Self::Drain(1)) => Goal::AtLeast(40_000.0),
            (Place::Sqlite, Self::Reopen) => Goal::AtMost(100.0),
            _ => Goal::None,
        }
    }
}

/// Several figures of one run.
async fn herd(count: usize) -> Result<Vec<Outcome>, Failure> {
    let herd = herd::measure(count).await?;
    let figures = [
        (
            "herd: drained",
            "tasks/s",
            Goal::AtLeast(100_000.0),
            herd.rate,
        ),
        (
            "herd: memory of the process",
            "MiB",
            Goal::AtMost(256.0),
            herd.memory,
        ),
        (
            "herd: calls of more than 5 ms",
            "calls",
            Goal::AtMost(0.0),
            herd.slow_calls,
        ),
        (
            "herd: another type's lateness, p99",
            "ms",
            Goal::None,
            herd.others_p99,
        ),
        (
            "herd: killed server, to the first task",
            "s",
            Goal::AtMost(5.0),
            herd.restart,
        ),
    ];
    let figure = |(name, unit, goal, sample)| {
        Outcome::Figure(Figure::of_one(Place::Redis, name, unit, goal, sample))
    };
    Ok(figures.into_iter().map(figure).collect())
}
