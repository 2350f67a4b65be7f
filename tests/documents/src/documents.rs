//! Pages of the guide, so that every Rust snippet in them is compiled as a doc test. The README is
//! the page of the crate.

#[doc = include_str!("../../../docs/guide/admin.md")]
mod admin {}

#[doc = include_str!("../../../docs/guide/axum.md")]
mod axum {}

#[doc = include_str!("../../../docs/guide/batches.md")]
mod batches {}

#[doc = include_str!("../../../docs/guide/change.md")]
mod change {}

#[doc = include_str!("../../../docs/guide/cluster.md")]
mod cluster {}

#[doc = include_str!("../../../docs/guide/config.md")]
mod config {}

#[doc = include_str!("../../../docs/guide/containers.md")]
mod containers {}

#[doc = include_str!("../../../docs/guide/database.md")]
mod database {}

#[doc = include_str!("../../../docs/guide/explain.md")]
mod explain {}

#[doc = include_str!("../../../docs/guide/fleet.md")]
mod fleet {}

#[doc = include_str!("../../../docs/guide/ids.md")]
mod ids {}

#[doc = include_str!("../../../docs/guide/instances.md")]
mod instances {}

#[doc = include_str!("../../../docs/guide/late.md")]
mod late {}

#[doc = include_str!("../../../docs/guide/metrics.md")]
mod metrics {}

#[doc = include_str!("../../../docs/guide/middleware.md")]
mod middleware {}

#[doc = include_str!("../../../docs/guide/operate.md")]
mod operate {}

#[doc = include_str!("../../../docs/guide/postgres.md")]
mod postgres {}

#[doc = include_str!("../../../docs/guide/recurring.md")]
mod recurring {}

#[doc = include_str!("../../../docs/guide/redis.md")]
mod redis {}

#[doc = include_str!("../../../docs/guide/replies.md")]
mod replies {}

#[doc = include_str!("../../../docs/guide/retries.md")]
mod retries {}

#[doc = include_str!("../../../docs/guide/sentinel.md")]
mod sentinel {}

#[doc = include_str!("../../../docs/guide/shards.md")]
mod shards {}

#[doc = include_str!("../../../docs/guide/sqlite.md")]
mod sqlite {}

#[doc = include_str!("../../../docs/guide/submit.md")]
mod submit {}

#[doc = include_str!("../../../docs/guide/pools.md")]
mod pools {}
#[doc = include_str!("../../../docs/guide/tenants.md")]
mod tenants {}

#[doc = include_str!("../../../docs/guide/testing.md")]
mod testing {}

#[doc = include_str!("../../../docs/guide/transaction.md")]
mod transaction {}

#[doc = include_str!("../../../docs/guide/workers.md")]
mod workers {}

#[doc = include_str!("../../../delayq-macros/src/task_worker.md")]
mod task_worker {}
