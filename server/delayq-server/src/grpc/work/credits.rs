//! Credits: how many tasks of each type a worker can take.

use std::collections::BTreeMap;

use delayq_plugin::{Error, Result, TaskType};

/// The largest credit of a type.
const MOST: usize = 10_000;
/// The largest number of types in a stream.
const MAX_TYPES: usize = 100;

/// The tasks that a worker can still take, by type.
#[derive(Debug, Default)]
pub(super) struct Credits(BTreeMap<TaskType, usize>);

impl Credits {
    /// Adds credit; 0 withdraws all credit of the type.
    ///
    /// # Errors
    /// `LimitExceeded` for too many types.
    pub(super) fn add(&mut self, task_type: &TaskType, tasks: u32) -> Result<()> {
        if tasks == 0 {
            self.0.remove(task_type);
            return Ok(());
        }
        if self.0.len() >= MAX_TYPES && !self.0.contains_key(task_type) {
            return Err(Error::LimitExceeded {
                what: "number of types of a stream",
                actual: self.0.len() as u64 + 1,
                limit: MAX_TYPES as u64,
            });
        }
        let credit = self.0.entry(task_type.clone()).or_default();
        let tasks = usize::try_from(tasks).unwrap_or(MOST);
        *credit = credit.saturating_add(tasks).min(MOST);
        Ok(())
    }

    /// The credit of a type.
    pub(super) fn of(&self, task_type: &TaskType) -> usize {
        self.0.get(task_type).copied().unwrap_or_default()
    }

    /// Uses credit for `count` tasks. Returns true if there was enough.
    pub(super) fn spend(&mut self, task_type: &TaskType, count: usize) -> bool {
        let Some(credit) = self.0.get_mut(task_type) else {
            return count == 0;
        };
        match credit.checked_sub(count) {
            Some(left) => {
                *credit = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_used_once_and_can_be_taken_back() {
        let (mut credits, mail) = (Credits::default(), TaskType::new("mail").unwrap());
        credits.add(&mail, 2).unwrap();
        credits.add(&mail, 1).unwrap();
        assert!(credits.spend(&mail, 2) && credits.of(&mail) == 1);
        assert!(!credits.spend(&mail, 2) && credits.of(&mail) == 1);
        credits.add(&mail, 0).unwrap();
        assert!(!credits.spend(&mail, 1) && credits.spend(&mail, 0));
        credits.add(&mail, u32::MAX).unwrap();
        assert_eq!(credits.of(&mail), MOST);
        for n in 1..MAX_TYPES {
            let task_type = TaskType::new(format!("t{n}")).unwrap();
            credits.add(&task_type, 1).unwrap();
        }
        let one_more = TaskType::new("one-more").unwrap();
        assert!(credits.add(&one_more, 1).is_err());
        assert!(credits.add(&mail, 1).is_ok());
    }
}
