//! Tests of the configuration as a whole.

use delayq_plugin::history::{FOREVER, Recording};
use delayq_plugin::{TaskType, TypePattern};

use super::*;

#[test]
fn flags_go_over_the_file_and_the_file_over_the_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.toml");
    let text = "listen = \"127.0.0.1:1\"\nstore = \"memory:\"\n[namespaces.shop]\n";
    std::fs::write(&file, text).unwrap();
    let flags = serde_json::json!({"listen": "127.0.0.1:2"});
    let config = Config::load(Some(&file), flags).unwrap();
    assert_eq!(config.listen.port(), 2);
    assert_eq!(config.store, "memory:");
    assert!(config.namespaces.contains_key("shop"));
    assert_eq!(config.max_message_bytes, 262_144);
}

#[test]
fn every_option_may_come_from_the_environment_and_other_variables_are_left() {
    let config = serde_json::to_value(Config::default()).unwrap();
    let fields = config.as_object().unwrap().keys();
    let mut fields: Vec<_> = fields.map(String::as_str).collect();
    let mut options = OPTIONS.to_vec();
    fields.sort_unstable();
    options.sort_unstable();
    assert_eq!(fields, options);
    assert!(is_option("LISTEN") && is_option("NAMESPACES__SHOP__POOL"));
    assert!(!is_option("URL") && !is_option("ACTOR") && !is_option("CONFIG"));
}

#[test]
fn a_mistake_names_the_option() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.toml");
    let refused = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let loaded = Config::load(Some(&file), serde_json::json!({}));
        loaded.unwrap_err().to_string()
    };
    assert!(refused("lisen = 1").contains("lisen"));
    let listen = refused("listen = \"x\"");
    assert!(
        listen.starts_with("listen: an address has") && listen.contains("server.toml"),
        "{listen}"
    );
    let twice = refused("listen = \"127.0.0.1:1\"\n[admin]\nlisten = \"127.0.0.1:1\"");
    assert!(
        twice.contains("admin.listen") && twice.contains("that of listen"),
        "{twice}"
    );
    let word = refused("max_message_bytes = \"many\"");
    assert!(word.contains("expected a whole number"), "{word}");
    assert!(refused("durability = \"x\"").contains("durability"));
    let pool = refused("[namespaces.shop]\npool = \"fast\"");
    assert!(pool.contains("add pools.fast"), "{pool}");
    assert!(refused("[namespaces.\"a b\"]").contains("a b"));
    let proxies = refused("[connections]\ntrusted_proxies = [\"10.0.0.1\", \"proxy\"]");
    assert!(
        proxies.starts_with("connections.trusted_proxies "),
        "{proxies}"
    );
}

#[test]
fn a_value_that_would_do_nothing_is_refused_and_what_is_known_of_the_end_is_an_option() {
    let refused = |text: &str| Config::of_text(text).unwrap_err().to_string();
    for (text, option) in [
        ("retention = \"soon\"", "retention"),
        ("retention = \"3651d\"", "retention"),
        ("[service]\nrefresh_ms = 0", "service.refresh_ms"),
        ("[service.static]\nmail = []", "service.static.mail"),
        (
            "[service.eureka]\ntypes_key = \"\"",
            "service.eureka.types_key",
        ),
        ("[push]\nallow_ports = [8080]", "push.allow_ports"),
        (
            "[push.kafka.main]\nbrokers = \"\"",
            "push.kafka.main.brokers",
        ),
        ("history_topic = \"ended\"", "history_topic"),
        (
            "[types.\"mail.*\"]\nhistory_retention = \"soon\"",
            "types.history_retention",
        ),
        ("[types.mail]\nhistory = \"most\"", "types.history"),
        ("[types.\"mail*s\"]\nhistory = \"off\"", "types"),
        ("history_topic = \"main/ended\"", "history_topic"),
        ("[beanstalk]\nnamespace = \"shop\"", "beanstalk.namespace"),
        ("[spring]\ntoken = \"optinal\"", "spring.token"),
    ] {
        let refused = refused(text);
        assert!(refused.starts_with(&format!("{option} ")), "{refused}");
    }
    let text = "history = \"sqlite:h\"\nhistory_retention = \"9d\"\n[types.\"mail.*\"]\nhistory = \
        \"off\"\nhistory_retention = \"forever\"\n[types.\"mail.bill\"]\nhistory = \"all\"";
    let config = Config::of_text(text).unwrap();
    let of = |name: &str| {
        config
            .recordings()
            .of(&TaskType::new(name).unwrap())
            .unwrap()
    };
    assert_eq!(of("mail.ad"), Recording::Off);
    assert_eq!(of("mail.bill").to_string(), "all");
    assert_eq!(of("order").to_string(), "on");
    let retention = config.history_plan().unwrap().retention;
    let mail = TypePattern::new("mail.*").unwrap();
    assert_eq!(retention.types, [(mail, FOREVER)]);
    let config = Config::of_text("retention = \"1h 30m\"\nremembered = 7").unwrap();
    let options = config.store_options();
    assert_eq!(options.retention, std::time::Duration::from_mins(90));
    assert_eq!(options.remembered, 7);
}
