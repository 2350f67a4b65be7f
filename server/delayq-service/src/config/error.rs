//! Errors in a configuration.

use std::path::PathBuf;

/// The form of an address, for error texts.
pub const ADDRESS_FORM: &str = "an address has an IP and a port, such as 127.0.0.1:7880";

/// Names of number types in error texts of serde.
const NUMBERS: [&str; 4] = ["usize", "u64", "u32", "u16"];

/// An error in a configuration, with the option or line to change.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file or a variable cannot be parsed.
    #[error("{}", told(.0))]
    Unreadable(Box<figment::Error>),
    /// The file does not exist.
    #[error("the configuration file {0:?} is not there")]
    Missing(PathBuf),
    /// An option has a value that cannot be used.
    #[error("{option} = {value:?}: {reason}")]
    Refused {
        option: String,
        value: String,
        reason: String,
    },
}

/// Describes a parse error: the cause, the place and the option.
fn told(error: &figment::Error) -> String {
    let one = |error: figment::Error| {
        let option = error.path.join(".");
        let kind = error.kind.to_string();
        // The text of the standard library does not say how to fix an address.
        let kind = if kind.contains("invalid socket address syntax") {
            ADDRESS_FORM.to_owned()
        } else {
            NUMBERS.iter().fold(kind, |kind, number| {
                kind.replace(&format!("expected {number}"), "expected a whole number")
            })
        };
        let place = error.metadata.as_ref().map(|metadata| {
            let file = metadata.source.as_ref().map(|source| format!(" {source}"));
            format!(" (in {}{})", metadata.name, file.unwrap_or_default())
        });
        let place = place.unwrap_or_default();
        match option.as_str() {
            "" => format!("{kind}{place}"),
            option => format!("{option}: {kind}{place}"),
        }
    };
    let all: Vec<_> = error.clone().into_iter().map(one).collect();
    all.join("; ")
}
