//! Faults of a PostgreSQL server: killed, stopped, its connections ended, its snapshots held.

use delayq_plugin::millis;
use delayq_tests::sql_session::SqlSession;

use super::Kind;
use crate::event::{Explains, Target};
use crate::run::{Result, Stage};

/// The database of the tasks.
const DATABASE: &str = "postgres";

/// Ends the session of everybody else; how many there were.
const END_SESSIONS: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";

/// Takes a snapshot, which keeps all dead rows.
const HOLD: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class;";

/// SIGKILL of the postmaster and its children, and its restart on the same data.
pub(super) async fn kill(stage: &mut Stage) -> Result<bool> {
    let absence = stage.dice.u64(50..1_500);
    let explains = vec![Explains::LostLock];
    let open = stage.begin(&Kind::KillPostgres.name(), Target::Store, explains);
    let was_running = stage.postgres()?.is_running();
    stage.postgres()?.kill();
    // What is answered from now on, this has not undone.
    stage.strike(&open);
    tokio::time::sleep(millis(absence)).await;
    stage.postgres()?.restart();
    stage.end(&open);
    Ok(was_running)
}

/// SIGSTOP of the postmaster and its children for up to one and a half lock times.
pub(super) async fn pause(stage: &mut Stage) -> Result<bool> {
    let lock = stage.lock_ms;
    let span = stage.dice.u64(lock / 4..lock + lock / 2);
    let explains = vec![Explains::LostLock];
    let open = stage.begin(&Kind::PausePostgres.name(), Target::Store, explains);
    stage.postgres()?.stop();
    tokio::time::sleep(millis(span)).await;
    let was_stopped = !stage.postgres()?.is_running();
    stage.postgres()?.resume();
    stage.postgres()?.sql(DATABASE, "SELECT 1");
    stage.end(&open);
    Ok(was_stopped)
}

/// The sessions of all processes ended by the server, in whatever they are doing.
pub(super) fn end_sessions(stage: &mut Stage) -> Result<bool> {
    let explains = vec![Explains::LostLock];
    let open = stage.begin(&Kind::EndSessions.name(), Target::Store, explains);
    let ended = stage.postgres()?.sql(DATABASE, END_SESSIONS);
    stage.end(&open);
    Ok(ended != "0")
}

/// A transaction that keeps a snapshot for up to three lock times.
pub(super) async fn hold_snapshot(stage: &mut Stage) -> Result<bool> {
    let span = stage.dice.u64(stage.lock_ms..3 * stage.lock_ms);
    let open = stage.begin(&Kind::HoldSnapshot.name(), Target::Store, Vec::new());
    let mut session = SqlSession::open(stage.postgres()?, DATABASE);
    let counted = session.run(HOLD);
    tokio::time::sleep(millis(span)).await;
    let again = session.run("SELECT count(*) FROM pg_class; COMMIT;");
    stage.end(&open);
    Ok(!counted.is_empty() && counted == again)
}
