//! The same work on stores that promise more and more.

use delayq_plugin::WorkerOptions;

use crate::Failure;
use crate::curve::Extent;
use crate::curve::ground::Setup;
use crate::curve::pace;
use crate::curve::sheet::{Line, Panel, Scale, Sheet};
use crate::figure::{short, spread};
use crate::load::BULK;
use crate::redis_server::Persistence;

const SETUPS: [Setup; 5] = [
    Setup::Redis(Persistence::None),
    Setup::Redis(Persistence::EverySecond),
    Setup::Redis(Persistence::Always),
    Setup::Sqlite { relaxed: true },
    Setup::Sqlite { relaxed: false },
];

const HEAD: [&str; 4] = [
    "store",
    "submitted singly, 64 in flight, tasks/s",
    "in bulk, tasks/s",
    "drained, tasks/s",
];

/// Rates of one store, of all rounds.
#[derive(Debug, Default)]
struct Samples {
    singly: Vec<f64>,
    bulk: Vec<f64>,
    drain: Vec<f64>,
}

/// Measures each store.
pub(crate) async fn measure(extent: &Extent) -> Result<Sheet, Failure> {
    let mut all = SETUPS.map(|_| Samples::default());
    for _ in 0..extent.rounds {
        for (setup, samples) in SETUPS.into_iter().zip(&mut all) {
            let singly = pace::singly(&setup.open()?.url, extent.single).await?;
            let pace = pace::in_bulk(
                (&setup.open()?.url, WorkerOptions::default()),
                extent.tasks,
                BULK,
                pace::now,
            )
            .await?;
            println!("  {}: singly {singly:.0}, {pace:?}", setup.name());
            samples.singly.push(singly);
            samples.bulk.push(pace.submit);
            samples.drain.push(pace.drain);
        }
    }
    let medians = all.map(|samples| {
        [samples.singly, samples.bulk, samples.drain].map(|samples| spread(&samples)[1])
    });
    let row = |(setup, rates): (Setup, &[f64; 3])| {
        let mut row = vec![setup.name().to_owned()];
        row.extend(rates.map(short));
        row
    };
    Ok(Sheet {
        head: &HEAD,
        rows: SETUPS.into_iter().zip(&medians).map(row).collect(),
        panels: vec![panel(&medians)],
    })
}

fn panel(medians: &[[f64; 3]]) -> Panel {
    let names = ["submitted singly", "submitted in bulk", "drained"]
        .into_iter()
        .enumerate();
    let values = |at: usize| {
        medians
            .iter()
            .filter_map(move |rates| rates.get(at).copied())
    };
    Panel {
        title: "What a promise costs",
        unit: "tasks/s",
        along: "store",
        places: SETUPS.map(|setup| setup.name().to_owned()).to_vec(),
        scale: Scale::Linear,
        lines: names
            .map(|(at, name)| Line::new(name, values(at)))
            .collect(),
    }
}
