//! The machine that the figures are of.

use std::fmt;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Failure;

/// Writes whose median is the time of a sync.
const SYNCS: usize = 51;

/// What a reader needs to compare figures.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    cores: usize,
    processor: String,
    memory: String,
    system: String,
    /// Of the last minute, before the benchmark: what else was running.
    load: String,
    /// To append 4 KiB to a file and sync it.
    sync: Duration,
    rust: String,
    delayq: &'static str,
}

impl Machine {
    pub(crate) fn look() -> Result<Self, Failure> {
        Ok(Self {
            cores: available_parallelism()?.get(),
            processor: line_of("/proc/cpuinfo", "model name")
                .unwrap_or_else(|| output("sysctl", &["-n", "machdep.cpu.brand_string"])),
            memory: line_of("/proc/meminfo", "MemTotal")
                .unwrap_or_else(|| output("sysctl", &["-n", "hw.memsize"])),
            system: output("uname", &["-srm"]),
            load: fs::read_to_string("/proc/loadavg").map_or_else(
                |_| output("sysctl", &["-n", "vm.loadavg"]),
                |text| text.split(' ').next().unwrap_or("").to_owned(),
            ),
            sync: sync_time()?,
            rust: output("rustc", &["--version"]),
            delayq: env!("CARGO_PKG_VERSION"),
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cores,
            processor,
            memory,
            system,
            load,
            sync,
            rust,
            delayq,
        } = self;
        let sync_us = sync.as_micros();
        writeln!(
            f,
            "{cores} cores ({processor}), {memory} of memory, {system};"
        )?;
        writeln!(
            f,
            "4 KiB are appended and synced in {sync_us} µs (median); load before: {load};"
        )?;
        write!(f, "{rust}, delayq {delayq}")
    }
}

/// The value of the first line `name : value` of a file.
fn line_of(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(found, _)| found.trim() == name)?;
    Some(value.trim().to_owned())
}

/// What a program prints; says so when it cannot.
fn output(program: &str, arguments: &[&str]) -> String {
    let printed = Command::new(program).args(arguments).output();
    let printed = printed.ok().filter(|output| output.status.success());
    printed.map_or("unknown".to_owned(), |output| {
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}

fn sync_time() -> Result<Duration, Failure> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    std::fs::create_dir_all(&target)?;
    let mut file = tempfile::tempfile_in(target)?;
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        let started = Instant::now();
        file.write_all(&[7; 4_096])?;
        file.sync_data()?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    Ok(times.get(SYNCS / 2).copied().unwrap_or_default())
}
