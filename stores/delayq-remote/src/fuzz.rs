//! Entry points for the fuzz targets in `proof/fuzz` only.

use crate::address::Address;

/// The URL of a server, without its token and its files; `None` if it is refused.
#[must_use]
pub fn address(url: &str) -> Option<String> {
    let address = Address::read(url).ok()?;
    let namespace = address.namespace.as_ref();
    let path = namespace.map_or(String::new(), |namespace| format!("/{namespace}"));
    Some(format!("{address}{path}"))
}

/// The error for a refused URL.
#[must_use]
pub fn refusal(url: &str) -> Option<String> {
    Address::read(url).err().map(|error| error.to_string())
}
