//! The bound of the recorded ends.

use delayq_core::history::EndsStatus;
use delayq_core::time::Timestamp;
use tokio_postgres::types::Type;

use crate::connection::{Session, Values};
use crate::error::Outcome;
use crate::row::{signed, unsigned};

pub(crate) const TRIM: &str =
    "SELECT o_waiting, o_bytes, o_oldest, o_lost FROM {s}.trim_ends_v1($1, $2)";

/// The state of the queue of a namespace, after what is beyond its bound was dropped.
pub(crate) async fn trim(
    session: &mut Session,
    sql: &str,
    namespace: &str,
    limit: u64,
) -> Outcome<EndsStatus> {
    let values: Values<'_> = &[(&namespace, Type::TEXT), (&signed(limit), Type::INT8)];
    let rows = session.write(sql, values).await?;
    let mut status = EndsStatus::default();
    status.limit = limit;
    if let Some(row) = rows.first() {
        status.waiting = unsigned(row.try_get(0)?);
        status.bytes = unsigned(row.try_get(1)?);
        let oldest: Option<i64> = row.try_get(2)?;
        status.oldest = oldest.map(Timestamp::from_millis);
        status.lost = unsigned(row.try_get(3)?);
    }
    Ok(status)
}
