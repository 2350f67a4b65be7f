//! Checks that the files on disk are still the ones that were opened.
//!
//! The files are examined only by name: opening and closing a file that `SQLite` has open would
//! drop the locks that this process holds on it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use delayq_core::error::{Error, Result};

/// The opened files. A commit into a file that has no name any more would be lost.
#[derive(Clone, Debug)]
pub(crate) struct OpenFiles {
    store: String,
    files: Vec<(PathBuf, Identity)>,
}

#[cfg(unix)]
type Identity = (u64, u64);

/// On other systems open files cannot be deleted or replaced.
#[cfg(not(unix))]
type Identity = ();

impl OpenFiles {
    /// Records the files at `path` now that they are open.
    pub(crate) fn note(store: &str, path: &Path) -> Result<Self> {
        // The log is beside the file itself, not beside a link to it.
        let real = path
            .canonicalize()
            .map_err(|error| gone(store, path, &error))?;
        let mut files = Vec::new();
        for path in [
            path.to_owned(),
            beside(&real, "-wal"),
            beside(&real, "-shm"),
        ] {
            let file = fs::metadata(&path).map_err(|error| gone(store, &path, &error))?;
            files.push((path, identity(&file)));
        }
        Ok(Self {
            store: store.to_owned(),
            files,
        })
    }

    /// The path of the database itself.
    pub(crate) fn path(&self) -> &Path {
        self.files.first().map_or(Path::new(""), |(path, _)| path)
    }

    /// Checks that the same files are still there. Returns their size in bytes.
    pub(crate) fn check(&self) -> Result<u64> {
        let mut bytes = 0;
        for (path, opened) in &self.files {
            let file = fs::metadata(path).map_err(|error| gone(&self.store, path, &error))?;
            if identity(&file) != *opened {
                return Err(gone(&self.store, path, &"another file stands there"));
            }
            bytes += file.len();
        }
        Ok(bytes)
    }
}

#[cfg(unix)]
fn identity(file: &fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (file.dev(), file.ino())
}

#[cfg(not(unix))]
fn identity(_: &fs::Metadata) -> Identity {}

/// Makes a new file readable and writable only for its owner, as it holds messages.
#[cfg(unix)]
pub(super) fn private(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

/// On other systems the folder's permissions decide.
#[cfg(not(unix))]
pub(super) fn private(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    options
}

/// Creates an empty database file, accessible only for its owner, unless there is a file; SQLite
/// gives the log and its index the same mode. SQLite reports a failure.
pub(super) fn make_private(path: &Path) {
    let _ = private(fs::OpenOptions::new().write(true).create_new(true)).open(path);
}

fn gone(store: &str, path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::unavailable(
        store,
        format!(
            "{} was deleted, moved or replaced while it was open ({why}): stop every process that \
             uses it, put all of its files back, and start again",
            path.display()
        ),
    )
}

pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Prepares `path` for a database: creates its folder, and refuses a directory, or a log without
/// its file. Returns the path in a form that is neither a URI nor a special name.
pub(crate) fn make_way(store: &str, path: &Path) -> Result<PathBuf> {
    let refused = |setting: String, fix: &str| Error::misconfigured(store, setting, fix.to_owned());
    if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
        let setting = format!("`{}` names no file", path.display());
        return Err(refused(
            setting,
            "give the path of a file, or use the memory store",
        ));
    }
    let path = std::path::absolute(path).map_err(|error| {
        refused(
            format!("the path cannot be made absolute: {error}"),
            "give an absolute path",
        )
    })?;
    if path.is_dir() {
        return Err(refused(
            "the path is a directory".to_owned(),
            "give the path of a file in it",
        ));
    }
    if path.exists() && !path.is_file() {
        return Err(refused(
            "the path is a device, a pipe or a socket".to_owned(),
            "give the path of a file",
        ));
    }
    if path.is_symlink() && !path.exists() {
        return Err(refused(
            "the path is a link to a file that is not there".to_owned(),
            "give the path of the file itself, or make the link right",
        ));
    }
    if let Some(folder) = path.parent() {
        make_folder(store, folder)?;
    }
    refuse_orphaned_log(store, &path)?;
    Ok(path)
}

fn make_folder(store: &str, folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(|error| {
        let store = store.to_owned();
        let said = format!("the folder {} cannot be made: {error}", folder.display());
        if is_denial(&error) {
            let detail = format!("{said}; make it, or let the process write there");
            return Error::read_only(store, detail);
        }
        Error::misconfigured(store, said, "make it, or give another path")
    })?;
    sync_folders(folder);
    Ok(())
}

fn is_denial(error: &std::io::Error) -> bool {
    let denied = [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem];
    denied.contains(&error.kind())
}

/// The error if the folder keeps a file from being opened, as its log has to be created there.
///
/// Tested with a file of another name, so that no lock on the database is affected.
pub(crate) fn refuse_unwritable_folder(store: &str, path: &Path) -> Option<Error> {
    let trial = beside(path, "-trial");
    match fs::File::create_new(&trial) {
        Ok(_) => {
            // A trial file that cannot be removed is empty and harmless.
            let _ = fs::remove_file(&trial);
            None
        }
        Err(error) if is_denial(&error) => Some(Error::read_only(
            store,
            format!("its folder takes no files ({error}): let the process write there"),
        )),
        Err(_) => None,
    }
}

/// Syncs the directory entries of new folders: a power loss must not remove the folder of a synced
/// file.
fn sync_folders(folder: &Path) {
    for folder in folder.ancestors().skip(1) {
        // Not every system can sync a folder; those that cannot do not need it.
        let _ = fs::File::open(folder).and_then(|folder| folder.sync_all());
    }
}

/// Refuses a log without its file: it holds tasks that opening would discard.
fn refuse_orphaned_log(store: &str, path: &Path) -> Result<()> {
    let is_empty = |path: &Path| fs::metadata(path).map_or(true, |file| file.len() == 0);
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let log = beside(&real, "-wal");
    if !is_empty(path) || is_empty(&log) {
        return Ok(());
    }
    Err(Error::corrupt(
        store.to_owned(),
        format!(
            "the file is missing or empty, but its log {} holds data: restore the file beside it, \
             or move the log away to start empty",
            log.display()
        ),
    ))
}
