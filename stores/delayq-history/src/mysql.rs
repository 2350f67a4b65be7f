//! A history in a database of MySQL or MariaDB: a partition for each month.

mod cell;
mod config;
mod connection;
mod fault;
mod partitions;
mod record;
mod row;
mod session;
mod sql;
mod tables;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::error::{Error, Result};
use delayq_core::history::Life;
use delayq_core::{Clock, Namespace, SystemClock, TaskType, Timestamp};
use mysql_async::Value;

pub(crate) use self::config::MysqlConfig;
use self::connection::{Connections, work};
use crate::backend::{Backend, FORGETS_FOR};
use crate::filter::{Bound, Dialect, Filter, with_bytes_bound};
use crate::forget::Forget;
use crate::month::Month;
use crate::page::HistoryPage;
use crate::query::HistoryQuery;
use crate::retention::{Expired, HistoryRetention};
use crate::status::HistoryStatus;

const DIALECT: Dialect = Dialect {
    mark: '?',
    is_numbered: false,
    has_error: "INSTR(l.error, {}) > 0",
};

/// Lives that one step removes.
const STEP: i64 = 1_000;

/// A history in a database.
#[derive(Debug)]
pub(crate) struct MysqlHistory {
    connections: Connections,
    /// The months that this process knows to be there.
    months: Mutex<Option<RangeInclusive<Month>>>,
}

impl MysqlHistory {
    pub(crate) async fn open(config: &MysqlConfig, timeout: Duration) -> Result<Self> {
        let connections = Connections::start(config, timeout)?;
        let place = connections.place().to_owned();
        let version = connections
            .call(work(|session| Box::pin(tables::version(session))))
            .await?;
        if !tables::is_current(version, &place)? {
            let making = connections
                .alone(move |session| Box::pin(async move { tables::make(session, &place).await }));
            making.await?;
        }
        Ok(Self {
            connections,
            months: Mutex::default(),
        })
    }

    async fn rows(&self, text: &str, values: Vec<Value>) -> Result<Vec<Vec<Value>>> {
        let (text, values): (Arc<str>, Arc<[Value]>) = (text.into(), values.into());
        let call = self.connections.call(work(move |session| {
            let (text, values) = (Arc::clone(&text), values.to_vec());
            Box::pin(async move { session.rows(&text, values).await })
        }));
        call.await
    }

    /// The one number that a statement answers, if there is one.
    async fn number(&self, text: &str, values: Vec<Value>) -> Result<Option<i64>> {
        let rows = self.rows(text, values).await?;
        Ok(rows.first().and_then(|row| row.first()).and_then(cell::int))
    }

    /// Runs a statement. Returns the number of rows that it changed.
    async fn change(&self, text: &str, values: Vec<Value>) -> Result<u64> {
        let (text, values): (Arc<str>, Arc<[Value]>) = (text.into(), values.into());
        let call = self.connections.call(work(move |session| {
            let (text, values) = (Arc::clone(&text), values.to_vec());
            Box::pin(async move { session.change(&text, values).await })
        }));
        call.await
    }

    /// Runs a statement that removes at most [`STEP`] rows, its last value, until none is left.
    async fn remove(&self, text: &str, mut values: Vec<Value>) -> Result<u64> {
        values.push(Value::Int(STEP));
        let mut removed = 0;
        loop {
            let step = self.change(text, values.clone()).await?;
            removed += step;
            if step < STEP.unsigned_abs() {
                return Ok(removed);
            }
        }
    }

    fn months(&self) -> std::sync::MutexGuard<'_, Option<RangeInclusive<Month>>> {
        self.months.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the months that are missing for these lives, and those that come next.
    async fn make_months(&self, lives: &[Life]) -> Result<()> {
        let range = partitions::needed(lives, SystemClock.now());
        let has_all = |known: &RangeInclusive<Month>| {
            known.contains(range.start()) && known.contains(range.end())
        };
        if self.months().as_ref().is_some_and(has_all) {
            return Ok(());
        }
        let (place, wanted) = (self.connections.place().to_owned(), range.clone());
        let making = self.connections.alone(move |session| {
            Box::pin(async move { tables::make_months(session, &place, &wanted).await })
        });
        making.await?;
        *self.months() = Some(range);
        Ok(())
    }

    /// The numbers of the types of a namespace, or of the one that is named, with their names.
    async fn types(
        &self,
        namespace: &Namespace,
        only: Option<&TaskType>,
    ) -> Result<BTreeMap<i64, String>> {
        let of = vec![bytes(namespace.as_str())];
        let rows = self.rows(sql::TYPES, of).await?;
        let types = rows.iter().filter_map(|row| match row.as_slice() {
            [number, name, _] => Some((cell::int(number)?, cell::text(name)?)),
            _ => None,
        });
        let is_meant = |name: &str| only.is_none_or(|only| only.as_str() == name);
        Ok(types.filter(|(_, name)| is_meant(name)).collect())
    }

    /// Notes how long types are kept.
    async fn keep_types(
        &self,
        namespace: &Namespace,
        keep: &HistoryRetention,
        now: Timestamp,
    ) -> Result<()> {
        let of = vec![bytes(namespace.as_str())];
        for row in self.rows(sql::TYPES, of).await? {
            let [number, name, _] = row.as_slice() else {
                continue;
            };
            let (Some(number), Some(name)) = (cell::int(number), cell::text(name)) else {
                continue;
            };
            if let Some(own) = keep.of_type(&name) {
                let (at, held) = (now.as_millis(), Expired::held_since(now));
                let change = [own, held, own, own, at, number].map(Value::Int).to_vec();
                self.change(sql::KEEP_TYPE, change).await?;
            }
        }
        Ok(())
    }

    /// Removes whole months whose lives all ended before a time.
    async fn drop_months(&self, before: i64) -> Result<()> {
        let dropping = self
            .connections
            .alone(move |session| Box::pin(tables::drop_months(session, before)));
        let partitions = dropping.await?;
        if let Some(expire) = partitions::expire_outside(&partitions) {
            self.remove(&expire, vec![Value::Int(before)]).await?;
        }
        Ok(())
    }
}

/// The index that leads to what a search finds, in its order where possible.
fn index(query: &HistoryQuery) -> &'static str {
    if query.id.is_some() {
        "lives_key"
    } else if query.group.is_some() {
        "lives_group"
    } else if query.task_type.is_some() {
        "lives_type"
    } else {
        "PRIMARY"
    }
}

/// Numbers of types in a statement: no value can come from outside.
fn numbers(types: &BTreeMap<i64, String>) -> String {
    let numbers: Vec<_> = types.keys().map(i64::to_string).collect();
    numbers.join(", ")
}

fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}

fn values(bounds: Vec<Bound>) -> Vec<Value> {
    let values = bounds.into_iter().map(|bound| match bound {
        Bound::Int(number) => Value::Int(number),
        Bound::Text(text) => Value::Bytes(text.into_bytes()),
    });
    values.collect()
}

#[async_trait]
impl Backend for MysqlHistory {
    async fn record(&self, namespace: &Namespace, lives: &[Life]) -> Result<u64> {
        // A month that is missing is in the way of nothing: the last partition takes its lives.
        if let Err(error) = self.make_months(lives).await {
            tracing::debug!(%error, "months of the history are not made now");
        }
        let batch = record::Batch::new(self.connections.place(), namespace, lives);
        let store = || {
            let batch = batch.clone();
            self.connections.call(work(move |session| {
                let batch = batch.clone();
                Box::pin(async move { batch.store(session).await })
            }))
        };
        if let Some(added) = store().await? {
            return Ok(added);
        }
        // Somebody has dropped the last partition.
        *self.months() = None;
        self.make_months(lives).await?;
        let added = store().await?;
        added.ok_or_else(|| {
            let place = self.connections.place();
            Error::unavailable(place, "its table of lives has no partition for these lives")
        })
    }

    async fn search(&self, namespace: &Namespace, query: &HistoryQuery) -> Result<HistoryPage> {
        let types = self.types(namespace, query.task_type.as_ref()).await?;
        if types.is_empty() {
            return Ok(HistoryPage::default());
        }
        let mut filter = Filter::new(DIALECT);
        if let Some(after) = query.after {
            // The comparison of two columns leads to no index.
            let at = Bound::Int(after.ended_at.as_millis());
            filter.with("l.ended_at <= {}", at);
        }
        let index = index(query);
        let mut query = query.clone();
        query.task_type = None;
        filter.search(&query);
        let limit = i64::try_from(query.limit + 1).unwrap_or(i64::MAX);
        let place = filter.value(Bound::Int(limit));
        let (numbers, conditions) = (numbers(&types), filter.sql());
        let and = if conditions.is_empty() { ")" } else { ") AND " };
        let text = [
            sql::SEARCH,
            index,
            sql::OF_TYPES,
            &numbers,
            and,
            &conditions,
            sql::LATEST_FIRST,
            &place,
        ]
        .concat();
        let text = with_bytes_bound(&text, "type");
        let rows = self.rows(&text, values(filter.values)).await?;
        let found = rows.iter().filter_map(|row| row::read(row, &types));
        Ok(HistoryPage::of(found.collect(), query.limit))
    }

    async fn forget(
        &self,
        namespace: &Namespace,
        whom: &Forget,
        ended: RangeInclusive<Timestamp>,
    ) -> Result<u64> {
        let (column, value) = match whom {
            Forget::Id { id, .. } => ("id", id.as_str()),
            Forget::Group { group, .. } => ("grp", group.as_str()),
        };
        let types = self.types(namespace, whom.task_type()).await?;
        if types.is_empty() {
            return Ok(0);
        }
        let numbers = numbers(&types);
        let text = [sql::FORGET, &numbers, ") AND ", column, sql::UNTIL].concat();
        let [from, until] = [ended.start(), ended.end()].map(|at| Value::Int(at.as_millis()));
        self.remove(&text, vec![bytes(value), from, until]).await
    }

    async fn note_forget(&self, namespace: &Namespace, whom: &Forget, at: Timestamp) -> Result<()> {
        let columns = whom.columns().map(|text| text.map_or(Value::NULL, bytes));
        let mut row = vec![bytes(namespace.as_str()), Value::Int(at.as_millis())];
        row.extend(columns);
        self.change(sql::NOTE_FORGET, row).await.map(drop)
    }

    async fn forgets(
        &self,
        namespace: &Namespace,
        since: Timestamp,
    ) -> Result<Vec<(Forget, Timestamp)>> {
        let key = vec![bytes(namespace.as_str()), Value::Int(since.as_millis())];
        let rows = self.rows(sql::FORGETS, key).await?;
        let forgets = rows.iter().filter_map(|row| match row.as_slice() {
            [at, id, group, task_type] => {
                let forget = Forget::of_columns([id, group, task_type].map(cell::text))?;
                Some((forget, Timestamp::from_millis(cell::int(at)?)))
            }
            _ => None,
        });
        Ok(forgets.collect())
    }

    async fn expire(
        &self,
        namespace: &Namespace,
        keep: &HistoryRetention,
        now: Timestamp,
    ) -> Result<Expired> {
        let name = bytes(namespace.as_str());
        let times = [keep.all_ms(), now.as_millis(), Expired::held_since(now)].map(Value::Int);
        self.change(sql::KEEP, [vec![name.clone()], times.to_vec()].concat())
            .await?;
        let all = self.number(sql::KEPT, vec![name.clone()]).await?;
        let all = all.unwrap_or(i64::MAX);
        self.keep_types(namespace, keep, now).await?;
        let before = now.minus(FORGETS_FOR).as_millis();
        let old = vec![bytes(namespace.as_str()), Value::Int(before)];
        self.change(sql::OLD_FORGETS, old).await?;
        let longest = self.number(sql::LONGEST, Vec::new()).await?;
        let longest = longest.unwrap_or(i64::MAX);
        let mut lives = 0;
        let key = vec![name, Value::Int(Expired::held_since(now))];
        for row in self.rows(sql::SPANS, key).await? {
            let cell = |column: usize| row.get(column).and_then(cell::int);
            // What nobody keeps longer goes by the month.
            if let (Some(number), Some(span)) = (cell(0), cell(1))
                && span < longest
            {
                let before = now.as_millis().saturating_sub(span);
                let values = vec![Value::Int(number), Value::Int(before)];
                lives += self.remove(sql::EXPIRE, values).await?;
            }
        }
        // Last: it may wait long.
        self.drop_months(now.as_millis().saturating_sub(longest))
            .await?;
        Ok(Expired::of(lives, all))
    }

    async fn status(&self, namespace: &Namespace) -> Result<HistoryStatus> {
        let (mut status, time) = (HistoryStatus::default(), Timestamp::from_millis);
        let of = bytes(namespace.as_str());
        let ends = self.rows(sql::ENDS, vec![of.clone()]).await?;
        let end = |column: usize| {
            ends.first()
                .and_then(|row| row.get(column))
                .and_then(cell::int)
        };
        (status.oldest, status.newest) = (end(0).map(time), end(1).map(time));
        let bytes = self.number(sql::BYTES, Vec::new()).await?;
        status.bytes = bytes.unwrap_or(0).unsigned_abs();
        let all = self.number(sql::KEPT, vec![of.clone()]).await?;
        let rows = self.rows(sql::TYPES, vec![of]).await?;
        let types = rows.iter().filter_map(|row| match row.as_slice() {
            [_, name, kept] => Some((cell::text(name)?, cell::int(kept)?)),
            _ => None,
        });
        status.kept(all, types);
        Ok(status)
    }

    async fn close(&self) {
        self.connections.close().await;
    }
}
