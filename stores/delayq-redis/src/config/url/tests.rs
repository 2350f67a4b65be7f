//! What each form of a URL means, and what a refusal says.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::config::ReplicaConfirm;
use delayq_core::store::Durability;

fn refusal(url: &str) -> String {
    let error = RedisConfig::parse(url).unwrap_err();
    assert!(matches!(error, Error::InvalidInput { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn each_form_names_its_servers() {
    for (url, name) in [
        ("redis://h", "redis://h:6379/0"),
        ("redis://h:1/3", "redis://h:1/3"),
        ("rediss://[::1]/", "rediss://[::1]:6379/0"),
        (
            "redis-sentinel://a,b:1/orders",
            "redis-sentinel://a:26379,b:1/orders/0",
        ),
        (
            "rediss-sentinel://u:p@[::1],b/orders/2",
            "rediss-sentinel://[::1]:26379,b:26379/orders/2",
        ),
        ("redis-cluster://u:p@a,b:1", "redis-cluster://a:6379,b:1"),
        ("rediss-cluster://a/0", "rediss-cluster://a:6379"),
    ] {
        assert_eq!(RedisConfig::parse(url).unwrap().to_string(), name, "{url}");
    }
}

#[test]
fn a_login_is_decoded() {
    for (url, user, password) in [
        ("redis://h", None, None),
        ("redis://:p%40%2F%3f%25@h", None, Some("p@/?%")),
        ("redis://a%3Ab:c:d@h", Some("a:b"), Some("c:d")),
        ("redis://a:b@c@h", Some("a"), Some("b@c")),
        ("redis://a:@h", Some("a"), Some("")),
        ("redis://:@h", None, None),
        ("redis://@h", None, None),
        ("redis://a:50%off@h", Some("a"), Some("50%off")),
    ] {
        let config = RedisConfig::parse(url).unwrap();
        assert_eq!(config.user.as_deref(), user, "{url}");
        let found = config.password.as_ref().map(Secret::reveal);
        assert_eq!(found, password, "{url}");
    }
}

#[test]
fn each_option_sets_its_field() {
    let url = "rediss-sentinel://h/orders?ca=%2Fca%20pem&cert=c&key=k&assume=disk&replicas=2\
               &watermark=0.5&sentinel_user=u&sentinel_password=p%26";
    let expected = RedisConfig {
        tls: Some(TlsConfig {
            ca: Some("/ca pem".into()),
            certificate: Some("c".into()),
            key: Some("k".into()),
            trust_any: false,
        }),
        assumed_durability: Some(Durability::Disk),
        replicas: Some(2),
        memory_watermark: Some(0.5),
        sentinel_user: Some("u".to_owned()),
        sentinel_password: Some("p&".into()),
        ..RedisConfig::new(RedisServers::Sentinel {
            sentinels: vec![Address::new("h", 26_379)],
            master: "orders".to_owned(),
        })
    };
    assert_eq!(RedisConfig::parse(url), Ok(expected));
    for url in [
        "rediss://h#insecure",
        "rediss://h/?insecure=true",
        "rediss://h/0#insecure",
    ] {
        let tls = RedisConfig::parse(url).unwrap().tls.unwrap();
        assert!(tls.trust_any, "{url}");
    }
    let off = RedisConfig::parse("redis://h?watermark=off").unwrap();
    assert_eq!(off.memory_watermark, None);
    for (name, confirm) in [
        ("received", ReplicaConfirm::Received),
        ("synced", ReplicaConfirm::Synced),
    ] {
        let url = format!("redis://h?confirm={name}");
        assert_eq!(RedisConfig::parse(&url).unwrap().confirm, confirm);
    }
}

#[test]
fn a_url_that_cannot_be_used_is_refused_with_what_to_write() {
    for (url, what) in [
        ("", "begins with none of the schemes"),
        ("localhost:6379", "begins with none of the schemes"),
        ("http://h", "begins with none of the schemes"),
        ("redis://", "a host is missing"),
        ("redis://a,b", "a host is missing or not one"),
        ("redis-cluster://a,,b", "a host is missing"),
        ("redis-sentinel://a", "the name of the master is missing"),
        ("redis://h:x", "no port: write HOST:PORT"),
        ("redis://h:65536", "a port is no number"),
        ("redis://h:0", "a port is 0"),
        ("redis://[::1]6379", "no port"),
        ("redis://0.0.0.0", "cannot be reached"),
        ("redis://h/x", "the database is no number"),
        ("redis://h/+1", "the database is no number"),
        ("redis-cluster://h/1", "a cluster has no database but 0"),
        ("redis://user@h", "without a password"),
        ("redis://%ff:a@h", "not UTF-8"),
        ("redis://h#x", "#insecure"),
        ("redis://h#insecure", "begin with rediss"),
        ("redis://h?ca=x", "begin with rediss"),
        ("rediss://h?ca", "NAME=VALUE"),
        ("rediss://h?ca=a&ca=b", "twice"),
        ("rediss://h?cert=a", "needs its key"),
        ("rediss://h?ca=a&insecure=true", "leave one of the two out"),
        ("rediss://h?insecure=1", "neither true nor false"),
        ("redis://h?replicas=0", "replicas is 0"),
        ("redis://h?replicas=-1", "replicas is no number"),
        ("redis://h?watermark=0", "above 0 and up to 1"),
        ("redis://h?watermark=NaN", "above 0 and up to 1"),
        ("redis://h?watermark=95%25", "above 0 and up to 1"),
        ("redis://h?assume=safe", "memory, process, disk"),
        ("redis://h?confirm=soon", "neither received nor synced"),
        ("redis://[h]", "a host is missing or not one"),
        ("redis://h?sentinel_password=p", "but no sentinels"),
        ("redis://h?durability=disk", "StoreOptions"),
        (
            "redis://h?protocol=3",
            "unknown option \"protocol\": ca, cert",
        ),
        ("redis://h?durabilty=disk", "also has durability"),
    ] {
        let message = refusal(url);
        assert!(message.contains(what), "{url}: {message}");
        assert!(
            message.contains("redis-cluster://[user:password@]host"),
            "{message}"
        );
    }
}

#[test]
fn a_refusal_repeats_no_password_wherever_it_is_torn_apart() {
    for url in [
        "redis://user:hunter2@h/x",
        "redis://user:hunter2",
        "redis://user:hunter2:1@h:x",
        "redis://user:/hunter2@h",
        "redis://user:?hunter2@h",
        "redis://user:#hunter2@h",
        "redis://user:a?hunter2=@h",
        "redis://user:a@hunter2/b@h",
        "redis:user:hunter2@h",
        "valkey://user:hunter2@h",
        "redis-sentinel://h/orders?sentinel_password=a&hunter2=b",
        "redis-sentinel://h/orders?sentinel_password=a#hunter2",
        "redis://h?password=hunter2",
        "redis://h?sentinel_password=hunter2",
    ] {
        let message = refusal(url);
        assert!(!message.contains("hunter2"), "{url}: {message}");
    }
}

/// What URLs are made of.
const WORDS: [&str; 36] = [
    "redis://",
    "rediss://",
    "redis-sentinel://",
    "rediss-cluster://",
    "user",
    SECRET,
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
    "&sentinel_password=",
    "%",
    "%00",
    "%ff",
    "\u{e4}",
];

/// How they begin: half of them hold the secret.
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

fn spelled() -> impl Strategy<Value = String> {
    let word = prop_oneof![9 => select(&WORDS).prop_map(str::to_owned), 1 => ".{0,2}"];
    vec(word, 0..8).prop_map(|words| words.concat())
}

/// Without a file to read, there is a client for every address.
fn connects_to_the_same(config: &RedisConfig) {
    let RedisServers::One(address) = &config.servers else {
        return;
    };
    if config.tls.is_none() {
        let client = crate::connection::login::client(config, address).expect("a client");
        let info = client.get_connection_info().redis_settings().clone();
        assert_eq!(
            info.password(),
            config.password.as_ref().map(Secret::reveal)
        );
    }
}

proptest! {
    #[test]
    fn a_url_is_understood_or_refused_without_its_secret(
        start in select(&STARTS), rest in spelled(),
    ) {
        let url = format!("{start}{rest}");
        // A secret that is spelled as a host, a master or an option is shown, as it should be.
        let is_secret = start.contains(SECRET) && url.matches(SECRET).count() == 1;
        match RedisConfig::parse(&url) {
            Ok(config) => {
                let (name, fields) = (config.to_string(), format!("{config:?}"));
                prop_assert!(!is_secret || !name.contains(SECRET), "{url}: {name}");
                prop_assert!(!is_secret || !fields.contains(SECRET), "{url}: {fields}");
                let again = RedisConfig::parse(&name).expect("its own name");
                prop_assert_eq!(again.to_string(), name, "{}", url);
                prop_assert_eq!(&again.servers, &config.servers, "{}", url);
                prop_assert_eq!(config.check(), Ok(()), "{}", url);
                connects_to_the_same(&config);
            }
            Err(error) => {
                let message = error.to_string();
                let form = "redis://[user:password@]host";
                prop_assert!(message.contains(form), "{url}: {message}");
                prop_assert!(!is_secret || !message.contains(SECRET), "{url}: {message}");
            }
        }
    }
}
