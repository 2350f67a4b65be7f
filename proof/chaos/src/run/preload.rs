//! A small C library of ours that a process is started with.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::failure::{Result, failure};

/// A library, and what it is told: a variable that names a file or folder.
#[derive(Clone, Debug)]
pub(crate) struct Preload {
    pub(crate) library: PathBuf,
    pub(crate) variable: &'static str,
    pub(crate) place: PathBuf,
}

impl Preload {
    /// Has `command` start with it.
    pub(crate) fn add_to(&self, command: &mut Command) {
        command.envs(self.environment());
    }

    /// What a process finds in its environment that starts with it.
    pub(crate) fn environment(&self) -> Vec<(String, PathBuf)> {
        let library = ("LD_PRELOAD".to_owned(), self.library.clone());
        vec![library, (self.variable.to_owned(), self.place.clone())]
    }
}

/// Builds `FOLDER/NAME.so` from `source`.
pub(crate) fn build_library(folder: &Path, name: &str, source: &str) -> Result<PathBuf> {
    let (file, library) = (
        folder.join(format!("{name}.c")),
        folder.join(format!("{name}.so")),
    );
    std::fs::write(&file, source)?;
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&file);
    if cc.arg("-ldl").status()?.success() {
        return Ok(library);
    }
    failure(format!("{} cannot be built", file.display()))
}
