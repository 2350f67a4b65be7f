//! Networks that no target may be in, unless the configuration says so.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// IPv4 that is not public: the special-purpose registry of IANA, and what clouds answer their
/// guests on.
const NETWORKS_V4: [(Ipv4Addr, u8, &str); 18] = [
    (Ipv4Addr::UNSPECIFIED, 8, "this host"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "a private network"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "a network of carriers"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    (
        Ipv4Addr::new(168, 63, 129, 16),
        32,
        "the metadata of a cloud",
    ),
    (
        Ipv4Addr::new(169, 254, 169, 254),
        32,
        "the metadata of a cloud",
    ),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "a private network"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "reserved for protocols"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "for documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a relay of 6to4"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "a private network"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::BROADCAST, 32, "broadcast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
];

/// The only IPv6 that is handed out.
const GLOBAL_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// What of [`GLOBAL_V6`] is not public.
const NETWORKS_V6: [(Ipv6Addr, u8, &str); 4] = [
    (
        Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0),
        23,
        "reserved for protocols",
    ),
    (
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0),
        32,
        "for documentation",
    ),
    (
        Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0),
        16,
        "IPv4 within 6to4",
    ),
    (
        Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0),
        20,
        "for documentation",
    ),
];

/// The networks, and why nobody is to be called in them.
static NETWORKS: LazyLock<Vec<(IpNet, &str)>> = LazyLock::new(|| {
    let v4 = NETWORKS_V4.iter().filter_map(|(address, length, why)| {
        let network = Ipv4Net::new(*address, *length).ok()?;
        Some((IpNet::V4(network), *why))
    });
    let v6 = NETWORKS_V6.iter().filter_map(|(address, length, why)| {
        let network = Ipv6Net::new(*address, *length).ok()?;
        Some((IpNet::V6(network), *why))
    });
    v4.chain(v6).collect()
});

/// Why an address is not public; `None` for one that is.
pub(super) fn why_forbidden(address: IpAddr) -> Option<&'static str> {
    let networks = NETWORKS.iter();
    let network = networks
        .clone()
        .find(|(network, _)| network.contains(&address));
    if let Some((_, why)) = network {
        return Some(why);
    }
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => {
            let (global, length) = GLOBAL_V6;
            let is_global = Ipv6Net::new(global, length).is_ok_and(|network| network.contains(&v6));
            (!is_global).then(|| of_special_v6(v6))
        }
    }
}

/// Why an IPv6 address outside of the public ones is none.
fn of_special_v6(address: Ipv6Addr) -> &'static str {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => "this host",
        [0, 0, 0, 0, 0, 0, 0, 1] => "loopback",
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0 | 0xffff, ..] => "IPv4 within IPv6",
        [0x64, 0xff9b, ..] => "IPv4 behind NAT64",
        [first, ..] if first & 0xfe00 == 0xfc00 => "a private network",
        [first, ..] if first & 0xffc0 == 0xfe80 => "link-local",
        [first, ..] if first & 0xff00 == 0xff00 => "multicast",
        _ => "reserved",
    }
}
