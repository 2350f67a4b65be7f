//! Embedded stores whose file does not exist.

use std::path::{Path, PathBuf};

use crate::server::ServerError;

/// The file of an embedded store, if it does not exist. Opening the store would create it.
pub(crate) fn missing_file(url: &str) -> Option<PathBuf> {
    let rest = url.strip_prefix("sqlite:")?;
    let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
    let path = Path::new(path.strip_prefix("//").unwrap_or(path));
    let is_asked_for = options.split('&').any(|option| option == "create=true");
    // A URL without a path is refused when the store is opened.
    if is_asked_for || path.as_os_str().is_empty() || path.exists() {
        return None;
    }
    Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// Refuses a command for a store that does not exist; most likely another store is meant.
pub(crate) fn refuse(file: &Path) -> ServerError {
    ServerError::Refused(format!(
        "there is no store at {}, and a server makes it with its first start. Run this in the \
         folder of the server, or give its --config, or --store sqlite:PATH",
        file.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::missing_file;

    #[test]
    fn only_a_file_that_is_not_there_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.sqlite");
        let url = format!("sqlite:{}?sync=normal", file.display());
        assert_eq!(missing_file(&url).as_deref(), Some(file.as_path()));
        std::fs::write(&file, "").unwrap();
        assert_eq!(missing_file(&url), None);
        for other in [
            "redis://127.0.0.1/",
            "postgres://127.0.0.1/shop",
            "sqlite:",
            "sqlite:nobody-has-this?create=true",
        ] {
            assert_eq!(missing_file(other), None);
        }
        let near = missing_file("sqlite:nobody-has-this.sqlite").unwrap();
        assert!(near.is_absolute(), "{near:?}");
    }
}
