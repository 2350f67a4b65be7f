//! Syncing of the file, and the resulting durability of an acknowledgement.

use delayq_core::error::{Error, Result};
use delayq_core::store::Durability;

/// When the file is synced to disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SqliteSync {
    /// Before every answer: an acknowledged task survives a power loss ([`Durability::Disk`]).
    /// Concurrent calls share one sync.
    #[default]
    Full,
    /// Only from time to time: a crash of the process loses nothing, a power loss may lose the last
    /// seconds ([`Durability::Process`]). The file stays intact. For disks that sync slowly.
    Normal,
}

impl SqliteSync {
    /// The class of every acknowledgement.
    #[must_use]
    pub fn durability(self) -> Durability {
        match self {
            Self::Full => Durability::Disk,
            Self::Normal => Durability::Process,
        }
    }

    /// Refuses a class that this kind of syncing cannot provide.
    pub(crate) fn check(self, asked: Durability, store: &str) -> Result<()> {
        let kept = self.durability();
        if asked <= kept {
            return Ok(());
        }
        let fix = if asked == Durability::Disk {
            "sync fully (sync=full), or ask for durability `process`"
        } else {
            "ask for durability `disk`: only Redis has replicas that could confirm a write"
        };
        let (asked, kept) = (asked.as_str(), kept.as_str());
        Err(Error::misconfigured(
            store,
            format!("it keeps durability `{kept}`, and `{asked}` is asked for"),
            fix.to_owned(),
        ))
    }
}
