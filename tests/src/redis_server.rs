//! A real redis-server for tests: on a free port, in a folder of its own, gone with the test
//! process.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub use crate::watched_process::free_port;
use crate::watched_process::{KILL, PATIENCE, WatchedProcess, new_folder, start, start_again};

/// What the server logs once it has loaded its data.
const READY: &str = "Ready to accept connections";
/// What a sentinel logs once it has read its settings.
const SENTINEL_READY: &str = "Sentinel ID is";

/// What the server writes to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// Nothing.
    None,
    /// The append-only file, synced every second.
    EverySecond,
    /// The append-only file, synced before each answer.
    Always,
}

/// What a server is started as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// A server alone: all its settings are on its command line.
    Alone,
    /// One of a replicated set. It has a file of settings, so that what it is told while it runs,
    /// such as whom to follow, outlives a restart once it was told `CONFIG REWRITE`.
    Member,
    /// A node of a cluster, with a port for the cluster's bus.
    Node,
    /// A sentinel that begins with these settings, a line each. It keeps what it learns in their
    /// file.
    Sentinel(Vec<String>),
}

/// A running redis-server, or one that was killed and can be started again on the same data.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    /// 0 but for nodes of a cluster.
    bus_port: u16,
    folder: PathBuf,
    role: Role,
    persistence: Persistence,
    extra: Vec<String>,
    environment: Environment,
    process: Option<WatchedProcess>,
}

/// Variables that a server finds in its environment.
pub type Environment = Vec<(String, PathBuf)>;

impl RedisServer {
    /// Starts a server with `extra` arguments and waits until it answers.
    ///
    /// # Panics
    /// When there is no redis-server on the PATH, or it does not start.
    #[must_use]
    pub fn start(persistence: Persistence, extra: &[&str]) -> Self {
        Self::start_as(Role::Alone, persistence, extra)
    }

    /// Starts a server, or a sentinel, with `extra` arguments and waits until it answers. A
    /// sentinel has no data that could persist.
    ///
    /// # Panics
    /// When there is no redis-server on the PATH, or it does not start.
    #[must_use]
    pub fn start_as(role: Role, persistence: Persistence, extra: &[&str]) -> Self {
        Self::start_in(Environment::new(), role, persistence, extra)
    }

    /// The same, with these variables in its environment.
    ///
    /// # Panics
    /// When there is no redis-server on the PATH, or it does not start.
    #[must_use]
    pub fn start_in(
        environment: Environment,
        role: Role,
        persistence: Persistence,
        extra: &[&str],
    ) -> Self {
        let mut server = Self {
            port: 0,
            bus_port: 0,
            folder: new_folder("delayq-redis-"),
            role,
            persistence,
            extra: extra.iter().map(ToString::to_string).collect(),
            environment,
            process: None,
        };
        start("redis-server", || server.try_new_port());
        server
    }

    /// The server that all tests of a process share, with the append-only file. Use a namespace of
    /// your own, and leave its settings alone.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<RedisServer> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(Persistence::EverySecond, &[]))
    }

    /// The server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The server's port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port of the cluster's bus; 0 when it is no node of a cluster.
    #[must_use]
    pub fn bus_port(&self) -> u16 {
        self.bus_port
    }

    /// Where the server keeps its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The process id while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(WatchedProcess::pid)
    }

    /// Whether it is there to answer: neither killed nor stopped.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let is_running = |process: &WatchedProcess| !process.is_stopped();
        self.process.as_ref().is_some_and(is_running)
    }

    /// Stops the server with SIGSTOP: its connections stay open, and nobody is answered.
    ///
    /// # Panics
    /// When it was killed.
    pub fn stop(&mut self) {
        self.signal("STOP");
    }

    /// Lets a stopped server go on with SIGCONT, as if no time had passed.
    ///
    /// # Panics
    /// When it was killed.
    pub fn resume(&mut self) {
        self.signal("CONT");
    }

    /// What it has logged since it was started, or asked last.
    ///
    /// # Panics
    /// When a thread panicked in here.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        let log = self.process.as_ref().map(WatchedProcess::log);
        log.unwrap_or_default()
    }

    fn signal(&mut self, name: &str) {
        let process = self.process.as_mut();
        process.expect("the server was not killed").signal(name);
    }

    /// Ends the server with SIGKILL; returns once it has gone. Its files stay.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }

    /// Kills the server if it runs, starts it again on the same port and data, waits until it
    /// answers.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&mut self) {
        self.kill();
        start_again("redis-server", || self.launch());
    }

    fn try_new_port(&mut self) -> Result<(), Vec<String>> {
        self.port = free_port();
        if self.role == Role::Node {
            self.bus_port = free_port();
        }
        self.launch()
    }

    /// Starts the process on the present port; an error is what it logged.
    fn launch(&mut self) -> Result<(), Vec<String>> {
        let ready = match self.role {
            Role::Sentinel(_) => SENTINEL_READY,
            _ => READY,
        };
        let process = WatchedProcess::start(&self.command(), &self.folder, ready, KILL)?;
        assert_answers(self.port);
        self.process = Some(process);
        Ok(())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(find_binary());
        if let Some(settings) = self.settings() {
            command.arg(settings);
        }
        if matches!(self.role, Role::Sentinel(_)) {
            command.arg("--sentinel");
        } else {
            command.args(self.data_arguments());
        }
        if self.role == Role::Node {
            let bus_port = self.bus_port.to_string();
            command.args(["--cluster-enabled", "yes", "--cluster-port", &bus_port]);
        }
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--logfile", "", "--dir"]).arg(&self.folder);
        command.args(&self.extra);
        command.envs(self.environment.iter().cloned());
        command
    }

    /// The file of settings, for those that have one; made at the first start.
    fn settings(&self) -> Option<PathBuf> {
        let lines = match &self.role {
            Role::Alone | Role::Node => return None,
            Role::Member => String::new(),
            Role::Sentinel(lines) => lines.join("\n"),
        };
        let file = self.folder.join("redis.conf");
        if !file.exists() {
            std::fs::write(&file, lines).expect("the folder can be written to");
        }
        Some(file)
    }

    fn data_arguments(&self) -> [&'static str; 6] {
        let (append, sync) = match self.persistence {
            Persistence::None => ("no", "everysec"),
            Persistence::EverySecond => ("yes", "everysec"),
            Persistence::Always => ("yes", "always"),
        };
        ["--save", "", "--appendonly", append, "--appendfsync", sync]
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
        // What is left of a temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Panics unless a server answers on `port`, be it with a request to log in.
fn assert_answers(port: u16) {
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    connection
        .set_read_timeout(Some(PATIENCE))
        .expect("the time limit is not zero");
    connection.write_all(b"PING\r\n").expect("it reads");
    let mut answer = [0];
    connection.read_exact(&mut answer).expect("it answers");
    assert!(
        matches!(&answer, b"+" | b"-"),
        "{answer:?} is no Redis answer"
    );
}

/// The program that the variable `DELAYQ_REDIS_SERVER` names, such as a newer Redis or Valkey, or
/// the first one of the PATH.
fn find_binary() -> PathBuf {
    if let Some(named) = std::env::var_os("DELAYQ_REDIS_SERVER") {
        let named = PathBuf::from(named);
        let shown = named.display();
        assert!(named.is_file(), "DELAYQ_REDIS_SERVER: {shown} is no file");
        return named;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).map(|folder| folder.join("redis-server"));
    candidates.find(|file| file.is_file()).unwrap_or_else(|| {
        panic!("redis-server is not on the PATH: `cargo xtask test` installs it or says how")
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::watched_process::is_alive;

    /// Sends one inline command and reads one line of the answer.
    fn call(server: &RedisServer, command: &str) -> String {
        let mut connection = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        connection
            .write_all(format!("{command}\r\n").as_bytes())
            .unwrap();
        let mut line = String::new();
        BufReader::new(connection).read_line(&mut line).unwrap();
        line
    }

    #[test]
    fn a_killed_server_is_gone_and_comes_back_with_its_data() {
        let mut server =
            RedisServer::start(Persistence::Always, &["--maxmemory-policy", "noeviction"]);
        let pid = server.pid().unwrap();
        assert!(is_alive(pid));
        assert_eq!(call(&server, "SET a 1"), "+OK\r\n");
        server.kill();
        assert!(!is_alive(pid));
        assert_eq!(server.pid(), None);
        server.restart();
        assert_ne!(server.pid(), Some(pid));
        assert_eq!(call(&server, "INCR a"), ":2\r\n");
    }

    #[test]
    fn a_stopped_server_answers_once_it_goes_on() {
        let mut server = RedisServer::start(Persistence::None, &[]);
        server.stop();
        assert!(!server.is_running());
        let mut connection = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        connection.write_all(b"PING\r\n").unwrap();
        let wait = Duration::from_millis(50);
        connection.set_read_timeout(Some(wait)).unwrap();
        assert!(connection.read_exact(&mut [0]).is_err());
        server.resume();
        assert!(server.is_running());
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection.read_exact(&mut [0]).unwrap();
        server.stop();
        server.kill();
        assert_eq!(server.pid(), None);
    }

    #[test]
    fn a_member_keeps_what_it_was_told_and_a_sentinel_what_it_knows() {
        let mut member = RedisServer::start_as(Role::Member, Persistence::None, &[]);
        assert_eq!(call(&member, "REPLICAOF 127.0.0.1 1"), "+OK\r\n");
        assert_eq!(call(&member, "CONFIG REWRITE"), "+OK\r\n");
        let monitor = format!("sentinel monitor m 127.0.0.1 {} 1", member.port());
        let role = Role::Sentinel(vec![monitor]);
        let mut sentinel = RedisServer::start_as(role, Persistence::None, &[]);
        let set = "SENTINEL SET m quorum 7";
        assert_eq!(call(&sentinel, set), "+OK\r\n");
        member.restart();
        sentinel.restart();
        assert!(call(&member, "SET a 1").starts_with("-READONLY"));
        assert!(call(&sentinel, "SENTINEL CKQUORUM m").starts_with("-NOQUORUM"));
        let is_monitored = |line: &String| line.contains("+monitor master m");
        // It writes this line with its first tick, which may come after the first answers.
        let started = Instant::now();
        while !sentinel.log().iter().any(is_monitored) {
            assert_eq!(call(&sentinel, "PING"), "+PONG\r\n");
            assert!(started.elapsed() < Duration::from_secs(10));
        }
    }

    #[test]
    fn a_node_has_a_bus() {
        let node = RedisServer::start_as(Role::Node, Persistence::None, &[]);
        TcpStream::connect(("127.0.0.1", node.bus_port())).unwrap();
        assert!(call(&node, "SET a 1").starts_with("-CLUSTERDOWN"));
    }

    #[test]
    fn a_dropped_server_leaves_neither_process_nor_folder() {
        let server = RedisServer::start(Persistence::None, &[]);
        let (pid, folder) = (server.pid().unwrap(), server.folder().to_owned());
        assert!(folder.is_dir());
        drop(server);
        assert!(!is_alive(pid));
        assert!(!folder.exists());
    }

    #[test]
    fn a_shared_server_is_one_server() {
        assert_eq!(RedisServer::shared().port(), RedisServer::shared().port());
        assert!(call(RedisServer::shared(), "PING").starts_with("+PONG"));
    }
}
