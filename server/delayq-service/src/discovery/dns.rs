//! Instances found by DNS, with A, AAAA or SRV records.

use std::net::{IpAddr, SocketAddr};

use delayq_plugin::TaskType;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use tracing::{debug, warn};
use url::Url;

use super::config::{SRV_SCHEMES, ServiceConfig};
use super::instance::Instance;
use super::{Discovery, InstanceSource};

/// Looks up all names repeatedly. A name whose look-up fails keeps its instances.
pub(super) async fn follow(discovery: &Discovery) {
    let config = &discovery.config;
    if config.dns.is_empty() {
        return;
    }
    let resolver = match resolver(&config.dns_servers) {
        Ok(resolver) => resolver,
        Err(error) => {
            warn!(
                error,
                "cannot start the DNS resolver; no instance is found by DNS"
            );
            return;
        }
    };
    let mut names: Vec<_> = names(config).collect();
    loop {
        for name in &mut names {
            name.look(&resolver).await;
        }
        let instances = names.iter().flat_map(|name| name.instances.clone());
        discovery.put(InstanceSource::Dns, instances.collect());
        tokio::time::sleep(config.refresh()).await;
    }
}

/// A name of a type, with the result of its last look-up.
struct Name {
    task_type: TaskType,
    url: Url,
    instances: Vec<Instance>,
    is_lost: bool,
}

fn names(config: &ServiceConfig) -> impl Iterator<Item = Name> {
    let types = config.dns.iter().filter_map(|(task_type, urls)| {
        let task_type = TaskType::new(task_type).ok()?;
        Some((task_type, urls))
    });
    types.flat_map(|(task_type, urls)| {
        let parsed = urls.iter().filter_map(|url| Url::parse(url).ok());
        parsed.map(move |url| Name {
            task_type: task_type.clone(),
            url,
            instances: Vec::new(),
            is_lost: false,
        })
    })
}

impl Name {
    async fn look(&mut self, resolver: &TokioResolver) {
        match found(&self.url, resolver).await {
            Ok(urls) => {
                let instances = urls.iter();
                let instances = instances.map(|url| Instance::configured(url, &self.task_type));
                self.instances = instances.collect();
                self.is_lost = false;
            }
            Err(error) if !self.is_lost => {
                warn!(url = %self.url, error, "cannot look up a name; its instances are kept");
                self.is_lost = true;
            }
            Err(error) => debug!(url = %self.url, error, "cannot look up a name"),
        }
    }
}

/// The URLs that a name leads to.
async fn found(url: &Url, resolver: &TokioResolver) -> Result<Vec<Url>, String> {
    let host = url.host_str().unwrap_or_default();
    let srv = SRV_SCHEMES.iter().find(|(srv, _)| *srv == url.scheme());
    if let Some((_, scheme)) = srv {
        return by_srv(url, scheme, resolver).await;
    }
    // An HTTPS certificate names the host, so the URL keeps the name and the connection resolves
    // it.
    if url.scheme() == "https" || host.parse::<IpAddr>().is_ok() || host.starts_with('[') {
        return Ok(vec![url.clone()]);
    }
    let addresses = addresses(host, resolver).await?;
    let with = |address: IpAddr| {
        let mut url = url.clone();
        url.set_ip_host(address).ok()?;
        Some(url)
    };
    Ok(addresses.into_iter().filter_map(with).collect())
}

async fn by_srv(url: &Url, scheme: &str, resolver: &TokioResolver) -> Result<Vec<Url>, String> {
    let name = url.host_str().unwrap_or_default();
    let answer = resolver.srv_lookup(name).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let services = answer
        .answers()
        .iter()
        .filter_map(|record| match &record.data {
            RData::SRV(service) => Some(service.clone()),
            _ => None,
        });
    let mut services: Vec<_> = services.collect();
    let best = services.iter().map(|service| service.priority).min();
    // Other priorities are only used once the best one is gone from the answer.
    services.retain(|service| Some(service.priority) == best);
    services.sort_by_key(|service| (service.target.to_string(), service.port));
    let (mut urls, mut failure) = (Vec::new(), None);
    for service in services {
        let target = service.target.to_string();
        let hosts = if scheme == "https" {
            vec![target.trim_end_matches('.').to_owned()]
        } else {
            // A target without an address must not hide the others.
            let addresses = match addresses(&target, resolver).await {
                Ok(addresses) => addresses,
                Err(error) => {
                    tracing::debug!(%target, %error, "the target of an SRV record has no address");
                    failure = Some(error);
                    continue;
                }
            };
            let host = |address: IpAddr| SocketAddr::new(address, 0).to_string();
            let without_port = |text: String| text.trim_end_matches(":0").to_owned();
            addresses.into_iter().map(host).map(without_port).collect()
        };
        for host in hosts {
            let text = format!("{scheme}://{host}:{}{}", service.port, url.path());
            urls.extend(Url::parse(&text).ok());
        }
    }
    match failure {
        Some(error) if urls.is_empty() => Err(error),
        _ => Ok(urls),
    }
}

async fn addresses(host: &str, resolver: &TokioResolver) -> Result<Vec<IpAddr>, String> {
    let answer = resolver.lookup_ip(host).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let mut addresses: Vec<_> = answer.iter().collect();
    addresses.sort_unstable();
    Ok(addresses)
}

/// A resolver for the given servers, or for those of the system.
fn resolver(servers: &[SocketAddr]) -> Result<TokioResolver, String> {
    let builder = if servers.is_empty() {
        TokioResolver::builder_tokio().map_err(|error| error.to_string())?
    } else {
        let servers = servers.iter().map(|server| {
            let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            let connections = connections.map(|mut connection| {
                connection.port = server.port();
                connection
            });
            NameServerConfig::new(server.ip(), true, connections.into())
        });
        let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
    };
    builder.build().map_err(|error| error.to_string())
}
