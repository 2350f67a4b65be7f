//! The folder that new secrets are written to, one file each.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::Refusal;
use crate::private_file::write_private;

/// What stands for itself in the name of a file.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// A folder for new secrets. A file there is never written over: its secret is taken, so that a
/// repeat after a failure goes on with the same one.
#[derive(Clone, Debug)]
pub struct SecretFolder(PathBuf);

impl SecretFolder {
    /// The folder at `path`, which need not exist yet.
    ///
    /// # Errors
    /// There is something else.
    pub fn at(path: &Path) -> Result<Self, Refusal> {
        if path.exists() && !path.is_dir() {
            return Err(Refusal::at(path.display(), "it is no folder"));
        }
        Ok(Self(path.to_owned()))
    }

    /// Makes the folder, for its owner alone, if it is missing.
    pub(super) fn make(&self) -> Result<(), Refusal> {
        if self.0.is_dir() {
            return Ok(());
        }
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::DirBuilderExt;
            builder.mode(0o700);
        }
        let made = builder.create(&self.0);
        made.map_err(|error| Refusal::at(self.0.display(), error))
    }

    /// The file of a secret, such as `worker.token`.
    pub(super) fn file(&self, name: &str, kind: &str) -> PathBuf {
        let mut file = utf8_percent_encode(name, PLAIN).to_string();
        if let Some(rest) = file.strip_prefix('.') {
            file = format!("%2E{rest}");
        }
        self.0.join(format!("{file}.{kind}"))
    }

    /// The secret in a file; `None` if there is no such file.
    pub(super) fn read(file: &Path) -> Result<Option<String>, Refusal> {
        match std::fs::read_to_string(file) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Refusal::at(file.display(), error)),
        }
    }

    /// Writes a secret to its file, unless it is there.
    pub(super) fn write(file: &Path, secret: &str) -> Result<(), Refusal> {
        if Self::read(file)?.as_deref() == Some(secret) {
            return Ok(());
        }
        let written = write_private(file, secret);
        written.map_err(|error| Refusal::at(file.display(), error))
    }
}
