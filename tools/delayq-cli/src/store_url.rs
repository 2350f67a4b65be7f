//! URLs of stores: what people may see of one, and whether it names a namespace.

/// The options of a URL whose values are no secrets.
const HARMLESS: [&str; 22] = [
    "application_name",
    "assume",
    "ca",
    "cert",
    "confirm",
    "connect_timeout",
    "connections",
    "create",
    "db",
    "durability",
    "insecure",
    "key",
    "migrate",
    "pack",
    "replicas",
    "schema",
    "sentinel_user",
    "sslmode",
    "sslrootcert",
    "sync",
    "target_session_attrs",
    "watermark",
];

/// A URL for people: what stands before its `@` may be a secret, and so may the value of an option
/// that is not known.
pub(crate) fn shown(url: &str) -> String {
    let (scheme, rest) = split(url);
    let (start, host) = match rest.rsplit_once('@') {
        // The path of a file has no secrets, but may have this letter.
        Some(_) if scheme == "sqlite:" => ("", rest),
        // The letter stands in an option: what follows it may be the end of a password.
        Some((before, _)) if before.contains('?') => return format!("{scheme}***"),
        Some((_, host)) => ("***@", host),
        None => ("", rest),
    };
    let Some((place, query)) = host.split_once('?') else {
        return format!("{scheme}{start}{host}");
    };
    let options: Vec<_> = query.split('&').map(shown_option).collect();
    format!("{scheme}{start}{place}?{}", options.join("&"))
}

/// True for a URL with a part that people may not see.
pub(crate) fn has_secret(url: &str) -> bool {
    shown(url) != url
}

/// True for the URL of a PostgreSQL database.
pub(crate) fn is_postgres(url: &str) -> bool {
    matches!(split(url.trim()).0, "postgres://" | "postgresql://")
}

/// The URL without its durability class, which is an option of every store.
pub(crate) fn without_class(url: &str) -> String {
    let Some((place, query)) = url.split_once('?') else {
        return url.to_owned();
    };
    let rest = query
        .split('&')
        .filter(|one| !one.starts_with("durability="));
    format!("{place}?{}", rest.collect::<Vec<_>>().join("&"))
}

/// True for the URL of a server that names a namespace.
pub(crate) fn has_namespace(url: &str) -> bool {
    let (scheme, rest) = split(url.trim_end());
    if !matches!(scheme, "delayq://" | "delayqs://") {
        return false;
    }
    let (_, place) = rest.rsplit_once('@').unwrap_or(("", rest));
    let (place, _) = place.split_once('?').unwrap_or((place, ""));
    place
        .split_once('/')
        .is_some_and(|(_, name)| !name.is_empty())
}

/// The scheme with its colon and slashes, and the rest.
fn split(url: &str) -> (&str, &str) {
    let Some(colon) = url.find(':') else {
        return ("", url);
    };
    let slashes = if url[colon..].starts_with("://") {
        3
    } else {
        1
    };
    url.split_at(colon + slashes)
}

fn shown_option(option: &str) -> String {
    match option.split_once('=') {
        Some((key, value)) if HARMLESS.contains(&key) && !value.contains('#') => option.to_owned(),
        Some((key, _)) => format!("{key}=***"),
        None if option.is_empty() => String::new(),
        None => "***".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_to_be_no_secret_is_shown() {
        for (url, expected) in [
            (
                "redis://u:p@h:1/2?confirm=synced",
                "redis://***@h:1/2?confirm=synced",
            ),
            (
                "redis-sentinel://a,b/m?sentinel_user=u&sentinel_password=p&db=1",
                "redis-sentinel://a,b/m?sentinel_user=u&sentinel_password=***&db=1",
            ),
            (
                "redis-sentinel://a/m?sentinel_password=p@q",
                "redis-sentinel://***",
            ),
            ("redis://h/?pass", "redis://h/?***"),
            ("redis://h/?ca=f#p", "redis://h/?ca=***"),
            ("redis:u:p@h", "redis:***@h"),
            ("u:p@h", "u:***@h"),
            ("delayq://t@h/shop", "delayq://***@h/shop"),
            (
                "postgres://u:p@h,i/d?schema=a&password=p&listen=none",
                "postgres://***@h,i/d?schema=a&password=***&listen=***",
            ),
            ("postgres://h/d?listen=postgres://u:p@i/d", "postgres://***"),
        ] {
            assert_eq!(shown(url), expected);
            assert!(has_secret(url), "{url}");
        }
        for url in [
            "sqlite:/home/a@b/x.sqlite?create=true&sync=full",
            "redis://h:1/?ca=/f&insecure=true",
            "postgres://h:5432/d?schema=a&connections=4&sslmode=verify-full",
            "",
        ] {
            assert!(!has_secret(url), "{url}: {}", shown(url));
        }
    }

    #[test]
    fn only_the_url_of_a_server_names_a_namespace() {
        assert!(has_namespace("delayq://t@h:7880/shop"));
        assert!(has_namespace("delayqs://a/b@h/shop?ca=/f"));
        for url in [
            "delayq://t@h",
            "delayq://t@h/?ca=/a/b",
            "redis://h/1",
            "sqlite:/a/b",
        ] {
            assert!(!has_namespace(url), "{url}");
        }
    }
}
