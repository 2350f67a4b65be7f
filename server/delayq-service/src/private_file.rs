//! Files with secrets: for their owner alone, and never written over.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// Writes a new file of mode 0600 with one line, and returns once it is on disk.
///
/// # Errors
/// `AlreadyExists` if there is such a file, which stays as it is, and those of the system.
pub fn write_private(path: &Path, line: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let mut file = options.open(path)?;
    let written = writeln!(file, "{line}").and_then(|()| file.sync_all());
    if let Err(error) = written {
        // A part of a secret is of no use, and would be taken for it.
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
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
        assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\n");
    }
}
