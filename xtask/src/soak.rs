//! `cargo xtask soak`: the long, real-time, statistical rest of the proof, with the seeds of
//! record.

use std::path::PathBuf;
use std::time::Duration;

use crate::bench;
use crate::call::{Call, Failure};
use crate::chaos;
use crate::oldest;
use crate::proof;
use crate::table::Table;

/// Stores of the chaos, each with the seed of record; `docs/reliability.md` has their results.
const MIXES: [(&str, u32); 8] = [
    ("sqlite", 723),
    ("redis", 721),
    ("redis-everysec", 722),
    ("redis-sentinel", 63),
    ("redis-cluster", 911),
    ("server", 1),
    ("postgres", 1),
    ("tiered", 1),
];
/// Stores whose power is cut.
const POWER: [&str; 3] = ["sqlite", "redis", "redis-everysec"];
/// The seed of record of the power losses.
const POWER_SEED: u32 = 2;
/// Kills of an order service, and the seed of record.
const ORDER_KILLS: [&str; 4] = ["--kills", "1000", "--seed", "1"];
/// Power losses in a minute, roughly.
const CYCLES_A_MINUTE: u64 = 40;

/// How long to soak.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long all mixes and power losses take together, roughly. Each mix does each kind of fault
    /// at least once, which takes one to three minutes.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Only the checker, a short mix on SQLite and on Redis, and an order service that is killed a
    /// few times, unoptimised: what CI runs.
    #[arg(long)]
    quick: bool,
}

/// One part: its name, and its commands.
#[derive(Debug)]
struct Part {
    name: String,
    calls: Vec<Call>,
    /// What is more than calls, after them.
    own: fn() -> Result<(), Failure>,
}

impl Part {
    fn new(name: impl Into<String>, calls: Vec<Call>) -> Self {
        Self {
            name: name.into(),
            calls,
            own: || Ok(()),
        }
    }

    fn run(&self) -> Result<(), Failure> {
        println!("\n== {}", self.name);
        self.calls.iter().try_for_each(Call::run)?;
        (self.own)()
    }
}

/// Runs all parts, also when one fails: a soak is there to find.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut table = Table::default();
    let mut failed = Vec::new();
    for part in parts(args) {
        let result = table.time(&part.name, || part.run());
        if let Err(failure) = result {
            println!("  {failure}");
            failed.push(part.name);
        }
    }
    table.print();
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure(format!("failed: {}", failed.join(", "))))
}

fn parts(args: &Args) -> Vec<Part> {
    if args.quick {
        let name = "proof: checker, and a mix on SQLite and on Redis";
        let orders = "proof: an order service that is killed";
        return vec![
            Part::new(name, vec![quick_tests()]),
            Part::new(orders, vec![quick_orders()]),
        ];
    }
    let mut parts = vec![
        Part::new("proof: fmt", fmt()),
        Part::new("proof: clippy", clippy()),
        Part::new("book", vec![proof::book()]),
        Part {
            own: oldest::rusqlite,
            ..Part::new("the oldest rusqlite", Vec::new())
        },
        Part::new("proof: tests", tests()),
    ];
    parts.push(Part::new("tests of the feature soak", soak_tests()));
    parts.extend(other_servers());
    let schemathesis = Call::new("cargo xtask schemathesis");
    parts.push(Part::new("schemathesis", vec![schemathesis]));
    // Two thirds of the time are the mixes'.
    let seconds = Duration::from_mins(args.minutes).as_secs() * 2 / 3 / MIXES.len() as u64;
    for (store, seed) in MIXES {
        let mix = chaos::program("run").word("--store").word(store);
        let mix = mix.word("--seed").word(seed.to_string());
        let mix = mix.word("--seconds").word(seconds.to_string());
        let builds = (store == "server").then(proof::build_server);
        let calls = builds.into_iter().chain([mix]).collect();
        parts.push(Part::new(format!("chaos: {store}"), calls));
    }
    parts.push(Part::new("clients of PostgreSQL", clients()));
    let orders = ORDER_KILLS
        .into_iter()
        .fold(chaos::order_service(), Call::word);
    parts.push(Part::new("orders: postgres", vec![orders]));
    parts.push(Part::new("plateau: postgres", vec![bench::plateau()]));
    let cycles = (args.minutes / 3 * CYCLES_A_MINUTE / POWER.len() as u64).max(10);
    for store in POWER {
        let power = chaos::program("power").word("--store").word(store);
        let power = power.word("--seed").word(POWER_SEED.to_string());
        let power = power.word("--cycles").word(cycles.to_string());
        parts.push(Part::new(format!("power: {store}"), vec![power]));
    }
    parts
}

/// The tests of the Redis store on each server that `DELAYQ_REDIS_SERVERS` names: files, separated
/// as in a PATH, such as a Redis 8 and a Valkey.
fn other_servers() -> Vec<Part> {
    let named = std::env::var_os("DELAYQ_REDIS_SERVERS").unwrap_or_default();
    let servers = std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty());
    let part = |server: PathBuf| {
        let server = server.display().to_string();
        let tests = "cargo test --locked -p delayq-tests --test contract --test redis_store \
                     --test multi_server --no-fail-fast";
        let call = Call::new(tests).variable("DELAYQ_REDIS_SERVER", &server);
        Part::new(format!("redis store: {server}"), vec![call])
    };
    servers.map(part).collect()
}

fn fmt() -> Vec<Call> {
    vec![
        proof::call("cargo fmt --all -- --check"),
        // The peers of the benchmark are a workspace of their own, which only `bench --peers`
        // builds.
        proof::call("cargo fmt --manifest-path bench/peers/Cargo.toml -- --check"),
    ]
}

fn clippy() -> Vec<Call> {
    vec![proof::call(
        "cargo clippy --locked --workspace --all-targets -- -D warnings",
    )]
}

/// The checker's planted records, and a mix of faults on SQLite and on one Redis server. The mixes
/// of sentinels and clusters are in [`tests`].
fn quick_tests() -> Call {
    proof::call(
        "cargo test --locked --no-fail-fast -p delayq-chaos --lib --test recorded --test mix -- \
         --skip sentinels --skip cluster",
    )
}

/// A program for each client of PostgreSQL, a workspace of its own.
fn clients() -> Vec<Call> {
    let call = |line| proof::call_in("proof/clients", line);
    vec![
        call("cargo fmt -- --check"),
        call("cargo clippy --locked --all-targets -- -D warnings"),
        call("cargo test --locked --no-fail-fast"),
    ]
}

/// A short run.
fn quick_orders() -> Call {
    proof::call("cargo test --locked -p delayq-orders --test short")
}

/// Everything, and the examples of the guide.
fn tests() -> Vec<Call> {
    vec![
        proof::call("cargo build --locked --workspace --bins --examples"),
        proof::call("cargo test --locked --workspace --tests --no-fail-fast"),
        proof::call("cargo test --locked --workspace --doc"),
    ]
}

fn soak_tests() -> Vec<Call> {
    vec![
        Call::new("cargo build --locked --workspace --profile test --bins --examples"),
        Call::new("cargo test --locked -p delayq-tests --features soak --tests --no-fail-fast"),
        Call::new("cargo test --locked -p delayq-server --features soak --no-fail-fast"),
        Call::new("cargo test --locked -p delayq-service --features soak --no-fail-fast"),
        Call::new("cargo test --locked -p delayq-fronts --features soak --no-fail-fast"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(minutes: u64, quick: bool) -> Vec<String> {
        let parts = parts(&Args { minutes, quick });
        let calls = parts.iter().flat_map(|part| &part.calls);
        calls.map(ToString::to_string).collect()
    }

    #[test]
    fn a_soak_has_a_mix_and_power_losses_of_each_store_with_the_seeds_of_record() {
        let lines = lines(60, false);
        let has = |end: &str| lines.iter().any(|line| line.ends_with(end));
        assert!(
            has("run --store sqlite --seed 723 --seconds 300"),
            "{lines:?}"
        );
        assert!(has("run --store redis-cluster --seed 911 --seconds 300"));
        assert!(
            has("power --store redis --seed 2 --cycles 266"),
            "{lines:?}"
        );
        assert!(has("run --kills 1000 --seed 1"), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("--features soak")));
        assert!(has("delayq-bench -- --plateau"), "{lines:?}");
    }

    #[test]
    fn a_quick_soak_is_unoptimised_and_judges_short_mixes() {
        let lines = lines(60, true);
        assert!(lines.iter().all(|line| !line.contains("--release")));
        assert!(lines.iter().any(|line| line.contains("--test mix")));
    }
}
