//! Guard against server-side request forgery: decides which addresses may be called.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::LazyLock;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

use super::PushConfig;
use crate::network::{BadNetwork, networks};

/// The longest URL, in bytes.
const MAX_URL_BYTES: usize = 2_048;
/// Lower ports belong to system services, such as 22 and 25.
const FIRST_FREE_PORT: u16 = 1_024;
/// Lower ports that are allowed nevertheless.
const WEB_PORTS: [u16; 2] = [80, 443];

/// Suffixes of names that no public resolver answers: those of [RFC
/// 6761](https://www.rfc-editor.org/rfc/rfc6761), [RFC
/// 6762](https://www.rfc-editor.org/rfc/rfc6762) and [RFC
/// 8375](https://www.rfc-editor.org/rfc/rfc8375), `internal`, which ICANN has reserved, and
/// `localdomain`, which many hosts files use.
const LOCAL_ENDINGS: [&str; 6] = [
    ".home.arpa",
    ".internal",
    ".invalid",
    ".local",
    ".localdomain",
    ".onion",
];

/// The rules for allowed addresses. Every URL is checked when it is stored, and every address when
/// it is dialled.
#[derive(Debug)]
pub struct Guard {
    networks: Vec<IpNet>,
    ports: Vec<u16>,
    allows_http: bool,
}

impl Guard {
    pub fn new(config: &PushConfig) -> Result<Self, BadNetwork> {
        Ok(Self {
            networks: networks(&config.allow_networks)?,
            ports: config.allow_ports.clone(),
            allows_http: config.allow_http,
        })
    }

    /// Parses a URL and refuses it if it must not be called. Addresses are checked when they are
    /// dialled.
    pub fn url(&self, text: &str) -> Result<Url, String> {
        if text.len() > MAX_URL_BYTES {
            return Err(format!("a URL has at most {MAX_URL_BYTES} bytes"));
        }
        // The URL standard drops or rewrites these characters.
        if text
            .bytes()
            .any(|byte| byte <= b' ' || byte == 127 || byte == b'\\')
        {
            return Err("a URL has no blanks, control characters or backslashes".to_owned());
        }
        let url = Url::parse(text).map_err(|error| format!("this is no URL: {error}"))?;
        match url.scheme() {
            "https" => {}
            "http" if self.allows_http => {}
            "http" => {
                return Err("use https, or allow http with push.allow_http = true".to_owned());
            }
            other => return Err(format!("use https instead of {other}")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a URL has no user or password: use the headers of the target".to_owned());
        }
        if url.fragment().is_some() {
            return Err("a URL of a target has no fragment (#)".to_owned());
        }
        self.port(url.port_or_known_default().unwrap_or_default())?;
        match url.host() {
            None => return Err("a URL of a target has a host".to_owned()),
            Some(Host::Ipv4(address)) => self.address(address.into())?,
            Some(Host::Ipv6(address)) => self.address(address.into())?,
            Some(Host::Domain(name)) => self.name(name)?,
        }
        Ok(url)
    }

    /// Refuses a name that always means this host. Unless a private network is allowed, also
    /// refuses a name that can only be private.
    fn name(&self, name: &str) -> Result<(), String> {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        if name.is_empty() {
            return Err("a URL of a target has a host".to_owned());
        }
        // For example `169.254.169.254..`, which the URL standard does not read as an address.
        if name.split('.').any(str::is_empty) {
            return Err("a host has no empty part between two dots".to_owned());
        }
        if name == "localhost" || name.ends_with(".localhost") {
            self.address(Ipv4Addr::LOCALHOST.into())?;
        }
        let is_local = !name.contains('.') || LOCAL_ENDINGS.iter().any(|end| name.ends_with(end));
        if is_local && self.networks.is_empty() {
            return Err(format!(
                "{name} is a name of a private network: allow that with push.allow_networks"
            ));
        }
        Ok(())
    }

    /// Refuses a port that targets may not use.
    pub fn port(&self, port: u16) -> Result<(), String> {
        if port >= FIRST_FREE_PORT || WEB_PORTS.contains(&port) || self.ports.contains(&port) {
            return Ok(());
        }
        Err(format!(
            "port {port} is not for targets: allow it with push.allow_ports = [{port}]"
        ))
    }

    /// Refuses an address that is neither public nor in an allowed network.
    pub fn address(&self, address: IpAddr) -> Result<(), String> {
        let is_allowed = |address: &IpAddr| self.networks.iter().any(|one| one.contains(address));
        let plain = address.to_canonical();
        match why_forbidden(address) {
            None => Ok(()),
            Some(_) if is_allowed(&address) || is_allowed(&plain) => Ok(()),
            Some(why) => Err(format!(
                "{address} is not called: it is {why}; allow it with push.allow_networks"
            )),
        }
    }

    /// The allowed addresses of a name, or the refusal of one if there are none.
    pub fn addresses(
        &self,
        name: &str,
        found: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<Vec<SocketAddr>, String> {
        let (mut allowed, mut refusal) = (Vec::new(), None);
        for address in found {
            match self.address(address.ip()) {
                Ok(()) => allowed.push(address),
                Err(reason) => refusal = Some(reason),
            }
        }
        if allowed.is_empty() {
            let reason = refusal.unwrap_or_else(|| "it has no address".to_owned());
            return Err(format!("{name}: {reason}"));
        }
        Ok(allowed)
    }
}

#[cfg(test)]
mod tests;

/// Non-public IPv4: the special-purpose registry of IANA, and the addresses of cloud metadata
/// services.
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

/// The only global unicast IPv6 range that is assigned.
const GLOBAL_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// The non-public parts of [`GLOBAL_V6`].
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

/// The forbidden networks, each with the reason.
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

/// The reason why an address is not public; `None` for a public one.
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

/// The reason why an IPv6 address outside the public range is not public.
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
