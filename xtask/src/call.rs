//! One command line: shown as a person would type it, then run.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::failures::Failures;

/// Why a command of this program fails; says what to do, or how to see the failure again.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// The folder that holds the workspace's Cargo.toml.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// A command line, with the variables and the folder that it needs.
#[derive(Debug)]
pub(crate) struct Call {
    words: Vec<String>,
    variables: Vec<(&'static str, String)>,
    folder: PathBuf,
}

impl Call {
    /// The words of `line`, split at blanks, to be run in the workspace's folder.
    pub(crate) fn new(line: &str) -> Self {
        Self {
            words: line.split_whitespace().map(str::to_owned).collect(),
            variables: Vec::new(),
            folder: root(),
        }
    }

    /// One word more, which may contain blanks.
    pub(crate) fn word(mut self, word: impl Into<String>) -> Self {
        self.words.push(word.into());
        self
    }

    /// With this variable in the environment.
    pub(crate) fn variable(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// In this folder.
    pub(crate) fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = folder.into();
        self
    }

    /// Prints the line, runs it with the terminal's input and output, and waits for its end.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        println!("  $ {self}");
        let status = self
            .command()
            .status()
            .map_err(|error| Failure(format!("cannot run `{self}`: {error}")))?;
        self.ended(status, "")
    }

    /// Runs tests as [`Call::run`] does. The failure repeats what the failed tests have printed,
    /// which stands thousands of lines above the end.
    pub(crate) fn run_tests(&self) -> Result<(), Failure> {
        println!("  $ {self}");
        let cannot = |error| Failure(format!("cannot run `{self}`: {error}"));
        let mut command = self.command();
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(cannot)?;
        let mut failures = Failures::default();
        for line in child.stdout.take().into_iter().flat_map(lossy_lines) {
            println!("{line}");
            failures.hear(&line);
        }
        let status = child.wait().map_err(cannot)?;
        self.ended(status, &failures.text())
    }

    /// Runs it, and shows what it says as it comes. Returns whether it succeeded, and what it has
    /// said to its errors.
    pub(crate) fn told(&self) -> Result<(bool, String), Failure> {
        println!("  $ {self}");
        let cannot = |error| Failure(format!("cannot run `{self}`: {error}"));
        let mut command = self.command();
        let mut child = command.stderr(Stdio::piped()).spawn().map_err(cannot)?;
        let mut said = String::new();
        for line in child.stderr.take().into_iter().flat_map(lossy_lines) {
            println!("{line}");
            said += &line;
            said.push('\n');
        }
        let status = child.wait().map_err(cannot)?;
        Ok((status.success(), said))
    }

    /// Runs it with its output read: what `read` makes of the lines. What it prints to its errors
    /// is shown.
    pub(crate) fn lines<T>(&self, read: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, Failure> {
        println!("  $ {self}");
        let cannot = |error| Failure(format!("cannot run `{self}`: {error}"));
        let mut command = self.command();
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(cannot)?;
        let lines = child.stdout.take().into_iter().flat_map(lossy_lines);
        let found = lines.filter_map(|line| read(&line)).collect();
        let status = child.wait().map_err(cannot)?;
        self.ended(status, "")?;
        Ok(found)
    }

    fn ended(&self, status: ExitStatus, why: &str) -> Result<(), Failure> {
        if status.success() {
            return Ok(());
        }
        Err(Failure(format!("{why}`{self}` failed: {status}")))
    }

    /// What the command prints to its output; `None` when it cannot be run or fails. Nothing is
    /// shown.
    pub(crate) fn output(&self) -> Option<String> {
        let output = self
            .command()
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(text)
    }

    /// Whether the command can be run and succeeds. Nothing is shown.
    pub(crate) fn succeeds(&self) -> bool {
        self.output().is_some()
    }

    fn command(&self) -> Command {
        let (program, arguments) = self
            .words
            .split_first()
            .map_or(("", &[][..]), |(p, a)| (p, a));
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.folder);
        // This program's own package is none of cargo's business: build scripts that look at these
        // variables would be built anew whenever cargo is called from here, and again by hand.
        for (name, _) in std::env::vars_os() {
            if is_of_this_package(&name) {
                command.env_remove(name);
            }
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// The lines of an output, also of one that is no UTF-8.
fn lossy_lines(output: impl Read) -> impl Iterator<Item = String> {
    let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
    lines.map(|line| String::from_utf8_lossy(&line).into_owned())
}

/// Whether cargo has set this variable for the program that it runs.
fn is_of_this_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Vec::new();
        if let Ok(folder) = self.folder.strip_prefix(root())
            && !folder.as_os_str().is_empty()
        {
            line.push(format!("cd {} &&", folder.display()));
        }
        let variables = self.variables.iter();
        line.extend(variables.map(|(name, value)| format!("{name}={}", quoted(value))));
        line.extend(self.words.iter().map(|word| quoted(word)));
        f.write_str(&line.join(" "))
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_shown_as_a_shell_takes_it() {
        let call = Call::new("cargo doc --no-deps")
            .variable("RUSTDOCFLAGS", "-D warnings")
            .folder(root().join("target"))
            .word("it's");
        assert_eq!(
            call.to_string(),
            r"cd target && RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s'"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_call_does_not_inherit_the_package_of_this_program() {
        // Set by the cargo that runs this test.
        assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
        let environment = Call::new("env").output().expect("it is everywhere");
        let inherited = environment
            .lines()
            .find(|line| line.starts_with("CARGO_PKG_"));
        assert_eq!(inherited, None);
    }

    #[test]
    fn a_failure_names_the_command() {
        #[cfg(unix)]
        {
            let failure = Call::new("false x").run().unwrap_err();
            assert!(failure.0.contains("`false x` failed"), "{failure}");
        }
        let failure = Call::new("no-such-program-anywhere x").run().unwrap_err();
        assert!(failure.0.contains("cannot run"), "{failure}");
    }
}
