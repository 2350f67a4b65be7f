//! Audit: every row is compared with its checksum and its state, the requests that wait with the
//! tasks that they wait for, and the counts with the rows.

use std::time::Duration;

use delayq_core::name::{TaskId, TaskType};
use delayq_core::operate::{AuditReport, Problem};
use delayq_core::{Result, TaskState};
use tokio_postgres::types::Type;

use crate::connection::{Session, Values};
use crate::error::Outcome;
use crate::row::{Status, TaskRow, signed};
use crate::statements::Statements;
use crate::store::PostgresStore;
use crate::type_row::{TypeKey, TypeRow};
use crate::type_tx::{Opening, TypeTx, on_type, tx_work};

/// Rows of one step, and about how many bytes.
const STEP: i32 = 256;
const STEP_BYTES: i64 = 8 << 20;

/// Rows that one statement counts.
const COUNT_STEP: i32 = 20_000;

/// Maximum number of problems in a report; further ones are mended without being listed.
const MAX_PROBLEMS: usize = 1_000;

/// The sizes come from the rows alone, without the messages. The first row is in any case.
const PAGE: &str = "WITH sizes AS (SELECT p.id, sum(p.size) OVER (ORDER BY p.id) - p.size AS before \
    FROM (SELECT id, coalesce(octet_length(message), 0) + coalesce(octet_length(headers), 0) \
        + coalesce(octet_length(errors), 0) AS size \
        FROM {s}.tasks WHERE type = $1 AND id > $2 ORDER BY id LIMIT $3) p) \
    SELECT t.* FROM {s}.tasks t JOIN sizes s ON t.id = s.id \
    WHERE t.type = $1 AND s.before < $4 ORDER BY t.id";
const ORPHANS: &str = "SELECT f.id FROM {s}.follow_ups f WHERE f.type = $1 AND NOT EXISTS \
    (SELECT 1 FROM {s}.tasks t WHERE t.type = $1 AND t.id = f.id AND t.state IN (0, 1) \
    AND t.flags & 4 <> 0) ORDER BY f.id LIMIT $2";
const REMOVE_ORPHANS: &str = "DELETE FROM {s}.follow_ups WHERE type = $1 AND id = ANY ($2)";
const TASKS: &str = "SELECT * FROM {s}.tasks_v1($1, $2, true)";
const MEND: &str = "UPDATE {s}.tasks SET state = 0, flags = flags & 4, fence = NULL, \
    due = coalesce(due, at) WHERE type = $1 AND id = $2";
/// One repair of counts at a time: its snapshot begins after this lock, which is no query.
const ONE_REPAIR: &str = "LOCK TABLE {s}.meta IN SHARE UPDATE EXCLUSIVE MODE";
/// A row without a state counts as what it becomes when it is mended.
const COUNTED: &str = "SELECT max(p.id), count(*) FILTER (WHERE p.state NOT BETWEEN 1 AND 5), \
    count(*) FILTER (WHERE p.state = 1), count(*) FILTER (WHERE p.state = 2), \
    count(*) FILTER (WHERE p.state BETWEEN 3 AND 5) FROM (SELECT id, state FROM {s}.tasks \
    WHERE type = $1 AND id > $2 ORDER BY id LIMIT $3) p";
const RECOUNT: &str = "INSERT INTO {s}.ledger (type, scheduled, running, dead, ended) \
    SELECT $1, $2 - c.scheduled, $3 - c.running, $4 - c.dead, $5 - c.ended \
    FROM {s}.counts_v1($1) c";

/// Progress of an audit.
#[derive(Clone, Default)]
struct Progress {
    after: String,
    checked: u64,
    problems: Vec<Problem>,
    is_over: bool,
}

impl Progress {
    fn add(&mut self, id: &str, what: impl Into<String>, repaired: bool) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem::new(id, what, repaired));
        }
    }
}

pub(crate) async fn audit_type(
    store: &PostgresStore,
    task_type: &TaskType,
    repair: bool,
) -> Result<AuditReport> {
    let mut progress = Progress::default();
    while !progress.is_over {
        let before = progress.clone();
        let work = tx_work(move |tx| {
            let before = before.clone();
            Box::pin(async move { rows_step(tx, before, repair).await })
        });
        let step = on_type(store, task_type, Opening::Shared, work).await;
        progress = store.part(repair && !progress.problems.is_empty(), step)?;
    }
    let before = progress.clone();
    let work = tx_work(move |tx| {
        let before = before.clone();
        Box::pin(async move { orphans_step(tx, before, repair).await })
    });
    let step = on_type(store, task_type, Opening::Shared, work).await;
    let progress = store.part(repair && !progress.problems.is_empty(), step)?;
    let is_begun = repair && !progress.problems.is_empty();
    let counting = Counting {
        sql: store.statements.clone(),
        key: store.key(task_type),
        limit: store.connections.timeout(),
        repair,
    };
    let counted = store.connections.alone(move |session: &mut Session| {
        Box::pin(async move { counting.run(session, progress).await })
    });
    let progress = store.part(is_begun, counted.await)?;
    let mut report = AuditReport::default();
    report.checked = progress.checked;
    report.problems = progress.problems;
    Ok(report)
}

/// The damage of a row, if any.
fn damage(row: &TaskRow) -> Option<String> {
    match &row.status {
        Status::Unknown => Some(format!(
            "its state is {}: it is in no order",
            row.state_code
        )),
        Status::Ended(_) => None,
        Status::Live(task) if task.state == TaskState::Running && task.fence == 0 => {
            Some("it runs without a lock".to_owned())
        }
        Status::Live(task) if task.state != TaskState::Running && task.fence > 0 => {
            Some(format!("it is {} and has a lock", task.state))
        }
        // Its damage was found before.
        Status::Live(task) if task.state == TaskState::Dead && is_known_damage(row) => None,
        Status::Live(_) => row.damage(),
    }
}

fn is_known_damage(row: &TaskRow) -> bool {
    row.last_error
        .as_deref()
        .is_some_and(|error| error.starts_with("corrupt: "))
}

/// What is wrong with a row, if anything.
fn problem(row: &TaskRow) -> Option<String> {
    let is_named = TaskId::new(&row.id).is_ok();
    let named = (!is_named).then(|| "corrupt: its id is damaged".to_owned());
    damage(row).or(named)
}

/// Checks rows without a lock. To mend some, it locks these and looks at them again.
async fn rows_step(mut tx: TypeTx<'_>, mut progress: Progress, repair: bool) -> Outcome<Progress> {
    let id = tx.row.id;
    let values: Values<'_> = &[
        (&id, Type::INT4),
        (&progress.after, Type::TEXT),
        (&STEP, Type::INT4),
        (&STEP_BYTES, Type::INT8),
    ];
    let rows = tx.rows(PAGE, values).await?;
    progress.is_over = rows.is_empty();
    progress.checked += rows.len() as u64;
    if let Some(last) = rows.last() {
        progress.after.clone_from(&last.id);
    }
    let mut damaged: Vec<TaskRow> = rows
        .into_iter()
        .filter(|row| problem(row).is_some())
        .collect();
    if repair && !damaged.is_empty() {
        let ids: Vec<String> = damaged.iter().map(|row| row.id.clone()).collect();
        let values: Values<'_> = &[(&id, Type::INT4), (&ids, Type::TEXT_ARRAY)];
        damaged = tx.rows(TASKS, values).await?;
    }
    for row in &mut damaged {
        let Some(what) = problem(row) else {
            continue;
        };
        let is_mended = repair && TaskId::new(&row.id).is_ok();
        progress.add(&row.id, what.clone(), is_mended);
        if is_mended {
            mend(&mut tx, row, &what).await?;
        }
    }
    tx.finish().await?;
    Ok(progress)
}

/// A task that cannot run goes to dead, one that is in no order is scheduled.
async fn mend(tx: &mut TypeTx<'_>, row: &mut TaskRow, what: &str) -> Outcome<()> {
    let now = tx.now();
    if what.starts_with("corrupt")
        && let Some(task) = row.live().copied()
    {
        tx.bury(row, &task, what);
        return Ok(());
    }
    let (id, sql) = (tx.row.id, tx.sql.sql(MEND));
    let values: Values<'_> = &[(&id, Type::INT4), (&row.id, Type::TEXT)];
    tx.session.ask(&sql, values).await?;
    tx.note_due(now);
    Ok(())
}

/// Finds requests that wait for nothing.
async fn orphans_step(tx: TypeTx<'_>, mut progress: Progress, repair: bool) -> Outcome<Progress> {
    let id = tx.row.id;
    let sql = tx.sql.clone();
    let values: Values<'_> = &[(&id, Type::INT4), (&i64::from(STEP), Type::INT8)];
    let orphans = tx.session.ask(&sql.sql(ORPHANS), values).await?;
    let orphans = orphans.iter().map(|row| Ok(row.try_get(0)?));
    let orphans = orphans.collect::<Outcome<Vec<String>>>()?;
    for orphan in &orphans {
        progress.add(
            orphan,
            "a request waits for the end of a task that does not run",
            repair,
        );
    }
    if repair && !orphans.is_empty() {
        let values: Values<'_> = &[(&id, Type::INT4), (&orphans, Type::TEXT_ARRAY)];
        tx.session.ask(&sql.sql(REMOVE_ORPHANS), values).await?;
    }
    tx.finish().await?;
    Ok(progress)
}

/// Compares the counts with the rows: in pages, all of one snapshot.
struct Counting {
    sql: Statements,
    key: TypeKey,
    /// How long one page may take.
    limit: Duration,
    repair: bool,
}

impl Counting {
    async fn run(self, session: &mut Session, mut progress: Progress) -> Outcome<Progress> {
        session.run("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        if self.repair {
            session.run(&self.sql.sql(ONE_REPAIR)).await?;
        }
        let row = TypeRow::read(session, &self.sql, &self.key, false).await?;
        let counted = [row.scheduled, row.running, row.dead, row.ended].map(signed);
        let found = self.count(session, row.id).await?;
        if row.is_known() && counted != found {
            let what = format!(
                "scheduled, running, dead, ended: {counted:?} are counted, {found:?} are there"
            );
            progress.add("", what, self.repair);
            if self.repair {
                let [scheduled, running, dead, ended] = &found;
                let values: Values<'_> = &[
                    (&row.id, Type::INT4),
                    (scheduled, Type::INT8),
                    (running, Type::INT8),
                    (dead, Type::INT8),
                    (ended, Type::INT8),
                ];
                session.ask(&self.sql.sql(RECOUNT), values).await?;
            }
        }
        session.commit().await?;
        Ok(progress)
    }

    async fn count(&self, session: &mut Session, id: i32) -> Outcome<[i64; 4]> {
        let sql = self.sql.sql(COUNTED);
        let (mut after, mut found) = (String::new(), [0; 4]);
        loop {
            let values: Values<'_> = &[
                (&id, Type::INT4),
                (&after, Type::TEXT),
                (&COUNT_STEP, Type::INT4),
            ];
            let rows = session.ask_within(self.limit, &sql, values).await?;
            let Some(row) = rows.first() else {
                return Ok(found);
            };
            let Some(last) = row.try_get(0)? else {
                return Ok(found);
            };
            after = last;
            for (n, count) in found.iter_mut().enumerate() {
                *count += row.try_get::<_, i64>(n + 1)?;
            }
        }
    }
}
