//! Parses the URL of a Redis store. No error repeats any part of it: any part may be a password, or
//! cut off one by an unescaped character.

use std::str::FromStr;

use percent_encoding::percent_decode_str;

use super::{Address, RedisConfig, RedisServers, Secret, TlsConfig};
use delayq_core::{Error, Result};

#[cfg(test)]
#[cfg(all(feature = "cluster", feature = "sentinel", feature = "tls"))]
mod tests;

const PORT: u16 = 6_379;
const SENTINEL_PORT: u16 = 26_379;

/// The forms of a URL, for errors.
const FORMS: &str = "its form is redis://[user:password@]host[:port][/db], \
    redis+unix://[user:password@]/path[?db=number], \
    redis-sentinel://[user:password@]host[:port],host[:port]/master[/db] or \
    redis-cluster://[user:password@]host[:port],host[:port]; rediss for TLS";

const OPTIONS: &str = "ca, cert, key, insecure, assume, replicas, confirm, watermark, pack, sentinel_user, sentinel_password";

/// The problem, and what to write.
type Fault = std::borrow::Cow<'static, str>;

/// The parts of a URL after its scheme, not decoded yet.
struct UrlParts<'a> {
    login: Option<&'a str>,
    hosts: &'a str,
    path: &'a str,
    query: &'a str,
    fragment: Option<&'a str>,
}

pub(super) fn parse(url: &str) -> Result<RedisConfig> {
    read(url).map_err(|fault| Error::invalid("URL of a Redis store", format!("{fault}; {FORMS}")))
}

fn read(url: &str) -> Result<RedisConfig, Fault> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let parts = UrlParts::of(rest)?;
    let (kind, tls) = match scheme.strip_prefix("rediss") {
        Some(kind) => (kind, Some(TlsConfig::default())),
        None => (scheme.strip_prefix("redis").unwrap_or("?"), None),
    };
    let (servers, number) = match kind {
        "" => (RedisServers::One(address(parts.hosts, PORT)?), parts.path),
        "+unix" => (RedisServers::One(socket(&parts)?), ""),
        "-sentinel" => {
            let (master, number) = parts.path.split_once('/').unwrap_or((parts.path, ""));
            let servers = RedisServers::Sentinel {
                sentinels: addresses(parts.hosts, SENTINEL_PORT)?,
                master: decoded(master)?,
            };
            (servers, number)
        }
        "-cluster" => {
            let nodes = addresses(parts.hosts, PORT)?;
            (RedisServers::Cluster { nodes }, parts.path)
        }
        _ => return Err("it begins with none of the schemes redis://, rediss:// ..".into()),
    };
    let mut config = RedisConfig {
        database: database(number)?,
        tls,
        ..RedisConfig::new(servers)
    };
    if let Some(login) = parts.login {
        let (user, password) = login
            .split_once(':')
            .map_or((login, None), |(user, password)| (user, Some(password)));
        set_login(&mut config, user, password)?;
    }
    set_options(&mut config, parts.query)?;
    match parts.fragment {
        None => {}
        Some("insecure") => tls_of(&mut config)?.trust_any = true,
        Some(_) => return Err("nothing but #insecure may stand behind a #".into()),
    }
    match config.fault() {
        Some(fault) => Err(fault.into()),
        None => Ok(config),
    }
}

impl<'a> UrlParts<'a> {
    fn of(rest: &'a str) -> Result<Self, Fault> {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if rest.contains('@') {
            let fault = "it has a `/`, `?` or `#` before an `@`: write %2F, %3F, %23 for them in a user or \
                         password, and %40 for an `@` behind the host";
            return Err(fault.into());
        }
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let (rest, fragment) = match rest.split_once('#') {
            Some((rest, fragment)) => (rest, Some(fragment)),
            None => (rest, None),
        };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = path.strip_prefix('/').unwrap_or(path);
        Ok(Self {
            login,
            hosts,
            path,
            query,
            fragment,
        })
    }
}

fn socket(parts: &UrlParts<'_>) -> Result<Address, Fault> {
    if !parts.hosts.is_empty() || parts.path.is_empty() {
        return Err("a socket has a path and no host: write redis+unix:///PATH".into());
    }
    Ok(Address::socket(decoded(&format!("/{}", parts.path))?))
}

fn addresses(hosts: &str, port: u16) -> Result<Vec<Address>, Fault> {
    hosts.split(',').map(|host| address(host, port)).collect()
}

fn address(text: &str, port: u16) -> Result<Address, Fault> {
    let (host, rest) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((host, rest)) if host.contains(':') => (host, rest),
        _ => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => port,
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            let fault = "a port is no number from 1 to 65535";
            digits.parse().map_err(|_| Fault::from(fault))?
        }
        _ => return Err("behind a host stands something that is no port: write HOST:PORT".into()),
    };
    Ok(Address::new(host, port))
}

fn database(text: &str) -> Result<u32, Fault> {
    if text.is_empty() {
        return Ok(0);
    }
    let is_number = text.bytes().all(|digit| digit.is_ascii_digit());
    let number = is_number.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| "the database is no number".into())
}

fn decoded(text: &str) -> Result<String, Fault> {
    let decoded = percent_decode_str(text).decode_utf8();
    let fault = "what it percent-encodes is not UTF-8";
    decoded.map(Into::into).map_err(|_| fault.into())
}

fn set_login(config: &mut RedisConfig, user: &str, password: Option<&str>) -> Result<(), Fault> {
    if !user.is_empty() {
        config.user = Some(decoded(user)?);
    }
    match password {
        Some("") if user.is_empty() => {}
        Some(password) => config.password = Some(Secret::new(decoded(password)?)),
        None => {}
    }
    Ok(())
}

fn set_options(config: &mut RedisConfig, query: &str) -> Result<(), Fault> {
    let mut seen = Vec::new();
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if seen.contains(&name) {
            return Err("an option is given twice".into());
        }
        if value.is_empty() {
            return Err("an option has no value: write NAME=VALUE".into());
        }
        seen.push(name);
        if set_option(config, name, decoded(value)?)? {
            continue;
        }
        // An unescaped `&` would turn part of the password into an option.
        if seen.contains(&"sentinel_password") {
            let fault = format!(
                "behind sentinel_password stands an unknown option: {OPTIONS}; %26 for `&`"
            );
            return Err(fault.into());
        }
        return Err(unknown(name));
    }
    Ok(())
}

/// Sets an option. Returns false if there is no such option.
fn set_option(config: &mut RedisConfig, name: &str, value: String) -> Result<bool, Fault> {
    match name {
        "ca" => tls_of(config)?.ca = Some(value.into()),
        "cert" => tls_of(config)?.certificate = Some(value.into()),
        "key" => tls_of(config)?.key = Some(value.into()),
        "db" if config.scheme() == "redis+unix" => config.database = database(&value)?,
        "insecure" => {
            let fault = "insecure is neither true nor false";
            tls_of(config)?.trust_any = read_as(&value, fault)?;
        }
        "assume" => {
            let fault = "assume is none of memory, process, disk, replicated";
            config.assumed_durability = Some(read_as(&value, fault)?);
        }
        "confirm" => {
            config.confirm = read_as(&value, "confirm is neither received nor synced")?;
        }
        "replicas" => {
            config.replicas = Some(read_as(&value, "replicas is no number from 1 on")?);
        }
        "watermark" if value == "off" => config.memory_watermark = None,
        "watermark" => {
            let fault = "watermark is neither a number above 0 and up to 1 nor off";
            config.memory_watermark = Some(read_as(&value, fault)?);
        }
        "pack" => config.pack = read_as(&value, "pack is neither auto, on nor off")?,
        "sentinel_user" => config.sentinel_user = Some(value),
        "sentinel_password" => config.sentinel_password = Some(value.into()),
        _ => return Ok(false),
    }
    Ok(true)
}

fn unknown(name: &str) -> Fault {
    if name == "durability" {
        let fault = "the option durability is no setting of Redis: set it in StoreOptions";
        return fault.into();
    }
    let name: String = name.chars().take(32).collect();
    format!("it has an unknown option {name:?}: {OPTIONS}; the URL of a plugin or service also has durability")
        .into()
}

fn read_as<T: FromStr>(text: &str, fault: &'static str) -> Result<T, Fault> {
    text.parse().map_err(|_| fault.into())
}

fn tls_of(config: &mut RedisConfig) -> Result<&mut TlsConfig, Fault> {
    let fault = "ca, cert, key and insecure are for TLS: let the URL begin with rediss";
    config.tls.as_mut().ok_or_else(|| fault.into())
}
