//! Configuration of a store, and the URL that it is read from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use delayq_core::{Error, Result};
use percent_encoding::percent_decode_str;
use tokio_postgres::config::SslMode;

/// The forms of a URL, for errors.
const FORMS: &str = "its form is postgres://[user[:password]@]host[:port][,host[:port]][/database]\
    [?option=value&..]";

/// The options of this store. Those of PostgreSQL, such as `connect_timeout`, `application_name`,
/// `target_session_attrs` and `options`, are taken as well.
const OPTIONS: [&str; 6] = [
    "schema",
    "connections",
    "listen",
    "migrate",
    "sslmode",
    "sslrootcert",
];

/// How soon a connection that died in silence is noticed, unless the URL says so: by probes of an
/// idle one, and by what is sent and not received.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_EVERY: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;
const UNRECEIVED: Duration = Duration::from_secs(15);

/// The schema if the URL names none.
const SCHEMA: &str = "delayq";

/// The number of connections of an instance if the URL gives none: four for submits, the others for
/// claims, settlements, changes and reads.
const CONNECTIONS: usize = 8;

/// The largest number of connections of an instance.
const MAX_CONNECTIONS: usize = 100;

/// The age of a snapshot from which on its holder is named.
const HELD_FOR: Duration = Duration::from_mins(10);

/// How the connection is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tls {
    /// Not at all.
    Disable,
    /// If the server offers it; its certificate is not verified. The default, as in libpq.
    Prefer,
    /// Always; its certificate is not verified.
    Require,
    /// Always. The certificate must be signed by an authority in this file, or one that the system
    /// trusts, and name the host.
    VerifyFull(Option<PathBuf>),
}

impl Tls {
    /// The same for the client.
    pub(crate) fn mode(&self) -> SslMode {
        match self {
            Self::Disable => SslMode::Disable,
            Self::Prefer => SslMode::Prefer,
            Self::Require | Self::VerifyFull(_) => SslMode::Require,
        }
    }
}

/// A way past a pooler.
#[derive(Clone)]
pub(crate) struct Direct {
    pub(crate) server: tokio_postgres::Config,
    /// As the other connections, if `None`.
    pub(crate) tls: Option<Tls>,
}

/// How a store connects, and where its tables are.
#[derive(Clone)]
pub struct PostgresConfig {
    pub(crate) server: tokio_postgres::Config,
    /// The schema of the tables; default `delayq`. Several namespaces share one.
    pub schema: String,
    /// The number of connections that an instance opens at most, besides the one for wake-ups.
    pub connections: usize,
    /// A direct connection for wake-ups, if the other one leads to a pooler in transaction mode.
    pub(crate) listen: Option<Direct>,
    /// True if nothing listens: a pooler without a direct connection beside it.
    pub(crate) is_deaf: bool,
    /// How the connection is encrypted.
    pub tls: Tls,
    /// True, the default, if opening a store makes a schema that is missing, and completes one of
    /// an earlier release.
    pub may_migrate: bool,
    /// How old a snapshot of anybody may be before `health()` and `delayq doctor` name its holder;
    /// default 10 minutes.
    pub held_for: Duration,
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("place", &self.place())
            .field("connections", &self.connections)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

impl PostgresConfig {
    /// Reads a URL.
    ///
    /// # Errors
    /// `InvalidInput` for a URL of another form. No error repeats a part that may be a password.
    pub fn parse(url: &str) -> Result<Self> {
        let mut parts = Parts::read(url)?;
        let tls = parts.tls()?;
        let mut config = Self {
            server: parts.server,
            schema: SCHEMA.to_owned(),
            connections: CONNECTIONS,
            listen: None,
            is_deaf: false,
            tls: tls.unwrap_or(Tls::Prefer),
            held_for: HELD_FOR,
            may_migrate: true,
        };
        if let Some(name) = parts.own.remove("schema") {
            config.schema = schema(&name)?;
        }
        if let Some(number) = parts.own.remove("connections") {
            config.connections = connections(&number)?;
        }
        if let Some(when) = parts.own.remove("migrate") {
            config.may_migrate = may_migrate(&when)?;
        }
        match parts.own.remove("listen") {
            Some(none) if none == "none" => config.is_deaf = true,
            Some(url) => config.listen = Some(direct(&url)?),
            None => {}
        }
        Ok(config)
    }

    /// The server, the database and the schema, without secrets.
    #[must_use]
    pub fn place(&self) -> String {
        use tokio_postgres::config::Host;
        let ports = self.server.get_ports();
        let hosts = self.server.get_hosts().iter().enumerate();
        let hosts: Vec<_> = hosts
            .map(|(n, host)| {
                let port = ports.get(n).or(ports.first()).copied().unwrap_or(5_432);
                match host {
                    Host::Tcp(host) => format!("{host}:{port}"),
                    #[cfg(unix)]
                    Host::Unix(path) => format!("{}:{port}", path.display()),
                }
            })
            .collect();
        let database = self.server.get_dbname().or(self.server.get_user());
        let place = format!("postgres://{}/{}", hosts.join(","), database.unwrap_or(""));
        if self.schema == SCHEMA {
            return place;
        }
        format!("{place}?schema={}", self.schema)
    }
}

fn invalid(reason: String) -> Error {
    Error::invalid("PostgreSQL URL", reason)
}

/// The parts of a URL.
struct Parts {
    server: tokio_postgres::Config,
    /// The options of this store, decoded.
    own: BTreeMap<&'static str, String>,
}

impl Parts {
    fn read(url: &str) -> Result<Self> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        check_place(place, query)?;
        let (mut rest, mut own) = (Vec::new(), BTreeMap::new());
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            match OPTIONS.into_iter().find(|own| *own == key) {
                Some(key) => {
                    let value = percent_decode_str(value).decode_utf8_lossy();
                    own.insert(key, value.into_owned());
                }
                None => rest.push(option),
            }
        }
        let text = format!("{place}?{}", rest.join("&"));
        let mut server =
            tokio_postgres::Config::from_str(text.trim_end_matches('?')).map_err(|error| {
                let said = crate::error::chain(&error);
                let options = OPTIONS.join(", ");
                // The text of the client repeats a part of the URL only for an option's name.
                invalid(format!("{said}; {FORMS}; options of the store: {options}"))
            })?;
        if server.get_hosts().is_empty() {
            return Err(invalid(format!("it names no host; {FORMS}")));
        }
        if server.get_application_name().is_none() {
            server.application_name("delayq");
        }
        let keys: Vec<&str> = rest.iter().filter_map(|o| o.split('=').next()).collect();
        let is_set = |name| keys.contains(&name);
        if !is_set("keepalives_idle") {
            server.keepalives_idle(PROBE_AFTER);
        }
        if !is_set("keepalives_interval") {
            server.keepalives_interval(PROBE_EVERY);
        }
        if !is_set("keepalives_retries") {
            server.keepalives_retries(PROBES);
        }
        if !is_set("tcp_user_timeout") {
            server.tcp_user_timeout(UNRECEIVED);
        }
        Ok(Self { server, own })
    }

    /// How a connection is encrypted, if the URL says so.
    fn tls(&self) -> Result<Option<Tls>> {
        if let Some(file) = self.own.get("sslrootcert") {
            return Ok(Some(Tls::VerifyFull(Some(file.into()))));
        }
        self.own.get("sslmode").map(|mode| tls(mode)).transpose()
    }
}

/// Finds what the client would take for another part. No error repeats a part.
fn check_place(place: &str, query: &str) -> Result<()> {
    let rest = place.strip_prefix("postgres://");
    let Some(rest) = rest.or_else(|| place.strip_prefix("postgresql://")) else {
        return Err(invalid(format!("it begins with another scheme; {FORMS}")));
    };
    let reason = match rest.matches('@').count() {
        0 if query.contains('@') && !query.contains("://") => {
            "it has a `?` before its `@`: write %3F for one in a password"
        }
        0 | 1 => return Ok(()),
        _ => "it has a second `@`: write %40 for one in a user, a password or a name",
    };
    Err(invalid(format!("{reason}; {FORMS}")))
}

/// The direct connection for wake-ups.
fn direct(url: &str) -> Result<Direct> {
    let parts = Parts::read(url)?;
    for option in ["schema", "connections", "listen"] {
        if parts.own.contains_key(option) {
            let reason = format!("the URL of listen= has {option}=: it goes into the main URL");
            return Err(invalid(reason));
        }
    }
    let tls = parts.tls()?;
    Ok(Direct {
        server: parts.server,
        tls,
    })
}

/// The name of a schema, which goes into statements.
fn schema(name: &str) -> Result<String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if begins && name.chars().all(is_plain) && name.len() <= 40 && !name.starts_with("pg_") {
        return Ok(name.to_owned());
    }
    let reason = format!(
        "schema {name:?}: use up to 40 of a to z, 0 to 9 and _, beginning with a letter and not \
         with pg_"
    );
    Err(Error::invalid("PostgreSQL URL", reason))
}

fn connections(number: &str) -> Result<usize> {
    let known = number.parse().ok();
    known
        .filter(|number| (2..=MAX_CONNECTIONS).contains(number))
        .ok_or_else(|| {
            let reason = format!("connections={number}: give 2 to {MAX_CONNECTIONS}");
            Error::invalid("PostgreSQL URL", reason)
        })
}

fn may_migrate(when: &str) -> Result<bool> {
    match when {
        "auto" => Ok(true),
        "never" => Ok(false),
        _ => {
            let reason = format!("migrate={when}: use auto or never");
            Err(Error::invalid("PostgreSQL URL", reason))
        }
    }
}

fn tls(mode: &str) -> Result<Tls> {
    Ok(match mode {
        "disable" => Tls::Disable,
        "prefer" => Tls::Prefer,
        "require" => Tls::Require,
        "verify-full" => Tls::VerifyFull(None),
        _ => {
            let reason = format!("sslmode={mode}: use disable, prefer, require or verify-full");
            return Err(Error::invalid("PostgreSQL URL", reason));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_told_without_its_password() {
        let url = "postgres://ann:se%40cret@db1:5433,db2/shop?schema=tasks&connections=4\
                   &sslmode=require&target_session_attrs=read-write";
        let config = PostgresConfig::parse(url).unwrap();
        assert_eq!(
            config.place(),
            "postgres://db1:5433,db2:5432/shop?schema=tasks"
        );
        assert_eq!((config.connections, config.tls.clone()), (4, Tls::Require));
        assert_eq!(config.server.get_password(), Some(&b"se@cret"[..]));
        assert!(!format!("{config:?}").contains("cret"));
    }

    #[test]
    fn a_direct_connection_has_its_own_encryption_or_that_of_the_others() {
        let url = "postgres://ann@pooler/d?sslmode=disable&listen=postgres://ann:p%2540s@db/d";
        let direct = PostgresConfig::parse(url).unwrap().listen.unwrap();
        assert_eq!(direct.server.get_password(), Some(&b"p@s"[..]));
        assert_eq!(direct.tls, None);
        let own = format!("{url}%3Fsslrootcert=/ca.pem");
        let own = PostgresConfig::parse(&own).unwrap();
        let file = Some(PathBuf::from("/ca.pem"));
        assert_eq!(own.tls, Tls::Disable);
        assert_eq!(own.listen.unwrap().tls, Some(Tls::VerifyFull(file)));
    }

    #[test]
    fn a_silent_end_is_noticed_soon_unless_the_url_says_when() {
        let server = |url: &str| PostgresConfig::parse(url).unwrap().server;
        let usual = server("postgres://h/d");
        assert_eq!(usual.get_keepalives_idle(), PROBE_AFTER);
        assert_eq!(usual.get_tcp_user_timeout(), Some(&UNRECEIVED));
        let own = server("postgres://h/d?keepalives_idle=7200&tcp_user_timeout=3");
        assert_eq!(own.get_keepalives_idle(), Duration::from_hours(2));
        assert_eq!(own.get_tcp_user_timeout(), Some(&Duration::from_secs(3)));
    }

    #[test]
    fn a_wrong_url_is_refused_with_what_to_write() {
        for (url, said) in [
            ("mysql://a", "another scheme"),
            ("postgres://", "names no host"),
            ("postgres://h/d?schema=Pg", "a to z"),
            ("postgres://h/d?schema=a;drop", "a to z"),
            ("postgres://h/d?connections=1", "2 to 100"),
            ("postgres://h/d?sslmode=maybe", "verify-full"),
            ("postgres://h/d?migrate=yes", "auto or never"),
            ("postgres://h/d?conections=3", "schema, connections"),
            ("postgres://ann:se@cret@h/d", "%40"),
            ("postgres://ann:se?cret@h/d", "%3F"),
            (
                "postgres://h/d?listen=postgres://g?schema=a",
                "the main URL",
            ),
        ] {
            let error = PostgresConfig::parse(url).unwrap_err().to_string();
            assert!(error.contains(said), "{url}: {error}");
        }
    }
}
