//! What keeps the server from its upkeep, and who does: it becomes a problem in hours or days.

use std::time::Duration;

use delayq_core::Result;
use delayq_core::store::Concern;
use delayq_core::time::{Timestamp, duration_ms};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::{Connections, Session, Values};
use crate::error::Outcome;

/// Transactions since a snapshot whose beginning the server does not tell, as that of another role
/// or of a replication slot.
const MANY: i32 = 100_000;

/// Transactions since the oldest row was frozen. The server stops at 2.1 thousand millions.
const UNFROZEN: i32 = 1_000_000_000;

/// The share of the queue of notifications. Once it is full, no notification is sent any more.
const QUEUE: f64 = 0.5;

/// Those that keep dead rows, the oldest first. A vacuum keeps none, and that of the server has no
/// user.
const HOLDERS: &str = "WITH holders AS ( \
    SELECT 'the transaction of pid ' || a.pid || ' (' \
        || coalesce(nullif(a.application_name, ''), a.usename::text, a.backend_type, '?') || ')' \
        AS name, 0 AS kind, a.pid::text AS id, a.xact_start AS since, \
        greatest(age(a.backend_xmin), age(a.backend_xid)) AS age \
    FROM pg_stat_activity a WHERE a.pid <> pg_backend_pid() \
        AND coalesce(a.backend_xmin, a.backend_xid) IS NOT NULL \
        AND (a.datid IS NULL OR a.datname = current_database()) \
        AND a.usesysid IS NOT NULL AND a.leader_pid IS NULL \
        AND coalesce(a.query, '') NOT ILIKE 'vacuum%' \
    UNION ALL \
    SELECT 'the replication slot ' || s.slot_name, 1, s.slot_name::text, NULL, \
        greatest(age(s.xmin), age(s.catalog_xmin)) \
    FROM pg_replication_slots s WHERE coalesce(s.xmin, s.catalog_xmin) IS NOT NULL \
    UNION ALL \
    SELECT 'the prepared transaction ' || p.gid, 2, p.gid, p.prepared, age(p.transaction) \
    FROM pg_prepared_xacts p WHERE p.database = current_database()) \
    SELECT name, kind, id, (extract(epoch FROM since) * 1000)::bigint, age FROM holders \
    WHERE since < clock_timestamp() - $1::bigint * interval '1 millisecond' \
        OR since IS NULL AND age > $2 \
    ORDER BY age DESC LIMIT 5";
const SERVER: &str = "SELECT age(datfrozenxid), pg_notification_queue_usage() \
    FROM pg_database WHERE datname = current_database()";

/// Asks the server. `held_for`: how old a snapshot may be.
pub(crate) async fn concerns(
    connections: &Connections,
    held_for: Duration,
) -> Result<Vec<Concern>> {
    let held_ms = duration_ms(held_for);
    let call = connections.call(move |session: &mut Session| {
        Box::pin(async move {
            let values: Values<'_> = &[(&held_ms, Type::INT8), (&MANY, Type::INT4)];
            let holders = session.ask(HOLDERS, values).await?;
            let mut found = holders.iter().map(holder).collect::<Outcome<Vec<_>>>()?;
            for row in session.ask(SERVER, &[]).await? {
                found.extend(unfrozen(row.try_get(0)?));
                found.extend(unheard(row.try_get(1)?));
            }
            Ok(found)
        })
    });
    call.await
}

fn holder(row: &Row) -> Outcome<Concern> {
    let (name, kind, id): (String, i32, String) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let (since, age): (Option<i64>, i32) = (row.try_get(3)?, row.try_get(4)?);
    let since = since.map_or_else(
        || format!("for {age} transactions"),
        |since| format!("since {}", Timestamp::from_millis(since)),
    );
    let fix = match kind {
        0 => format!("end it: SELECT pg_terminate_backend({id})"),
        1 => format!(
            "let its reader go on, or drop it: SELECT pg_drop_replication_slot('{}')",
            id.replace('\'', "''")
        ),
        _ => format!(
            "commit it or take it back: ROLLBACK PREPARED '{}'",
            id.replace('\'', "''")
        ),
    };
    Ok(Concern::new(
        format!("{name} holds a snapshot {since}"),
        "dead rows are kept until it ends: the tables grow, and reads slow down",
        fix,
    ))
}

fn unfrozen(age: i32) -> Option<Concern> {
    (age > UNFROZEN).then(|| {
        Concern::new(
            format!("the oldest row of the database is {age} transactions old"),
            "the server stops at 2.1 thousand millions, to lose no data",
            "end what holds a snapshot, and run VACUUM in this database",
        )
    })
}

fn unheard(usage: f64) -> Option<Concern> {
    (usage > QUEUE).then(|| {
        let percent = usage * 100.0;
        Concern::new(
            format!("the queue of notifications is full to {percent:.0} percent"),
            "once it is full, no wake-up is sent: handlers look once a second",
            "end the session that listens within a transaction",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_row_and_a_full_queue_are_told_and_usual_ones_are_not() {
        assert!(unfrozen(UNFROZEN).is_none());
        assert!(unfrozen(UNFROZEN + 1).is_some());
        assert!(unheard(0.5).is_none());
        let told = unheard(0.756).unwrap();
        assert!(told.found.contains("76 percent"), "{}", told.found);
    }
}
