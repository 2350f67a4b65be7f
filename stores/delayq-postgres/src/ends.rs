//! Recorded ends.

use async_trait::async_trait;
use delayq_core::history::Ends;

use crate::store::PostgresStore;

#[async_trait]
impl Ends for PostgresStore {}
