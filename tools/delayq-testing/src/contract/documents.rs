//! Documents in folders. Skipped for a store without them.

use delayq_core::Error;
use delayq_core::documents::{Expected, Folder, MAX_DOCUMENT_BYTES, WriteOutcome};

use super::rig::Rig;

const FOLDER: &str = "tokens";

async fn keeps_documents(rig: &Rig) -> bool {
    let found = rig.store().folder_revision(FOLDER).await;
    !matches!(found, Err(Error::Unsupported(_)))
}

async fn folder(rig: &Rig) -> Folder {
    rig.store().folder(FOLDER).await.unwrap()
}

async fn write(rig: &Rig, name: &str, body: &str, expected: Expected) -> WriteOutcome {
    let written = rig.store().write_document(FOLDER, name, body, expected);
    written.await.unwrap()
}

pub async fn documents_are_kept_by_name_and_each_change_counts(rig: &Rig) {
    if !keeps_documents(rig).await {
        return;
    }
    assert_eq!(folder(rig).await, Folder::default());
    let hostile = "{\"a\": 1}\n\u{0} \"é\" 1 2";
    assert_eq!(
        write(rig, "b", "1 2", Expected::Absent).await,
        WriteOutcome::Written(1)
    );
    assert_eq!(
        write(rig, "a", hostile, Expected::Any).await,
        WriteOutcome::Written(2)
    );
    let read = folder(rig).await;
    assert_eq!(read.revision, 2);
    let documents = read.documents.iter();
    let seen: Vec<_> = documents
        .map(|one| (&*one.name, one.revision, &*one.body))
        .collect();
    assert_eq!(seen, [("a", 2, hostile), ("b", 1, "1 2")]);
    // The same body again is not a change, whatever state is required.
    assert_eq!(
        write(rig, "b", "1 2", Expected::Absent).await,
        WriteOutcome::Written(1)
    );
    assert!(rig.store().remove_document(FOLDER, "b").await.unwrap());
    assert!(!rig.store().remove_document(FOLDER, "b").await.unwrap());
    assert_eq!(rig.store().folder_revision(FOLDER).await.unwrap(), 3);
    assert_eq!(folder(rig).await.documents.len(), 1);
    let other = rig.store().folder("other").await.unwrap();
    assert_eq!(other, Folder::default());
}

pub async fn a_document_is_changed_only_where_it_is_as_expected(rig: &Rig) {
    if !keeps_documents(rig).await {
        return;
    }
    let conflict = WriteOutcome::Conflict;
    assert_eq!(
        write(rig, "a", "1", Expected::Revision(1)).await,
        conflict(None)
    );
    assert_eq!(
        write(rig, "a", "1", Expected::Absent).await,
        WriteOutcome::Written(1)
    );
    assert_eq!(
        write(rig, "a", "2", Expected::Absent).await,
        conflict(Some(1))
    );
    assert_eq!(
        write(rig, "a", "2", Expected::Revision(7)).await,
        conflict(Some(1))
    );
    assert_eq!(
        write(rig, "a", "2", Expected::Revision(1)).await,
        WriteOutcome::Written(2)
    );
    assert_eq!(
        write(rig, "a", "3", Expected::Any).await,
        WriteOutcome::Written(3)
    );
    assert_eq!(folder(rig).await.documents[0].body, "3");
}

pub async fn documents_that_cannot_be_are_refused_and_large_ones_are_kept(rig: &Rig) {
    if !keeps_documents(rig).await {
        return;
    }
    let refused = |error: Error| matches!(error, Error::InvalidInput { .. });
    for (folder, name) in [("", "a"), ("t", ""), ("a b", "a"), ("t", "a/b"), ("t", "é")] {
        let written = rig.store().write_document(folder, name, "1", Expected::Any);
        assert!(refused(written.await.unwrap_err()), "{folder:?} {name:?}");
    }
    let most = "x".repeat(MAX_DOCUMENT_BYTES);
    for nth in 0..5 {
        let name = format!("large-{nth}");
        assert!(matches!(
            write(rig, &name, &most, Expected::Any).await,
            WriteOutcome::Written(_)
        ));
    }
    let larger = format!("{most}x");
    let written = rig
        .store()
        .write_document(FOLDER, "a", &larger, Expected::Any);
    assert!(refused(written.await.unwrap_err()));
    let read = folder(rig).await;
    assert!(read.documents.len() == 5 && read.documents.iter().all(|one| one.body == most));
}

pub async fn many_documents_are_all_read(rig: &Rig) {
    if !keeps_documents(rig).await {
        return;
    }
    for nth in 0..450 {
        let name = format!("token-{nth:03}");
        assert_eq!(
            write(rig, &name, "1", Expected::Absent).await,
            WriteOutcome::Written(nth + 1)
        );
    }
    let read = folder(rig).await;
    assert_eq!((read.revision, read.documents.len()), (450, 450));
    assert!(
        read.documents
            .is_sorted_by(|one, other| one.name < other.name)
    );
}
