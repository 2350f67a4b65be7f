//! Targets that must not be called, by families of spellings, and some that may.

use std::net::Ipv4Addr;

use super::*;

/// Addresses that are not public, one or more of each network.
const FORBIDDEN: [[u8; 4]; 24] = [
    [0, 0, 0, 0],
    [0, 1, 2, 3],
    [10, 0, 0, 1],
    [10, 255, 255, 255],
    [100, 64, 0, 1],
    [100, 100, 100, 200],
    [127, 0, 0, 1],
    [127, 255, 255, 254],
    [168, 63, 129, 16],
    [169, 254, 169, 254],
    [169, 254, 170, 2],
    [172, 16, 0, 1],
    [172, 31, 255, 255],
    [192, 0, 0, 192],
    [192, 0, 2, 1],
    [192, 88, 99, 1],
    [192, 168, 0, 1],
    [192, 168, 255, 255],
    [198, 18, 0, 1],
    [198, 19, 255, 255],
    [198, 51, 100, 7],
    [203, 0, 113, 9],
    [224, 0, 0, 1],
    [255, 255, 255, 255],
];

/// IPv6 that is not public.
const FORBIDDEN_V6: [&str; 24] = [
    "::",
    "::1",
    "0:0:0:0:0:0:0:1",
    "0000:0000:0000:0000:0000:0000:0000:0001",
    "fc00::1",
    "fd00:ec2::254",
    "fdff:ffff::1",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "100::1",
    "64:ff9b:1::1",
    "2001::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2001:db8:ffff::",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "::ffff:0:127.0.0.1",
    "8000::",
];

fn spellings(address: [u8; 4]) -> Vec<String> {
    let [a, b, c, d] = address;
    let number = u32::from(Ipv4Addr::from(address));
    let (low, lower) = (number & 0xff_ffff, number & 0xffff);
    let dotted = format!("{a}.{b}.{c}.{d}");
    let wide = dotted.chars().map(|c| match c.to_digit(10) {
        Some(digit) => char::from_u32(0xff10 + digit).unwrap(),
        None => '\u{3002}',
    });
    let encoded: Vec<_> = dotted.bytes().map(|byte| format!("%{byte:02x}")).collect();
    vec![
        format!("{dotted}."),
        number.to_string(),
        format!("{number:#x}"),
        format!("0{number:o}"),
        format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("{a}.{low}"),
        format!("{a}.{b}.{lower}"),
        format!("{a:#x}.0{b:o}.{c}.{d:#x}"),
        wide.collect(),
        encoded.concat(),
        format!("[::ffff:{dotted}]"),
        format!("[::ffff:{:x}:{:x}]", number >> 16, lower),
        format!("[::{dotted}]"),
        format!("[64:ff9b::{dotted}]"),
        format!("[2002:{:x}:{:x}::1]", number >> 16, lower),
        dotted,
    ]
}

/// Names that only a private network has.
const LOCAL_NAMES: [&str; 5] = [
    "ip6-localhost",
    "localhost.localdomain",
    "metadata",
    "metadata.google.internal.",
    "printer.local",
];

fn forbidden() -> Vec<String> {
    let spelled = FORBIDDEN.into_iter().flat_map(spellings);
    let mut all: Vec<_> = spelled.map(|host| format!("https://{host}/hook")).collect();
    all.extend(FORBIDDEN_V6.map(|address| format!("https://[{address}]/hook")));
    all.extend(LOCAL_NAMES.map(|name| format!("https://{name}/hook")));
    let others = [
        // Names of this host.
        "https://localhost/",
        "https://LOCALHOST/",
        "https://localhost./",
        "https://api.localhost/",
        "https://loc%61lhost/",
        "https://\u{ff4c}ocalhost/",
        // A user, who is taken for the host.
        "https://user@example.org/",
        "https://user:word@example.org/",
        "https://:word@example.org/",
        "https://example.org@127.0.0.1/",
        "https://example.org%40127.0.0.1/",
        "https://example.org\\@127.0.0.1/",
        // What is no HTTP over TLS.
        "http://example.org/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "gopher://example.org/",
        "dict://example.org:11211/",
        "ldap://example.org/",
        "ws://example.org/",
        "unix:/var/run/docker.sock",
        "data:text/plain,x",
        "javascript:alert(1)",
        "//example.org/",
        "/hook",
        "example.org",
        "",
        // Ports of the services of a system.
        "https://example.org:0/",
        "https://example.org:22/",
        "https://example.org:23/",
        "https://example.org:25/",
        "https://example.org:53/",
        "https://example.org:111/",
        "https://example.org:445/",
        "https://example.org:465/",
        "https://example.org:587/",
        "https://example.org:993/",
        "https://example.org:1023/",
        "https://example.org:70000/",
        // What reads as something else than it says.
        "https:///",
        "https://",
        "https://[/",
        "https://[::1/",
        "https://[fe80::1%25eth0]/",
        "https://[v1.fe80::a+en1]/",
        "https://example.org/#part",
        "https:\\\\127.0.0.1\\",
        "https://127.0.0.1\\.example.org/",
        "https://exam ple.org/",
        "https://example.org/\n",
        "https://exam\tple.org/",
        " https://example.org/",
        "https://example.org/\u{7f}",
        "https://1.2.3.4.5/",
        "https://256.1.1.1/",
        "https://127.0.0.1:443@example.org/",
        "https://0x/",
        "https://./",
        "https://../",
    ];
    all.extend(others.map(str::to_owned));
    all.push(format!("https://example.org/{}", "x".repeat(2_048)));
    all
}

#[test]
fn no_spelling_of_a_forbidden_target_is_allowed() {
    let guard = Guard::new(&PushConfig::default()).unwrap();
    let all = forbidden();
    assert!(all.len() >= 450, "{}", all.len());
    let allowed: Vec<_> = all.iter().filter(|url| guard.url(url).is_ok()).collect();
    assert!(allowed.is_empty(), "{allowed:#?}");
}

#[test]
fn what_the_configuration_allows_is_no_other_spelling_of_something_else() {
    let config = PushConfig {
        allow_http: true,
        allow_networks: vec!["10.0.0.0/8".to_owned(), "fd00::/8".to_owned()],
        allow_ports: vec![25],
        ..PushConfig::default()
    };
    let guard = Guard::new(&config).unwrap();
    for good in [
        "http://10.1.2.3/",
        "https://167837955/",
        "https://[::ffff:10.1.2.3]/",
        "https://[fd00::1]:25/",
        "https://printer.local/",
    ] {
        assert!(guard.url(good).is_ok(), "{good}: {:?}", guard.url(good));
    }
    for address in FORBIDDEN.into_iter().filter(|address| address[0] != 10) {
        for host in spellings(address) {
            let url = format!("http://{host}/");
            assert!(guard.url(&url).is_err(), "{url}");
        }
    }
    for bad in [
        "https://[::10.1.2.3]/",
        "https://[fc00::1]/",
        "https://example.org:22/",
    ] {
        assert!(guard.url(bad).is_err(), "{bad}");
    }
    let bad = Guard::new(&PushConfig {
        allow_networks: vec!["10.0.0.0/33".to_owned()],
        ..PushConfig::default()
    });
    assert!(bad.unwrap_err().reason.contains("10.0.0.0/8"));
}

#[test]
fn public_targets_are_allowed() {
    let guard = Guard::new(&PushConfig::default()).unwrap();
    for good in [
        "https://example.org",
        "https://example.org/hook?shop=1",
        "https://example.org:443/",
        "https://example.org:80/",
        "https://example.org:8443/",
        "https://EXAMPLE.org./",
        "https://b\u{fc}cher.example/",
        "https://1.1.1.1/",
        "https://9.255.255.255/",
        "https://11.0.0.1/",
        "https://100.63.255.255/",
        "https://100.128.0.1/",
        "https://128.0.0.1/",
        "https://172.15.255.255/",
        "https://172.32.0.1/",
        "https://192.167.1.1/",
        "https://198.17.1.1/",
        "https://223.255.255.255/",
        "https://[2606:4700::1111]/",
        "https://[2a00:1450::1]:8443/",
        "https://[2001:4860:4860::8888]/",
        "https://localhost.example.org/",
        "https://notlocalhost.example.org/",
    ] {
        assert!(guard.url(good).is_ok(), "{good}: {:?}", guard.url(good));
    }
}

#[test]
fn of_the_addresses_of_a_name_only_public_ones_are_dialled() {
    let guard = Guard::new(&PushConfig::default()).unwrap();
    let at = |address: &str| SocketAddr::new(address.parse().unwrap(), 0);
    let mixed = [
        at("127.0.0.1"),
        at("1.1.1.1"),
        at("::1"),
        at("2606:4700::1"),
    ];
    let allowed = guard.addresses("example.org", mixed).unwrap();
    assert_eq!(allowed, [at("1.1.1.1"), at("2606:4700::1")]);
    let inner = guard
        .addresses("example.org", [at("10.0.0.1")])
        .unwrap_err();
    assert!(
        inner.contains("example.org") && inner.contains("push.allow_networks"),
        "{inner}"
    );
    assert!(guard.addresses("example.org", []).is_err());
}
