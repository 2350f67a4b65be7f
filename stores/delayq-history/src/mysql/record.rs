//! A batch of lives on its way into the database.

use std::collections::BTreeMap;
use std::sync::Arc;

use delayq_core::Namespace;
use delayq_core::error::Error;
use delayq_core::history::Life;
use mysql_async::Value;

use super::cell::{int, size, text};
use super::fault::{Fault, Outcome};
use super::row::values;
use super::session::Session;
use super::sql;

/// The numbers of rows of a statement. Few, so that the server keeps each prepared.
const ROWS: [usize; 3] = [100, 10, 1];

/// The largest statement, if the server takes larger ones, and what one has besides its values.
const MAX_STATEMENT: usize = 8 << 20;
const SURPLUS: usize = 16 << 10;

/// Lives of a namespace.
#[derive(Clone)]
pub(super) struct Batch {
    place: Arc<str>,
    namespace: Namespace,
    lives: Arc<[Life]>,
}

impl Batch {
    pub(super) fn new(place: &str, namespace: &Namespace, lives: &[Life]) -> Self {
        Self {
            place: place.into(),
            namespace: namespace.clone(),
            lives: lives.into(),
        }
    }

    /// Stores the lives that are not there, all or none. Returns their number; `None` if some has
    /// no partition.
    pub(super) async fn store(&self, session: &mut Session) -> Outcome<Option<u64>> {
        let types = self.types(session).await?;
        session.run("START TRANSACTION").await?;
        let added = match self.add(session, &types).await {
            Ok(added) => added,
            Err(fault) if fault.lacks_partition() => {
                session.run("ROLLBACK").await?;
                return Ok(None);
            }
            Err(fault) => return Err(fault),
        };
        session.run("COMMIT").await?;
        Ok(Some(added))
    }

    /// The number of each type of the namespace. Those of the lives are made if they are missing.
    async fn types(&self, session: &mut Session) -> Outcome<BTreeMap<String, i64>> {
        let namespace = || Value::Bytes(self.namespace.as_str().into());
        let types = read_types(session, namespace()).await?;
        let names = self.lives.iter().map(|life| life.task_type.as_str());
        let mut new: Vec<_> = names.filter(|name| !types.contains_key(*name)).collect();
        if new.is_empty() {
            return Ok(types);
        }
        new.sort_unstable();
        new.dedup();
        session
            .change(sql::ADD_NAMESPACE, vec![namespace()])
            .await?;
        for name in new {
            let name = Value::Bytes(name.into());
            session
                .change(sql::ADD_TYPE, vec![namespace(), name])
                .await?;
        }
        read_types(session, namespace()).await
    }

    async fn add(&self, session: &mut Session, types: &BTreeMap<String, i64>) -> Outcome<u64> {
        let limit = session
            .max_packet()
            .min(MAX_STATEMENT)
            .saturating_sub(SURPLUS);
        let (mut added, mut rows, mut bytes) = (0, Vec::new(), 0);
        for life in &*self.lives {
            let Some(number) = types.get(life.task_type.as_str()) else {
                let detail = format!("the type {} was removed meanwhile", life.task_type);
                return Err(Error::unavailable(&*self.place, detail).into());
            };
            let row = values(*number, life);
            let row_bytes: usize = row.iter().map(size).sum();
            if row_bytes > limit {
                return Err(self.too_large(life, session.max_packet()));
            }
            if bytes + row_bytes > limit {
                added += insert(session, std::mem::take(&mut rows)).await?;
                bytes = 0;
            }
            bytes += row_bytes;
            rows.push(row);
        }
        Ok(added + insert(session, rows).await?)
    }

    fn too_large(&self, life: &Life, max_packet: usize) -> Fault {
        let reason = format!(
            "max_allowed_packet = {max_packet} of {} is too small for the record of task {} of type \
             {}: set it to 16M, or keep less of the messages",
            self.place, life.id, life.task_type
        );
        Error::invalid("record", reason).into()
    }
}

async fn read_types(session: &mut Session, namespace: Value) -> Outcome<BTreeMap<String, i64>> {
    let rows = session.rows(sql::TYPES, vec![namespace]).await?;
    let types = rows.iter().filter_map(|row| match row.as_slice() {
        [number, name] => Some((text(name)?, int(number)?)),
        _ => None,
    });
    Ok(types.collect())
}

/// Adds rows that fit into a statement together. Returns the number of new ones.
async fn insert(session: &mut Session, rows: Vec<Vec<Value>>) -> Outcome<u64> {
    let (mut added, mut rest) = (0, rows);
    while !rest.is_empty() {
        let fits = ROWS.into_iter().find(|rows| *rows <= rest.len());
        let later = rest.split_off(fits.unwrap_or(1));
        let places = vec![sql::ROW; rest.len()].join(", ");
        let text = [sql::ADD, &places, sql::KEEP_OLD].concat();
        added += session.change(&text, rest.concat()).await?;
        rest = later;
    }
    Ok(added)
}
