//! Fuzz targets: the URL of a Redis store, and the settings that it stands for.

use delayq_fuzz::bolero::{check, produce};
use delayq_fuzz::{Reach, bytes, spell};

use super::{RedisConfig, RedisServers};

const WORDS: [&str; 37] = [
    "redis://",
    "rediss://",
    "redis-sentinel://",
    "rediss-cluster://",
    "user",
    "hunter2",
    "@",
    ":",
    ",",
    "/",
    "?",
    "&",
    "=",
    "#insecure",
    "localhost",
    "127.0.0.1",
    "[::1]",
    "[fe80::1%25eth0]",
    "6379",
    "65536",
    "/0",
    "/-1",
    "/99999999999",
    "/orders",
    "?db=1",
    "?ca=/ca.pem",
    "&cert=a&key=b",
    "&insecure=true",
    "&assume=disk",
    "&replicas=2",
    "&watermark=0.5",
    "&patience_ms=9",
    "&sentinel_password=",
    "%",
    "%00",
    "%ff",
    "\u{e4}",
];

/// The beginnings of a URL: half of them hold the secret.
const STARTS: [&str; 8] = [
    "",
    "redis://",
    "rediss-sentinel://",
    "redis-cluster://",
    "redis://user:hunter2@",
    "rediss-sentinel://:hunter2@",
    "redis-cluster://user:hunter2@",
    "redis-sentinel://h/orders?sentinel_password=hunter2",
];
const SECRET: &str = "hunter2";

#[test]
fn an_url_is_understood_or_refused_without_its_secret() {
    let reach = Reach::at_least(5);
    check!()
        .with_generator((produce::<u8>(), bytes(8)))
        .for_each(|(start, bytes)| {
            let start = STARTS[usize::from(start % 8)];
            let url = format!("{start}{}", spell(bytes, &WORDS));
            // A secret that is spelled as a host, a master or an option is shown, as it should be.
            let is_secret = start.contains(SECRET) && url.matches(SECRET).count() == 1;
            let config = RedisConfig::parse(&url);
            reach.count(config.is_ok());
            match config {
                Ok(config) => {
                    let (name, fields) = (config.to_string(), format!("{config:?}"));
                    assert!(!is_secret || !name.contains(SECRET), "{url}: {name}");
                    assert!(!is_secret || !fields.contains(SECRET), "{url}: {fields}");
                    let again = RedisConfig::parse(&name).expect("its own name");
                    assert_eq!(again.to_string(), name, "{url}");
                    assert_eq!(again.servers, config.servers, "{url}");
                    assert_eq!(config.check(), Ok(()), "{url}");
                    connects_to_the_same(&config);
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

/// Without a file to read, there is a client for every address.
fn connects_to_the_same(config: &RedisConfig) {
    let RedisServers::One(address) = &config.servers else {
        return;
    };
    let has_files = |tls: &super::TlsConfig| tls.ca.is_some() || tls.key.is_some();
    if config.tls.as_ref().is_none_or(|tls| !has_files(tls)) {
        let client = config.client(address).expect("a client");
        assert_eq!(
            client.get_connection_info().redis_settings().password(),
            config.password.as_ref().map(super::Secret::reveal)
        );
    }
}
