//! Whether the types of a change are listed.

use super::{Operator, Result, TaskType};
use crate::known_type::known_types;

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
    known_types(operator.tasks(), types).await.map(drop)
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
