//! The bound of the recorded ends.

use delayq_core::Result;
use delayq_core::history::DEFAULT_HISTORY_BUFFER;
use tokio_postgres::types::Type;

use crate::connection::{Connections, Session, Values};
use crate::row::signed;
use crate::statements::Statements;

/// Records that one statement drops.
const STEP: i32 = 5_000;

const TRIM: &str = "SELECT {s}.trim_ends_v1($1, $2, $3)";
const LIMIT: &str = "INSERT INTO {s}.ends_state (namespace, most) VALUES ($1, $2) \
    ON CONFLICT (namespace) DO UPDATE SET most = excluded.most";

/// Drops the oldest records of a namespace beyond its bound, a step a call.
pub(crate) async fn trim(open: &Connections, sql: &Statements, namespace: &str) -> Result<()> {
    loop {
        let (sql, namespace) = (sql.sql(TRIM), namespace.to_owned());
        let call = open.attempt_here(move |session: &mut Session| {
            let (sql, namespace) = (sql.clone(), namespace.clone());
            Box::pin(async move {
                let values: Values<'_> = &[
                    (&namespace, Type::TEXT),
                    (&signed(DEFAULT_HISTORY_BUFFER), Type::INT8),
                    (&STEP, Type::INT4),
                ];
                let rows = session.write(&sql, values).await?;
                Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
            })
        });
        let dropped: Option<i64> = call.await?;
        if dropped.unwrap_or(0) < i64::from(STEP) {
            return Ok(());
        }
    }
}

/// Writes the bound of a namespace for all users of the database.
pub(crate) async fn set_limit(
    open: &Connections,
    sql: &Statements,
    namespace: &str,
    bytes: u64,
) -> Result<()> {
    let (sql, namespace) = (sql.sql(LIMIT), namespace.to_owned());
    let call = open.call(move |session: &mut Session| {
        let (sql, namespace) = (sql.clone(), namespace.clone());
        Box::pin(async move {
            let values: Values<'_> = &[(&namespace, Type::TEXT), (&signed(bytes), Type::INT8)];
            session.write(&sql, values).await.map(drop)
        })
    });
    call.await
}
