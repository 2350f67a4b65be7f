//! Networks in the configuration.

use std::net::IpAddr;

use ipnet::IpNet;

/// A text that is not a network.
#[derive(Debug)]
pub struct BadNetwork {
    pub text: String,
    pub reason: String,
}

/// Reads networks, such as `10.0.0.0/8`.
pub(crate) fn networks(texts: &[String]) -> Result<Vec<IpNet>, BadNetwork> {
    let networks = texts.iter().map(|text| {
        let network: Result<IpNet, _> = text.parse();
        network.map_err(|error| BadNetwork {
            text: text.clone(),
            reason: format!("{error}: write a network such as 10.0.0.0/8 or fd00::/8"),
        })
    });
    networks.collect()
}

/// Reads networks and single addresses.
pub(crate) fn networks_and_addresses(texts: &[String]) -> Result<Vec<IpNet>, BadNetwork> {
    let spelled = texts.iter().map(|text| match text.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address).to_string(),
        Err(_) => text.clone(),
    });
    networks(&spelled.collect::<Vec<_>>())
}
