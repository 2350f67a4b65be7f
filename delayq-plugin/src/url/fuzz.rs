//! Fuzz target: store URLs, up to where a connection would be made.

use delayq_core::store::{Durability, StoreOptions};
use delayq_fuzz::bolero::{check, produce};
use delayq_fuzz::{Reach, bytes, spell};

use super::{Place, parse};

const WORDS: [&str; 26] = [
    "memory:",
    "sqlite:",
    "sqlite://",
    "redis://",
    "rediss://",
    "postgres://",
    "localhost:6379",
    "/0",
    "?",
    "&",
    "=",
    "@",
    ":",
    "//",
    "durability=",
    "durability=process",
    "memory",
    "disk",
    "replicated",
    "sync=full",
    "sync=normal",
    "tasks.db",
    "/var/lib/",
    "user:hunter2@",
    "#",
    "\u{e4}",
];

/// What somebody may write before the secret; the URL goes on as the fuzzer likes.
const STARTS: [&str; 6] = [
    "redis://user:",
    "rediss-sentinel://:",
    "valkey://user:",
    "valkey:user:",
    "redis:user:",
    "sqlite:user:",
];
/// A secret, also with what a URL does not allow in it.
const SECRETS: [&str; 4] = ["hunter2", "?hunter2", "&hunter2=", "a@hunter2?b=c"];

fn url_of(place: &Place<'_>, durability: Durability) -> String {
    let query = format!("?durability={}", durability.as_str());
    match place {
        Place::Memory => format!("memory:{query}"),
        Place::Sqlite { path, relaxed } => {
            let sync = if *relaxed { "normal" } else { "full" };
            format!("sqlite://{path}{query}&sync={sync}")
        }
        Place::Redis(url) if url.contains('?') => url.replacen('?', &format!("{query}&"), 1),
        Place::Redis(url) => format!("{url}{query}"),
    }
}

#[test]
fn a_store_url_is_understood_or_refused_with_what_to_write() {
    let reach = Reach::at_least(3);
    check!().with_generator(bytes(12)).for_each(|bytes| {
        let url = spell(bytes, &WORDS);
        let parsed = parse(&url, StoreOptions::default());
        reach.count(parsed.is_ok());
        match parsed {
            // Behind a `#` stands no option: what is put there is not read back.
            Ok(_) if url.contains('#') => {}
            Ok((place, options)) => {
                let again = url_of(&place, options.durability);
                let (same, same_options) = parse(&again, StoreOptions::default()).expect(&again);
                assert_eq!((same, same_options.durability), (place, options.durability));
            }
            Err(error) => {
                let message = error.to_string();
                let rules = [
                    "memory:",
                    "durability=memory",
                    "memory, process",
                    "sqlite:PATH",
                ];
                assert!(
                    rules.iter().any(|rule| message.contains(rule)),
                    "{url}: {message}"
                );
            }
        }
    });
}

#[test]
fn a_refused_store_url_does_not_tell_its_secret() {
    let reach = Reach::at_least(20);
    check!()
        .with_generator((produce::<u8>(), produce::<u8>(), bytes(12)))
        .for_each(|(start, secret, bytes)| {
            let start = STARTS[usize::from(start % 6)];
            let secret = SECRETS[usize::from(secret % 4)];
            let rest = spell(bytes, &WORDS).replace("hunter2", "x");
            let url = format!("{start}{secret}@{rest}");
            let parsed = parse(&url, StoreOptions::default());
            // Here it is a refusal that may tell too much.
            reach.count(parsed.is_err());
            if let Err(error) = parsed {
                let message = error.to_string();
                assert!(!message.contains("hunter2"), "{url}: {message}");
            }
        });
}
