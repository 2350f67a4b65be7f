//! Instances: plugins in processes of their own, which tests kill, stop and watch.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::rig::until;

pub mod history;
pub mod log;
pub mod plan;
pub mod scene;
pub mod stalls;

use log::{Event, Reader, What};
use plan::Plan;

/// A process that runs a [`Plan`]. It dies with this value, and with the test process: its standard
/// input is a pipe, at whose end it exits.
#[derive(Debug)]
pub struct Instance {
    /// Its name.
    pub name: String,
    child: Child,
    log: Reader,
}

impl Instance {
    /// Starts `binary` with `plan`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn spawn(binary: &str, plan: &Plan) -> Self {
        let errors = File::create(plan.log.with_extension("stderr")).expect("the log has a folder");
        let child = Command::new(binary)
            .arg(serde_json::to_string(plan).expect("a plan has a JSON form"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn();
        Self {
            name: plan.name.clone(),
            child: child.expect("the instance can be started"),
            log: Reader::new(plan.log.clone()),
        }
    }

    /// Its events so far.
    pub fn events(&mut self) -> &[Event] {
        self.log.events()
    }

    /// Awaits the `n`-th event that `is_meant`, and returns it.
    ///
    /// # Panics
    /// When it does not come, or the process ends before.
    pub async fn nth(&mut self, what: &str, n: usize, is_meant: impl Fn(&What) -> bool) -> Event {
        let what = format!("{} of {}, {n} times", what, self.name);
        let log = &mut self.log;
        let child = &mut self.child;
        let looks = || {
            let ended = child.try_wait().expect("a child can be waited for");
            let meant = log.events().iter().filter(|event| is_meant(&event.what));
            let found = meant.take(n).collect::<Vec<_>>();
            let found = (found.len() == n).then(|| found.last().copied().cloned());
            assert!(
                found.is_some() || ended.is_none(),
                "{what}: the process has ended: {ended:?}"
            );
            std::future::ready(found.flatten())
        };
        until(&what, looks).await
    }

    /// Awaits that so many workers have been started since the process was.
    pub async fn started(&mut self, n: usize) -> Event {
        self.nth("the start of a worker", n, What::is_start).await
    }

    /// Has it send nothing more, and awaits that all it began to send is accepted.
    ///
    /// # Panics
    /// When that does not come.
    pub async fn quiet(&mut self) {
        self.tell("quiet");
        let is_quiet = |what: &What| matches!(what, What::Quiet);
        self.nth("the end of its sending", 1, is_quiet).await;
    }

    /// How many events so far are meant.
    pub fn count(&mut self, is_meant: impl Fn(&What) -> bool) -> usize {
        let events = self.log.events().iter();
        events.filter(|event| is_meant(&event.what)).count()
    }

    /// Gives it a command: `quiet` or `block MILLISECONDS`.
    ///
    /// # Panics
    /// When it does not listen any more.
    pub fn tell(&mut self, command: &str) {
        let stdin = self.child.stdin.as_mut().expect("stdin is piped");
        writeln!(stdin, "{command}").expect("the instance listens");
    }

    /// Sends the signal of this name (`TERM`, `STOP`, `CONT`).
    ///
    /// # Panics
    /// When the process is gone.
    pub fn signal(&self, name: &str) {
        send_signal(self.child.id(), name);
    }

    /// Ends it with SIGKILL; it is gone when this returns.
    ///
    /// # Panics
    /// When it had ended by itself.
    pub fn kill(&mut self) {
        let ended = self.child.try_wait().expect("a child can be waited for");
        assert!(ended.is_none(), "{} has ended: {ended:?}", self.name);
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }

    /// Awaits that it ends by itself.
    ///
    /// # Panics
    /// When it does not.
    pub async fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        let wait = || std::future::ready(child.try_wait().expect("a child can be waited for"));
        until(&format!("the end of {}", self.name), wait).await
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Neither fails but for a process that has ended and been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends the signal of this name to a process.
///
/// # Panics
/// When there is none.
pub fn send_signal(pid: u32, name: &str) {
    let kill = format!("kill -{name} {pid}");
    let status = Command::new("sh").args(["-c", &kill]).status();
    assert!(status.expect("sh can be started").success(), "{kill}");
}

/// What a process wrote to its standard error, for the message of a failure.
#[must_use]
pub fn errors_of(log: &Path) -> String {
    std::fs::read_to_string(log.with_extension("stderr")).unwrap_or_default()
}
