//! The server's own namespace.

use super::{Config, ConfigError};

/// The namespace of the server's own data, such as tokens. No configuration may name it, and no
/// token grants a right on it.
pub const OWN_NAMESPACE: &str = "delayq-server";

/// Returns true for the name of the server's own namespace. Ignores case, because a store may
/// compare names without case.
pub fn is_own_namespace(name: &str) -> bool {
    name.eq_ignore_ascii_case(OWN_NAMESPACE)
}

/// Refuses a configuration that uses this name for any namespace.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let declared = config.namespaces.keys();
    let declared = declared.map(|name| (format!("namespaces.{name}"), name));
    let pools = config.lmstfy.pools.iter();
    let pools = pools.map(|(pool, name)| (format!("lmstfy.pools.{pool}"), name));
    let fronts = [
        ("beanstalk.namespace", &config.beanstalk.namespace),
        ("grape.namespace", &config.grape.namespace),
        ("service.namespace", &config.service.namespace),
        ("task_service.namespace", &config.task_service.namespace),
    ];
    let fronts = fronts.map(|(option, name)| (option.to_owned(), name));
    let mut named = declared.chain(pools).chain(fronts);
    match named.find(|(_, name)| is_own_namespace(name)) {
        None => Ok(()),
        Some((option, name)) => Err(ConfigError::Refused {
            option,
            value: name.clone(),
            reason: "the server keeps its tokens in it: use another name".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_may_name_the_servers_own_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server.toml");
        let own = |text: &str| text.replace("OWN", OWN_NAMESPACE);
        for (text, option) in [
            ("[namespaces.OWN]", "namespaces.delayq-server"),
            ("[namespaces.Delayq-Server]", "namespaces.Delayq-Server"),
            ("[lmstfy.pools]\na = \"OWN\"", "lmstfy.pools.a"),
            ("[beanstalk]\nnamespace = \"OWN\"", "beanstalk.namespace"),
            ("[grape]\nnamespace = \"OWN\"", "grape.namespace"),
            ("[service]\nnamespace = \"OWN\"", "service.namespace"),
            (
                "[task_service]\nnamespace = \"OWN\"",
                "task_service.namespace",
            ),
        ] {
            std::fs::write(&file, own(text)).unwrap();
            let loaded = Config::load(Some(&file), serde_json::json!({}));
            let of_text = Config::of_text(&own(text));
            for refused in [loaded, of_text] {
                let said = refused.unwrap_err().to_string();
                let is_told = said.contains(option) && said.contains("keeps its tokens");
                assert!(is_told, "{text}: {said}");
            }
        }
        let flags = serde_json::json!({"namespaces": {OWN_NAMESPACE: {}}});
        let said = Config::load(None, flags).unwrap_err().to_string();
        assert!(said.contains("namespaces.delayq-server"), "{said}");
        // Names that only begin or end as it does are those of others.
        for other in ["delayq-server2", "a.delayq-server", "delayq"] {
            let text = format!("[namespaces.\"{other}\"]");
            Config::of_text(&text).unwrap();
        }
    }
}
