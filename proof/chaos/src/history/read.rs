//! Reads the files of a run.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::{History, HistoryBuilder};

/// Why the files of a run cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The operating system says no.
    #[error("{path}: {error}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it says.
        error: io::Error,
    },
    /// A line in the middle of a file is no event.
    #[error("{path}:{line}: {detail}")]
    NoEvent {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// What is wrong with it.
        detail: String,
    },
    /// There is no file.
    #[error("{0}: no file named *.jsonl: is this the folder of a run?")]
    Empty(PathBuf),
}

impl History {
    /// Reads every `*.jsonl` in `folder`. The last line of a file may be cut off: its writer was
    /// killed.
    ///
    /// # Errors
    /// When a file cannot be read, a line is no event, or there is no file.
    pub fn read(folder: &Path) -> Result<Self, HistoryError> {
        let io_error = |error| HistoryError::Io {
            path: folder.to_owned(),
            error,
        };
        let mut paths = Vec::new();
        for entry in folder.read_dir().map_err(io_error)? {
            let path = entry.map_err(io_error)?.path();
            if path.extension().is_some_and(|end| end == "jsonl") {
                paths.push(path);
            }
        }
        if paths.is_empty() {
            return Err(HistoryError::Empty(folder.to_owned()));
        }
        paths.sort();
        let mut builder = HistoryBuilder::default();
        for path in &paths {
            read_file(path, &mut builder)?;
        }
        Ok(builder.finish())
    }
}

fn read_file(path: &Path, builder: &mut HistoryBuilder) -> Result<(), HistoryError> {
    let io_error = |error| HistoryError::Io {
        path: path.to_owned(),
        error,
    };
    let mut file = BufReader::with_capacity(1 << 20, File::open(path).map_err(io_error)?);
    let source = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        file.read_until(b'\n', &mut line).map_err(io_error)?;
        // The end of the file, or a line whose writer was killed.
        if line.last() != Some(&b'\n') {
            break;
        }
        let event = serde_json::from_slice(&line).map_err(|error| HistoryError::NoEvent {
            path: path.to_owned(),
            line: number,
            detail: error.to_string(),
        })?;
        builder.add(&source, event);
    }
    Ok(())
}
