//! Replies, in one table.

use std::sync::Arc;

use async_trait::async_trait;
use delayq_core::error::Result;
use delayq_core::name::{Namespace, TaskId, TaskType};
use delayq_core::replies::Replies;
use delayq_core::reply::{KeptReply, Reply};
use delayq_core::task::Lock;
use delayq_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::Session;
use crate::error::Outcome;
use crate::store::PostgresStore;

/// Keeps a reply, then removes up to four expired ones of any type: more than one, so that their
/// number shrinks. Those that another call has locked are left to it, so that no two calls wait for
/// each other.
const KEEP: &str = "WITH clock AS MATERIALIZED (SELECT {s}.clock_us() / 1000 AS now), \
     target AS MATERIALIZED (SELECT {s}.type_v1($1, $2) AS type), \
     removed AS ( \
         DELETE FROM {s}.replies WHERE ctid = ANY(ARRAY( \
             SELECT ctid FROM {s}.replies WHERE until <= (SELECT now FROM clock) \
             AND NOT (type = (SELECT type FROM target) AND id = $3) \
             ORDER BY until LIMIT 4 FOR UPDATE SKIP LOCKED)) \
     ) INSERT INTO {s}.replies AS r (type, id, fence, at, until, content_type, body) \
     SELECT target.type, $3, $4, now, least(now + $5, $6), $7, $8 FROM clock, target \
     ON CONFLICT (type, id) DO UPDATE SET \
     fence = excluded.fence, at = excluded.at, until = excluded.until, \
     content_type = excluded.content_type, body = excluded.body \
     WHERE r.fence <= excluded.fence OR r.until <= excluded.at RETURNING true";
const FIND: &str = "SELECT fence, at, content_type, body FROM {s}.replies \
     WHERE type = (SELECT id FROM {s}.types WHERE namespace = $1 AND name = $2) \
     AND id = $3 AND until > (SELECT {s}.clock_us() / 1000)";

/// A reply to keep.
struct Keeping {
    sql: Arc<str>,
    namespace: Namespace,
    task_type: TaskType,
    lock: Lock,
    reply: Reply,
}

impl Keeping {
    /// True if it is kept.
    async fn run(&self, session: &mut Session) -> Outcome<bool> {
        let fence = i64::try_from(self.lock.fence).unwrap_or(i64::MAX);
        let retention = Timestamp::ZERO.plus(self.reply.retention).as_millis();
        let values = [
            (&self.namespace.as_str() as _, Type::TEXT),
            (&self.task_type.as_str() as _, Type::TEXT),
            (&self.lock.id.as_str() as _, Type::TEXT),
            (&fence as _, Type::INT8),
            (&retention as _, Type::INT8),
            (&Timestamp::MAX.as_millis() as _, Type::INT8),
            (&self.reply.content_type as _, Type::TEXT),
            (&self.reply.body as _, Type::BYTEA),
        ];
        let kept = session.write(&self.sql, &values).await?;
        Ok(!kept.is_empty())
    }
}

fn kept(row: &Row) -> Outcome<KeptReply> {
    let fence: i64 = row.try_get(0)?;
    Ok(KeptReply {
        fence: fence.unsigned_abs(),
        at: Timestamp::from_millis(row.try_get(1)?),
        content_type: row.try_get(2)?,
        body: row.try_get(3)?,
    })
}

#[async_trait]
impl Replies for PostgresStore {
    async fn keep_reply(&self, task_type: &TaskType, lock: &Lock, reply: &Reply) -> Result<bool> {
        reply.check()?;
        let keeping = Arc::new(Keeping {
            sql: self.sql(KEEP),
            namespace: self.namespace.clone(),
            task_type: task_type.clone(),
            lock: lock.clone(),
            reply: reply.clone(),
        });
        self.connections
            .call(move |session| {
                let keeping = Arc::clone(&keeping);
                Box::pin(async move { keeping.run(session).await })
            })
            .await
    }

    async fn reply(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<KeptReply>> {
        let find = self.sql(FIND);
        let key = (self.namespace.clone(), task_type.clone(), id.clone());
        self.connections
            .call(move |session| {
                let (find, key) = (Arc::clone(&find), key.clone());
                Box::pin(async move {
                    let (namespace, task_type, id) = &key;
                    let values = [
                        (&namespace.as_str() as _, Type::TEXT),
                        (&task_type.as_str() as _, Type::TEXT),
                        (&id.as_str() as _, Type::TEXT),
                    ];
                    let rows = session.ask(&find, &values).await?;
                    rows.first().map(kept).transpose()
                })
            })
            .await
    }
}
