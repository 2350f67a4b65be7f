use proptest::prelude::*;

use super::*;

/// The builder has derived its `Debug` from a URL in the clear.
#[test]
fn a_builder_does_not_show_the_password_of_its_url() {
    for url in [
        "redis://user:hunter2@h/0",
        "redis-sentinel://h/orders?sentinel_password=hunter2",
        "postgres://user:hunter2@h/d",
    ] {
        let builder = crate::DelayQueuePlugin::builder().url(url);
        let shown = format!("{builder:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        let (scheme, _) = url.split_once("://").unwrap();
        assert!(shown.contains(scheme), "{shown}");
    }
}

#[test]
fn a_class_that_is_given_twice_is_refused() {
    for place in ["memory:", "sqlite:a", "redis://h", "postgres://h"] {
        let url = format!("{place}?durability=disk&durability=memory");
        let refused = parse(&url, StoreOptions::default()).unwrap_err();
        assert!(refused.to_string().contains("once"), "{refused}");
    }
}

#[test]
fn a_path_that_a_shell_would_expand_is_refused_with_what_to_write() {
    for (url, instead) in [
        ("sqlite:~/a.sqlite", "sqlite:./~/a.sqlite"),
        ("sqlite:$HOME/a", "sqlite:./$HOME/a"),
    ] {
        let refused = parse(url, StoreOptions::default()).unwrap_err().to_string();
        assert!(refused.contains(instead), "{refused}");
        parse(instead, StoreOptions::default()).unwrap();
    }
}

#[test]
fn options_of_the_redis_store_are_left_to_it() {
    let of = |url| parse(url, StoreOptions::default()).unwrap();
    for (url, rest) in [
        ("redis://h/0?durability=disk", "redis://h/0"),
        ("redis://h?durability=disk&ca=a\n&\n", "redis://h?ca=a"),
        (
            "rediss://h?ca=a&durability=disk&replicas=2#insecure",
            "rediss://h?ca=a&replicas=2#insecure",
        ),
        (
            "rediss-cluster://a,b#insecure?durability=disk",
            "rediss-cluster://a,b#insecure",
        ),
    ] {
        let (location, options) = of(url);
        assert_eq!(location, Location::Redis(rest.to_owned()), "{url}");
        assert_eq!(options.durability, Durability::Disk, "{url}");
    }
}

#[test]
fn options_of_the_postgres_store_are_left_to_it() {
    for (url, rest, class) in [
        (
            "postgres://u:p@h:5433,i/d?durability=disk",
            "postgres://u:p@h:5433,i/d",
            Durability::Disk,
        ),
        (
            "postgresql://h?schema=a&durability=replicated&sslmode=require",
            "postgresql://h?schema=a&sslmode=require",
            Durability::Replicated,
        ),
        (
            "postgres://u:p@pool/d?durability=disk&listen=postgres://u:p@direct/d",
            "postgres://u:p@pool/d?listen=postgres://u:p@direct/d",
            Durability::Disk,
        ),
    ] {
        let (location, options) = parse(url, StoreOptions::default()).unwrap();
        assert_eq!(location, Location::Postgres(rest.to_owned()), "{url}");
        assert_eq!(options.durability, class, "{url}");
    }
}

#[test]
fn a_postgres_url_with_a_bare_mark_in_its_password_is_refused_without_it() {
    for (url, instead) in [
        ("postgres://u:hunter2?a@h/d", "%3F"),
        ("postgresql://u:a@hunter2@h/d", "%40"),
        ("postgres://u:hunter2?a@h/d?listen=none", "%3F"),
    ] {
        let refused = parse(url, StoreOptions::default()).unwrap_err().to_string();
        assert!(refused.contains(instead), "{refused}");
        assert!(!refused.contains("hunter2"), "{refused}");
    }
}

#[tokio::test]
async fn a_url_of_a_feature_that_is_off_names_it() {
    for (url, feature, is_on) in [
        ("sqlite:a", "sqlite", cfg!(feature = "sqlite")),
        ("redis://h", "redis", cfg!(feature = "redis")),
        ("postgres://h", "postgres", cfg!(feature = "postgres")),
        ("postgresql://h", "postgres", cfg!(feature = "postgres")),
        ("delayq://t@h", "remote", cfg!(feature = "remote")),
        ("delayqs://t@h", "remote", cfg!(feature = "remote")),
        ("redis-cluster://h", "cluster", cfg!(feature = "cluster")),
        (
            "redis-sentinel://h/m",
            "sentinel",
            cfg!(feature = "sentinel"),
        ),
        ("rediss://h", "tls", cfg!(feature = "tls")),
    ] {
        if is_on {
            assert_eq!(missing_feature(url), None, "{url}");
            continue;
        }
        let refused = open_store(url, StoreOptions::default()).await.unwrap_err();
        let line = format!("add features = [{feature:?}]");
        assert!(refused.to_string().contains(&line), "{refused}");
    }
}

const WORDS: [&str; 29] = [
    "memory:",
    "sqlite:",
    "sqlite://",
    "redis://",
    "rediss://",
    "postgres://",
    "mysql://",
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
    "listen=postgres://direct/d",
    "schema=tasks",
    "#",
    "\u{e4}",
];

/// The start of a URL, before its secret.
const STARTS: [&str; 8] = [
    "redis://user:",
    "rediss-sentinel://:",
    "postgres://user:",
    "postgresql://:",
    "valkey://user:",
    "valkey:user:",
    "redis:user:",
    "sqlite:user:",
];

/// Secrets, also with characters that a URL does not allow in one.
const SECRETS: [&str; 4] = ["hunter2", "?hunter2", "&hunter2=", "a@hunter2?b=c"];

/// Up to 12 words, or any characters.
fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        3 => prop::sample::select(&WORDS[..]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(word, 0..12).prop_map(|words| words.concat())
}

/// What the PostgreSQL store shows of a URL.
#[cfg(feature = "postgres")]
fn postgres_message(url: &str) -> String {
    use delayq_postgres::PostgresConfig;
    PostgresConfig::parse(url).map_or_else(
        |error| error.to_string(),
        |config| format!("{config:?} {}", config.place()),
    )
}

fn url_of(location: &Location<'_>, durability: Durability) -> String {
    let query = format!("?durability={}", durability.as_str());
    match location {
        Location::Memory => format!("memory:{query}"),
        Location::Sqlite { path, relaxed } => {
            let sync = if *relaxed { "normal" } else { "full" };
            format!("sqlite://{path}{query}&sync={sync}")
        }
        Location::Redis(url) | Location::Postgres(url) | Location::Remote(url) => {
            if url.contains('?') {
                return url.replacen('?', &format!("{query}&"), 1);
            }
            format!("{url}{query}")
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_store_url_is_understood_or_refused_with_what_to_write(
        scheme in prop::sample::select(&WORDS[..7]), rest in text(),
    ) {
        let url = format!("{scheme}{rest}");
        match parse(&url, StoreOptions::default()) {
            // Behind a `#` no option is read: what stands there is not read back.
            Ok(_) if url.contains('#') => {}
            Ok((location, options)) => {
                let again = url_of(&location, options.durability);
                let (same, same_options) = parse(&again, StoreOptions::default()).expect(&again);
                prop_assert_eq!((same, same_options.durability), (location, options.durability));
            }
            Err(error) => {
                let message = error.to_string();
                let rules = ["memory:", "durability=memory", "memory, process", "sqlite:PATH", "sqlite:./"];
                prop_assert!(rules.iter().any(|rule| message.contains(rule)), "{url}: {message}");
            }
        }
    }

    #[test]
    fn a_refused_store_url_does_not_show_its_secret(
        start in prop::sample::select(&STARTS[..]),
        secret in prop::sample::select(&SECRETS[..]),
        rest in text(),
    ) {
        let rest = rest.replace("hunter2", "x");
        let url = format!("{start}{secret}@{rest}");
        let message = match parse(&url, StoreOptions::default()) {
            Err(error) => error.to_string(),
            #[cfg(feature = "postgres")]
            Ok((Location::Postgres(url), _)) => postgres_message(&url),
            Ok(_) => String::new(),
        };
        prop_assert!(!message.contains("hunter2"), "{url}: {message}");
    }
}
