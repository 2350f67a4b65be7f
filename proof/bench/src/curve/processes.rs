//! The same work shared by more and more processes.

use crate::Failure;
use crate::curve::Extent;
use crate::curve::instance::Account;
use crate::curve::instance_group::{Drained, InstanceGroup};
use crate::curve::sheet::{Line, Panel, Scale, Sheet, verdict};
use crate::figure::{short, spread};
use crate::load::STEP;

const PROCESSES: [usize; 4] = [1, 2, 4, 8];
/// Rounds of the same thing differ by so much: a rate that is lower by less has not fallen.
const SPREAD: f64 = 0.05;
/// The most claims that may come back empty for each batch.
const EMPTY: f64 = 1.2;
/// The most that one process may run against another one's.
const UNFAIR: f64 = 1.2;

const HEAD: [&str; 10] = [
    "processes",
    "drained, tasks/s",
    "against one",
    "does not fall",
    "claims per 128 tasks",
    "empty ones among them",
    "most against least",
    "<= 1.2",
    "steady: empty claims per batch",
    "<= 1.2",
];

/// What so many processes did, in several rounds.
#[derive(Debug, Default)]
struct Level {
    rates: Vec<f64>,
    /// Claims, and empty ones, for as many tasks as one claim takes.
    claims: Vec<f64>,
    empty: Vec<f64>,
    shares: Vec<f64>,
    /// Empty claims each time tasks become due in a steady flow.
    steady: Vec<f64>,
}

/// Measures each number of processes.
pub(crate) async fn measure(extent: &Extent) -> Result<Sheet, Failure> {
    let mut levels = PROCESSES.map(|_| Level::default());
    for _ in 0..extent.rounds {
        for (processes, level) in PROCESSES.into_iter().zip(&mut levels) {
            let mut group = InstanceGroup::gather(processes, 1, None).await?;
            let drained = group.drain(extent.tasks).await?;
            let (times, accounts) = group.trickle(extent.span / 2).await?;
            println!("  {processes} processes: {drained:?}, then {times} batches: {accounts:?}");
            level.add(&drained, extent.tasks, per(empty_claims(&accounts), times));
            group.end().await?;
        }
    }
    let one = spread(&levels[0].rates)[1];
    let rows = PROCESSES.iter().zip(&levels);
    Ok(Sheet {
        head: &HEAD,
        rows: rows
            .map(|(processes, level)| level.row(*processes, one))
            .collect(),
        panels: panels(&levels),
    })
}

impl Level {
    fn add(&mut self, drained: &Drained, tasks: usize, steady: f64) {
        let batches = tasks.div_ceil(STEP);
        let claims = drained.accounts.iter().map(|account| account.claims).sum();
        self.rates.push(drained.rate);
        self.claims.push(per(claims, batches));
        self.empty
            .push(per(empty_claims(&drained.accounts), batches));
        self.shares.push(most_against_least(&drained.accounts));
        self.steady.push(steady);
    }

    fn row(&self, processes: usize, one: f64) -> Vec<String> {
        let [rate, claims, empty, shares, steady] = [
            &self.rates,
            &self.claims,
            &self.empty,
            &self.shares,
            &self.steady,
        ]
        .map(|samples| spread(samples)[1]);
        vec![
            processes.to_string(),
            short(rate),
            format!("{:.2}", rate / one),
            verdict(rate >= one * (1.0 - SPREAD)),
            format!("{claims:.2}"),
            format!("{empty:.2}"),
            format!("{shares:.2}"),
            verdict(shares <= UNFAIR),
            format!("{steady:.2}"),
            verdict(steady <= EMPTY && empty <= EMPTY),
        ]
    }
}

fn empty_claims(accounts: &[Account]) -> u64 {
    accounts.iter().map(|account| account.empty_claims).sum()
}

/// The share of the process that ran most, against that of the one that ran least.
#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn most_against_least(accounts: &[Account]) -> f64 {
    let ran = || accounts.iter().map(|account| account.ran);
    let (most, least) = (ran().max().unwrap_or(0), ran().min().unwrap_or(0));
    most as f64 / least as f64
}

#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn per(claims: u64, batches: usize) -> f64 {
    claims as f64 / batches as f64
}

fn panels(levels: &[Level]) -> Vec<Panel> {
    let line = |name, samples: fn(&Level) -> &Vec<f64>| {
        Line::new(name, levels.iter().map(|level| spread(samples(level))[1]))
    };
    let panel = |title, unit, lines| Panel {
        title,
        unit,
        along: "processes",
        places: PROCESSES.map(|processes| processes.to_string()).to_vec(),
        scale: Scale::Linear,
        lines,
    };
    vec![
        panel(
            "Drained by all",
            "tasks/s",
            vec![line("redis", |level| &level.rates)],
        ),
        panel(
            "Claims that come back empty",
            "per batch",
            vec![
                line("drain", |level| &level.empty),
                line("steady flow", |level| &level.steady),
            ],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(ran: u64, empty_claims: u64) -> Account {
        Account {
            ran,
            empty_claims,
            claims: 10,
            last_ms: 0,
        }
    }

    #[test]
    fn a_process_that_ran_nothing_is_as_unfair_as_can_be() {
        let fair = most_against_least(&[account(110, 0), account(100, 0)]);
        assert!((fair - 1.1).abs() < 1e-9, "{fair}");
        assert!(most_against_least(&[account(210, 0), account(0, 0)]).is_infinite());
    }

    #[test]
    fn a_row_says_which_goals_are_met() {
        let drained = Drained {
            rate: 90_000.0,
            accounts: vec![account(1_280, 3), account(1_280, 2)],
        };
        let mut level = Level::default();
        level.add(&drained, 2_560, 7.0);
        assert_eq!(
            level.row(2, 100_000.0).join(" "),
            "2 90,000 0.90 **no** 1.00 0.25 1.00 yes 7.00 **no**"
        );
    }
}
