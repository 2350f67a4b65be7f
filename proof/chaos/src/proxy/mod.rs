//! A proxy between one process and its Redis, which knows where requests and replies end: it cuts a
//! connection before a request or after it with the reply lost, and holds replies back.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use delayq_plugin::millis;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

mod resp;

/// How much is read at a time.
const CHUNK: usize = 64 << 10;

/// What a proxy does to what passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mischief {
    /// Nothing.
    None = 0,
    /// Cuts a connection instead of passing its next script call on.
    CutBefore = 1,
    /// Passes the next script call on, and cuts the connection instead of passing its reply back.
    CutAfter = 2,
}

/// The settings of a proxy, which can be changed while it runs, and what it has done.
#[derive(Debug, Default)]
pub(crate) struct Controls {
    mischief: AtomicU8,
    delay_ms: AtomicU64,
    cuts: AtomicU64,
    delays: AtomicU64,
}

impl Controls {
    /// From now on, until told otherwise.
    pub(crate) fn set(&self, mischief: Mischief) {
        self.mischief.store(mischief as u8, Ordering::SeqCst);
    }

    /// Holds each reply back for so long.
    pub(crate) fn delay(&self, ms: u64) {
        self.delay_ms.store(ms, Ordering::SeqCst);
    }

    /// How many connections were cut.
    pub(crate) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::SeqCst)
    }

    /// How many times replies were held back.
    pub(crate) fn delays(&self) -> u64 {
        self.delays.load(Ordering::SeqCst)
    }

    fn is(&self, mischief: Mischief) -> bool {
        self.mischief.load(Ordering::SeqCst) == mischief as u8
    }
}

/// A thread on which proxies run, away from whatever the driver does.
#[derive(Debug)]
pub(crate) struct Proxies {
    handle: Handle,
    /// The thread ends when this is dropped.
    _end: watch::Sender<()>,
}

impl Proxies {
    /// Starts the thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (end, mut ended) = watch::channel(());
        let (sender, receiver) = mpsc::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        std::thread::spawn(move || {
            // Somebody waits for it below.
            let _ = sender.send(runtime.handle().clone());
            runtime.block_on(async move { while ended.changed().await.is_ok() {} });
        });
        let handle = receiver.recv().map_err(std::io::Error::other)?;
        Ok(Self { handle, _end: end })
    }

    /// A proxy to the server on `port`; its own port, and its controls.
    pub(crate) async fn to(&self, port: u16) -> std::io::Result<(u16, Arc<Controls>)> {
        let listen = async move { TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await };
        let listener = self
            .handle
            .spawn(listen)
            .await
            .map_err(std::io::Error::other)??;
        let own = listener.local_addr()?.port();
        let controls = Arc::new(Controls::default());
        self.handle
            .spawn(accept(listener, port, Arc::clone(&controls)));
        Ok((own, controls))
    }
}

async fn accept(listener: TcpListener, port: u16, controls: Arc<Controls>) {
    while let Ok((client, _)) = listener.accept().await {
        let controls = Arc::clone(&controls);
        tokio::spawn(async move {
            // A server that is down refuses, and so the client finds its connection closed.
            if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                pass(client, server, &controls).await;
            }
        });
    }
}

/// Passes both ways until either side, or mischief, ends it; then both sides are closed.
async fn pass(client: TcpStream, server: TcpStream, controls: &Controls) {
    // Small messages must not wait for one another, as they do not without a proxy.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // The number of the request whose reply is to be lost; 0: none.
    let lost = AtomicU64::new(0);
    tokio::select! {
        _ = requests(from_client, to_server, controls, &lost) => {}
        _ = replies(from_server, to_client, controls, &lost) => {}
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    controls: &Controls,
    lost: &AtomicU64,
) -> std::io::Result<()> {
    let (mut buffer, mut count) = (Vec::with_capacity(CHUNK), 0);
    while from.read_buf(&mut buffer).await? > 0 {
        let mut end = 0;
        while let Some(length) = buffer.get(end..).and_then(resp::frame) {
            let request = buffer.get(end..end + length).unwrap_or_default();
            let is_call = request.windows(7).take(32).any(|word| word == b"EVALSHA");
            if is_call && controls.is(Mischief::CutBefore) {
                to.write_all(buffer.get(..end).unwrap_or_default()).await?;
                controls.cuts.fetch_add(1, Ordering::SeqCst);
                return Ok(());
            }
            count += 1;
            if is_call && controls.is(Mischief::CutAfter) && lost.load(Ordering::SeqCst) == 0 {
                lost.store(count, Ordering::SeqCst);
            }
            end += length;
        }
        to.write_all(buffer.get(..end).unwrap_or_default()).await?;
        buffer.drain(..end);
    }
    Ok(())
}

async fn replies(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    controls: &Controls,
    lost: &AtomicU64,
) -> std::io::Result<()> {
    let (mut buffer, mut count) = (Vec::with_capacity(CHUNK), 0);
    while from.read_buf(&mut buffer).await? > 0 {
        let mut end = 0;
        while let Some(length) = buffer.get(end..).and_then(resp::frame) {
            // A push is no reply.
            count += u64::from(buffer.get(end) != Some(&b'>'));
            if count == lost.load(Ordering::SeqCst) && count > 0 {
                to.write_all(buffer.get(..end).unwrap_or_default()).await?;
                controls.cuts.fetch_add(1, Ordering::SeqCst);
                return Ok(());
            }
            end += length;
        }
        let delay = controls.delay_ms.load(Ordering::SeqCst);
        if delay > 0 && end > 0 {
            controls.delays.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(millis(delay)).await;
        }
        to.write_all(buffer.get(..end).unwrap_or_default()).await?;
        buffer.drain(..end);
    }
    Ok(())
}
