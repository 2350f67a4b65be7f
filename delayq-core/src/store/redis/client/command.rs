//! One command as it goes to the server.

use super::super::scripts::Script;

/// A command: a script call, or a plain one.
#[derive(Debug)]
pub(in super::super) struct Command {
    pub(super) cmd: redis::Cmd,
    /// The script that it calls, to load it when the server does not know it (any more).
    pub(super) script: Option<Script>,
    /// Whether it writes nothing, so that a lost answer has lost nothing.
    pub(super) only_reads: bool,
    /// The slot of its keys, which says which node of a cluster takes it.
    pub(super) slot: u16,
}

impl Command {
    /// A call of `script`; `bytes` is about how long its arguments will be.
    pub(in super::super) fn script<'a>(
        script: Script,
        slot: u16,
        keys: impl Iterator<Item = &'a String> + Clone,
        bytes: usize,
    ) -> Self {
        // 1,024 bytes hold the keys and the digest.
        let mut cmd = redis::Cmd::with_capacity(16, 1_024 + bytes);
        cmd.arg("EVALSHA")
            .arg(digest(script))
            .arg(keys.clone().count());
        for key in keys {
            cmd.arg(key);
        }
        Self {
            cmd,
            script: Some(script),
            only_reads: script.only_reads(),
            slot,
        }
    }

    /// A plain command that writes.
    pub(in super::super) fn write(parts: &[&str]) -> Self {
        Self {
            only_reads: false,
            ..Self::read(parts)
        }
    }

    /// A plain command that reads.
    pub(in super::super) fn read(parts: &[&str]) -> Self {
        let mut cmd = redis::Cmd::new();
        for part in parts {
            cmd.arg(*part);
        }
        Self {
            cmd,
            script: None,
            only_reads: true,
            slot: 0,
        }
    }

    /// Says which slot a plain command's key is in.
    pub(in super::super) fn at(mut self, slot: u16) -> Self {
        self.slot = slot;
        self
    }

    /// Adds an argument.
    pub(in super::super) fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.push(arg);
        self
    }

    /// Adds a number.
    pub(in super::super) fn number(mut self, number: impl Into<i64>) -> Self {
        self.cmd.arg(number.into());
        self
    }

    /// Adds an argument to a command that is built in a loop.
    pub(in super::super) fn push(&mut self, arg: impl AsRef<[u8]>) {
        self.cmd.arg(arg.as_ref());
    }
}

/// Loads `script`; answers with its digest.
pub(super) fn load(script: Script) -> redis::Cmd {
    let mut cmd = redis::Cmd::new();
    cmd.arg("SCRIPT").arg("LOAD").arg(script.source());
    cmd
}

/// The digest by which the server knows `script`.
fn digest(script: Script) -> &'static str {
    use std::sync::OnceLock;
    static DIGESTS: [OnceLock<String>; Script::ALL.len()] =
        [const { OnceLock::new() }; Script::ALL.len()];
    let digest = DIGESTS.get(script as usize).map(|digest| {
        digest.get_or_init(|| redis::Script::new(script.source()).get_hash().to_owned())
    });
    digest.map_or("", String::as_str)
}
