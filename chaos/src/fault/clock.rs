//! A clock that is wrong: a small library, built here and preloaded into a process, which adds a number
//! from a file to the time of day. The monotonic clock stays right.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Kind;
use crate::run::{Result, failure};

/// The library.
const SOURCE: &str = include_str!("clock.c");

/// The library, built.
#[derive(Debug)]
pub(crate) struct Clock {
    folder: PathBuf,
    library: PathBuf,
}

impl Clock {
    /// Builds the library if one of `kinds` needs it.
    pub(crate) fn build(folder: &Path, kinds: &[Kind]) -> Result<Option<Self>> {
        let needs_it = |kind: &Kind| {
            matches!(
                kind,
                Kind::WorkerClockAhead
                    | Kind::WorkerClockBehind
                    | Kind::RedisClockAhead
                    | Kind::RedisClockBehind
            )
        };
        if !kinds.iter().any(needs_it) {
            return Ok(None);
        }
        let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
        std::fs::write(&source, SOURCE)?;
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-Wall", "-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(&source);
        if !cc.arg("-ldl").status()?.success() {
            return failure("the clock's library cannot be built");
        }
        let folder = folder.to_owned();
        Ok(Some(Self { folder, library }))
    }

    /// The library, and the file with the shift of the process `name`, which is zero to begin with.
    pub(crate) fn preload(&self, name: &str) -> Result<(PathBuf, PathBuf)> {
        let file = self.folder.join(format!("{name}.clock"));
        std::fs::write(&file, 0_i64.to_ne_bytes())?;
        Ok((self.library.clone(), file))
    }
}
