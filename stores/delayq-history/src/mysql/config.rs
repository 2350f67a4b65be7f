//! The URL of a history in MySQL or MariaDB.

use std::fmt;
use std::path::{Path, PathBuf};

use delayq_core::error::{Error, Result};
use mysql_async::{OptsBuilder, SslOpts};
use percent_encoding::percent_decode_str;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// The form of a URL, for errors.
const FORM: &str = "its form is mysql://user[:password]@host[:port]/database[?option=value&..], \
    with the options sslmode and sslrootcert; %XX stands for @ : / ? # % in a part";

/// The port of a server if the URL names none.
const PORT: u16 = 3_306;

/// How connections are encrypted. The names are those of the PostgreSQL store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tls {
    /// Not at all.
    Disable,
    /// If the server offers it; its certificate is not verified. The default.
    Prefer,
    /// Always; its certificate is not verified.
    Require,
    /// Always. The certificate must be signed by an authority in this file, or one that the system
    /// trusts, and name the host.
    VerifyFull(Option<PathBuf>),
}

/// How a database is reached.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct MysqlConfig {
    host: String,
    port: u16,
    user: String,
    password: Option<String>,
    pub(super) database: String,
    pub(super) tls: Tls,
}

impl fmt::Debug for MysqlConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MysqlConfig").field(&self.place()).finish()
    }
}

impl MysqlConfig {
    /// Reads a URL.
    ///
    /// # Errors
    /// `InvalidInput` for a URL of another form. No error repeats a part that may be a password.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let rest = place.strip_prefix("mysql://");
        let rest = rest.or_else(|| place.strip_prefix("mariadb://"));
        let rest = rest.ok_or_else(|| invalid("it begins with another scheme"))?;
        let (login, server) = match rest.matches('@').count() {
            1 => rest.split_once('@').unwrap_or(("", rest)),
            0 if query.contains('@') => {
                return Err(invalid(
                    "it has a `?` before its `@`: write %3F for one in a password",
                ));
            }
            0 => return Err(invalid("it names no user")),
            _ => return Err(invalid("it has a second `@`: write %40 for one in a part")),
        };
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (login, None),
        };
        let (host, database) = server.split_once('/').unwrap_or((server, ""));
        let (host, port) = host_and_port(host)?;
        let config = Self {
            host: decoded(host)?,
            port,
            user: decoded(user)?,
            password: password.map(decoded).transpose()?,
            database: decoded(database)?,
            tls: tls(query)?,
        };
        let parts = [
            ("user", &config.user),
            ("host", &config.host),
            ("database", &config.database),
        ];
        let missing = parts.iter().find(|(_, part)| part.is_empty());
        if let Some((name, _)) = missing {
            return Err(invalid(&format!("it names no {name}")));
        }
        Ok(config)
    }

    /// The server and the database, without secrets.
    pub(crate) fn place(&self) -> String {
        let Self {
            host,
            port,
            database,
            ..
        } = self;
        if host.contains(':') {
            return format!("mysql://[{host}]:{port}/{database}");
        }
        format!("mysql://{host}:{port}/{database}")
    }

    /// The same for the client, without what every connection sets.
    ///
    /// # Errors
    /// `InvalidInput` if the file of authorities cannot be used.
    pub(super) fn options(&self) -> Result<OptsBuilder> {
        let options = OptsBuilder::default()
            .ip_or_hostname(self.host.as_str())
            .tcp_port(self.port)
            .user(Some(self.user.as_str()))
            .pass(self.password.as_deref())
            .db_name(Some(self.database.as_str()))
            .prefer_socket(false);
        Ok(options.ssl_opts(self.encryption()?))
    }

    fn encryption(&self) -> Result<Option<SslOpts>> {
        Ok(Some(match &self.tls {
            Tls::Disable => return Ok(None),
            Tls::Prefer | Tls::Require => SslOpts::default().with_danger_accept_invalid_certs(true),
            Tls::VerifyFull(file) => {
                let authorities = authorities(file.as_deref())?;
                let authorities = authorities.into_iter().map(Into::into).collect();
                SslOpts::default()
                    .with_root_certs(authorities)
                    .with_disable_built_in_roots(true)
            }
        }))
    }
}

fn invalid(reason: &str) -> Error {
    Error::invalid("MySQL URL", format!("{reason}; {FORM}"))
}

fn decoded(part: &str) -> Result<String> {
    let decoded = percent_decode_str(part).decode_utf8();
    let decoded = decoded.map_err(|_| invalid("a part with %XX in it is not UTF-8"))?;
    Ok(decoded.into_owned())
}

/// `HOST`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`.
fn host_and_port(text: &str) -> Result<(&str, u16)> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').unwrap_or(port))),
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let Some(port) = port else {
        return Ok((host, PORT));
    };
    let port = port
        .parse()
        .map_err(|_| invalid("its port is not a number up to 65535"))?;
    Ok((host, port))
}

fn tls(query: &str) -> Result<Tls> {
    let (mut mode, mut file) = (None, None);
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match key {
            "sslrootcert" => file = Some(PathBuf::from(decoded(value)?)),
            "sslmode" => {
                mode = Some(match value {
                    "disable" => Tls::Disable,
                    "prefer" => Tls::Prefer,
                    "require" => Tls::Require,
                    "verify-full" => Tls::VerifyFull(None),
                    _ => {
                        return Err(invalid(
                            "its sslmode is not one of disable, prefer, require and verify-full",
                        ));
                    }
                });
            }
            _ => return Err(invalid("it has an option that is not known")),
        }
    }
    Ok(match file {
        Some(file) => Tls::VerifyFull(Some(file)),
        None => mode.unwrap_or(Tls::Prefer),
    })
}

/// The certificates of the authorities in a file, or of those that the system trusts.
fn authorities(file: Option<&Path>) -> Result<Vec<Vec<u8>>> {
    let Some(file) = file else {
        let native = rustls_native_certs::load_native_certs();
        return Ok(native.certs.iter().map(|one| one.to_vec()).collect());
    };
    let refused = |why: String| {
        let reason = format!("cannot use the authorities in {}: {why}", file.display());
        Error::invalid("setting", reason)
    };
    let pem = std::fs::read(file).map_err(|error| refused(error.to_string()))?;
    let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| refused(error.to_string()))?;
    if certificates.is_empty() {
        return Err(refused("it holds no certificate in PEM".to_owned()));
    }
    Ok(certificates.iter().map(|one| one.to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_told_without_its_password() {
        let url = "mariadb://ann:se%40cret@db1:3307/shop?sslmode=require";
        let config = MysqlConfig::parse(url).unwrap();
        assert_eq!(config.password.as_deref(), Some("se@cret"));
        assert_eq!(
            (config.place().as_str(), &config.tls),
            ("mysql://db1:3307/shop", &Tls::Require)
        );
        assert!(!format!("{config:?}").contains("cret"));
        let config = MysqlConfig::parse("mysql://ann@[::1]/d?sslrootcert=/a%20b").unwrap();
        assert_eq!(config.place(), "mysql://[::1]:3306/d");
        assert_eq!(config.tls, Tls::VerifyFull(Some("/a b".into())));
    }

    #[test]
    fn a_wrong_url_is_refused_with_what_to_write() {
        for (url, said) in [
            ("postgres://a", "another scheme"),
            ("mysql://host/d", "no user"),
            ("mysql://u:secret@/d", "no host"),
            ("mysql://u:secret@h", "no database"),
            ("mysql://u:secret@h:secret/d", "port"),
            ("mysql://u:se@cret@h/d", "%40"),
            ("mysql://u:se?cret@h/d", "%3F"),
            ("mysql://u:secret@h/d?sslmode=secret", "verify-full"),
            ("mysql://u:secret@h/d?secret=1", "sslrootcert"),
        ] {
            let error = MysqlConfig::parse(url).unwrap_err().to_string();
            assert!(
                error.contains(said) && !error.contains("cret@"),
                "{url}: {error}"
            );
            assert!(!error.contains("secret"), "{error}");
        }
        let absent = MysqlConfig::parse("mysql://u@h/d?sslrootcert=/absent.pem").unwrap();
        assert!(
            absent
                .options()
                .unwrap_err()
                .to_string()
                .contains("/absent.pem")
        );
    }
}
