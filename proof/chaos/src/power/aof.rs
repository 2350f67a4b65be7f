//! The append-only files of Redis after a power loss. When the end of the last one is damaged, the
//! server refuses to start and names the tool that cuts it off.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run::Result;

/// Does what the manual says: `redis-check-aof --fix` cuts off the damaged end of the last file.
/// With syncs once a second, the power may also go between the switch to another file and the sync
/// of the one before, so that this has the damaged end: then that is cut off, and all files after
/// it are emptied. Says whether the server may start now.
pub(super) fn repair(store: &Path, sync: &str) -> Result<bool> {
    let folder = store.join("appendonlydir");
    let manifest = folder.join("appendonly.aof.manifest");
    if !manifest.exists() {
        return Ok(false);
    }
    if fix(&manifest)? {
        return Ok(true);
    }
    Ok(sync != "always" && cut_off(files(&folder, &manifest)?)?)
}

fn fix(file: &Path) -> Result<bool> {
    let mut check = Command::new("redis-check-aof");
    check.arg("--fix").arg(file);
    check.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut check = check.stderr(Stdio::null()).spawn()?;
    if let Some(mut input) = check.stdin.take() {
        // It asks only if there is something to cut off.
        let _ = input.write_all(b"y\n");
    }
    Ok(check.wait()?.success())
}

/// The files after the base, in order: `file NAME seq NUMBER type i`.
fn files(folder: &Path, manifest: &Path) -> Result<Vec<PathBuf>> {
    let text = fs::read_to_string(manifest)?;
    let mut files = Vec::new();
    for line in text.lines().filter(|line| line.ends_with(" type i")) {
        if let Some(name) = line.split(' ').nth(1) {
            files.push(folder.join(name));
        }
    }
    Ok(files)
}

/// Empties all files after the first one that needs to be cut off.
fn cut_off(files: Vec<PathBuf>) -> Result<bool> {
    let mut is_cut = false;
    for file in files {
        let before = fs::metadata(&file)?.len();
        if is_cut {
            OpenOptions::new().write(true).open(&file)?.set_len(0)?;
        } else if before > 0 && !fix(&file)? {
            return Ok(false);
        }
        is_cut |= fs::metadata(&file)?.len() < before;
    }
    Ok(is_cut)
}
