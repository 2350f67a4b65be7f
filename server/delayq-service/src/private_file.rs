//! Files with secrets: for their owner alone, and whole or not there.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Writes a new file of mode 0600 with one line, and returns once it is on disk. A process that is
/// killed meanwhile leaves no part of it under this name.
///
/// # Errors
/// `AlreadyExists` if there is such a file, which stays as it is, and those of the system.
pub fn write_private(path: &Path, line: &str) -> std::io::Result<()> {
    let beside = beside(path, line)?;
    let linked = match std::fs::hard_link(&beside, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            // A file system without links.
            new(path, line)
        }
        linked => linked,
    };
    let removed = std::fs::remove_file(&beside);
    linked?;
    removed?;
    sync_folder(path)
}

/// The same in the place of a file that is there.
///
/// # Errors
/// Those of the system; then the file is as it was.
pub fn replace_private(path: &Path, line: &str) -> std::io::Result<()> {
    let beside = beside(path, line)?;
    if let Err(error) = std::fs::rename(&beside, path) {
        let _ = std::fs::remove_file(&beside);
        return Err(error);
    }
    sync_folder(path)
}

/// What is wrong with a file or a folder that nobody but this process's user may write to, and with
/// a file, read; `None` if nothing is.
///
/// # Errors
/// Those of the system.
#[cfg(unix)]
pub fn flaw(path: &Path) -> std::io::Result<Option<&'static str>> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    const WRITE_OF_OTHERS: u32 = 0o022;
    const OF_OTHERS: u32 = 0o077;
    let found = std::fs::metadata(path)?;
    let mode = found.permissions().mode();
    Ok(if found.uid() != rustix::process::geteuid().as_raw() {
        Some("it belongs to another user")
    } else if found.is_dir() && (mode & WRITE_OF_OTHERS) != 0 {
        Some("others may write to it: chmod 700")
    } else if !found.is_dir() && (mode & OF_OTHERS) != 0 {
        Some("others may read it: chmod 600")
    } else {
        None
    })
}

/// The same where files have no modes.
#[cfg(not(unix))]
pub fn flaw(_: &Path) -> std::io::Result<Option<&'static str>> {
    Ok(None)
}

/// A whole file under a name of its own in the same folder.
fn beside(path: &Path, line: &str) -> std::io::Result<PathBuf> {
    let beside = path.with_file_name(format!(".{}.new", ulid::Ulid::generate()));
    new(&beside, line)?;
    Ok(beside)
}

fn new(path: &Path, line: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let mut file = options.open(path)?;
    let written = writeln!(file, "{line}").and_then(|()| file.sync_all());
    if written.is_err() {
        // A part of a secret is of no use, and would be taken for it.
        let _ = std::fs::remove_file(path);
    }
    written
}

fn sync_folder(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        let names = entries.map(|entry| name(entry).into_string().unwrap());
        names.collect()
    }

    #[test]
    fn a_private_file_is_for_its_owner_and_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("first.token");
        write_private(&file, "one").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let again = write_private(&file, "two").unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\n");
        replace_private(&file, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "two\n");
        assert_eq!(names(folder.path()), ["first.token"]);
    }

    /// Whoever looks at the name sees no file or a whole one, so a kill leaves no half of it.
    #[test]
    fn a_private_file_is_never_seen_half() {
        let folder = tempfile::tempdir().unwrap();
        let (done, line) = (std::sync::atomic::AtomicBool::new(false), "x".repeat(4_096));
        let file = folder.path().join("first.token");
        std::thread::scope(|scope| {
            let looker = scope.spawn(|| {
                let mut lengths = std::collections::BTreeSet::new();
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    lengths.extend(std::fs::metadata(&file).map(|found| found.len()));
                }
                lengths
            });
            for _ in 0..300 {
                write_private(&file, &line).unwrap();
                std::fs::remove_file(&file).unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            let lengths = looker.join().unwrap();
            assert!(lengths.iter().all(|length| *length == 4_097), "{lengths:?}");
        });
    }

    #[cfg(unix)]
    #[test]
    fn what_others_may_read_or_write_is_told() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("first.token");
        write_private(&file, "one").unwrap();
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
            flaw(path).unwrap()
        };
        assert_eq!(set(&file, 0o600), None);
        assert!(set(&file, 0o640).unwrap().contains("chmod 600"));
        assert_eq!(set(folder.path(), 0o755), None);
        assert!(set(folder.path(), 0o777).unwrap().contains("chmod 700"));
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(folder.path(), Some(65_534), None).unwrap();
            set(folder.path(), 0o700).unwrap();
        }
    }
}
