//! The same work with larger and larger messages.

use delayq_plugin::{DelayQueueJob, Error, WorkerOptions};

use crate::Failure;
use crate::curve::Extent;
use crate::curve::ground::Setup;
use crate::curve::pace::{self, Pace};
use crate::curve::sheet::{Line, Panel, Scale, Sheet};
use crate::figure::{short, spread};
use crate::load::{BULK, TASK_TYPE};
use crate::redis_server::Persistence;

const SIZES: [(usize, &str); 5] = [
    (10, "10 B"),
    (200, "200 B"),
    (2 << 10, "2 KiB"),
    (20 << 10, "20 KiB"),
    (256 << 10, "256 KiB"),
];
const SETUPS: [(Setup, &str); 2] = [
    (Setup::Redis(Persistence::EverySecond), "redis"),
    (Setup::Sqlite { relaxed: false }, "sqlite"),
];
/// Bytes of the messages of one call, at most: more would not travel any better.
const CALL_BYTES: usize = 8 << 20;

const HEAD: [&str; 6] = [
    "store",
    "message",
    "submitted, tasks/s",
    "MB/s",
    "drained, tasks/s",
    "MB/s",
];

/// Rates at one size, of all rounds.
#[derive(Clone, Debug, Default)]
struct Samples {
    submit: Vec<f64>,
    drain: Vec<f64>,
}

/// Measures Redis and SQLite with each size.
pub(crate) async fn measure(extent: &Extent) -> Result<Sheet, Failure> {
    let mut all = SETUPS.map(|_| SIZES.map(|_| Samples::default()));
    for _ in 0..extent.rounds {
        for ((setup, _), of_setup) in SETUPS.iter().zip(&mut all) {
            for ((bytes, name), samples) in SIZES.iter().zip(of_setup) {
                let pace = round(*setup, *bytes, extent).await?;
                println!("  {}, {name}: {pace:?}", setup.name());
                samples.submit.push(pace.submit);
                samples.drain.push(pace.drain);
            }
        }
    }
    let medians: Vec<(&str, Vec<Pace>)> = SETUPS
        .iter()
        .zip(&all)
        .map(|((_, store), of_setup)| (*store, of_setup.iter().map(Samples::median).collect()))
        .collect();
    Ok(Sheet {
        head: &HEAD,
        rows: rows(&medians),
        panels: panels(&medians),
    })
}

async fn round(setup: Setup, bytes: usize, extent: &Extent) -> Result<Pace, Failure> {
    let ground = setup.open()?;
    let message = vec![b'x'; bytes];
    let job = |_| Ok::<_, Error>(DelayQueueJob::raw(TASK_TYPE, message.clone()));
    let (tasks, bulk) = portions(bytes, extent);
    pace::in_bulk((&ground.url, WorkerOptions::default()), tasks, bulk, job).await
}

/// How many tasks, and how many of them in one call.
fn portions(bytes: usize, extent: &Extent) -> (usize, usize) {
    let tasks = (extent.bytes / bytes).min(extent.tasks);
    (tasks, (CALL_BYTES / bytes).min(BULK))
}

impl Samples {
    fn median(&self) -> Pace {
        Pace {
            submit: spread(&self.submit)[1],
            drain: spread(&self.drain)[1],
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn megabytes(rate: f64, bytes: usize) -> f64 {
    rate * bytes as f64 / 1e6
}

fn rows(medians: &[(&str, Vec<Pace>)]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (store, paces) in medians {
        for ((bytes, name), pace) in SIZES.into_iter().zip(paces) {
            let cells =
                [pace.submit, pace.drain].map(|rate| [short(rate), short(megabytes(rate, bytes))]);
            let mut row = vec![(*store).to_owned(), name.to_owned()];
            row.extend(cells.into_iter().flatten());
            rows.push(row);
        }
    }
    rows
}

fn panels(medians: &[(&str, Vec<Pace>)]) -> Vec<Panel> {
    let lines = |value: fn(f64, usize) -> f64| {
        let of_store = |(store, paces): &(&str, Vec<Pace>)| {
            let values = |rate: fn(&Pace) -> f64| {
                let sizes = paces.iter().zip(SIZES);
                sizes
                    .map(move |(pace, (bytes, _))| value(rate(pace), bytes))
                    .collect::<Vec<_>>()
            };
            [
                Line::new(format!("{store}, submitted"), values(|pace| pace.submit)),
                Line::new(format!("{store}, drained"), values(|pace| pace.drain)),
            ]
        };
        medians.iter().flat_map(of_store).collect()
    };
    let panel = |title, unit, lines| Panel {
        title,
        unit,
        along: "size of a message",
        places: SIZES.map(|(_, name)| name.to_owned()).to_vec(),
        scale: Scale::Logarithmic,
        lines,
    };
    vec![
        panel("Tasks", "tasks/s", lines(|rate, _| rate)),
        panel("Bytes of their messages", "MB/s", lines(megabytes)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_are_few_and_small_ones_no_more_than_asked_for() {
        let full = Extent::FULL;
        assert_eq!(portions(10, &full), (full.tasks, BULK));
        let (tasks, bulk) = portions(256 << 10, &full);
        assert!(tasks * (256 << 10) <= full.bytes && tasks > bulk, "{tasks}");
        assert_eq!(bulk, 32);
    }

    #[test]
    fn a_row_holds_tasks_and_megabytes() {
        let pace = Pace {
            submit: 1_000.0,
            drain: 500.0,
        };
        let rows = rows(&[("redis", vec![pace; 5])]);
        assert_eq!(rows.len(), 5);
        assert_eq!(rows[4].join(" "), "redis 256 KiB 1,000 262 500 131");
    }
}
