//! Entrance of the fuzz targets in `proof/fuzz`: for them alone.

use crate::address::Address;

/// The URL of a server, without its token and its files; `None` is a refusal.
#[must_use]
pub fn address(url: &str) -> Option<String> {
    let address = Address::read(url).ok()?;
    let namespace = address.namespace.as_ref();
    let path = namespace.map_or(String::new(), |namespace| format!("/{namespace}"));
    Some(format!("{address}{path}"))
}

/// What is said of a URL that is refused.
#[must_use]
pub fn refusal(url: &str) -> Option<String> {
    Address::read(url).err().map(|error| error.to_string())
}
