//! A real MariaDB server for tests: on a free port, in a folder of its own, gone with the test
//! process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::program_folders::program_folders;
use crate::unprivileged;
use crate::watched_process::{KILL, WatchedProcess, free_port, new_folder, start, start_again};

/// What a server logs once it has recovered its data and listens.
const READY: &str = "ready for connections";
/// What the template prints at its end.
const TEMPLATE_READY: &str = "the template is made";
/// The user with all rights, who needs no password.
const USER: &str = "delayq";

/// Makes the user at every start of a server.
const INIT: &str = "CREATE USER IF NOT EXISTS delayq@'127.0.0.1';
GRANT ALL ON *.* TO delayq@'127.0.0.1' WITH GRANT OPTION;
";

/// Settings of every server; later ones win. Names are not looked up, so that a user is known by
/// the address. The log of the engine, which is a part of the template, is small.
const SETTINGS: [&str; 6] = [
    "--no-defaults",
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--socket=socket",
    "--innodb-log-file-size=8M",
    "--innodb-buffer-pool-size=32M",
];

/// A running MariaDB server, or one that was killed and can be started again on the same data. What
/// it has committed is on disk, as is its default.
#[derive(Debug)]
pub struct MariadbServer {
    port: u16,
    folder: PathBuf,
    extra: Vec<String>,
    process: Option<WatchedProcess>,
}

impl MariadbServer {
    /// Starts a server with `extra` settings, each as `name=value`, and waits until it answers.
    ///
    /// # Panics
    /// When MariaDB is not installed, or does not start.
    #[must_use]
    pub fn start(extra: &[&str]) -> Self {
        let folder = new_folder("delayq-mariadb-");
        unprivileged::give(&folder);
        let init = folder.join("init.sql");
        std::fs::write(&init, INIT).expect("the folder is new");
        unprivileged::give(&init);
        let mut server = Self {
            port: 0,
            folder,
            extra: extra.iter().map(|name| format!("--{name}")).collect(),
            process: None,
        };
        start("mariadbd", || {
            server.port = free_port();
            server.launch()
        });
        server
    }

    /// The server that all tests of a process share. Use a database of your own, and leave its
    /// settings alone.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<MariadbServer> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&[]))
    }

    /// The URL of a database.
    #[must_use]
    pub fn url_of(&self, database: &str) -> String {
        format!("mysql://{USER}@127.0.0.1:{}/{database}", self.port)
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

    /// The process id of the server while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(WatchedProcess::pid)
    }

    /// Stops the server with SIGSTOP: connections stay open, and nobody is answered.
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
        start_again("mariadbd", || self.launch());
    }

    /// Makes an empty database.
    ///
    /// # Panics
    /// When the server does not, as when it has one of this name.
    pub fn create_database(&self, name: &str) {
        self.sql("mysql", &format!("CREATE DATABASE `{name}`"));
    }

    /// What the client prints for `text`: a row a line, columns separated by tabs.
    ///
    /// # Panics
    /// When the server refuses it.
    #[allow(clippy::must_use_candidate, reason = "many statements return nothing")]
    pub fn sql(&self, database: &str, text: &str) -> String {
        let mut client = Command::new(program("mariadb"));
        client.args(["--no-defaults", "--batch", "--skip-column-names"]);
        client.args(["--host=127.0.0.1", "--protocol=tcp"]);
        client.arg(format!("--port={}", self.port));
        client.args([&format!("--user={USER}"), "--default-character-set=utf8mb4"]);
        let output = client.args(["--execute", text, database]).output();
        let output = output.unwrap_or_else(|error| panic!("{client:?}: {error}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{client:?}: {errors}");
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    }

    /// Starts the process on the present port, with new data if there are none; an error is what it
    /// logged.
    fn launch(&mut self) -> Result<(), Vec<String>> {
        let script = r#"[ -d data ] || { rm -rf new && cp -pR "$SOURCE" new && mv new data; } || exit
            exec "$0" "$@""#;
        let mut command = unprivileged::command(Path::new("sh"), &self.folder);
        command.args(["-c", script]).arg(program("mariadbd"));
        command.args(SETTINGS).arg(format!("--port={}", self.port));
        command.arg(format!("--datadir={}", self.folder.join("data").display()));
        command.arg(format!(
            "--init-file={}",
            self.folder.join("init.sql").display()
        ));
        // A server that starts removes the temporary tables of others.
        command.arg(format!("--tmpdir={}", self.folder.display()));
        command.args(&self.extra).env("SOURCE", template());
        let process = WatchedProcess::start(&command, &self.folder, READY, KILL)?;
        self.process = Some(process);
        Ok(())
    }

    fn signal(&mut self, name: &str) {
        let process = self.process.as_mut();
        process.expect("the server was not killed").signal(name);
    }
}

impl Drop for MariadbServer {
    fn drop(&mut self) {
        self.kill();
        // What is left of a temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The data of a new server, which others are copied from. Making them takes a second.
fn template() -> &'static Path {
    static TEMPLATE: OnceLock<(PathBuf, WatchedProcess)> = OnceLock::new();
    let (data, _) = TEMPLATE.get_or_init(|| {
        let folder = new_folder("delayq-mariadb-template-");
        unprivileged::give(&folder);
        let data = folder.join("data");
        let script = format!(r#""$0" "$@" && echo {TEMPLATE_READY}"#);
        let mut install = unprivileged::command(Path::new("sh"), &folder);
        install
            .args(["-c", &script])
            .arg(program("mariadb-install-db"));
        install.args([
            "--no-defaults",
            "--skip-test-db",
            "--innodb-log-file-size=8M",
        ]);
        install.env("TMPDIR", &folder);
        install.arg("--auth-root-authentication-method=normal");
        install.arg(format!("--datadir={}", data.display()));
        // The watcher removes the folder in the end.
        let made = WatchedProcess::start(&install, &folder, TEMPLATE_READY, "");
        let watched = made.unwrap_or_else(|log| panic!("mariadb-install-db fails: {log:#?}"));
        (data, watched)
    });
    data
}

/// A program of MariaDB.
fn program(name: &str) -> PathBuf {
    let folders = program_folders().into_iter();
    let mut files = folders.map(|folder| folder.join(name));
    files.find(|file| file.is_file()).unwrap_or_else(|| {
        panic!(
            "MariaDB is not installed (Debian has it in the package mariadb-server): `cargo xtask \
             test` installs it or says how"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watched_process::is_alive;

    #[test]
    fn a_killed_server_is_gone_and_comes_back_with_its_data() {
        let mut server = MariadbServer::start(&["innodb-flush-log-at-timeout=7"]);
        let setting = "SELECT @@innodb_flush_log_at_timeout, @@innodb_flush_log_at_trx_commit";
        assert_eq!(server.sql("mysql", setting), "7\t1");
        server.create_database("a-b");
        server.sql("a-b", "CREATE TABLE kept AS SELECT 1 AS one, 'two' AS two");
        let pid = server.pid().unwrap();
        server.kill();
        assert!(!is_alive(pid) && server.pid().is_none());
        server.restart();
        assert_eq!(server.sql("a-b", "SELECT * FROM kept"), "1\ttwo");
        let (pid, folder) = (server.pid().unwrap(), server.folder().to_owned());
        server.stop();
        server.resume();
        drop(server);
        assert!(!is_alive(pid) && !folder.exists());
    }

    #[test]
    #[should_panic(expected = "error in your SQL syntax")]
    fn a_statement_that_the_server_refuses_is_a_panic() {
        let _ = MariadbServer::shared().sql("mysql", "SELEC 1");
    }
}
