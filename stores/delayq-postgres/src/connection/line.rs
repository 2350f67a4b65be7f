//! The way to a server: its hosts, and whom a connection trusts.

use std::time::Duration;

use delayq_core::Result;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use tokio_postgres::{AsyncMessage, Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::debug;

use super::tls;
use crate::config::Tls;
use crate::error::{Fault, Outcome, lost};

/// Drives a connection. Dropping it ends the connection.
pub(crate) struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Driver {
    /// Waits for the end of the connection.
    pub(crate) async fn ended(&mut self) {
        let _ = (&mut self.0).await;
    }
}

/// The way to a server.
#[derive(Clone)]
pub(crate) struct Line {
    /// Each alone, so that each has its share of the time, whatever it hangs in.
    hosts: Vec<Config>,
    is_random: bool,
    /// How long a host may take.
    share: Duration,
    tls: MakeRustlsConnect,
    place: String,
}

impl Line {
    /// A way to the hosts of `server`. The next host is tried within a call, whose length is
    /// `timeout`.
    pub(crate) fn new(server: &Config, tls: &Tls, place: &str, timeout: Duration) -> Result<Self> {
        let hosts = hosts(server, tls);
        let count = u32::try_from(hosts.len()).unwrap_or(1);
        let share = server.get_connect_timeout().copied();
        Ok(Self {
            hosts,
            is_random: server.get_load_balance_hosts() == LoadBalanceHosts::Random,
            share: share.unwrap_or(timeout / (count + 1)),
            tls: tls::connector(tls)?,
            place: place.to_owned(),
        })
    }

    /// What encrypts a connection.
    pub(crate) fn tls(&self) -> MakeRustlsConnect {
        self.tls.clone()
    }

    /// Connects; `heard` gets what the server says by itself.
    pub(crate) async fn open(
        &self,
        runtime: &Handle,
        mut heard: impl FnMut(AsyncMessage) + Send + 'static,
    ) -> Outcome<(Client, Driver)> {
        let mut order: Vec<&Config> = self.hosts.iter().collect();
        if self.is_random {
            fastrand::shuffle(&mut order);
        }
        let mut failed = None;
        for host in order {
            let connecting = host.connect(self.tls.clone());
            let fault = match tokio::time::timeout(self.share, connecting).await {
                Ok(Ok((client, mut connection))) => {
                    let driver = runtime.spawn(async move {
                        let mut next =
                            async || std::future::poll_fn(|cx| connection.poll_message(cx)).await;
                        loop {
                            match next().await {
                                Some(Ok(message)) => heard(message),
                                Some(Err(error)) => {
                                    debug!(%error, "a connection has ended");
                                    return;
                                }
                                None => return,
                            }
                        }
                    });
                    return Ok((client, Driver(driver)));
                }
                Ok(Err(error)) => Fault::Sql(error),
                Err(_) => {
                    let text = format!("no answer within {:?}", self.share);
                    lost(&self.place, &text, false).into()
                }
            };
            // What a server says tells more than that another one says nothing.
            let is_told = failed.as_ref().is_some_and(Fault::is_said);
            if !is_told || fault.is_said() {
                failed = Some(fault);
            }
        }
        Err(failed.unwrap_or_else(|| lost(&self.place, "no host is named", false).into()))
    }
}

/// The configuration of each host alone.
fn hosts(server: &Config, tls: &Tls) -> Vec<Config> {
    let (names, addresses) = (server.get_hosts(), server.get_hostaddrs());
    let ports = server.get_ports();
    let all = 0..names.len().max(addresses.len());
    let one = |n: usize| {
        let mut host = without_hosts(server);
        match names.get(n) {
            Some(Host::Tcp(name)) => {
                host.host(name);
            }
            #[cfg(unix)]
            Some(Host::Unix(path)) => {
                host.host_path(path);
            }
            None => {}
        }
        if let Some(address) = addresses.get(n) {
            host.hostaddr(*address);
        }
        if let Some(port) = ports.get(n).or(ports.first()) {
            host.port(*port);
        }
        host.ssl_mode(tls.mode());
        host
    };
    all.map(one).collect()
}

/// The same settings for no host; a configuration takes hosts, and gives none back.
fn without_hosts(server: &Config) -> Config {
    let mut other = Config::new();
    if let Some(user) = server.get_user() {
        other.user(user);
    }
    if let Some(password) = server.get_password() {
        other.password(password);
    }
    if let Some(database) = server.get_dbname() {
        other.dbname(database);
    }
    if let Some(options) = server.get_options() {
        other.options(options);
    }
    if let Some(name) = server.get_application_name() {
        other.application_name(name);
    }
    if let Some(timeout) = server.get_connect_timeout() {
        other.connect_timeout(*timeout);
    }
    if let Some(timeout) = server.get_tcp_user_timeout() {
        other.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = server.get_keepalives_interval() {
        other.keepalives_interval(interval);
    }
    if let Some(retries) = server.get_keepalives_retries() {
        other.keepalives_retries(retries);
    }
    other.keepalives(server.get_keepalives());
    other.keepalives_idle(server.get_keepalives_idle());
    other.ssl_negotiation(server.get_ssl_negotiation());
    other.target_session_attrs(server.get_target_session_attrs());
    other.channel_binding(server.get_channel_binding());
    other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PostgresConfig;

    /// A host that takes a connection and says nothing must not use up the time of the next one.
    #[tokio::test]
    async fn a_host_that_hangs_costs_its_share_and_the_next_one_is_asked() {
        let listen = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (silent, closed) = (listen(), listen());
        let port = |of: &std::net::TcpListener| of.local_addr().unwrap().port();
        let ports = (port(&silent), port(&closed));
        drop(closed);
        let url = format!("postgres://a@127.0.0.1:{},127.0.0.1:{}/d", ports.0, ports.1);
        let config = PostgresConfig::parse(&url).unwrap();
        let timeout = Duration::from_millis(300);
        let line = Line::new(&config.server, &config.tls, "here", timeout).unwrap();
        assert_eq!((line.hosts.len(), line.share), (2, timeout / 3));
        let opened = tokio::time::timeout(timeout, line.open(&Handle::current(), |_| ())).await;
        let fault = opened.unwrap().map(drop).unwrap_err();
        let told = fault.error("here", false).to_string();
        assert!(told.contains("refused"), "{told}");
    }
}
