//! Documents, and the revisions of their folders: two tables. Whoever changes a folder locks its
//! row first.

use std::sync::Arc;

use async_trait::async_trait;
use delayq_core::documents::{
    Document, Documents, Expected, Folder, MAX_DOCUMENTS, WriteOutcome, check_document,
    check_document_name,
};
use delayq_core::error::{Error, Result};
use delayq_core::name::Namespace;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::Session;
use crate::error::Outcome;
use crate::store::PostgresStore;

const REVISION: &str = "SELECT revision FROM {s}.folders WHERE namespace = $1 AND name = $2";
/// One statement, so that the documents are those of the revision.
const FOLDER: &str = "SELECT f.revision, d.name, d.revision, d.body FROM {s}.folders f \
     LEFT JOIN {s}.documents d ON d.namespace = f.namespace AND d.folder = f.name \
     WHERE f.namespace = $1 AND f.name = $2 ORDER BY d.name";
/// The revisions of the folder and of the document, whether the document has this body, and for a
/// new document how many there are.
const STATE: &str = "SELECT \
     coalesce((SELECT revision FROM {s}.folders WHERE namespace = $1 AND name = $2), 0), \
     d.revision, d.body = $4, CASE WHEN d.name IS NULL THEN \
         (SELECT count(*) FROM {s}.documents WHERE namespace = $1 AND folder = $2) END \
     FROM (SELECT) AS one LEFT JOIN {s}.documents d \
     ON d.namespace = $1 AND d.folder = $2 AND d.name = $3";
/// Writes only while the folder has the revision at which the decision was made.
const WRITE: &str = "WITH changed AS ( \
         INSERT INTO {s}.folders AS f (namespace, name, revision) VALUES ($1, $2, $5 + 1) \
         ON CONFLICT (namespace, name) DO UPDATE SET revision = excluded.revision \
         WHERE f.revision = $5 RETURNING revision \
     ) INSERT INTO {s}.documents (namespace, folder, name, revision, body) \
     SELECT $1, $2, $3, revision, $4 FROM changed \
     ON CONFLICT (namespace, folder, name) DO UPDATE SET \
     revision = excluded.revision, body = excluded.body RETURNING true";
const REMOVE: &str = "WITH locked AS MATERIALIZED ( \
         SELECT name FROM {s}.folders WHERE namespace = $1 AND name = $2 FOR UPDATE \
     ), removed AS ( \
         DELETE FROM {s}.documents d USING locked \
         WHERE d.namespace = $1 AND d.folder = locked.name AND d.name = $3 RETURNING d.folder \
     ) UPDATE {s}.folders f SET revision = f.revision + 1 FROM removed \
     WHERE f.namespace = $1 AND f.name = removed.folder RETURNING true";

/// The place of a document.
struct Place {
    namespace: Namespace,
    folder: String,
    name: String,
}

/// A document to write.
struct Writing {
    state: Arc<str>,
    write: Arc<str>,
    place: Place,
    body: Vec<u8>,
    expected: Expected,
}

/// What a write finds.
struct State {
    folder: i64,
    outcome: Option<WriteOutcome>,
}

impl Writing {
    async fn run(&self, session: &mut Session) -> Outcome<WriteOutcome> {
        // Every turn but the last one is a change of the folder by somebody else.
        loop {
            let State { folder, outcome } = self.find(session).await?;
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
            if self.is_written(session, folder).await? {
                let next = folder.saturating_add(1);
                return Ok(WriteOutcome::Written(next.unsigned_abs()));
            }
        }
    }

    /// The revision of the folder, and the outcome unless the document has to be written.
    async fn find(&self, session: &mut Session) -> Outcome<State> {
        let values = [
            (&self.place.namespace.as_str() as _, Type::TEXT),
            (&self.place.folder as _, Type::TEXT),
            (&self.place.name as _, Type::TEXT),
            (&self.body as _, Type::BYTEA),
        ];
        let rows = session.ask(&self.state, &values).await?;
        let Some(row) = rows.first() else {
            let damage = "its state has no row".to_owned();
            return Err(Error::corrupt(self.place.folder.clone(), damage).into());
        };
        Ok(State {
            folder: row.try_get(0)?,
            outcome: self.outcome(row)?,
        })
    }

    fn outcome(&self, row: &Row) -> Outcome<Option<WriteOutcome>> {
        let revision: Option<i64> = row.try_get(1)?;
        let revision = revision.map(i64::unsigned_abs);
        let is_same: Option<bool> = row.try_get(2)?;
        let count: Option<i64> = row.try_get(3)?;
        let is_full = count.is_some_and(|count| count.unsigned_abs() >= MAX_DOCUMENTS as u64);
        Ok(match revision {
            Some(revision) if is_same == Some(true) => Some(WriteOutcome::Written(revision)),
            _ if !self.expected.is_met_by(revision) => Some(WriteOutcome::Conflict(revision)),
            None if is_full => Some(WriteOutcome::FolderFull),
            _ => None,
        })
    }

    /// False if the folder no longer has this revision.
    async fn is_written(&self, session: &mut Session, folder: i64) -> Outcome<bool> {
        let values = [
            (&self.place.namespace.as_str() as _, Type::TEXT),
            (&self.place.folder as _, Type::TEXT),
            (&self.place.name as _, Type::TEXT),
            (&self.body as _, Type::BYTEA),
            (&folder as _, Type::INT8),
        ];
        let written = session.write(&self.write, &values).await?;
        Ok(!written.is_empty())
    }
}

/// The folder of rows of [`FOLDER`]; a folder without documents has one row without a name.
fn read_folder(name: &str, rows: &[Row]) -> Outcome<Folder> {
    let mut folder = Folder::default();
    for row in rows {
        let revision: i64 = row.try_get(0)?;
        folder.revision = revision.unsigned_abs();
        if let Some(document) = row.try_get(1)? {
            folder.documents.push(read_document(name, document, row)?);
        }
    }
    Ok(folder)
}

fn read_document(folder: &str, name: String, row: &Row) -> Outcome<Document> {
    let revision: i64 = row.try_get(2)?;
    let body = String::from_utf8(row.try_get(3)?).map_err(|error| {
        let advice = format!("{error}: write it again, or remove it");
        Error::corrupt(format!("document {name} in folder {folder}"), advice)
    })?;
    Ok(Document {
        name,
        revision: revision.unsigned_abs(),
        body,
    })
}

#[async_trait]
impl Documents for PostgresStore {
    async fn folder(&self, folder: &str) -> Result<Folder> {
        check_document_name("folder", folder)?;
        let (list, namespace) = (self.sql(FOLDER), self.namespace.clone());
        let name: Arc<str> = folder.into();
        self.connections
            .call(move |session| {
                let (list, namespace) = (Arc::clone(&list), namespace.clone());
                let name = Arc::clone(&name);
                Box::pin(async move {
                    let values = [
                        (&namespace.as_str() as _, Type::TEXT),
                        (&&*name as _, Type::TEXT),
                    ];
                    let rows = session.ask(&list, &values).await?;
                    read_folder(&name, &rows)
                })
            })
            .await
    }

    async fn folder_revision(&self, folder: &str) -> Result<u64> {
        check_document_name("folder", folder)?;
        let (find, namespace) = (self.sql(REVISION), self.namespace.clone());
        let name: Arc<str> = folder.into();
        self.connections
            .call(move |session| {
                let (find, namespace) = (Arc::clone(&find), namespace.clone());
                let name = Arc::clone(&name);
                Box::pin(async move {
                    let values = [
                        (&namespace.as_str() as _, Type::TEXT),
                        (&&*name as _, Type::TEXT),
                    ];
                    let rows = session.ask(&find, &values).await?;
                    let revision: Option<i64> =
                        rows.first().map(|row| row.try_get(0)).transpose()?;
                    Ok(revision.unwrap_or(0).unsigned_abs())
                })
            })
            .await
    }

    async fn write_document(
        &self,
        folder: &str,
        name: &str,
        body: &str,
        expected: Expected,
    ) -> Result<WriteOutcome> {
        check_document(folder, name, body)?;
        let writing = Arc::new(Writing {
            state: self.sql(STATE),
            write: self.sql(WRITE),
            place: place(self, folder, name),
            body: body.as_bytes().to_vec(),
            expected,
        });
        self.connections
            .call(move |session| {
                let writing = Arc::clone(&writing);
                Box::pin(async move { writing.run(session).await })
            })
            .await
    }

    async fn remove_document(&self, folder: &str, name: &str) -> Result<bool> {
        check_document(folder, name, "")?;
        let remove = self.sql(REMOVE);
        let place = Arc::new(place(self, folder, name));
        self.connections
            .call(move |session| {
                let (remove, place) = (Arc::clone(&remove), Arc::clone(&place));
                Box::pin(async move {
                    let values = [
                        (&place.namespace.as_str() as _, Type::TEXT),
                        (&place.folder as _, Type::TEXT),
                        (&place.name as _, Type::TEXT),
                    ];
                    let removed = session.write(&remove, &values).await?;
                    Ok(!removed.is_empty())
                })
            })
            .await
    }
}

fn place(store: &PostgresStore, folder: &str, name: &str) -> Place {
    Place {
        namespace: store.namespace.clone(),
        folder: folder.to_owned(),
        name: name.to_owned(),
    }
}
