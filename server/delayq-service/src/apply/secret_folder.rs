//! The folder that new secrets are written to, one file each.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::Refusal;
use super::content::digest;
use super::item::NewSecret;
use super::note::Note;
use crate::private_file::{flaw, replace_private, write_private};

/// What stands for itself in the name of a file.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// A folder for new secrets. No secret is ever taken from a file there. A file is written over only
/// if an apply of the same state wrote it to the same store, and its secret is no longer valid.
#[derive(Clone, Debug)]
pub struct SecretFolder(PathBuf);

impl SecretFolder {
    /// The folder at `path`, which need not exist yet.
    ///
    /// # Errors
    /// There is something else, or a folder that others may write to.
    pub fn at(path: &Path) -> Result<Self, Refusal> {
        let at = |why: &dyn std::fmt::Display| Refusal::at(path.display(), why);
        if path.exists() {
            if !path.is_dir() {
                return Err(at(&"it is no folder"));
            }
            if let Some(flaw) = flaw(path).map_err(|error| at(&error))? {
                return Err(at(&flaw));
            }
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

    /// The file for a new secret, such as `worker.token`. `note` is that of the thing it is for.
    ///
    /// # Errors
    /// A file is there that no earlier apply of the state wrote for this thing.
    pub(super) fn place(
        &self,
        name: &str,
        kind: &str,
        note: Option<&Note>,
    ) -> Result<PathBuf, Refusal> {
        let file = self.file(name, kind);
        let is_own = |text: &str| note.is_some_and(|note| note.has_secret(text));
        match read(&file)? {
            Some(text) if !is_own(&text) => {
                let text = "it is there, and no apply of this state to this store wrote it for \
                            what is there now: remove it, or give another folder";
                Err(Refusal::at(file.display(), text))
            }
            _ => Ok(file),
        }
    }

    fn file(&self, name: &str, kind: &str) -> PathBuf {
        let mut file = utf8_percent_encode(name, PLAIN).to_string();
        if let Some(rest) = file.strip_prefix('.') {
            file = format!("%2E{rest}");
        }
        self.0.join(format!("{file}.{kind}"))
    }
}

/// Writes a secret to its file. `earlier` is the digest of one that an earlier apply wrote there.
pub(super) fn write(secret: &NewSecret, earlier: Option<&str>) -> Result<(), Refusal> {
    let Some(file) = &secret.file else {
        return Ok(());
    };
    let is_earlier = |text: &str| earlier.is_some_and(|earlier| digest(text) == earlier);
    let written = match read(file)? {
        Some(text) if is_earlier(&text) => replace_private(file, &secret.text),
        // One that came since the plan was made stays.
        _ => write_private(file, &secret.text),
    };
    written.map_err(|error| Refusal::at(file.display(), error))
}

/// The secret in a file; `None` if there is no such file.
fn read(file: &Path) -> Result<Option<String>, Refusal> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Refusal::at(file.display(), error)),
    }
}
