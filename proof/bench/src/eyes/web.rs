//! The web page, served on the loopback, and who looks at it.

use std::time::Duration;

use delayq_admin::{Admin, Role, Viewer};
use delayq_plugin::TaskSubmitService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::Failure;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a stream that are read at once.
const PIECE: usize = 65_536;

/// A web page; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    port: u16,
    serving: JoinHandle<()>,
}

/// An open page, which is told what changes; it is closed when this is dropped.
#[derive(Debug)]
pub(crate) struct OpenPage(JoinHandle<()>);

impl Server {
    /// One that has seen nothing yet.
    pub(crate) async fn start(tasks: TaskSubmitService) -> Result<Self, Failure> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let everybody = |_: &_| Some(Viewer::new("bench", Role::Admin));
        let admin = Admin::new(tasks).authorize(everybody);
        let serving = tokio::spawn(async move {
            if let Err(error) = admin.serve(listener).await {
                eprintln!("the page ends: {error}");
            }
        });
        Ok(Self { port, serving })
    }

    /// Reads a page.
    pub(crate) async fn get(&self, path: &str) -> Result<(), Failure> {
        let mut page = self.ask(path, "text/html").await?;
        let mut answer = Vec::new();
        timeout(PATIENCE, page.read_to_end(&mut answer)).await??;
        let status = answer.split(|byte| *byte == b' ').nth(1);
        match status {
            Some(b"200") => Ok(()),
            _ => Err(format!("{path}: {}", String::from_utf8_lossy(&answer)).into()),
        }
    }

    /// Opens a page, and reads its changes from now on.
    pub(crate) async fn open(&self, path: &str) -> Result<OpenPage, Failure> {
        let mut page = self.ask(path, "text/event-stream").await?;
        let mut piece = vec![0; PIECE];
        timeout(PATIENCE, page.read(&mut piece)).await??;
        let reading =
            async move { while page.read(&mut piece).await.is_ok_and(|read| read > 0) {} };
        Ok(OpenPage(tokio::spawn(reading)))
    }

    async fn ask(&self, path: &str, accept: &str) -> Result<TcpStream, Failure> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        Ok(stream)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        self.0.abort();
    }
}
