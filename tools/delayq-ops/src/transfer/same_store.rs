//! Whether two services have the same store, whatever its names.

use delayq_plugin::store::Expected;
use delayq_plugin::{Result, Store, TaskId, TaskSubmitService};

/// The folder of the documents that tell.
const FOLDER: &str = "delayq-copies";

/// True if a document that is written to the one store can be read in the other. False also for a
/// store that keeps no documents or may not be written: the copy then finds that out itself.
pub(super) async fn is_same_store(from: &TaskSubmitService, to: &TaskSubmitService) -> bool {
    let (from, to) = (from.store(), to.store());
    let name = TaskId::generate();
    let found = is_found(&**from, &**to, name.as_str()).await;
    if found.is_ok() {
        // A document that stays there is harmless.
        let _ = to.remove_document(FOLDER, name.as_str()).await;
    }
    found.unwrap_or(false)
}

async fn is_found(from: &dyn Store, to: &dyn Store, name: &str) -> Result<bool> {
    // The name is new: the document is written.
    let _ = to
        .write_document(FOLDER, name, "", Expected::Absent)
        .await?;
    let folder = from.folder(FOLDER).await?;
    Ok(folder.documents.iter().any(|one| one.name == name))
}
