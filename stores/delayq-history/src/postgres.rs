//! A history in a PostgreSQL database: a partition for each month.

mod row;
mod sql;

use std::collections::{BTreeSet, HashSet};
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::error::{Error, Result};
use delayq_core::history::Life;
use delayq_core::time::{days, duration_ms, hours};
use delayq_core::{Clock, Namespace, SystemClock, TaskType, Timestamp};
use delayq_postgres::{Database, DbCell, DbValue};

use self::row::{columns, int, read, text};
use crate::backend::{Backend, FORGETS_FOR};
use crate::filter::{Bound, Dialect, Filter, with_bytes_bound};
use crate::forget::Forget;
use crate::month::Month;
use crate::page::{FoundLife, HistoryPage};
use crate::query::HistoryQuery;
use crate::retention::{Expired, HistoryRetention};
use crate::status::HistoryStatus;

const DIALECT: Dialect = Dialect {
    mark: '$',
    is_numbered: true,
    has_error: "strpos(l.error, {}) > 0",
};

/// The schema if the URL names none.
const SCHEMA: &str = "delayq_history";

/// The version of the tables.
const VERSION: i64 = 2;

/// Lives that one step removes.
const STEP: i64 = 5_000;

/// The first span that a search looks at; each further one is longer.
const FIRST_WINDOW: Duration = hours(1);
const NEXT_WINDOW: u32 = 4;

/// How long the removal of a month waits for who reads it, in ms. The next one goes on with it.
const MOST_FOR_MONTH: u32 = 600_000;

/// Months that are made ahead.
const AHEAD: usize = 2;

/// Refuses a URL of another form.
pub(crate) fn check(url: &str) -> Result<()> {
    Database::place_of(url, SCHEMA).map(drop)
}

/// The server of a URL, without secrets.
pub(crate) fn place(url: &str) -> String {
    Database::place_of(url, SCHEMA).unwrap_or_default()
}

/// A history in a database.
#[derive(Debug)]
pub(crate) struct PostgresHistory {
    database: Database,
    known: Mutex<Known>,
}

/// What this process has seen in the database.
#[derive(Debug, Default)]
struct Known {
    months: HashSet<Month>,
    /// Months ahead that could not be made. The first life that ends in one makes it.
    left_out: HashSet<Month>,
    types: HashSet<(Namespace, TaskType)>,
}

impl PostgresHistory {
    pub(crate) async fn open(url: &str, timeout: Duration) -> Result<Self> {
        let database = Database::at(url, SCHEMA, timeout)?;
        let history = Self {
            database,
            known: Mutex::default(),
        };
        history.database.check().await?;
        let has_tables = history.number(sql::HAS_TABLES, Vec::new()).await? != 0;
        let version = if has_tables {
            history.number(sql::VERSION, Vec::new()).await?
        } else {
            0
        };
        if version < VERSION {
            history.database.run(&history.sql(sql::TABLES)).await?;
        }
        if version > VERSION {
            return Err(Error::Incompatible {
                what: format!("the history in {}", history.database.place()),
                found: u32::try_from(version).unwrap_or(u32::MAX),
                supported: u32::try_from(VERSION).unwrap_or(u32::MAX),
            });
        }
        Ok(history)
    }

    fn sql(&self, text: &str) -> String {
        text.replace("{s}", self.database.schema())
    }

    async fn rows(&self, text: &str, values: Vec<DbValue>) -> Result<Vec<Vec<DbCell>>> {
        self.database.read(&self.sql(text), values).await
    }

    /// The one number that a statement answers.
    async fn number(&self, text: &str, values: Vec<DbValue>) -> Result<i64> {
        Ok(first_number(&self.rows(text, values).await?))
    }

    /// A retention, in milliseconds.
    async fn retention(&self, text: &str, values: Vec<DbValue>) -> Result<i64> {
        let rows = self.rows(text, values).await?;
        Ok(rows
            .first()
            .and_then(|row| int(row.first()))
            .unwrap_or(i64::MAX))
    }

    /// Runs a statement that writes. Returns the one number that it answers, if it does.
    async fn write(&self, text: &str, values: Vec<DbValue>) -> Result<i64> {
        let rows = self.database.rows(&self.sql(text), values).await?;
        Ok(first_number(&rows))
    }

    /// Runs a statement that removes at most [`STEP`] rows until it finds none. What another
    /// process removes meanwhile is found and not counted.
    async fn remove(&self, text: &str, values: Vec<DbValue>) -> Result<u64> {
        let (text, mut removed) = (self.sql(text), 0);
        loop {
            let rows = self.database.rows(&text, values.clone()).await?;
            let [gone, found] = [0, 1].map(|column| {
                let cell = rows.first().and_then(|row| int(row.get(column)));
                cell.unwrap_or(0).unsigned_abs()
            });
            removed += gone;
            if found == 0 {
                return Ok(removed);
            }
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the months that are missing for these lives, and, where that is possible now, those
    /// that come next.
    async fn make_months(&self, lives: &[Life]) -> Result<()> {
        let wanted: BTreeSet<Month> = lives.iter().map(|life| Month::of(life.ended_at)).collect();
        for month in &wanted {
            self.make_month(*month).await?;
        }
        let mut last = wanted.last().copied();
        for _ in 0..AHEAD {
            last = last.map(Month::next);
            let Some(month) = last.filter(|month| !self.known().left_out.contains(month)) else {
                continue;
            };
            if let Err(error) = self.make_month(month).await {
                let month_name = month.name();
                tracing::warn!(month = month_name, %error, "a month of the history is made later");
                self.known().left_out.insert(month);
            }
        }
        Ok(())
    }

    async fn make_month(&self, month: Month) -> Result<()> {
        if self.known().months.contains(&month) {
            return Ok(());
        }
        let bounds = [("{p}", month.name()), ("{a}", month.start().to_string())];
        let text = bounds
            .iter()
            .fold(self.sql(sql::MONTH), |text, (mark, value)| {
                text.replace(mark, value)
            });
        let end = month.next().start().to_string();
        self.database.run(&text.replace("{z}", &end)).await?;
        self.known().months.insert(month);
        Ok(())
    }

    async fn make_types(&self, namespace: &Namespace, lives: &[Life]) -> Result<()> {
        let keys = lives
            .iter()
            .map(|life| (namespace.clone(), life.task_type.clone()));
        let new: HashSet<_> = {
            let known = self.known();
            keys.filter(|key| !known.types.contains(key)).collect()
        };
        if new.is_empty() {
            return Ok(());
        }
        let of = DbValue::Text(namespace.to_string());
        self.write(sql::ADD_NAMESPACE, vec![of.clone()]).await?;
        let names = new.iter().map(|(_, name)| Some(name.to_string()));
        let names = DbValue::Texts(names.collect());
        self.write(sql::ADD_TYPES, vec![of, names]).await?;
        self.known().types.extend(new);
        Ok(())
    }

    /// The months that there are, each with whether its removal was begun.
    async fn months(&self) -> Result<Vec<(Month, bool)>> {
        let rows = self.rows(sql::MONTHS, Vec::new()).await?;
        let months = rows.iter().filter_map(|row| match row.as_slice() {
            [DbCell::Text(name), pending] => {
                Some((Month::named(name)?, int(Some(pending)) == Some(1)))
            }
            _ => None,
        });
        Ok(months.collect())
    }

    /// The lives of a search that ended in a span, one more than `limit`.
    async fn window(
        &self,
        namespace: &Namespace,
        query: &HistoryQuery,
        span: Option<(i64, i64)>,
        limit: usize,
    ) -> Result<Vec<FoundLife>> {
        let mut filter = Filter::new(DIALECT);
        filter.with("t.namespace = {}", Bound::Text(namespace.to_string()));
        filter.search(query);
        if let Some((from, to)) = span {
            filter.with("l.ended_at >= {}", Bound::Int(from));
            filter.with("l.ended_at < {}", Bound::Int(to));
        }
        let limit = i64::try_from(limit + 1).unwrap_or(i64::MAX);
        let place = filter.value(Bound::Int(limit));
        let text = [sql::SEARCH, &filter.sql(), sql::LATEST_FIRST, &place].concat();
        let text = with_bytes_bound(&text, "name");
        let rows = self.rows(&text, values(filter.values)).await?;
        Ok(rows.iter().filter_map(|row| read(row)).collect())
    }

    /// Notes how long types are kept.
    async fn keep_types(
        &self,
        namespace: DbValue,
        keep: &HistoryRetention,
        now: Timestamp,
    ) -> Result<()> {
        for row in self.rows(sql::TYPES, vec![namespace]).await? {
            let [DbCell::Int(number), DbCell::Text(name), _] = row.as_slice() else {
                continue;
            };
            if let Some(own) = keep.of_type(name) {
                let change = [*number, own, now.as_millis(), Expired::held_since(now)];
                let change = change.map(DbValue::Int).to_vec();
                self.write(sql::KEEP_TYPE, change).await?;
            }
        }
        Ok(())
    }

    /// Removes whole months whose lives all ended before a time. Each waits for who reads it.
    async fn drop_months(&self, before: i64) -> Result<()> {
        self.drop_left_months(before).await?;
        for (month, is_begun) in self.months().await? {
            if month.next().start() > before {
                continue;
            }
            let name = month.name();
            let how = if is_begun { "FINALIZE" } else { "CONCURRENTLY" };
            let detach = format!("ALTER TABLE {{s}}.lives DETACH PARTITION {{s}}.{name} {how}");
            let drop = format!("DROP TABLE IF EXISTS {{s}}.{name}");
            let limit = format!("SET statement_timeout = {MOST_FOR_MONTH}");
            let statements = [limit, detach, drop].map(|text| self.sql(&text));
            self.database.run_alone(statements.to_vec()).await?;
            self.known().months.remove(&month);
            tracing::info!(month = name, "a month of the history was dropped");
        }
        Ok(())
    }

    /// Drops months that are no part of the table any more: their removal was interrupted.
    async fn drop_left_months(&self, before: i64) -> Result<()> {
        for row in self.rows(sql::LEFT_MONTHS, Vec::new()).await? {
            let [DbCell::Text(name)] = row.as_slice() else {
                continue;
            };
            if Month::named(name).is_some_and(|month| month.next().start() <= before) {
                let drop = self.sql(&format!("DROP TABLE IF EXISTS {{s}}.{name}"));
                self.database.run(&drop).await?;
            }
        }
        Ok(())
    }
}

fn first_number(rows: &[Vec<DbCell>]) -> i64 {
    rows.first().and_then(|row| int(row.first())).unwrap_or(0)
}

fn values(bounds: Vec<Bound>) -> Vec<DbValue> {
    let values = bounds.into_iter().map(|bound| match bound {
        Bound::Int(number) => DbValue::Int(number),
        Bound::Text(text) => DbValue::Text(text),
    });
    values.collect()
}

#[async_trait]
impl Backend for PostgresHistory {
    async fn record(&self, namespace: &Namespace, lives: &[Life]) -> Result<u64> {
        self.make_months(lives).await?;
        self.make_types(namespace, lives).await?;
        let added = self.write(sql::ADD, columns(namespace, lives)).await;
        if added.is_err() {
            // Somebody may have removed a month or a type.
            *self.known() = Known::default();
        }
        Ok(added?.unsigned_abs())
    }

    /// Looks at spans of time, latest first, until the page is full: no index orders all lives.
    async fn search(&self, namespace: &Namespace, query: &HistoryQuery) -> Result<HistoryPage> {
        if query.is_narrow() {
            let found = self.window(namespace, query, None, query.limit).await?;
            return Ok(HistoryPage::of(found, query.limit));
        }
        let months = self.months().await?;
        let Some((first, _)) = months.first() else {
            return Ok(HistoryPage::default());
        };
        let ms = |time: Timestamp| time.as_millis();
        let floor = query
            .since
            .map_or(first.start(), |since| ms(since).max(first.start()));
        let end = SystemClock.now().plus(days(1));
        let end = query.until.map_or(ms(end), |until| ms(until).min(ms(end)));
        let mut to = query
            .after
            .map_or(end, |after| (ms(after.ended_at) + 1).min(end));
        let (mut found, mut span) = (Vec::new(), FIRST_WINDOW + days(1));
        let is_cut = |found: &[FoundLife]| found.last().is_some_and(|row| row.is_cut);
        while to > floor && found.len() <= query.limit && !is_cut(&found) {
            let from = to.saturating_sub(duration_ms(span)).max(floor);
            let rest = query.limit - found.len();
            let span_found = self.window(namespace, query, Some((from, to)), rest);
            found.extend(span_found.await?);
            (to, span) = (from, span.saturating_mul(NEXT_WINDOW));
        }
        Ok(HistoryPage::of(found, query.limit))
    }

    async fn forget(
        &self,
        namespace: &Namespace,
        whom: &Forget,
        ended: RangeInclusive<Timestamp>,
    ) -> Result<u64> {
        let mut filter = Filter::new(DIALECT);
        filter.ended_within(&ended);
        filter.with("t.namespace = {}", Bound::Text(namespace.to_string()));
        let (column, value) = match whom {
            Forget::Id { id, .. } => ("l.id = {}", id.to_string()),
            Forget::Group { group, .. } => ("l.grp = {}", group.clone()),
        };
        filter.with(column, Bound::Text(value));
        if let Some(task_type) = whom.task_type() {
            filter.with("t.name = {}", Bound::Text(task_type.to_string()));
        }
        let place = filter.value(Bound::Int(STEP));
        let text = [
            sql::FORGET,
            &filter.sql(),
            " LIMIT ",
            &place,
            sql::REMOVE_WITHIN,
        ]
        .concat();
        self.remove(&text, values(filter.values)).await
    }

    async fn note_forget(&self, namespace: &Namespace, whom: &Forget, at: Timestamp) -> Result<()> {
        let columns = whom.columns().map(|text| text.map(str::to_owned));
        let mut row = vec![
            DbValue::Text(namespace.to_string()),
            DbValue::Int(at.as_millis()),
        ];
        row.extend(columns.map(DbValue::MaybeText));
        self.write(sql::NOTE_FORGET, row).await.map(drop)
    }

    async fn forgets(
        &self,
        namespace: &Namespace,
        since: Timestamp,
    ) -> Result<Vec<(Forget, Timestamp)>> {
        let key = [
            DbValue::Text(namespace.to_string()),
            DbValue::Int(since.as_millis()),
        ];
        let rows = self.rows(sql::FORGETS, key.to_vec()).await?;
        let forgets = rows.iter().filter_map(|row| match row.as_slice() {
            [DbCell::Int(at), columns @ ..] => {
                let columns: [Option<String>; 3] = columns
                    .iter()
                    .map(text)
                    .collect::<Vec<_>>()
                    .try_into()
                    .ok()?;
                Some((Forget::of_columns(columns)?, Timestamp::from_millis(*at)))
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
        let of = DbValue::Text(namespace.to_string());
        let times = [keep.all_ms(), now.as_millis(), Expired::held_since(now)].map(DbValue::Int);
        self.write(sql::KEEP, [vec![of.clone()], times.to_vec()].concat())
            .await?;
        let all = self.retention(sql::KEPT, vec![of.clone()]).await?;
        self.keep_types(of.clone(), keep, now).await?;
        let before = DbValue::Int(now.minus(FORGETS_FOR).as_millis());
        self.write(sql::OLD_FORGETS, vec![of.clone(), before])
            .await?;
        let longest = self.retention(sql::LONGEST, Vec::new()).await?;
        let mut lives = 0;
        let key = vec![of, DbValue::Int(Expired::held_since(now))];
        for row in self.rows(sql::SPANS, key).await? {
            // What nobody keeps longer goes by the month.
            if let [DbCell::Int(number), DbCell::Int(span)] = row.as_slice()
                && *span < longest
            {
                let before = now.as_millis().saturating_sub(*span);
                let key = [*number, before, STEP].map(DbValue::Int);
                lives += self.remove(sql::EXPIRE, key.to_vec()).await?;
            }
        }
        // Last: it may wait long.
        self.drop_months(now.as_millis().saturating_sub(longest))
            .await?;
        Ok(Expired::of(lives, all))
    }

    async fn status(&self, namespace: &Namespace) -> Result<HistoryStatus> {
        let mut status = HistoryStatus::default();
        let of = vec![DbValue::Text(namespace.to_string())];
        let ends = self.rows(sql::ENDS, of.clone()).await?;
        let end = |column: usize| ends.first().and_then(|row| int(row.get(column)));
        status.oldest = end(0).map(Timestamp::from_millis);
        status.newest = end(1).map(Timestamp::from_millis);
        status.bytes = self.number(sql::BYTES, Vec::new()).await?.unsigned_abs();
        let all = self.retention(sql::KEPT, of.clone()).await?;
        let rows = self.rows(sql::TYPES, of).await?;
        let types = rows.into_iter().filter_map(|row| match row.as_slice() {
            [_, DbCell::Text(name), DbCell::Int(kept)] => Some((name.clone(), *kept)),
            _ => None,
        });
        status.kept(Some(all), types);
        Ok(status)
    }

    async fn close(&self) {
        self.database.close().await;
    }
}
