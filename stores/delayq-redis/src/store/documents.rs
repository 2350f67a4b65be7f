//! Documents of the namespace, in folders.

use async_trait::async_trait;
use delayq_core::documents::{
    Documents, Expected, Folder, WriteOutcome, check_document, check_document_name,
};
use delayq_core::{Error, Result};

use super::RedisStore;
use crate::connection::{Class, Command, Fields, RespValue};
use crate::scripts::documents;
use crate::shard::context::Context;

/// How often a folder is read again because it was changed meanwhile.
const MAX_TRIES: usize = 16;

async fn call(cx: &Context, folder: &str, command: Command) -> Result<Fields> {
    let answer = cx.connections.call(Class::Main, command).await;
    let of_folder = |error| match error {
        Error::Corrupt { .. } => Error::corrupt(
            cx.keys.folder(folder),
            "it is not what delayq keeps there: who else writes to `delayq:*`?",
        ),
        error => error,
    };
    answer.map(RespValue::fields).map_err(of_folder)
}

async fn scan_folder(cx: &Context, folder: &str, revision: u64) -> Result<Folder> {
    let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let scan = documents::scan(&cx.keys, folder, &cursor);
        let (next, documents) = documents::scanned(call(cx, folder, scan).await?)?;
        found.extend(documents);
        cursor = next;
        if cursor == "0" {
            break;
        }
    }
    // A scan may return a document twice.
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found.dedup_by(|one, other| one.name == other.name);
    Ok(Folder {
        revision,
        documents: found,
    })
}

#[async_trait]
impl Documents for RedisStore {
    async fn folder(&self, folder: &str) -> Result<Folder> {
        for _ in 0..MAX_TRIES {
            let revision = self.folder_revision(folder).await?;
            let read = scan_folder(&self.cx, folder, revision).await?;
            if self.folder_revision(folder).await? == revision {
                return Ok(read);
            }
        }
        let reason = format!("the folder {folder} changes all the time: read it again");
        Err(Error::unavailable(self.cx.keys.folder(folder), reason))
    }

    async fn folder_revision(&self, folder: &str) -> Result<u64> {
        check_document_name("folder", folder)?;
        let read = documents::read_revision(&self.cx.keys, folder);
        documents::revision(call(&self.cx, folder, read).await?)
    }

    async fn write_document(
        &self,
        folder: &str,
        name: &str,
        body: &str,
        expected: Expected,
    ) -> Result<WriteOutcome> {
        check_document(folder, name, body)?;
        let write = documents::write(&self.cx.keys, [folder, name], body, expected);
        documents::written(call(&self.cx, folder, write).await?)
    }

    async fn remove_document(&self, folder: &str, name: &str) -> Result<bool> {
        check_document(folder, name, "")?;
        let remove = documents::remove(&self.cx.keys, folder, name);
        documents::removed(call(&self.cx, folder, remove).await?)
    }
}
