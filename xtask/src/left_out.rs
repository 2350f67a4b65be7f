//! What a run could not do here. A person sees a list at the end; where `CI` is `true` each entry
//! has to be declared with its reason, so that no check is lost in silence.

use std::collections::BTreeSet;

use crate::call::Failure;

/// How a test, or a step, says that it could not do something.
pub(crate) const MARK: &str = "LEFT OUT: ";

/// What CI may leave out: the beginning of an entry, and the reason.
const DECLARED: [(&str, &str); 8] = [
    (
        "cargo-deny is not here",
        "it takes minutes to build; `cargo xtask soak` checks licences and advisories",
    ),
    (
        "the database of advisories",
        "it comes from outside the registries; `cargo xtask soak` asks for it again",
    ),
    (
        "this server has no WAITAOF",
        "Debian's Redis is 7.0, WAITAOF came with 7.2; DELAYQ_REDIS_SERVER names another server",
    ),
    (
        "it builds the server",
        "the test runs the server that was built with it",
    ),
    (
        "of a running lmstfy",
        "no registry has its server; tests import from its data in a real Redis",
    ),
    (
        "helm is not here",
        "no registry of packages has it; the machines of the public host do",
    ),
    (
        "actionlint is not here",
        "no package of Debian has it; `go install` builds it",
    ),
    ("systemd-analyze is not here", "a container has no systemd"),
];

/// A list of entries, each once.
#[derive(Debug, Default)]
pub(crate) struct LeftOut(BTreeSet<String>);

impl LeftOut {
    /// One thing that could not be done, and what it would need.
    pub(crate) fn add(&mut self, what: impl Into<String>) {
        let what = what.into();
        println!("  {MARK}{what}");
        self.0.insert(what);
    }

    /// Takes the entries of a program's output.
    pub(crate) fn hear(&mut self, output: &str) {
        let said = output.lines().filter_map(|line| line.split_once(MARK));
        self.0.extend(said.map(|(_, what)| what.trim().to_owned()));
    }

    /// Prints the list, and judges it.
    pub(crate) fn judge(&self) -> Result<(), Failure> {
        let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
        if !self.0.is_empty() {
            println!("\nleft out here:");
        }
        for what in &self.0 {
            let reason = declared(what).map_or(String::new(), |reason| format!(" ({reason})"));
            println!("  {what}{reason}");
        }
        let undeclared = self.undeclared();
        if !is_ci || undeclared.is_empty() {
            return Ok(());
        }
        Err(Failure(format!(
            "CI may leave out only what xtask/src/left_out.rs declares with a reason, and this is not \
             there:\n  {}",
            undeclared.join("\n  ")
        )))
    }

    fn undeclared(&self) -> Vec<&str> {
        let entries = self.0.iter().map(String::as_str);
        entries.filter(|what| declared(what).is_none()).collect()
    }
}

fn declared(what: &str) -> Option<&'static str> {
    let found = DECLARED.iter().find(|(start, _)| what.contains(start));
    found.map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_declared_may_be_left_out() {
        let mut left_out = LeftOut::default();
        let node = format!("{MARK}node is not here\n");
        left_out.hear(&format!("test a ... ok\n{node}nothing\n{node}"));
        left_out.hear(&format!("{MARK}systemd-analyze is not here, which judges"));
        assert_eq!(left_out.undeclared(), ["node is not here"]);
    }
}
