//! Audit: every row is compared with its checksum and its state, the requests that wait with the
//! tasks that they wait for, and the counts with the rows.

use delayq_core::name::{TaskId, TaskType};
use delayq_core::operate::{AuditReport, Problem};
use delayq_core::{Result, TaskState};
use tokio_postgres::types::Type;

use crate::connection::Values;
use crate::error::Outcome;
use crate::row::{Status, TaskRow};
use crate::store::PostgresStore;
use crate::type_tx::{Opening, TypeTx, on_type, tx_work};

/// Rows of one step.
const STEP: i32 = 256;

/// Maximum number of problems in a report; further ones are mended without being listed.
const MAX_PROBLEMS: usize = 1_000;

const PAGE: &str =
    "SELECT * FROM {s}.tasks WHERE type = $1 AND id > $2 ORDER BY id LIMIT $3 FOR UPDATE";
const ORPHANS: &str = "SELECT f.id FROM {s}.follow_ups f WHERE f.type = $1 AND NOT EXISTS \
    (SELECT 1 FROM {s}.tasks t WHERE t.type = $1 AND t.id = f.id AND t.state IN (0, 1) \
    AND t.flags & 4 <> 0) ORDER BY f.id LIMIT $2";
const REMOVE_ORPHANS: &str = "DELETE FROM {s}.follow_ups WHERE type = $1 AND id = ANY ($2)";
const MEND: &str = "UPDATE {s}.tasks SET state = 0, flags = flags & 4, fence = NULL, \
    due = coalesce(due, at) WHERE type = $1 AND id = $2";
/// A row without a state counts as what it becomes when it is mended.
const COUNTED: &str = "SELECT count(*) FILTER (WHERE state NOT BETWEEN 1 AND 5), count(*) FILTER (WHERE state = 1), \
    count(*) FILTER (WHERE state = 2), count(*) FILTER (WHERE state BETWEEN 3 AND 5) \
    FROM {s}.tasks WHERE type = $1";
const RECOUNT: &str = "INSERT INTO {s}.ledger (type, scheduled, running, dead, ended) \
    SELECT $1, t.scheduled - c.scheduled, t.running - c.running, t.dead - c.dead, \
    t.ended - c.ended FROM {s}.counts_v1($1) c, (SELECT count(*) FILTER (WHERE state = 0) AS \
    scheduled, count(*) FILTER (WHERE state = 1) AS running, count(*) FILTER (WHERE state = 2) AS \
    dead, count(*) FILTER (WHERE state > 2) AS ended FROM {s}.tasks WHERE type = $1) t";

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
        progress = on_type(store, task_type, Opening::Shared, work).await?;
    }
    let before = progress.clone();
    let work = tx_work(move |tx| {
        let before = before.clone();
        Box::pin(async move { last_step(tx, before, repair).await })
    });
    let progress = on_type(store, task_type, Opening::Shared, work).await?;
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

async fn rows_step(mut tx: TypeTx<'_>, mut progress: Progress, repair: bool) -> Outcome<Progress> {
    let id = tx.row.id;
    let values: Values<'_> = &[
        (&id, Type::INT4),
        (&progress.after, Type::TEXT),
        (&STEP, Type::INT4),
    ];
    let mut rows = tx.rows(PAGE, values).await?;
    progress.is_over = rows.len() < usize::try_from(STEP).unwrap_or(0);
    progress.checked += rows.len() as u64;
    if let Some(last) = rows.last() {
        progress.after.clone_from(&last.id);
    }
    for row in &mut rows {
        let is_named = TaskId::new(&row.id).is_ok();
        let named = (!is_named).then(|| "corrupt: its id is damaged".to_owned());
        let Some(what) = damage(row).or(named) else {
            continue;
        };
        progress.add(&row.id.clone(), what.clone(), repair && is_named);
        if repair && is_named {
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

async fn last_step(mut tx: TypeTx<'_>, mut progress: Progress, repair: bool) -> Outcome<Progress> {
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
    // One snapshot for both: the rows and the counts.
    tx.session
        .run("COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ")
        .await?;
    tx.read_again().await?;
    let row = &tx.row;
    let counted = [row.scheduled, row.running, row.dead, row.ended];
    let found = tx
        .session
        .ask(&sql.sql(COUNTED), &[(&id, Type::INT4)])
        .await?;
    let mut found_counts = [0_u64; 4];
    if let Some(row) = found.first() {
        for (n, count) in found_counts.iter_mut().enumerate() {
            let found: i64 = row.try_get(n)?;
            *count = found.unsigned_abs();
        }
    }
    if id != 0 && counted != found_counts {
        let what = format!(
            "scheduled, running, dead, ended: {counted:?} are counted, {found_counts:?} are there"
        );
        progress.add("", what, repair);
        if repair {
            tx.session
                .ask(&sql.sql(RECOUNT), &[(&id, Type::INT4)])
                .await?;
        }
    }
    tx.finish().await?;
    Ok(progress)
}
