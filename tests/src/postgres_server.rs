//! A real PostgreSQL server for tests: on a free port, in a folder of its own, gone with the test
//! process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::program_folders::program_folders;
use crate::unprivileged;
use crate::watched_process::{KILL, WatchedProcess, free_port, new_folder, start, start_again};

/// What a server logs once it has recovered its data; a replica goes on with `read-only`.
const READY: &str = "database system is ready to accept ";
/// What initdb prints at its end.
const TEMPLATE_READY: &str = "Success.";
/// The superuser, who needs no password.
const USER: &str = "delayq";
/// The database that every server has.
const DATABASE: &str = "postgres";

/// Settings of every server; later ones win. Shared memory of its own files goes with its folder.
const SETTINGS: [&str; 4] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    "dynamic_shared_memory_type=mmap",
];

/// How the data of a server come to be, in a folder `new`: from the template, or from a primary.
const COPY: &str = r#"cp -pR "$SOURCE" new"#;
const REPLICATE: &str = r#""${0%/*}/pg_basebackup" -R -X stream --checkpoint=fast --no-sync \
    -d "$SOURCE" -D new"#;

/// Removes the segment of shared memory that a killed server leaves, and its lock file. The id of
/// the segment is the last number of the seventh line.
const UNLOCK: &str = r#"
lock="$FOLDER/data/postmaster.pid"
ipcrm -m "$(sed -n '7s/^.* //p' "$lock")"
rm -f -- "$lock"
"#;

/// A running PostgreSQL server, or one that was killed and can be started again on the same data.
/// What it has committed is on disk, as is its default.
#[derive(Debug)]
pub struct PostgresServer {
    port: u16,
    folder: PathBuf,
    /// [`COPY`] or [`REPLICATE`], and what of.
    origin: (&'static str, String),
    extra: Vec<String>,
    process: Option<WatchedProcess>,
}

impl PostgresServer {
    /// Starts a server with `extra` settings, each as `name=value`, and waits until it answers.
    ///
    /// # Panics
    /// When PostgreSQL is not installed, or does not start.
    #[must_use]
    pub fn start(extra: &[&str]) -> Self {
        let template = template().display().to_string();
        let extra = extra.iter().map(ToString::to_string);
        Self::start_from((COPY, template), extra.collect())
    }

    /// The server that all tests of a process share. Use a database or names of your own, and leave
    /// its settings alone.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&[]))
    }

    /// Starts a replica, which streams what `primary` writes and answers reads. Its settings are
    /// those of the primary.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start_replica_of(primary: &Self) -> Self {
        Self::start_from((REPLICATE, primary.url()), primary.extra.clone())
    }

    /// The URL of the database `postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// The URL of a database.
    #[must_use]
    pub fn url_of(&self, database: &str) -> String {
        url(self.port, database)
    }

    /// The server's port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where the server keeps its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The process id of the postmaster while it runs.
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

    /// Stops the postmaster and its children with SIGSTOP: connections stay open, and nobody is
    /// answered.
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
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        let log = self.process.as_ref().map(WatchedProcess::log);
        log.unwrap_or_default()
    }

    /// Ends the postmaster and its children with SIGKILL; returns once all have gone. Its files
    /// stay.
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
        start_again("postgres", || self.launch());
    }

    /// Makes a replica a primary; returns once it takes writes.
    ///
    /// # Panics
    /// When it is no replica.
    pub fn promote(&self) {
        let is_promoted = self.sql(DATABASE, "SELECT pg_promote()");
        assert_eq!(is_promoted, "t", "it was promoted in time");
    }

    /// Makes an empty database.
    ///
    /// # Panics
    /// When the server does not, as when it has one of this name.
    pub fn create_database(&self, name: &str) {
        self.sql(DATABASE, &format!("CREATE DATABASE \"{name}\""));
    }

    /// Makes an empty database whose tables are in this folder, which is made.
    ///
    /// # Panics
    /// When the server does not.
    pub fn create_database_in(&self, name: &str, folder: &Path) {
        std::fs::create_dir(folder).expect("the folder is new");
        unprivileged::give(folder);
        let folder = folder.display();
        self.sql(
            DATABASE,
            &format!("CREATE TABLESPACE \"{name}\" LOCATION '{folder}'"),
        );
        self.sql(
            DATABASE,
            &format!("CREATE DATABASE \"{name}\" TABLESPACE \"{name}\""),
        );
    }

    /// Changes a setting, given as `name = value`, of the server that runs.
    ///
    /// # Panics
    /// When the server refuses it.
    pub fn configure(&self, setting: &str) {
        self.sql(DATABASE, &format!("ALTER SYSTEM SET {setting}"));
        self.sql(DATABASE, "SELECT pg_reload_conf()");
    }

    /// What psql prints for `text`: a row a line, columns separated by `|`.
    ///
    /// # Panics
    /// When the server refuses it.
    #[allow(clippy::must_use_candidate, reason = "many statements return nothing")]
    pub fn sql(&self, database: &str, text: &str) -> String {
        sql(&self.url_of(database), text)
    }

    /// psql in a database of the server, without a statement.
    pub(crate) fn psql(&self, database: &str) -> Command {
        let mut psql = Command::new(program("psql"));
        psql.args(["-X", "-A", "-t", "-q", "-d", &self.url_of(database)]);
        psql
    }

    fn start_from(origin: (&'static str, String), extra: Vec<String>) -> Self {
        let folder = new_folder("delayq-postgres-");
        unprivileged::give(&folder);
        let mut server = Self {
            port: 0,
            folder,
            origin,
            extra,
            process: None,
        };
        start("postgres", || {
            server.port = free_port();
            server.launch()
        });
        server
    }

    /// Starts the process on the present port, with new data if there are none; an error is what it
    /// logged.
    fn launch(&mut self) -> Result<(), Vec<String>> {
        let (origin, source) = &self.origin;
        let script = format!(
            "[ -d data ] || {{ rm -rf new && {origin} && mv new data; }} || exit
            exec \"$0\" \"$@\""
        );
        let mut command = unprivileged::command(Path::new("sh"), &self.folder);
        command.args(["-c", &script]).arg(program("postgres"));
        command.args(["-D", "data", "-p", &self.port.to_string()]);
        command.env("SOURCE", source);
        let extra = self.extra.iter().map(String::as_str);
        for setting in SETTINGS.into_iter().chain(extra) {
            command.args(["-c", setting]);
        }
        let end = format!("{KILL}{UNLOCK}");
        let process = WatchedProcess::start(&command, &self.folder, READY, &end)?;
        self.process = Some(process);
        Ok(())
    }

    fn signal(&mut self, name: &str) {
        let process = self.process.as_mut();
        process.expect("the server was not killed").signal(name);
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.kill();
        // What is left of a temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn url(port: u16, database: &str) -> String {
    format!("postgres://{USER}@127.0.0.1:{port}/{database}")
}

/// What psql prints for `text` in the database of `url`.
pub(crate) fn sql(url: &str, text: &str) -> String {
    let mut psql = Command::new(program("psql"));
    psql.args(["-X", "-A", "-t", "-q", "-d", url, "-c", text]);
    run(&mut psql).trim_end().to_owned()
}

/// The data of a new server, which others are copied from. Making them takes a second.
fn template() -> &'static Path {
    static TEMPLATE: OnceLock<(PathBuf, WatchedProcess)> = OnceLock::new();
    let (data, _) = TEMPLATE.get_or_init(|| {
        let folder = new_folder("delayq-postgres-template-");
        unprivileged::give(&folder);
        let data = folder.join("data");
        let mut initdb = unprivileged::command(&program("initdb"), &folder);
        initdb.args(["--auth=trust", "--no-sync", "--encoding=UTF8"]);
        initdb
            .args(["--locale=C.UTF-8", "-U", USER, "-D"])
            .arg(&data);
        // The watcher removes the folder in the end. It waits for initdb, and does not kill it: its
        // processes and shared memory would stay.
        let made = WatchedProcess::start(&initdb, &folder, TEMPLATE_READY, "");
        let watched = made.unwrap_or_else(|log| panic!("initdb fails: {log:#?}"));
        (data, watched)
    });
    data
}

/// What the command prints.
fn run(command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A program of PostgreSQL: all are of one version.
fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(programs).join(name)
}

/// The folder of the programs: the first one of the PATH, or the newest one elsewhere.
fn programs() -> PathBuf {
    let has_all = |folder: &PathBuf| {
        let is_there = |name| folder.join(name).is_file();
        ["initdb", "postgres", "psql"].into_iter().all(is_there)
    };
    program_folders()
        .into_iter()
        .find(has_all)
        .unwrap_or_else(|| {
            panic!(
                "PostgreSQL is not installed (Debian has it in the package postgresql): \
                 `cargo xtask test` installs it or says how"
            )
        })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::process::Stdio;
    use std::time::Duration;

    use super::*;
    use crate::watched_process::{PATIENCE, is_alive};

    /// Asks for TLS, which the server declines with one letter.
    fn ask(server: &PostgresServer) -> TcpStream {
        let mut connection = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        connection.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
        connection
    }

    /// Reads until `sql` gives `expected`.
    fn await_sql(server: &PostgresServer, sql: &str, expected: &str) {
        let started = std::time::Instant::now();
        while server.sql(DATABASE, sql) != expected {
            assert!(started.elapsed() < PATIENCE, "{sql}");
        }
    }

    #[test]
    fn a_killed_server_is_gone_with_its_children_and_comes_back_with_its_data() {
        let mut server = PostgresServer::start(&["application_name=first", "fsync=off"]);
        assert_eq!(server.sql(DATABASE, "SHOW fsync"), "off");
        server.create_database("a-b");
        server.sql("a-b", "CREATE TABLE kept AS SELECT 1 AS one, 'two' AS two");
        let mut psql = Command::new(program("psql"));
        psql.args(["-d", &server.url_of("a-b"), "-c", "SELECT pg_sleep(600)"]);
        let mut busy = psql.stderr(Stdio::null()).spawn().unwrap();
        let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        await_sql(&server, sleeping, "1");
        let pid = server.pid().unwrap();
        assert!(is_alive(pid));
        server.kill();
        assert!(!is_alive(pid));
        assert!(!busy.wait().unwrap().success());
        assert_eq!((server.pid(), server.is_running()), (None, false));
        server.restart();
        assert_ne!(server.pid(), Some(pid));
        assert_eq!(server.sql("a-b", "SELECT * FROM kept"), "1|two");
    }

    #[test]
    fn a_stopped_server_answers_once_it_goes_on() {
        let mut server = PostgresServer::start(&[]);
        server.stop();
        assert!(!server.is_running());
        let mut connection = ask(&server);
        let wait = Duration::from_millis(50);
        connection.set_read_timeout(Some(wait)).unwrap();
        assert!(connection.read_exact(&mut [0]).is_err());
        server.resume();
        assert!(server.is_running());
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = [0];
        connection.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"N");
        server.stop();
        server.kill();
        assert_eq!(server.pid(), None);
    }

    #[test]
    fn a_replica_follows_and_takes_over() {
        let mut primary = PostgresServer::start(&[]);
        primary.sql(DATABASE, "CREATE TABLE copied (one int)");
        let mut replica = PostgresServer::start_replica_of(&primary);
        primary.sql(DATABASE, "INSERT INTO copied VALUES (1)");
        let count = "SELECT count(*) FROM copied";
        await_sql(&replica, count, "1");
        replica.restart();
        assert_eq!(replica.sql(DATABASE, "SELECT pg_is_in_recovery()"), "t");
        primary.kill();
        replica.promote();
        replica.sql(DATABASE, "INSERT INTO copied VALUES (2)");
        assert_eq!(replica.sql(DATABASE, count), "2");
    }

    #[test]
    fn a_dropped_server_leaves_neither_process_nor_folder() {
        let server = PostgresServer::start(&[]);
        let (pid, folder) = (server.pid().unwrap(), server.folder().to_owned());
        assert!(folder.is_dir());
        drop(server);
        assert!(!is_alive(pid));
        assert!(!folder.exists());
    }

    #[test]
    fn a_shared_server_is_one_server_that_syncs() {
        let server = PostgresServer::shared();
        assert_eq!(server.port(), PostgresServer::shared().port());
        let settings = "SELECT current_setting('fsync'), current_setting('synchronous_commit')";
        assert_eq!(server.sql(DATABASE, settings), "on|on");
    }

    #[test]
    #[should_panic(expected = "syntax error")]
    fn a_statement_that_the_server_refuses_is_a_panic() {
        let _ = PostgresServer::shared().sql(DATABASE, "SELEC 1");
    }
}
