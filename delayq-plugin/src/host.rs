//! The name of this host, for people who look at the list of instances.

/// The host name from the system, or `unknown` if the system has none.
pub(crate) fn name() -> String {
    Some(system_name())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(unix)]
fn system_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn system_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_a_name() {
        assert!(!name().is_empty());
    }
}
