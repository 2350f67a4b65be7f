//! Entry points of the fuzz targets in `proof/fuzz`. They parse input from others as the server
//! does.
//!
//! For fuzz targets only; not a stable interface.

use crate::config::Config;

pub use crate::access::fuzz::{authorization, token};
pub use crate::discovery::fuzz::{dns_name, registry, registry_change, service};
pub use crate::pull::fuzz::lock;
pub use crate::push::fuzz::{answer, instance_answer, kept_task, signature, target, url};

/// Reads a configuration file.
#[must_use]
pub fn config(text: &str) -> Option<String> {
    let config = Config::of_text(text).ok()?;
    serde_json::to_string(&config).ok()
}

/// Reads a configuration that [`config`] wrote.
#[must_use]
pub fn written_config(text: &str) -> Option<String> {
    let config: Config = serde_json::from_str(text).ok()?;
    serde_json::to_string(&config).ok()
}
