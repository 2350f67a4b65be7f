//! Configuration of a Redis store: its servers and its connections. A URL ([`url`]) is another way
//! to write it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use delayq_core::store::Durability;
use delayq_core::{Error, Result};

mod address;
mod secret;
mod url;

pub use self::address::Address;
pub use self::secret::Secret;

/// Minimum number of replicas that confirm a write of class [`Durability::Replicated`].
const LEAST_REPLICAS: u32 = 1;
/// The default share of `maxmemory` that submits may fill. The rest is for the claims and
/// settlements that drain the server, which also need memory for a while.
const DEFAULT_WATERMARK: f64 = 0.95;
/// The servers of a Redis store, and the settings of its connections.
///
/// Written field by field, or as a URL:
///
/// ```text
/// redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]
/// redis+unix://[USER:PASSWORD@]/PATH[?db=DATABASE]
/// redis-sentinel://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]/MASTER[/DATABASE]
/// redis-cluster://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]
/// ```
///
/// `rediss`, `rediss-sentinel` and `rediss-cluster` use TLS. The default port is 6379, for a
/// sentinel 26379. An IPv6 address is written in brackets. Special characters in a user, password
/// or option are percent-encoded (`%40` for `@`). The options, after `?` and separated by `&`:
///
/// | option | field |
/// |---|---|
/// | `ca=FILE`, `cert=FILE`, `key=FILE`, `insecure=true` | [`tls`](Self::tls) |
/// | `assume=CLASS`, such as `disk` | [`assumed_durability`](Self::assumed_durability) |
/// | `replicas=NUMBER` | [`replicas`](Self::replicas) |
/// | `confirm=received\|synced` | [`confirm`](Self::confirm) |
/// | `watermark=SHARE`, `watermark=off` | [`memory_watermark`](Self::memory_watermark) |
/// | `pack=auto\|on\|off` | [`pack`](Self::pack) |
/// | `sentinel_user=`, `sentinel_password=` | fields of the same name |
///
/// In a log it is shown without user, password and options.
///
/// ```
/// use delayq_redis::{Address, RedisConfig, RedisServers};
///
/// let written = RedisConfig {
///     user: Some("delayq".to_owned()),
///     password: Some("p@ss".into()),
///     ..RedisConfig::new(RedisServers::Sentinel {
///         sentinels: vec![Address::new("a", 26379), Address::new("b", 26379)],
///         master: "orders".to_owned(),
///     })
/// };
/// let read = RedisConfig::parse("redis-sentinel://delayq:p%40ss@a,b/orders")?;
/// assert_eq!(read, written);
/// assert_eq!(read.to_string(), "redis-sentinel://a:26379,b:26379/orders/0");
/// # Ok::<(), delayq_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RedisConfig {
    /// The servers.
    pub servers: RedisServers,
    /// The user on the servers that hold the data; `None`: `default`.
    pub user: Option<String>,
    /// The password of that user; `None` if the servers require none.
    pub password: Option<Secret>,
    /// The user on the sentinels, which have users of their own; `None`: `default`.
    pub sentinel_user: Option<String>,
    /// The password of the sentinels; `None`, even if [`password`](Self::password) is given, if
    /// they require none, which is their default.
    pub sentinel_password: Option<Secret>,
    /// The number of the database; a cluster has only 0.
    pub database: u32,
    /// TLS to every server, sentinels included; `None`: connections are not encrypted.
    pub tls: Option<TlsConfig>,
    /// The durability assumed for a server that does not show its settings; it also asserts that
    /// the server evicts no task. Ignored for the settings that the server shows: if those provide
    /// less, the server is refused.
    pub assumed_durability: Option<Durability>,
    /// Number of replicas that confirm a write of class [`Durability::Replicated`], at least 1.
    /// `None`, the default: with sentinels and in a cluster every replica that may become the
    /// master, see the guide; otherwise one.
    pub replicas: Option<u32>,
    /// The moment at which a replica confirms a write of class [`Durability::Replicated`]; default
    /// [`ReplicaConfirm::Received`].
    pub confirm: ReplicaConfirm,
    /// The share of `maxmemory` at which submits are refused as `Full`, above 0 and at most 1;
    /// default 0.95. Claims and settlements go on. With `None`, or on a server without `maxmemory`,
    /// no submit is refused before the server itself refuses it.
    pub memory_watermark: Option<f64>,
    /// Whether far tasks are packed, which takes about half of the memory; default
    /// [`PackFar::Auto`].
    pub pack: PackFar,
}

/// The Redis servers that hold the tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisServers {
    /// One server.
    One(Address),
    /// A master and its replicas, watched by sentinels.
    Sentinel {
        /// Some of the sentinels, at least one; better all of them, so that any can be asked.
        sentinels: Vec<Address>,
        /// The name of the master in the sentinels' configuration.
        master: String,
    },
    /// A cluster.
    Cluster {
        /// Some of its nodes, at least one; the store learns the others from them.
        nodes: Vec<Address>,
    },
}

/// The moment at which a replica confirms a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicaConfirm {
    /// Once it has received it (`WAIT`): the write survives the loss of either machine.
    #[default]
    Received,
    /// Once the replica, and the server itself, have it on disk (`WAITAOF`; Redis 7.2 or newer, all
    /// with `appendonly yes`): the write survives a power loss of all machines at once. With
    /// `appendfsync everysec` that takes up to a second, so set `always`.
    Synced,
}

/// Whether far tasks are packed. Packed tasks are read by every store of this release, whatever its
/// setting; an earlier release refuses their type with `Incompatible`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackFar {
    /// No further task is packed.
    Off,
    /// As [`On`](Self::On), in types whose first task was sent by a release that knows packing.
    /// Nothing is packed in a cluster.
    #[default]
    Auto,
    /// A task is packed if it is due more than five minutes later, and its shard has more than
    /// 10,000 scheduled tasks. It is unpacked two minutes before it is due.
    On,
    /// Every task is packed, and unpacked when it is due: for tests of packing.
    All,
}

/// Encryption and trust. The default trusts the system's certificates (or those in the file named
/// by the environment variable `SSL_CERT_FILE`) and presents no certificate of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// A file with the certificates (PEM) of the authorities to trust, instead of the system's.
    pub ca: Option<PathBuf>,
    /// A file with the certificate (PEM) to present to the server, for mutual TLS, followed by any
    /// intermediate certificates.
    pub certificate: Option<PathBuf>,
    /// A file with the key (PEM) of that certificate; it may be the same file.
    pub key: Option<PathBuf>,
    /// Trusts any server, for tests: encrypted, but possibly to somebody else.
    pub trust_any: bool,
}

impl RedisConfig {
    /// The settings for `servers` without user, TLS and options.
    #[must_use]
    pub fn new(servers: RedisServers) -> Self {
        Self {
            servers,
            user: None,
            password: None,
            sentinel_user: None,
            sentinel_password: None,
            database: 0,
            tls: None,
            assumed_durability: None,
            replicas: None,
            confirm: ReplicaConfirm::Received,
            memory_watermark: Some(DEFAULT_WATERMARK),
            pack: PackFar::Auto,
        }
    }

    /// Reads a URL.
    ///
    /// # Errors
    /// `InvalidInput` with what to write instead. The error repeats no part of the URL except the
    /// name of an option.
    pub fn parse(url: &str) -> Result<Self> {
        url::parse(url)
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.servers, RedisServers::Cluster { .. })
    }

    /// The scheme of a server's URL.
    pub(crate) fn scheme(&self) -> &'static str {
        match (&self.tls, &self.servers) {
            (Some(_), _) => "rediss",
            (None, RedisServers::One(address)) if address.path().is_some() => "redis+unix",
            (None, _) => "redis",
        }
    }

    /// True if `text` reveals a password.
    pub(crate) fn is_secret_in(&self, text: &str) -> bool {
        let secrets = [&self.password, &self.sentinel_password];
        let mut secrets = secrets.into_iter().flatten().map(Secret::reveal);
        secrets.any(|secret| !secret.is_empty() && text.contains(secret))
    }

    /// Minimum number of replicas that have to confirm a write.
    pub(crate) fn least_replicas(&self) -> u32 {
        self.replicas.unwrap_or(LEAST_REPLICAS)
    }

    /// Checks that the settings are consistent, without reading any files.
    ///
    /// # Errors
    /// `InvalidInput` with what to change.
    pub(crate) fn check(&self) -> Result<()> {
        self.fault().map_or(Ok(()), |fault| {
            Err(Error::invalid(
                "setting",
                format!("of the Redis store: {fault}"),
            ))
        })
    }

    /// The problem with the settings, if any.
    fn fault(&self) -> Option<&'static str> {
        let is_sentinel = matches!(self.servers, RedisServers::Sentinel { .. });
        let has_sentinel_login = self.sentinel_user.is_some() || self.sentinel_password.is_some();
        if has_sentinel_login && !is_sentinel {
            return Some("a user or password of sentinels is given, but no sentinels");
        }
        if matches!(self.servers, RedisServers::Cluster { .. }) && self.database != 0 {
            return Some("a cluster has no database but 0: leave the number out");
        }
        if self.user.is_some() && self.password.is_none()
            || self.sentinel_user.is_some() && self.sentinel_password.is_none()
        {
            return Some(
                "a user is given without a password: write USER:PASSWORD, or :PASSWORD without a user",
            );
        }
        if self.replicas == Some(0) {
            return Some("replicas is 0: give at least 1, or ask for another durability");
        }
        let is_share = |share: f64| share > 0.0 && share <= 1.0;
        if !self.memory_watermark.is_none_or(is_share) {
            let fault = "the watermark is no share of maxmemory: give a number above 0 and up to 1";
            return Some(fault);
        }
        let is_socket = |address: &Address| address.path().is_some();
        let is_one = matches!(self.servers, RedisServers::One(_));
        if self.servers.addresses().iter().any(is_socket) && !(is_one && self.tls.is_none()) {
            return Some(
                "a Unix socket leads to one server, without TLS: let its URL begin with redis+unix",
            );
        }
        if let Some(fault) = self.left_out() {
            return Some(fault);
        }
        let tls = self.tls.as_ref().and_then(TlsConfig::fault);
        tls.or_else(|| self.servers.fault())
    }

    /// The feature that this configuration needs and the build does not have.
    fn left_out(&self) -> Option<&'static str> {
        match &self.servers {
            RedisServers::Sentinel { .. } if cfg!(not(feature = "sentinel")) => {
                Some("sentinels are left out of this build: add the feature `sentinel`")
            }
            RedisServers::Cluster { .. } if cfg!(not(feature = "cluster")) => {
                Some("clusters are left out of this build: add the feature `cluster`")
            }
            _ if self.tls.is_some() && cfg!(not(feature = "tls")) => {
                Some("TLS is left out of this build: add the feature `tls`")
            }
            _ => None,
        }
    }
}

impl RedisServers {
    /// The configured addresses.
    pub(crate) fn addresses(&self) -> &[Address] {
        match self {
            Self::One(address) => std::slice::from_ref(address),
            Self::Sentinel { sentinels, .. } => sentinels,
            Self::Cluster { nodes } => nodes,
        }
    }

    fn fault(&self) -> Option<&'static str> {
        if let Self::Sentinel { master, .. } = self {
            let is_letter = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
            if master.is_empty() || !master.chars().all(is_letter) {
                return Some(
                    "the name of the master is missing or not one: letters, digits, `.`, `-`, `_`",
                );
            }
        }
        let addresses = self.addresses();
        if addresses.is_empty() {
            return Some("no host is given");
        }
        addresses.iter().find_map(Address::fault)
    }
}

impl TlsConfig {
    fn fault(&self) -> Option<&'static str> {
        if self.certificate.is_some() != self.key.is_some() {
            return Some("a certificate needs its key, and a key its certificate: give both");
        }
        if self.trust_any && self.ca.is_some() {
            return Some("any server is trusted, so the CA has no use: leave one of the two out");
        }
        None
    }
}

impl FromStr for ReplicaConfirm {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "received" => Ok(Self::Received),
            "synced" => Ok(Self::Synced),
            _ => Err(Error::invalid("confirm", "write received or synced")),
        }
    }
}

impl FromStr for PackFar {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "all" => Ok(Self::All),
            _ => Err(Error::invalid("pack", "write auto, on or off")),
        }
    }
}

impl FromStr for RedisConfig {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        Self::parse(url)
    }
}

/// The URL without user, password and options.
impl fmt::Display for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, database) = (self.scheme(), self.database);
        match &self.servers {
            RedisServers::One(address) => write!(f, "{scheme}://{address}/{database}"),
            RedisServers::Sentinel { sentinels, master } => {
                let sentinels = listed(sentinels);
                write!(f, "{scheme}-sentinel://{sentinels}/{master}/{database}")
            }
            RedisServers::Cluster { nodes } => write!(f, "{scheme}-cluster://{}", listed(nodes)),
        }
    }
}

fn listed(addresses: &[Address]) -> String {
    let addresses: Vec<_> = addresses.iter().map(Address::to_string).collect();
    addresses.join(",")
}

#[cfg(test)]
#[cfg(feature = "sentinel")]
mod tests;
