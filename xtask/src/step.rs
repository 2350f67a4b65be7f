//! The steps of `cargo xtask test` and `cargo xtask check`, and the commands of each.

use clap::ValueEnum;

use crate::call::Call;
use crate::proof;

/// One step; [`Gate::steps`](crate::gate::Gate::steps) has their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// Install redis-server, PostgreSQL, MariaDB, rustfmt and clippy where they are missing.
    Install,
    /// Is the code formatted?
    Fmt,
    /// Unit and integration tests; builds the examples, too.
    Tests,
    /// The examples in the documentation.
    DocTests,
    /// Lints of all targets; a warning is an error.
    Clippy,
    /// Does the documentation build without a warning?
    Docs,
    /// The combinations of features that an application may choose.
    Features,
    /// The plugin for the framework summer, in an application of it.
    Summer,
    /// Does everything compile with the oldest Rust that Cargo.toml allows?
    OldestRust,
    /// Licences, advisories and sources of the dependencies (when cargo-deny is installed).
    Deny,
}

impl Step {
    /// The name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What it is about, in a few words.
    pub(crate) fn about(self) -> String {
        self.to_possible_value()
            .and_then(|value| value.get_help().map(ToString::to_string))
            .unwrap_or_default()
    }

    /// The commands of a step that only runs commands.
    pub(crate) fn calls(self) -> Vec<Call> {
        match self {
            Self::Install | Self::Tests | Self::OldestRust | Self::Deny => Vec::new(),
            Self::Fmt => vec![Call::new("cargo fmt --all -- --check")],
            Self::Clippy => {
                let clippy = "cargo clippy --locked --workspace --all-targets \
                              --features delayq-server/fuzz,delayq-remote/fuzz -- -D warnings";
                vec![Call::new(clippy)]
            }
            Self::Docs => {
                let doc = Call::new("cargo doc --locked --workspace --no-deps");
                vec![doc.variable("RUSTDOCFLAGS", "-D warnings")]
            }
            // The page of the macro is tested in tests/documents; `--doc` passes over
            // `doctest = false`.
            Self::DocTests => vec![Call::new(
                "cargo test --locked --workspace --exclude delayq-macros --doc",
            )],
            Self::Features => features(),
            Self::Summer => vec![
                proof::call_in("tools/delayq-summer", "cargo fmt -- --check"),
                proof::call_in("tools/delayq-summer", "cargo test --locked"),
            ],
        }
    }
}

/// Packages, and the sets of features that an application may choose of each. Clippy lints every
/// package of the workspace that it builds, so those of delayq-plugin are sets of delayq-core,
/// delayq-sqlite, delayq-redis and delayq-postgres, too.
const FEATURES: [(&str, &[&str]); 3] = [
    (
        "delayq-plugin",
        &[
            "", "sqlite", "redis", "cluster", "sentinel", "tls", "postgres", "mysql",
        ],
    ),
    // Its other features, which are clients of PostgreSQL, are built by the soak.
    ("delayq-transaction", &["", "tokio-postgres"]),
    (
        "delayq-server",
        &[
            "",
            "beanstalkd,spring",
            "grape,lmstfy",
            "kafka,task-service",
        ],
    ),
];

/// Clippy instead of check: it shares what the clippy step has built, and can deny warnings without
/// a change of RUSTFLAGS, which would build every dependency again.
fn features() -> Vec<Call> {
    let sets = FEATURES.iter().flat_map(|(package, sets)| {
        let of_package = sets.iter().map(move |set| (package, set));
        of_package.map(|(package, set)| {
            let check = format!("cargo clippy --locked -p {package} --no-default-features");
            let call = Call::new(&check);
            let call = if set.is_empty() {
                call
            } else {
                call.word("--features").word(*set)
            };
            ["--", "-D", "warnings"].into_iter().fold(call, Call::word)
        })
    });
    sets.collect()
}
