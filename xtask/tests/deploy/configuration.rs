//! The example configuration of the archive and of the package.

use crate::defaults::default_of;
use crate::read;

#[test]
fn the_example_shows_defaults_as_they_are() {
    let example = read("docs/deploy/server.toml");
    let mut table = String::new();
    let mut seen = Vec::new();
    for line in example.lines() {
        if let Some(name) = line.strip_prefix('[') {
            table = name.replace(']', ".");
        }
        let Some((name, value)) = line
            .strip_prefix("# ")
            .and_then(|line| line.split_once(" = "))
        else {
            continue;
        };
        let option = format!("{table}{name}");
        let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        // Others are examples: of options without a default, and of further stores.
        let is_set = is_name && !name.ends_with("_file") && !option.starts_with("tls.");
        if is_set && option != "admin.listen" && !seen.contains(&option) {
            assert_eq!(value.trim_matches('"'), default_of(&option), "{option}");
            seen.push(option);
        }
    }
    assert!(seen.len() > 5, "{seen:?}");
}

#[test]
fn the_unit_waits_as_long_as_the_server_takes_to_stop() {
    let unit = read("docs/deploy/delayq-server.service");
    let seconds = unit
        .lines()
        .find_map(|line| line.strip_prefix("TimeoutStopSec="));
    let seconds: u64 = seconds.unwrap().parse().unwrap();
    let grace = default_of("stop.ready_grace_ms").parse().unwrap();
    assert!(seconds * 1_000 >= crate::defaults::longest_stop_ms(grace) + 5_000);
}

/// A store that is away for a while, at boot or later, does not end the service for good.
#[test]
fn the_unit_tries_again_for_as_long_as_its_store_is_away() {
    let unit = read("docs/deploy/delayq-server.service");
    let (about, service) = unit.split_once("\n[Service]\n").unwrap();
    assert!(about.lines().any(|line| line == "StartLimitIntervalSec=0"));
    assert!(service.lines().any(|line| line == "Restart=on-failure"));
    // A check also fails for what a start does without.
    assert!(
        !service
            .lines()
            .any(|line| line.starts_with("ExecStartPre="))
    );
    let after = about.lines().find_map(|line| line.strip_prefix("After="));
    for store in ["redis-server.service", "postgresql.service"] {
        assert!(after.unwrap().split(' ').any(|one| one == store), "{store}");
    }
}
