//! The two programs, and what they print about themselves: man pages and completions.

use std::path::{Path, PathBuf};

use crate::call::{Call, Failure, root};
use crate::dist::file_tree::FileTree;

/// The programs, the server first.
pub(crate) const PROGRAMS: [&str; 2] = ["delayq-server", "delayq"];
/// Shells, and where their completions are: in an archive, and in a package of Debian.
const SHELLS: [Shell; 3] = [
    Shell {
        name: "bash",
        folder: "bash-completion/completions",
        of_system: "bash-completion/completions",
    },
    Shell {
        name: "zsh",
        folder: "zsh/site-functions",
        of_system: "zsh/vendor-completions",
    },
    Shell {
        name: "fish",
        folder: "fish/vendor_completions.d",
        of_system: "fish/vendor_completions.d",
    },
];

struct Shell {
    name: &'static str,
    folder: &'static str,
    /// Where the packages of a system put them.
    of_system: &'static str,
}

impl Shell {
    fn file(&self, program: &str) -> String {
        match self.name {
            "zsh" => format!("_{program}"),
            "fish" => format!("{program}.fish"),
            _ => program.to_owned(),
        }
    }
}

/// Programs that are built.
#[derive(Debug)]
pub(crate) struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    /// Those in `folder`.
    ///
    /// # Errors
    /// One is missing.
    pub(crate) fn at(folder: &Path) -> Result<Self, Failure> {
        let folder = std::path::absolute(folder)?;
        let mut programs = PROGRAMS.into_iter();
        if let Some(program) = programs.find(|program| !folder.join(program).is_file()) {
            let place = folder.display();
            return Err(Failure(format!("there is no {program} in {place}")));
        }
        Ok(Self { folder })
    }

    /// Builds them, optimised, without symbols and without the names of folders of this machine.
    ///
    /// # Errors
    /// They cannot be built.
    pub(crate) fn build(features: Option<&str>) -> Result<Self, Failure> {
        let build = "cargo build --locked --release --package delayq-server --package delayq-cli";
        let mut build = Call::new(build).variable("RUSTFLAGS", flags());
        if let Some(features) = features {
            build = build.word("--features").word(of_server(features));
        }
        build.run()?;
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root().join("target"), |target| root().join(target));
        Self::at(&target.join("release"))
    }

    /// Where a program is.
    pub(crate) fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }

    /// A program.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn read(&self, program: &str) -> Result<Vec<u8>, Failure> {
        Ok(std::fs::read(self.path(program))?)
    }

    /// Man pages and completions below `share/`, where an archive that is unpacked into
    /// `/usr/local` has them, or with `of_system` where a package of a system does.
    ///
    /// # Errors
    /// A program cannot be run here, or does not know such a command.
    pub(crate) fn pages(&self, of_system: bool) -> Result<FileTree, Failure> {
        let mut pages = FileTree::default();
        for program in PROGRAMS {
            let ask = |words: &[&str]| {
                let call = Call::new("").word(self.path(program).display().to_string());
                let call = words.iter().copied().fold(call, Call::word);
                let failed = || Failure(format!("`{call}` has failed; it has to run here"));
                call.output().ok_or_else(failed)
            };
            pages.file(&format!("share/man/man1/{program}.1"), ask(&["man"])?);
            for shell in &SHELLS {
                let folder = if of_system {
                    shell.of_system
                } else {
                    shell.folder
                };
                let path = format!("share/{folder}/{}", shell.file(program));
                pages.file(&path, ask(&["completions", shell.name])?);
            }
        }
        Ok(pages)
    }
}

/// Features of the server, as a build of several packages takes them.
pub(crate) fn of_server(features: &str) -> String {
    let named = features
        .split(',')
        .map(|one| format!("delayq-server/{one}"));
    named.collect::<Vec<_>>().join(",")
}

/// The flags of the environment, and short names for the folders of cargo and of this tree, so that
/// a build elsewhere gives the same program.
fn flags() -> String {
    let cargo = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| {
            let home = std::env::var_os("HOME")?;
            Some(Path::new(&home).join(".cargo"))
        });
    let renamed = cargo.map(|folder| format!("--remap-path-prefix={}=/cargo", folder.display()));
    let tree = format!("--remap-path-prefix={}=/delayq", root().display());
    let given = std::env::var("RUSTFLAGS").ok();
    let flags = given.into_iter().chain(renamed).chain([tree]);
    flags.collect::<Vec<_>>().join(" ")
}
