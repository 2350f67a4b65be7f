//! The compose file.

use serde_json::Value;

use crate::defaults::{longest_stop_ms, port};
use crate::{VERSION, read, yaml};

fn has(list: &Value, text: &str) -> bool {
    list.as_array().unwrap().iter().any(|one| one == text)
}

#[test]
fn the_compose_file_says_what_the_image_and_the_server_say() {
    let compose = yaml(&read("docs/deploy/compose.yaml"));
    let server = &compose["services"]["server"];
    let image = format!("ghcr.io/delayq/delayq-server:${{DELAYQ_VERSION:-{VERSION}}}");
    assert_eq!(server["image"], image);
    let port = port();
    assert!(has(&server["ports"], &format!("127.0.0.1:{port}:{port}")));
    let grace = server["stop_grace_period"].as_str().unwrap();
    let grace: u64 = grace.strip_suffix('s').unwrap().parse().unwrap();
    assert!(grace * 1_000 >= longest_stop_ms(0) + 5_000, "{grace}");
    let containerfile = read("docs/deploy/Containerfile");
    let health = &server["healthcheck"];
    for (option, field) in [
        ("interval", "interval"),
        ("timeout", "timeout"),
        ("start-period", "start_period"),
    ] {
        let said = format!("--{option}={}", health[field].as_str().unwrap());
        assert!(containerfile.contains(&said), "{said}");
    }
    assert!(containerfile.contains(&format!("--retries={}", health["retries"])));
    let test = health["test"].as_array().unwrap();
    let words: Vec<_> = test.iter().map(|word| word.as_str().unwrap()).collect();
    // Not whether it is ready: what restarts an unhealthy server would do so while Redis is away.
    let program = "/usr/local/bin/delayq-server";
    assert_eq!(words, ["CMD", program, "health", "--live"]);
    let same = format!("CMD [{program:?}, \"health\", \"--live\"]");
    assert!(containerfile.contains(&same), "{same}");
    for (name, service) in compose["services"].as_object().unwrap() {
        assert_eq!(service["read_only"], true, "{name}");
        assert!(has(&service["cap_drop"], "ALL"), "{name}");
        assert!(has(&service["security_opt"], "no-new-privileges:true"));
        assert!(service["mem_limit"].is_string(), "{name}");
        assert!(service["healthcheck"].is_object(), "{name}");
    }
    let redis = compose["services"]["redis"]["command"][2].as_str().unwrap();
    assert!(redis.contains("appendonly yes") && redis.contains("noeviction"));
}
