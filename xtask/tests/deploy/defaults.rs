//! What the server has by itself.

use crate::read;

/// The default of an option, from the table of the guide.
pub(crate) fn default_of(option: &str) -> String {
    let page = read("docs/guide/server.md");
    let start = format!("| `{option}` | `");
    let row = page.lines().find_map(|line| line.strip_prefix(&start));
    let row = row.unwrap_or_else(|| panic!("{option} has no default in the guide"));
    row.split('`').next().unwrap().to_owned()
}

/// How long the server takes to stop at most, in milliseconds, if it goes on for `ready_grace_ms`
/// first: the guide says that pushes have 20 s after the requests.
pub(crate) fn longest_stop_ms(ready_grace_ms: u64) -> u64 {
    let page = read("docs/guide/server-operations.md");
    assert!(page.contains("Pushes that are running then have 20 s more."));
    ready_grace_ms + default_of("stop.grace_ms").parse::<u64>().unwrap() + 20_000
}

/// The port of the server.
pub(crate) fn port() -> u16 {
    let listen = default_of("listen");
    listen.rsplit(':').next().unwrap().parse().unwrap()
}
