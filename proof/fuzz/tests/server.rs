//! What clients send to a server, and what its targets answer: read or refused, never a panic, and
//! the same again after it was written.

use std::net::IpAddr;

use bolero::{check, produce};
use delayq_fuzz::{
    Reach, again, bytes, damaged, each_damaged, is_read_the_same, list, spell, words,
};
use delayq_server::fuzz;

const NAMES: [&str; 16] = [
    "mail",
    "order.42",
    "-",
    ":",
    "1",
    "7-1",
    "9007199254740991",
    "99999999999999999999",
    "4294967295",
    "|2.0",
    "_",
    "dq_",
    "dq_01ABC_",
    "ä",
    " ",
    "Bearer ",
];

const SPANS: [&str; 20] = [
    "30m",
    "1h 30m",
    "PT30M",
    "P1Y",
    "7 days",
    "0",
    "-1",
    "18446744073709551615",
    ".5",
    "s",
    "ms",
    "year",
    "2026-12-24T18:00:00Z",
    "2026-12-24T18:00[Europe/Berlin]",
    "+01:00",
    "24:00",
    "9223372036854775807",
    "-9223372036854775808",
    "[",
    "Z",
];

const QUERY: [&str; 20] = [
    "delay=",
    "at=",
    "30m",
    "5",
    "&",
    "on_conflict=",
    "keep",
    "replace",
    "expires_after=",
    "expires_at=",
    "group=",
    "project=",
    "again_if_running=true",
    "wait=",
    "%20",
    "%ff",
    "%00",
    "=",
    "1h",
    "2026-12-24T18:00:00Z",
];

#[test]
fn locks_cursors_and_tokens_are_read_the_same_again() {
    let reach = Reach::at_least(2);
    check!().with_generator(bytes(6)).for_each(|bytes| {
        let text = spell(bytes, &NAMES);
        let lock = again(fuzz::lock, &text);
        let cursor = again(fuzz::cursor, &text);
        let token = again(fuzz::token, &text);
        let bearer = again(|text| fuzz::authorization(text.as_bytes()), &text);
        let _ = fuzz::authorization(bytes);
        again(fuzz::listed_state, &text);
        reach.count(lock || cursor || token || bearer);
    });
}

#[test]
fn spans_and_times_are_read_the_same_again() {
    let reach = Reach::at_least(5);
    check!().with_generator(bytes(4)).for_each(|bytes| {
        let text = spell(bytes, &SPANS);
        let span = again(fuzz::span, &text);
        let wait = again(fuzz::wait, &text);
        let time = again(fuzz::time, &text);
        reach.count(span || wait || time);
    });
}

#[test]
fn a_query_makes_a_task_within_its_limits_or_is_refused() {
    let reach = Reach::at_least(2);
    check!().with_generator(words(5)).for_each(|bytes| {
        let options = fuzz::options(&spell(bytes, &QUERY));
        reach.count(options.is_some());
    });
}

const LINES: [&str; 4] = [
    r#"{"id":"a","message":"x","delay":"30m","headers":{"shop":"berlin"},"group":"g"}"#,
    r#"{"message_base64":"AAEC","at":1767225600000,"on_conflict":"keep","expires_after":5}"#,
    r#"{"json":{"order":[42,1e400,null,"\ud83d\ude00"]},"delay":0,"again_if_running":true}"#,
    r#"{"id":"z","json":"","at":"2026-12-24T18:00:00Z","expires_at":"2027-01-01T00:00:00Z"}"#,
];

#[test]
fn a_line_of_bulk_is_read_the_same_again() {
    each_damaged(&LINES, |line| is_read_the_same(line, fuzz::bulk_line));
}

const BODIES: [&str; 6] = [
    r#"[{"id":"a","lock":"7-1","end":"done","reply":{"ok":[1]}},{"id":"b","lock":"8-2-2.0","end":"fail","error":"no","after":"1m","max_attempts":7}]"#,
    r#"{"lock_for":"1m","locks":[{"id":"a","lock":"7-1"},{"id":"b","lock":"8-2"}]}"#,
    r#"{"id_prefix":"o","group":"g","headers":{"a":"b"},"due_before":5,"state":"running","delay":"1m","dry_run":true}"#,
    r#"{"ids":["a","b"],"error_contains":"timeout","died_before":"2026-12-24T18:00:00Z","limit":5,"interval":"100ms"}"#,
    r#"{"max_pending":null,"fleet_concurrency":5,"fleet_rate":{"starts":100,"per":"1m","burst":7},"shards":4}"#,
    r#"[{"id":"c","lock":"9-1","end":"release","after":0},{"id":"d","lock":"9-1","end":"dead"}]"#,
];

#[test]
fn a_body_of_json_is_understood_or_refused() {
    each_damaged(&BODIES, |body| fuzz::body(body).is_some());
}

#[test]
fn a_header_becomes_that_of_a_task_or_is_refused() {
    let names = [
        "delayq-header-",
        "delayq-target",
        "-seal",
        "shop",
        "content-type",
        "group",
    ];
    let values = [
        "text/plain",
        "; charset=",
        "application/x-www-form-urlencoded",
        "\u{ff}",
        "a",
    ];
    let reach = Reach::at_least(20);
    check!()
        .with_generator((bytes(3), bytes(3)))
        .for_each(|(name, value)| {
            let name = spell(name, &names);
            let value = spell(value, &values);
            reach.count(fuzz::header(name.as_bytes(), value.as_bytes()).is_some());
        });
}

const TARGETS: [&str; 4] = [
    r#"{"http":{"url":"https://example.org/hook?a=b","method":"PUT","headers":{"x-a":"***","x-b":"v"},"content_type":"text/plain","cloud_events":"structured"},"timeout":"5s"}"#,
    r#"{"grpc":{"url":"https://example.org","service":"a.v1.B","method":"C","metadata":{"k":"v"}},"keep_answer":false}"#,
    r#"{"http":{"url":"http://10.1.2.3:8080/","secrets":["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]},"retry":{"attempts":7,"wait":"20m","max_wait":5,"is_fixed":true},"rate":{"pushes":100,"per":"1m"},"concurrency":3}"#,
    r#"{"http":{"url":"https://[fd00::1]/x"},"retry":{"wait":18446744073709551615},"rate":{"pushes":4294967295,"per":0}}"#,
];

#[test]
fn a_target_is_read_the_same_again() {
    each_damaged(&TARGETS, |target| is_read_the_same(target, fuzz::target));
}

const URLS: [&str; 28] = [
    "https://",
    "http://",
    "example.org",
    "localhost",
    ".",
    ":",
    "@",
    "/",
    "\\",
    "?a=b",
    "#",
    "%2e",
    "%00",
    "127.0.0.1",
    "0x7f.1",
    "2130706433",
    "0177.0.0.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[fd00::1]",
    "10.1.2.3",
    "169.254.169.254",
    "[64:ff9b::7f00:1]",
    ":22",
    ":8080",
    ":65536",
    "ⓛocalhost",
    "xn--",
];

/// Whether a URL leads to this host, as the standard for URLs writes it.
fn is_own(url: &str) -> bool {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let port = authority
        .rsplit_once(':')
        .filter(|(_, port)| !port.contains(']'));
    let host = port
        .map_or(authority, |(host, _)| host)
        .trim_end_matches('.');
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) => match address.to_canonical() {
            IpAddr::V4(address) => address.is_loopback() || address.is_link_local(),
            IpAddr::V6(address) => address.is_loopback() || address.is_unspecified(),
        },
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

#[test]
fn a_url_that_may_be_called_is_the_same_again_and_leads_to_no_own_address() {
    let reach = Reach::at_least(1);
    check!().with_generator(words(5)).for_each(|bytes| {
        let text = spell(bytes, &URLS);
        for text in [
            text.clone(),
            format!("https://{text}"),
            format!("http://10.1.2.3{text}"),
        ] {
            let is_url = again(fuzz::url, &text);
            let url = fuzz::url(&text).unwrap_or_default();
            assert!(!is_own(&url), "{text:?} leads to {url}");
            reach.count(is_url);
        }
    });
}

#[test]
fn an_answer_of_a_target_means_something_for_its_task() {
    let values = [
        "7",
        "-1",
        "18446744073709551615",
        "Wed, 21 Oct 2015 07:28:00 GMT",
        "Tue, 31 Dec 9999",
        " 23:59:59 GMT",
        "text/plain",
        "\u{80}",
        "1.5",
    ];
    let reach = Reach::at_least(20);
    let inputs = (produce::<u16>(), bytes(2), bytes(8));
    check!()
        .with_generator(inputs)
        .for_each(|(status, header, body)| {
            let header = spell(header, &values);
            let status = 100 + status % 900;
            reach.count(fuzz::answer(status, header.as_bytes(), body).is_some());
        });
}

const CONFIGURATION: &str = r#"
listen = "127.0.0.1:7880"
store = "memory:"
durability = "memory"
max_message_bytes = 5
[pools]
fast = "redis://127.0.0.1/"
[namespaces.shop]
pool = "fast"
limits = {rate = 7, max_pending = 9}
[limits]
token_rate = 4
[push]
allow_networks = ["10.0.0.0/8"]
allow_ports = [22]
[push.kafka.main]
brokers = "a:9092"
[admin]
listen = "[::1]:7881"
[connections]
max = 100
header_timeout_ms = 1
"#;

#[test]
fn a_configuration_is_read_the_same_again() {
    let reach = Reach::at_least(5);
    let accidents = list(3, produce::<(u16, u8, u8)>());
    check!().with_generator(accidents).for_each(|accidents| {
        let text = damaged(CONFIGURATION, accidents);
        let text = String::from_utf8_lossy(&text);
        let written = fuzz::config(&text);
        if let Some(written) = &written {
            assert_eq!(fuzz::written_config(written).as_ref(), Some(written));
        }
        reach.count(written.is_some());
    });
}

#[test]
fn a_url_of_a_server_is_understood_or_refused_without_its_token() {
    let parts = [
        "delayq://",
        "delayqs://",
        "dq_1_zebra",
        "zebra",
        "@",
        "host",
        ":7880",
        ":",
        "[::1]",
        "/",
        "shop",
        "?ca=/f",
        "?",
        "&",
        "%40",
        "%ff",
        "#",
        "\\",
        " ",
        "durability=disk",
    ];
    let reach = Reach::at_least(10);
    check!().with_generator(words(4)).for_each(|bytes| {
        let text = spell(bytes, &parts);
        for url in [text.clone(), format!("delayq://zebra@{text}")] {
            let address = delayq_remote::fuzz::address(&url);
            if let Some(address) = &address {
                let (scheme, rest) = address.split_once("://").unwrap_or_default();
                let with_token = format!("{scheme}://t@{rest}");
                assert_eq!(
                    delayq_remote::fuzz::address(&with_token).as_ref(),
                    Some(address)
                );
            }
            let refusal = delayq_remote::fuzz::refusal(&format!("delayq://zebra@{text}"));
            let told =
                !text.contains("zebra") && refusal.is_some_and(|said| said.contains("zebra"));
            assert!(!told, "{url}");
            reach.count(address.is_some());
        }
    });
}
