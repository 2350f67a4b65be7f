//! The way of a submit through the generations of its type, oldest first.
//!
//! A sealed partition that does not know an id will never know it: so once it has said so, the next generation can be
//! asked, and no id is in two of them, however old the layout that somebody goes by.

use std::collections::HashMap;
use std::sync::Arc;

use super::RedisStore;
use super::flight::{Landing, Prepared};
use super::seek::MAX_LOOKS;
use crate::error::{Error, Result};
use crate::job::NewTask;
use crate::name::TaskType;
use crate::store::SubmitOutcome;

/// Tasks that a closed partition did not take, and their places among all.
type Moved = Vec<(usize, Prepared)>;

impl RedisStore {
    pub(super) async fn submit_tasks(&self, tasks: &[NewTask]) -> Vec<Result<SubmitOutcome>> {
        let mut outcomes = vec![Err(Error::Closed("the Redis store")); tasks.len()];
        let mut rest: Moved = Vec::with_capacity(tasks.len());
        for (place, task) in tasks.iter().enumerate() {
            if let Some(part) = self.scope.spread(&task.task_type).first(&task.id) {
                rest.push((place, Prepared::new(task, Arc::clone(part))));
            }
        }
        let mut looks = 0;
        while !rest.is_empty() {
            let (places, sent): (Vec<usize>, Vec<Prepared>) = rest.into_iter().unzip();
            let landings = self.submitter.submit(sent).await;
            rest = Vec::new();
            for (place, landing) in places.into_iter().zip(landings) {
                match landing {
                    Ok(Landing::Moved(task)) => rest.push((place, task)),
                    Ok(Landing::Here(outcome)) => put(&mut outcomes, place, Ok(outcome)),
                    Err(error) => put(&mut outcomes, place, Err(error)),
                }
            }
            rest = self.go_on(rest, &mut looks, &mut outcomes).await;
        }
        outcomes
    }

    /// Finds the next partition for each. When no newer one is known, the layout is read again, and they begin anew.
    async fn go_on(
        &self,
        moved: Moved,
        looks: &mut usize,
        outcomes: &mut [Result<SubmitOutcome>],
    ) -> Moved {
        let mut looked: HashMap<TaskType, Result<()>> = HashMap::new();
        let mut rest = Vec::with_capacity(moved.len());
        for (place, mut task) in moved {
            let name = task.part.task_type.clone();
            let spread = self.scope.spread(&name);
            let mut next = spread.after(&task.part, &task.id).cloned();
            if next.is_none() {
                let found = match looked.get(&name) {
                    Some(found) => found.clone(),
                    None if *looks == MAX_LOOKS => Err(self.unsettled(&name)),
                    // Somebody else has learned of a newer layout meanwhile.
                    None if !spread.holds(&task.part) => Ok(()),
                    None => self.look_again(&name, &spread).await,
                };
                looked.insert(name.clone(), found.clone());
                if let Err(error) = found {
                    put(outcomes, place, Err(error));
                    continue;
                }
                next = self.scope.spread(&name).first(&task.id).cloned();
            }
            if let Some(next) = next {
                task.part = next;
                rest.push((place, task));
            }
        }
        *looks += usize::from(!looked.is_empty());
        rest
    }
}

fn put(outcomes: &mut [Result<SubmitOutcome>], place: usize, outcome: Result<SubmitOutcome>) {
    if let Some(slot) = outcomes.get_mut(place) {
        *slot = outcome;
    }
}
