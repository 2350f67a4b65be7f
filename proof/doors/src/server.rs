//! The server process.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::Failure;

/// A running server, ended by its process id.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    pub(crate) token: String,
    /// Where the API of lmstfy is, its administration, and that of Grape.
    pub(crate) fronts: [String; 3],
}

impl Server {
    pub(crate) fn start(program: &Path, store: &str, folder: &Path) -> Result<Self, Failure> {
        let fronts = [free_address()?, free_address()?, free_address()?];
        let [lmstfy, lmstfy_admin, grape] = &fronts;
        let mut child = Command::new(program)
            .args(["--listen", "127.0.0.1:0", "--store", store, "--log", "warn"])
            .env("DELAYQ_PUSH__ALLOW_NETWORKS", "[\"127.0.0.0/8\"]")
            .env("DELAYQ_FIRST_TOKEN_FILE", "-")
            .env("DELAYQ_PUSH__ALLOW_HTTP", "true")
            .env("DELAYQ_LMSTFY__LISTEN", lmstfy)
            .env("DELAYQ_LMSTFY__ADMIN_LISTEN", lmstfy_admin)
            .env("DELAYQ_GRAPE__LISTEN", grape)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("it has no output")?;
        let mut lines = BufReader::new(output).lines();
        let mut said = |word: &str| -> Result<String, Failure> {
            for line in lines.by_ref() {
                let line = line?;
                if line.contains(word) {
                    return Ok(line.rsplit(' ').next().unwrap_or_default().to_owned());
                }
            }
            Err("the server ended before it had begun".into())
        };
        let address = said("listens on http://")?;
        let token = said("its first token")?;
        std::thread::spawn(move || lines.count());
        Ok(Self {
            child,
            address: address.trim_start_matches("http://").to_owned(),
            token,
            fronts,
        })
    }

    /// Kilobytes of memory that are its own, and the processor time that it has used, in seconds.
    pub(crate) fn usage(&self) -> Result<(u64, f64), Failure> {
        let folder = format!("/proc/{}", self.child.id());
        let status = std::fs::read_to_string(format!("{folder}/status"))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        let memory = number.ok_or("no VmRSS")?.parse()?;
        let stat = std::fs::read_to_string(format!("{folder}/stat"))?;
        let (_, fields) = stat.rsplit_once(") ").ok_or("no stat")?;
        let fields: Vec<_> = fields.split(' ').collect();
        let ticks = |at: usize| -> Result<f64, Failure> {
            Ok(fields.get(at).ok_or("no time")?.parse::<f64>()?)
        };
        // Hundredths of a second, user and system.
        Ok((memory, (ticks(11)? + ticks(12)?) / 100.0))
    }
}

/// An address that nobody listens on.
fn free_address() -> Result<String, Failure> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.to_string())
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
