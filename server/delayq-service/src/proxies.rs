//! The addresses of clients behind proxies.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use axum::http::header::FORWARDED;
use ipnet::IpNet;

use crate::network::{BadNetwork, networks_and_addresses};

/// The header in which most proxies name their clients.
const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// The proxies whose word about the addresses of their clients counts.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Reads the addresses and networks of proxies.
    pub fn new(texts: &[String]) -> Result<Self, BadNetwork> {
        networks_and_addresses(texts).map(Self)
    }

    /// The address of the client that sent a request with these headers over a connection from
    /// `peer`. It is `peer` unless trusted proxies name another one.
    ///
    /// A proxy may pass on a header that it does not know, just as the client sent it. So if both
    /// headers are there and name different clients, none of them counts.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.trusts(peer) {
            return peer;
        }
        let values = |name: &str| {
            let values = headers.get_all(name).into_iter();
            let texts = values.map(|value| value.to_str().unwrap_or_default().to_owned());
            let joined = texts.collect::<Vec<_>>().join(",");
            (!joined.is_empty()).then_some(joined)
        };
        let one = values(X_FORWARDED_FOR);
        let one = one.map(|list| self.first(peer, list.split(',').map(address)));
        let other = values(FORWARDED.as_str());
        let other = other.map(|list| self.first(peer, list.split(',').map(forwarded_for)));
        match (one, other) {
            (Some(one), Some(other)) if one != other => peer,
            (one, other) => one.or(other).unwrap_or(peer),
        }
    }

    /// The last address of a list that no trusted proxy has. Each proxy appends the address that
    /// its request came from, so that what stands before it may be invented.
    fn first(&self, peer: IpAddr, hops: impl DoubleEndedIterator<Item = Option<IpAddr>>) -> IpAddr {
        let mut client = peer;
        for hop in hops.rev() {
            match hop {
                Some(hop) if self.trusts(client) => client = hop,
                _ => break,
            }
        }
        client
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

/// The address in `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1` or `[2001:db8::1]:80`.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let plain = bare.unwrap_or(text).parse::<IpAddr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    plain
        .or_else(with_port)
        .map(|address| address.to_canonical())
}

/// The address in an element of `Forwarded`, such as `for="[2001:db8::1]:80";proto=https`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    address(value.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    /// The client that a server with two proxies sees.
    fn client(peer: &str, headers: &[(&str, &str)]) -> String {
        let proxies = ["10.0.0.0/8".to_owned(), "192.0.2.7".to_owned()];
        let proxies = TrustedProxies::new(&proxies).unwrap();
        let headers = headers.iter().map(|(name, value)| {
            let name: HeaderName = name.parse().unwrap();
            (name, value.parse().unwrap())
        });
        let headers: HeaderMap = headers.collect();
        proxies.client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn a_forwarded_address_counts_as_far_as_trusted_proxies_have_written_it() {
        let x = "x-forwarded-for";
        for (peer, headers, seen) in [
            ("10.0.0.1", &[][..], "10.0.0.1"),
            ("10.0.0.1", &[(x, "203.0.113.5")], "203.0.113.5"),
            ("::ffff:10.0.0.1", &[(x, "203.0.113.5:99")], "203.0.113.5"),
            ("192.0.2.7", &[(x, "[2001:db8::1]:99")], "2001:db8::1"),
            // Anybody may send the header.
            ("192.0.2.8", &[(x, "203.0.113.5")], "192.0.2.8"),
            // The client has invented the first address.
            ("10.0.0.1", &[(x, "8.8.8.8, 203.0.113.5")], "203.0.113.5"),
            (
                "10.0.0.1",
                &[(x, "8.8.8.8"), (x, "203.0.113.5")],
                "203.0.113.5",
            ),
            (
                "10.0.0.1",
                &[(x, "203.0.113.5, 192.0.2.7, 10.9.9.9")],
                "203.0.113.5",
            ),
            (
                "10.0.0.1",
                &[(x, "203.0.113.5, junk, 10.9.9.9")],
                "10.9.9.9",
            ),
            ("10.0.0.1", &[(x, "unknown")], "10.0.0.1"),
            (
                "10.0.0.1",
                &[(
                    "forwarded",
                    "for=8.8.8.8, For=\"[2001:db8::1]:9\";proto=https",
                )],
                "2001:db8::1",
            ),
            (
                "10.0.0.1",
                &[("forwarded", "by=10.0.0.1;for=_hidden")],
                "10.0.0.1",
            ),
            // One of the two is as the client sent it.
            (
                "10.0.0.1",
                &[("forwarded", "for=8.8.8.8"), (x, "203.0.113.5")],
                "10.0.0.1",
            ),
            (
                "10.0.0.1",
                &[("forwarded", "for=203.0.113.5"), (x, "203.0.113.5")],
                "203.0.113.5",
            ),
        ] {
            assert_eq!(client(peer, headers), seen, "{peer} {headers:?}");
        }
        for bad in ["proxy", "10.0.0.0/33", ""] {
            let refused = TrustedProxies::new(&[bad.to_owned()]).unwrap_err();
            assert_eq!(refused.text, bad);
        }
    }
}
