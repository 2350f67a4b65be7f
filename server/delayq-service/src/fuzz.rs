//! Entrances of the fuzz targets in `proof/fuzz`: what others send, read as the server reads it.
//!
//! For fuzz targets alone: nothing here is kept as it is.

use crate::config::Config;

pub use crate::access::fuzz::{authorization, token};
pub use crate::discovery::fuzz::{dns_name, registry, registry_change, service};
pub use crate::pull::fuzz::lock;
pub use crate::push::fuzz::{answer, instance_answer, kept_task, signature, target, url};

/// A configuration file.
#[must_use]
pub fn config(text: &str) -> Option<String> {
    let config = Config::of_text(text).ok()?;
    serde_json::to_string(&config).ok()
}

/// A configuration as [`config`] wrote it.
#[must_use]
pub fn written_config(text: &str) -> Option<String> {
    let config: Config = serde_json::from_str(text).ok()?;
    serde_json::to_string(&config).ok()
}
