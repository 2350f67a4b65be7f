//! Whether the types of a change are listed.

use std::fmt;
use std::sync::Arc;

use super::{Operator, Result, TaskType};
use crate::known_type::known_types_among;

/// The types that an error may name as the one that was meant.
#[derive(Clone)]
pub(super) struct MayName(pub(super) Arc<dyn Fn(&TaskType) -> bool + Send + Sync>);

/// All of them.
impl Default for MayName {
    fn default() -> Self {
        Self(Arc::new(|_| true))
    }
}

impl fmt::Debug for MayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MayName(..)")
    }
}

/// Refuses types that are not listed, unless the operator makes them.
pub(super) async fn expect(operator: &Operator, types: &str) -> Result<()> {
    if operator.is_creating && TaskType::new(types).is_ok() {
        return Ok(());
    }
    expect_known(operator, types).await
}

/// Refuses types that are not listed.
pub(super) async fn expect_known(operator: &Operator, types: &str) -> Result<()> {
    if operator.is_silent {
        return Ok(());
    }
    let may_name = &operator.may_name.0;
    let known = known_types_among(operator.tasks(), types, |one| may_name(one));
    known.await.map(drop)
}

/// Lists a changed type, if the operator makes types.
pub(super) async fn list(operator: &Operator, types: &str) -> Result<()> {
    match TaskType::new(types) {
        Ok(task_type) if operator.is_creating && !operator.is_silent => {
            operator.tasks.store().register_type(&task_type).await
        }
        _ => Ok(()),
    }
}
