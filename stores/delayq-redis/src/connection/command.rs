//! Commands in the form sent to the server.

/// A Lua script: its text, and values derived from it.
#[derive(Debug)]
pub(crate) struct LuaScript {
    source: String,
    digest: String,
    /// Writes nothing, so a lost answer loses nothing.
    only_reads: bool,
}

impl LuaScript {
    /// The script with this text; its first line holds its flags.
    pub(crate) fn new(source: String) -> Self {
        Self {
            digest: redis::Script::new(&source).get_hash().to_owned(),
            only_reads: source.starts_with("#!lua flags=no-writes\n"),
            source,
        }
    }

    /// The command that loads it and returns its digest.
    pub(super) fn load(&self) -> redis::Cmd {
        let mut cmd = redis::Cmd::new();
        cmd.arg("SCRIPT").arg("LOAD").arg(&self.source);
        cmd
    }

    #[cfg(test)]
    pub(crate) fn source(&self) -> &str {
        &self.source
    }
}

/// A command: a script call, or a plain one.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(super) cmd: redis::Cmd,
    /// The script it calls, so that it can be loaded if the server does not know it (any more).
    pub(super) script: Option<&'static LuaScript>,
    /// Writes nothing, so a lost answer loses nothing.
    pub(super) only_reads: bool,
    /// The slot of its keys, which determines the node of a cluster that runs it.
    pub(super) slot: u16,
}

impl Command {
    /// A call of `script`; `bytes` is the approximate length of its arguments.
    pub(crate) fn script(
        script: &'static LuaScript,
        slot: u16,
        keys: &[String],
        bytes: usize,
    ) -> Self {
        // 1,024 bytes hold the keys and the digest.
        let mut cmd = redis::Cmd::with_capacity(16, 1_024 + bytes);
        cmd.arg("EVALSHA").arg(&script.digest).arg(keys.len());
        for key in keys {
            cmd.arg(key);
        }
        Self {
            cmd,
            script: Some(script),
            only_reads: script.only_reads,
            slot,
        }
    }

    /// A plain command that writes.
    pub(crate) fn write(parts: &[&str]) -> Self {
        Self {
            only_reads: false,
            ..Self::read(parts)
        }
    }

    /// A plain command that reads.
    pub(crate) fn read(parts: &[&str]) -> Self {
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

    /// Sets the slot of a plain command's key.
    pub(crate) fn at(mut self, slot: u16) -> Self {
        self.slot = slot;
        self
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.push(arg);
        self
    }

    /// Adds a number.
    pub(crate) fn number(mut self, number: impl Into<i64>) -> Self {
        self.cmd.arg(number.into());
        self
    }

    /// Adds an argument to a command that is built in a loop.
    pub(crate) fn push(&mut self, arg: impl AsRef<[u8]>) {
        self.cmd.arg(arg.as_ref());
    }
}
