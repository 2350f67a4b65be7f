//! The Unix socket of the protocol.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// A Unix socket that is listened on. Its file goes with it.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) listener: UnixListener,
    pub(super) path: PathBuf,
}

impl Socket {
    /// Listens at a path. The socket of a server that is gone is replaced.
    ///
    /// # Errors
    /// A server listens there, or the path is that of something else.
    pub(super) async fn listen(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::FileTypeExt;
        if let Ok(found) = std::fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                let reason = "there is a file that is no socket: move it, or give another path";
                return Err(io::Error::new(ErrorKind::AlreadyExists, reason));
            }
            match UnixStream::connect(path).await {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path)?;
                }
                Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(error),
                _ => {
                    let reason = "another server listens there: end it, or give another path";
                    return Err(io::Error::new(ErrorKind::AddrInUse, reason));
                }
            }
        }
        Ok(Self {
            listener: UnixListener::bind(path)?,
            path: path.to_owned(),
        })
    }
}

impl Drop for Socket {
    /// Before the listener is closed, so that it is not the file of a successor.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
