//! A fresh store, with the persistence asked for.

use std::path::Path;

use tempfile::TempDir;

use crate::Failure;
use crate::redis_server::{Persistence, RedisServer};
use crate::stage::LARGE_FILE;

/// A store as it is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setup {
    Redis(Persistence),
    /// With `synchronous=NORMAL`, or else `FULL`.
    Sqlite {
        relaxed: bool,
    },
}

/// A store that runs; it is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) url: String,
    _server: Option<RedisServer>,
    _folder: Option<TempDir>,
}

impl Setup {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redis(Persistence::None) => "redis, none",
            Self::Redis(Persistence::EverySecond) => "redis, everysec",
            Self::Redis(Persistence::Always) => "redis, always",
            Self::Sqlite { relaxed: true } => "sqlite, normal",
            Self::Sqlite { relaxed: false } => "sqlite, full",
        }
    }

    pub(crate) fn open(self) -> Result<Ground, Failure> {
        match self {
            Self::Redis(persistence) => {
                let server = RedisServer::start(persistence, &LARGE_FILE);
                let class = match persistence {
                    Persistence::None => "memory",
                    Persistence::EverySecond => "process",
                    Persistence::Always => "disk",
                };
                Ok(Ground {
                    url: format!("{}?durability={class}", server.url()),
                    _server: Some(server),
                    _folder: None,
                })
            }
            Self::Sqlite { relaxed } => {
                let folder = folder()?;
                let (file, sync) = (
                    folder.path().join("a.sqlite"),
                    if relaxed { "normal" } else { "full" },
                );
                Ok(Ground {
                    url: format!("sqlite:{}?sync={sync}", file.display()),
                    _server: None,
                    _folder: Some(folder),
                })
            }
        }
    }
}

/// In the target folder, which is on a real disk where the system's temporary folder may be in
/// memory.
fn folder() -> Result<TempDir, Failure> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    std::fs::create_dir_all(&target)?;
    Ok(tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(target)?)
}

#[cfg(test)]
mod tests {
    use delayq_core::store::StoreOptions;
    use delayq_plugin::{Durability, open_store};

    use super::*;

    #[tokio::test]
    async fn a_store_has_the_durability_of_its_name() {
        for (setup, expected) in [
            (Setup::Redis(Persistence::None), Durability::Memory),
            (Setup::Redis(Persistence::Always), Durability::Disk),
            (Setup::Sqlite { relaxed: true }, Durability::Process),
            (Setup::Sqlite { relaxed: false }, Durability::Disk),
        ] {
            let ground = setup.open().unwrap();
            let store = open_store(&ground.url, StoreOptions::default()).await;
            assert_eq!(store.unwrap().durability(), expected, "{}", setup.name());
        }
    }
}
