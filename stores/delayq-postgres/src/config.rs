//! Configuration of a store, and the URL that it is read from.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use delayq_core::{Error, Result};
use percent_encoding::percent_decode_str;
use tokio_postgres::config::SslMode;

/// The forms of a URL, for errors.
const FORMS: &str = "its form is postgres://[user[:password]@]host[:port][,host[:port]][/database]\
    [?option=value&..]";

/// The options of this store. Those of PostgreSQL, such as `connect_timeout`, `application_name`,
/// `target_session_attrs` and `options`, are taken as well.
const OPTIONS: &str = "schema, connections, listen, migrate, sslmode, sslrootcert";

/// The schema if the URL names none.
const SCHEMA: &str = "delayq";

/// The number of connections of an instance if the URL gives none: four for submits, the others for
/// claims, settlements, changes and reads.
const CONNECTIONS: usize = 8;

/// The largest number of connections of an instance.
const MAX_CONNECTIONS: usize = 100;

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

/// How a store connects, and where its tables are.
#[derive(Clone)]
pub struct PostgresConfig {
    pub(crate) server: tokio_postgres::Config,
    /// The schema of the tables; default `delayq`. Several namespaces share one.
    pub schema: String,
    /// The number of connections that an instance opens at most, besides the one for wake-ups.
    pub connections: usize,
    /// A direct connection for wake-ups, if the other one leads to a pooler in transaction mode.
    pub(crate) listen: Option<tokio_postgres::Config>,
    /// True if nothing listens: a pooler without a direct connection beside it.
    pub(crate) is_deaf: bool,
    /// How the connection is encrypted.
    pub tls: Tls,
    /// True, the default, if opening a store makes a schema that is missing, and completes one of an
    /// earlier release.
    pub may_migrate: bool,
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
        let invalid = |reason: String| Error::invalid("PostgreSQL URL", reason);
        let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
        if !is_url {
            return Err(invalid(format!("it begins with another scheme; {FORMS}")));
        }
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        if query.contains('@') && !place.contains('@') {
            let reason = "it has a `?` before its `@`: write %3F for one in a password";
            return Err(invalid(format!("{reason}; {FORMS}")));
        }
        let mut config = Self {
            server: tokio_postgres::Config::new(),
            schema: SCHEMA.to_owned(),
            connections: CONNECTIONS,
            listen: None,
            is_deaf: false,
            tls: Tls::Prefer,
            may_migrate: true,
        };
        let (mut rest, mut authorities) = (Vec::new(), None);
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let value = percent_decode_str(value).decode_utf8_lossy();
            match key {
                "schema" => config.schema = schema(&value)?,
                "connections" => config.connections = connections(&value)?,
                "listen" if value == "none" => config.is_deaf = true,
                "listen" => config.listen = Some(Self::parse(&value)?.server),
                "migrate" => config.may_migrate = may_migrate(&value)?,
                "sslmode" => config.tls = tls(&value)?,
                "sslrootcert" => authorities = Some(PathBuf::from(&*value)),
                _ => rest.push(option),
            }
        }
        if let Some(file) = authorities {
            config.tls = Tls::VerifyFull(Some(file));
        }
        let rest = format!("{place}?{}", rest.join("&"));
        config.server =
            tokio_postgres::Config::from_str(rest.trim_end_matches('?')).map_err(|error| {
                let said = crate::error::chain(&error);
                // The text of the client repeats a part of the URL only for an option's name.
                invalid(format!("{said}; {FORMS}; options of the store: {OPTIONS}"))
            })?;
        let mode = match config.tls {
            Tls::Disable => SslMode::Disable,
            Tls::Prefer => SslMode::Prefer,
            Tls::Require | Tls::VerifyFull(_) => SslMode::Require,
        };
        config.server.ssl_mode(mode);
        if let Some(listen) = &mut config.listen {
            listen.ssl_mode(mode);
        }
        if config.server.get_hosts().is_empty() {
            return Err(invalid(format!("it names no host; {FORMS}")));
        }
        if config.server.get_application_name().is_none() {
            config.server.application_name("delayq");
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
        ] {
            let error = PostgresConfig::parse(url).unwrap_err().to_string();
            assert!(error.contains(said), "{url}: {error}");
        }
    }
}
