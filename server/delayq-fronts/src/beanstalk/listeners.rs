//! Listeners of the protocol.

use std::fmt;
use std::io;
#[cfg(unix)]
use std::io::ErrorKind;
#[cfg(unix)]
use std::path::{Path, PathBuf};

use delayq_service::config::BeanstalkConfig;
use delayq_service::listener::listen;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};
use tracing::debug;

use crate::listen_error::ListenError;

/// The input of a connection.
pub(super) type Reader = Box<dyn AsyncRead + Send + Unpin>;
/// The output of a connection.
pub(super) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// An accepted connection.
pub(super) struct Accepted {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    /// The origin of the connection.
    pub(super) origin: String,
}

/// An address, a Unix socket, or both.
#[derive(Debug, Default)]
pub struct Listeners {
    tcp: Option<TcpListener>,
    #[cfg(unix)]
    socket: Option<Socket>,
}

impl Listeners {
    /// Listens on the configured places; `None` if the protocol is not configured.
    ///
    /// # Errors
    /// The address or path that cannot be listened on, with the reason.
    pub async fn open(config: &BeanstalkConfig) -> Result<Option<Self>, ListenError> {
        if !config.is_offered() {
            return Ok(None);
        }
        let mut listeners = Self::default();
        if let Some(address) = config.listen {
            let listening = listen(address).await;
            let tcp = listening.map_err(|error| ListenError::Address { address, error })?;
            listeners.tcp = Some(tcp);
        }
        #[cfg(unix)]
        if let Some(path) = &config.socket {
            let listening = Socket::listen(path).await;
            let socket = listening.map_err(|error| {
                let path = path.clone();
                ListenError::Socket { path, error }
            })?;
            listeners.socket = Some(socket);
        }
        #[cfg(not(unix))]
        if let Some(path) = config.socket.clone() {
            let error = io::Error::other("this system has no Unix sockets");
            return Err(ListenError::Socket { path, error });
        }
        Ok(Some(listeners))
    }

    /// Uses a TCP listener that is already open.
    #[doc(hidden)]
    pub fn over(tcp: TcpListener) -> Self {
        Self {
            tcp: Some(tcp),
            ..Self::default()
        }
    }

    /// The next connection.
    pub(super) async fn accept(&self) -> io::Result<Accepted> {
        tokio::select! {
            accepted = self.accept_tcp() => accepted,
            accepted = self.accept_socket() => accepted,
        }
    }

    async fn accept_tcp(&self) -> io::Result<Accepted> {
        let Some(tcp) = &self.tcp else {
            return std::future::pending().await;
        };
        let (stream, peer) = tcp.accept().await?;
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "cannot disable Nagle's algorithm for a connection");
        }
        let (reader, writer) = stream.into_split();
        Ok(Accepted {
            reader: Box::new(reader),
            writer: Box::new(writer),
            origin: peer.ip().to_string(),
        })
    }

    #[cfg(unix)]
    async fn accept_socket(&self) -> io::Result<Accepted> {
        let Some(socket) = &self.socket else {
            return std::future::pending().await;
        };
        let (stream, _) = socket.listener.accept().await?;
        let (reader, writer) = stream.into_split();
        Ok(Accepted {
            reader: Box::new(reader),
            writer: Box::new(writer),
            origin: "the Unix socket".to_owned(),
        })
    }

    #[cfg(not(unix))]
    async fn accept_socket(&self) -> io::Result<Accepted> {
        std::future::pending().await
    }
}

impl fmt::Display for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut places = Vec::new();
        let address = self.tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
        places.extend(address.map(|address| address.to_string()));
        #[cfg(unix)]
        let socket = self.socket.as_ref();
        #[cfg(unix)]
        places.extend(socket.map(|socket| format!("unix:{}", socket.path.display())));
        f.write_str(&places.join(" and "))
    }
}

/// A Unix socket. Dropping it removes its file.
#[cfg(unix)]
#[derive(Debug)]
struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

#[cfg(unix)]
impl Socket {
    /// Listens at a path. Replaces the socket of a server that is gone.
    ///
    /// # Errors
    /// Another server listens there, or the path is not a socket.
    async fn listen(path: &Path) -> io::Result<Self> {
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

#[cfg(unix)]
impl Drop for Socket {
    /// Removes the file before the listener closes, so that it cannot be the file of a successor.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
