//! What the failed tests of a long output have printed.

use std::collections::VecDeque;

/// Most lines that are kept, the last ones.
const MOST: usize = 300;

/// The parts of an output of tests that tell of failures.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    is_within: bool,
    lines: VecDeque<String>,
}

impl Failures {
    /// The next line of the output.
    pub(crate) fn hear(&mut self, line: &str) {
        if line == "failures:" {
            self.is_within = true;
        }
        if !self.is_within {
            return;
        }
        if self.lines.len() == MOST {
            self.lines.pop_front();
        }
        self.lines.push_back(line.to_owned());
        if line.starts_with("test result: ") {
            self.is_within = false;
        }
    }

    /// What was kept, as lines; empty where nothing failed.
    pub(crate) fn text(&self) -> String {
        let lines = self.lines.iter();
        lines.fold(String::new(), |text, line| text + line + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_kept_and_nothing_else() {
        let output = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b \
                      stdout ----\nit is 3\n\nfailures:\n    b\n\ntest result: FAILED. 1 \
                      passed\n\nrunning 0 tests\ntest result: ok. 0 passed\n";
        let mut failures = Failures::default();
        output.lines().for_each(|line| failures.hear(line));
        let text = failures.text();
        assert!(text.starts_with("failures:\n\n---- b stdout"), "{text}");
        assert!(text.ends_with("test result: FAILED. 1 passed\n"), "{text}");
        assert!(!text.contains("running"), "{text}");
    }

    #[test]
    fn a_flood_leaves_its_end() {
        let mut failures = Failures::default();
        failures.hear("failures:");
        (0..1_000).for_each(|line| failures.hear(&line.to_string()));
        assert!(failures.text().ends_with("999\n"));
        assert_eq!(failures.text().lines().count(), MOST);
    }
}
