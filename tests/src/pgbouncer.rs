//! A real PgBouncer for tests: a pooler that gives a connection to a server to one transaction at a
//! time. It is gone with the test process.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::postgres_server::{PostgresServer, sql, url};
use crate::program_folders::program_folders;
use crate::unprivileged;
use crate::watched_process::{KILL, WatchedProcess, free_port, new_folder, start};

/// What it logs once it listens.
const READY: &str = "process up: ";
/// A running PgBouncer in front of all databases of a server.
#[derive(Debug)]
pub struct Pgbouncer {
    port: u16,
    folder: PathBuf,
    process: Option<WatchedProcess>,
}

impl Pgbouncer {
    /// Whether it is installed on this machine. A test that leaves something out without it says
    /// so.
    #[must_use]
    pub fn is_installed() -> bool {
        program().is_some()
    }

    /// Starts one in front of `server`, and waits until it listens.
    ///
    /// # Panics
    /// When PgBouncer is not installed, or does not start.
    #[must_use]
    pub fn start(server: &PostgresServer) -> Self {
        let program = program().expect("PgBouncer is installed (the package pgbouncer)");
        let folder = new_folder("delayq-pgbouncer-");
        unprivileged::give(&folder);
        let mut pooler = Self {
            port: 0,
            folder,
            process: None,
        };
        start("pgbouncer", || {
            pooler.port = free_port();
            pooler.launch(&program, server)
        });
        pooler
    }

    /// The one that all tests of a process share, in front of the shared server. `None`, and a line
    /// that says so, when it is not installed.
    #[must_use]
    #[allow(clippy::print_stderr, reason = "what a test leaves out, it says")]
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Pgbouncer>> = OnceLock::new();
        let start = || {
            if !Self::is_installed() {
                eprintln!("LEFT OUT: pgbouncer is not installed; the package pgbouncer has it");
                return None;
            }
            Some(Self::start(PostgresServer::shared()))
        };
        SHARED.get_or_init(start).as_ref()
    }

    /// The URL of the database `postgres`, through the pooler.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The URL of a database, through the pooler.
    #[must_use]
    pub fn url_of(&self, database: &str) -> String {
        url(self.port, database)
    }

    /// The pooler's port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What psql prints for `text` through the pooler: a row a line, columns separated by `|`.
    ///
    /// # Panics
    /// When the server refuses it.
    #[allow(clippy::must_use_candidate, reason = "many statements return nothing")]
    pub fn sql(&self, database: &str, text: &str) -> String {
        sql(&self.url_of(database), text)
    }

    /// What it has logged since it was started, or asked last.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        let log = self.process.as_ref().map(WatchedProcess::log);
        log.unwrap_or_default()
    }

    fn launch(&mut self, program: &Path, server: &PostgresServer) -> Result<(), Vec<String>> {
        let settings = self.folder.join("pgbouncer.ini");
        let text = settings_text(self.port, server.port());
        std::fs::write(&settings, text).expect("the folder can be written to");
        unprivileged::give(&settings);
        let mut command = unprivileged::command(program, &self.folder);
        command.arg(&settings);
        let process = WatchedProcess::start(&command, &self.folder, READY, KILL)?;
        self.process = Some(process);
        Ok(())
    }
}

impl Drop for Pgbouncer {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
        // What is left of a temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Its settings. It looks for a server that has gone much sooner than by default, which is after
/// 15 s.
fn settings_text(port: u16, server: u16) -> String {
    format!(
        "[databases]
* = host=127.0.0.1 port={server} user=delayq
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 1000
server_login_retry = 0.1
ignore_startup_parameters = extra_float_digits
"
    )
}

fn program() -> Option<PathBuf> {
    let mut candidates = program_folders()
        .into_iter()
        .map(|folder| folder.join("pgbouncer"));
    candidates.find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pooler_hands_out_connections_and_finds_a_server_again() {
        if !Pgbouncer::is_installed() {
            eprintln!("LEFT OUT: pgbouncer is not installed; the package pgbouncer has it");
            return;
        }
        let mut server = PostgresServer::start(&[]);
        server.create_database("pooled");
        let pooler = Pgbouncer::start(&server);
        let name = "SELECT current_database(), current_user";
        assert_eq!(pooler.sql("pooled", name), "pooled|delayq");
        let backend = "SELECT pg_backend_pid()";
        assert_eq!(pooler.sql("pooled", backend), pooler.sql("pooled", backend));
        server.restart();
        assert_eq!(pooler.sql("postgres", name), "postgres|delayq");
        assert!(
            pooler
                .url()
                .ends_with(&format!(":{}/postgres", pooler.port()))
        );
        let port = pooler.port();
        drop(pooler);
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    }
}
