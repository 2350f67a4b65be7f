//! The folder of a server of this protocol alone.

use std::fs::{File, TryLockError};
use std::path::Path;

/// Makes a folder, if it is not there, and keeps other servers out of it while the file is open:
/// one that is started twice by mistake would go unnoticed, as its jobs would be shared.
///
/// # Errors
/// Another server has the folder, or it cannot be used.
pub fn lock(folder: &Path) -> Result<File, String> {
    let refused =
        |reason: &dyn std::fmt::Display| format!("the folder {}: {reason}", folder.display());
    std::fs::create_dir_all(folder).map_err(|error| refused(&error))?;
    let file = File::create(folder.join("beanstalk.lock")).map_err(|error| refused(&error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(refused(
            &"another server has it. End that, or give another folder with -b; servers that \
              share jobs take --store redis://HOST",
        )),
        Err(TryLockError::Error(error)) => Err(refused(&error)),
    }
}
