//! Fuzz target: the URL of a server.

use std::time::Duration;

use delayq_fuzz::bolero::{check, produce};
use delayq_fuzz::{Reach, bytes, spell};

use super::server::Server;

const WORDS: [&str; 24] = [
    "redis://",
    "rediss://",
    "user",
    "hunter2",
    "@",
    ":",
    "/",
    "?",
    "#",
    "#insecure",
    "localhost",
    "127.0.0.1",
    "[::1]",
    "6379",
    "65536",
    "/0",
    "/-1",
    "/99999999999",
    "?protocol=resp3",
    "?db=1",
    "%",
    "%00",
    "%ff",
    "\u{e4}",
];

/// The secret with which every other URL begins. It holds no character that could end it.
const SECRET: &str = "hunter2";

#[test]
fn an_url_is_understood_or_refused_without_its_secret() {
    let reach = Reach::at_least(5);
    check!()
        .with_generator((produce::<bool>(), bytes(10)))
        .for_each(|(has_secret, bytes)| {
            let start = if *has_secret {
                "redis://user:hunter2@"
            } else {
                ""
            };
            let url = format!("{start}{}", spell(bytes, &WORDS));
            // A secret that is spelled as a host is shown, as it should be.
            let is_secret = *has_secret && url.matches(SECRET).count() == 1;
            let server = Server::parse(&url, Duration::from_secs(1));
            reach.count(server.is_ok());
            match server {
                Ok(server) => {
                    let place = server.place();
                    assert!(!is_secret || !place.contains(SECRET), "{url}: {place}");
                    let again =
                        Server::parse(&place, Duration::from_secs(1)).expect("its own name");
                    assert_eq!(again.place(), place, "{url}");
                }
                Err(error) => {
                    let message = error.to_string();
                    assert!(
                        message.contains("redis://[user:password@]host"),
                        "{url}: {message}"
                    );
                    assert!(!is_secret || !message.contains(SECRET), "{url}: {message}");
                }
            }
        });
}
