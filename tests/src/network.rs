//! A network between servers that can be cut: each has a door, through which everybody reaches it.
//!
//! The servers announce the ports of their doors, and connect from addresses of their own
//! (127.0.1.1 and up, `bind-source-addr`), so that a door knows who comes. What is under way when
//! the network is cut waits and arrives when it heals, as with TCP, which sends again; a connection
//! begun meanwhile is accepted and hears nothing.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

use crate::redis_server::free_port;

/// How much is passed on at a time.
const CHUNK: usize = 64 << 10;

/// A server, as the network knows it; clients come from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host(u8);

impl Host {
    /// The address that it connects from.
    #[must_use]
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, 1, self.0)
    }

    fn at(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(v4) if v4.octets().starts_with(&[127, 0, 1]) => Some(Self(v4.octets()[3])),
            _ => None,
        }
    }
}

/// Whom clients reach while the network is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clients {
    /// All servers: only the servers do not reach one another.
    #[default]
    Everywhere,
    /// Those that were not cut off.
    Near,
    /// Only those that were cut off.
    Far,
}

#[derive(Clone, Debug, Default)]
struct Cut {
    far: BTreeSet<Host>,
    clients: Clients,
}

impl Cut {
    /// Whether nothing passes from `from` (a client: `None`) to `to`.
    fn is_between(&self, from: Option<Host>, to: Host) -> bool {
        let is_far = self.far.contains(&to);
        match (from, self.clients) {
            _ if self.far.is_empty() => false,
            (Some(from), _) => self.far.contains(&from) != is_far,
            (None, Clients::Everywhere) => false,
            (None, Clients::Near) => is_far,
            (None, Clients::Far) => !is_far,
        }
    }
}

/// The network: doors, on a thread of its own, so that it runs on whatever a test does.
#[derive(Debug)]
pub struct Network {
    handle: Handle,
    cut: watch::Sender<Cut>,
    hosts: u8,
    /// The thread ends when this is dropped.
    _end: watch::Sender<()>,
}

impl Default for Network {
    fn default() -> Self {
        Self::new()
    }
}

impl Network {
    /// A whole network without servers.
    ///
    /// # Panics
    /// When no thread can be started.
    #[must_use]
    pub fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be built");
        let handle = runtime.handle().clone();
        let (end, mut ended) = watch::channel(());
        std::thread::spawn(move || {
            runtime.block_on(async move { while ended.changed().await.is_ok() {} });
        });
        Self {
            handle,
            cut: watch::Sender::default(),
            hosts: 0,
            _end: end,
        }
    }

    /// A name for one server more.
    ///
    /// # Panics
    /// After 255.
    pub fn host(&mut self) -> Host {
        self.hosts = self.hosts.checked_add(1).expect("there are 255 hosts");
        Host(self.hosts)
    }

    /// A door to a port of `host` that is told later.
    ///
    /// # Panics
    /// When no port is free.
    #[must_use]
    pub fn door(&self, host: Host) -> Door {
        let _runtime = self.handle.enter();
        let bind = || std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, free_port()));
        let listener = std::iter::repeat_with(bind).take(20).find_map(Result::ok);
        let listener = listener.expect("a port stays free until it is used");
        listener.set_nonblocking(true).expect("it can be polled");
        let listener = TcpListener::from_std(listener).expect("it is a listener");
        let port = listener.local_addr().expect("it is bound").port();
        let behind = Arc::new(OnceLock::new());
        let (to, cut) = (Arc::clone(&behind), self.cut.subscribe());
        self.handle.spawn(accept(listener, host, to, cut));
        Door { port, behind }
    }

    /// Cuts these hosts off from all others; they still reach each other. A cut from before is
    /// replaced.
    pub fn cut_off(&self, far: impl IntoIterator<Item = Host>, clients: Clients) {
        let far = far.into_iter().collect();
        self.cut.send_replace(Cut { far, clients });
    }

    /// Makes the network whole again.
    pub fn heal(&self) {
        self.cut.send_replace(Cut::default());
    }
}

/// The port by which a server is reached.
#[derive(Clone, Debug)]
pub struct Door {
    port: u16,
    behind: Arc<OnceLock<u16>>,
}

impl Door {
    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Leads it to the port that the server listens on, once and for all.
    ///
    /// # Panics
    /// When it leads to a port already.
    pub fn lead_to(&self, port: u16) {
        self.behind.set(port).expect("a door leads to one server");
    }
}

async fn accept(
    listener: TcpListener,
    host: Host,
    behind: Arc<OnceLock<u16>>,
    cut: watch::Receiver<Cut>,
) {
    while let Ok((caller, address)) = listener.accept().await {
        let from = Host::at(address.ip());
        let (behind, mut cut) = (Arc::clone(&behind), cut.clone());
        tokio::spawn(async move {
            whole(&mut cut, from, host).await?;
            // A server that is down refuses, and so the caller finds its connection closed.
            let refused = std::io::ErrorKind::ConnectionRefused;
            let port = *behind.get().ok_or(refused)?;
            let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
            pass(caller, server, &cut, (from, host)).await
        });
    }
}

/// Passes both ways until either side ends it; then both sides are closed.
async fn pass(
    caller: TcpStream,
    server: TcpStream,
    cut: &watch::Receiver<Cut>,
    ends: (Option<Host>, Host),
) -> std::io::Result<()> {
    // Small messages must not wait for one another, as they do not without a door.
    caller.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_caller, to_caller) = caller.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        end = carry(from_caller, to_server, cut.clone(), ends) => end,
        end = carry(from_server, to_caller, cut.clone(), ends) => end,
    }
}

async fn carry(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut cut: watch::Receiver<Cut>,
    (caller, host): (Option<Host>, Host),
) -> std::io::Result<()> {
    let mut buffer = Vec::with_capacity(CHUNK);
    loop {
        let read = from.read_buf(&mut buffer).await;
        // The end of a connection is as little heard through a cut as anything else.
        whole(&mut cut, caller, host).await?;
        if read? == 0 {
            return Ok(());
        }
        to.write_all(&buffer).await?;
        buffer.clear();
    }
}

/// Awaits that nothing is cut between the two.
async fn whole(
    cut: &mut watch::Receiver<Cut>,
    from: Option<Host>,
    to: Host,
) -> std::io::Result<()> {
    let is_whole = |cut: &Cut| !cut.is_between(from, to);
    let found = cut.wait_for(is_whole).await.map(drop);
    found.map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_cut_separates_those_cut_off_from_all_others() {
        let [a, b, c] = [Host(1), Host(2), Host(3)];
        let cut = |clients| Cut {
            far: [a, b].into(),
            clients,
        };
        for clients in [Clients::Everywhere, Clients::Near, Clients::Far] {
            let cut = cut(clients);
            assert!(cut.is_between(Some(a), c) && cut.is_between(Some(c), b));
            assert!(!cut.is_between(Some(a), b) && !cut.is_between(Some(c), c));
            assert_eq!(cut.is_between(None, a), clients == Clients::Near);
            assert_eq!(cut.is_between(None, c), clients == Clients::Far);
            assert!(!Cut::default().is_between(Some(a), c));
        }
    }

    /// Sends "?" and waits for the "!" that the echo at the other end makes of it.
    async fn echo(caller: &mut TcpStream) {
        caller.write_all(b"?").await.unwrap();
        let mut answer = [0];
        caller.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"!");
    }

    async fn serve(listener: TcpListener) {
        while let Ok((mut caller, _)) = listener.accept().await {
            tokio::spawn(async move {
                while caller.read_u8().await.is_ok() {
                    caller.write_all(b"!").await.unwrap();
                }
            });
        }
    }

    #[tokio::test]
    async fn what_is_sent_through_a_cut_arrives_once_it_heals() {
        let mut network = Network::new();
        let host = network.host();
        let door = network.door(host);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        door.lead_to(listener.local_addr().unwrap().port());
        tokio::spawn(serve(listener));
        let mut old = TcpStream::connect(("127.0.0.1", door.port()))
            .await
            .unwrap();
        echo(&mut old).await;
        network.cut_off([host], Clients::Everywhere);
        echo(&mut old).await;
        network.cut_off([host], Clients::Near);
        let mut new = TcpStream::connect(("127.0.0.1", door.port()))
            .await
            .unwrap();
        for caller in [&mut old, &mut new] {
            let answer = tokio::time::timeout(Duration::from_millis(50), echo(caller));
            assert!(answer.await.is_err());
        }
        network.heal();
        for mut caller in [old, new] {
            // The answer to the question that was cut off.
            assert_eq!(caller.read_u8().await.unwrap(), b'!');
            echo(&mut caller).await;
        }
    }
}
