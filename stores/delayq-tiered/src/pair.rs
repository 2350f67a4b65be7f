//! The marks of a pair of stores: each has a document with its role and the id of the pair. So two
//! names of one place, and a cold store of another hot one, are refused.

use delayq_core::documents::{Expected, WriteOutcome};
use delayq_core::{Error, Result, Store, TaskId};

use crate::counts::owned;

/// The folder with the document.
const FOLDER: &str = "tiered";
/// The document.
const NAME: &str = "role";

/// A role and the id of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Role {
    is_cold: bool,
    pair: String,
}

impl Role {
    fn of(text: &str) -> Option<Self> {
        let (role, pair) = text.split_once(' ')?;
        let is_cold = match role {
            "hot" => false,
            "cold" => true,
            _ => return None,
        };
        let pair = pair.to_owned();
        Some(Self { is_cold, pair })
    }

    fn text(&self) -> String {
        let role = if self.is_cold { "cold" } else { "hot" };
        format!("{role} {}", self.pair)
    }
}

/// Refuses two stores that are one, or that belong to other pairs. Marks new ones with their roles,
/// if the caller `is_owner`. An empty cold store may change its pair.
///
/// # Errors
/// `InvalidInput`, and the errors of the stores.
pub async fn check_pair(hot: &dyn Store, cold: &dyn Store, is_owner: bool) -> Result<()> {
    let refused = |reason: &str| Err(Error::invalid("cold store", reason));
    let pair = match (role(hot).await?, role(cold).await?) {
        (Some(near), _) if near.is_cold => {
            return refused("the hot store is the cold one of another application");
        }
        (_, Some(far)) if !far.is_cold => {
            return refused("it is a hot store, or the same one under another name");
        }
        (None, Some(_)) if is_of_another(hot, cold).await? => {
            return refused(
                "it has tasks of another hot store, and the hot store has tasks, but no mark that \
                 both belong together: give each application a cold store of its own, or a \
                 namespace. If one of both is an older copy that was restored, `delayq pair` marks \
                 them",
            );
        }
        (Some(near), Some(far)) if near.pair == far.pair => return Ok(()),
        (Some(_), Some(_)) if !is_empty(cold).await? => {
            return refused(
                "it has tasks of another hot store: give each application a cold store of its \
                 own, or a namespace. If one of both is an older copy that was restored, `delayq \
                 pair` marks them",
            );
        }
        (Some(known), _) | (None, Some(known)) => known.pair,
        (None, None) => TaskId::generate().to_string(),
    };
    if !is_owner {
        return Ok(());
    }
    let is_cold = false;
    let near = Role { is_cold, pair };
    // Another process may do the same, and one place would get both roles.
    let pair = written(hot, near, Expected::Absent).await?.pair;
    let is_cold = true;
    let own = Role { is_cold, pair };
    let expected = match role(cold).await? {
        Some(role) if role.is_cold => Expected::Any,
        _ => Expected::Absent,
    };
    if written(cold, own.clone(), expected).await? != own {
        return refused("it is the hot store under another name, or behind another hot store");
    }
    Ok(())
}

/// Marks two stores as a pair that [`check_pair`] refuses, as one of both is an older copy of its
/// own: an operator says that they belong together. Answers false if they are a pair already.
///
/// # Errors
/// `InvalidInput` for two names of one place, and for stores in each other's roles; the errors of
/// the stores.
pub async fn mark_pair(hot: &dyn Store, cold: &dyn Store) -> Result<bool> {
    let refused = |reason: &str| Err(Error::invalid("cold store", reason));
    match (role(hot).await?, role(cold).await?) {
        (Some(near), _) if near.is_cold => {
            return refused("the hot store is the cold one of an application: name them in order");
        }
        (_, Some(far)) if !far.is_cold => {
            return refused("it is a hot store, or the same one under another name");
        }
        (Some(near), Some(far)) if near.pair == far.pair => return Ok(false),
        (_, Some(far)) => {
            // The cold one keeps its mark, as all its tasks are from behind it.
            let is_cold = false;
            let near = Role {
                is_cold,
                pair: far.pair,
            };
            written(hot, near, Expected::Any).await?;
        }
        (_, None) => {}
    }
    check_pair(hot, cold, true).await?;
    Ok(true)
}

/// Refuses the cold store of a tier that is opened alone. Answers true for the hot one, whose far
/// tasks are not seen without its cold one.
///
/// # Errors
/// `InvalidInput`, and the errors of the store.
pub async fn check_alone(store: &dyn Store) -> Result<bool> {
    match role(store).await? {
        Some(role) if role.is_cold => {
            let reason = "it is the cold store of a tier: workers on it would run tasks a minute \
                          early. Name the hot store, and this one as its cold_url";
            Err(Error::invalid("store", reason))
        }
        role => Ok(role.is_some()),
    }
}

/// Marks a hot store again that was lost, and has no role, as the one before `cold`.
///
/// # Errors
/// Those of the stores.
pub(crate) async fn restore(hot: &dyn Store, cold: &dyn Store) -> Result<()> {
    if role(hot).await?.is_some() {
        return Ok(());
    }
    let Some(Role {
        is_cold: true,
        pair,
    }) = role(cold).await?
    else {
        return Ok(());
    };
    let is_cold = false;
    let lost = Role { is_cold, pair };
    written(hot, lost, Expected::Absent).await.map(drop)
}

/// True if a hot store that has no role, and could have one, has tasks and the cold one, too. One
/// that was lost is empty.
async fn is_of_another(hot: &dyn Store, cold: &dyn Store) -> Result<bool> {
    if let Err(Error::Unsupported(_)) = hot.folder(FOLDER).await {
        return Ok(false);
    }
    Ok(!is_empty(cold).await? && !is_empty(hot).await?)
}

/// The role that a store is marked with.
async fn role(store: &dyn Store) -> Result<Option<Role>> {
    let folder = match store.folder(FOLDER).await {
        Err(Error::Unsupported(_)) => return Ok(None),
        folder => folder?,
    };
    let document = folder.documents.iter().find(|one| one.name == NAME);
    Ok(document.and_then(|document| Role::of(&document.body)))
}

/// Marks a store. Answers the role that it has then.
async fn written(store: &dyn Store, own: Role, expected: Expected) -> Result<Role> {
    let written = store
        .write_document(FOLDER, NAME, &own.text(), expected)
        .await;
    match written {
        Ok(WriteOutcome::Conflict(_)) => Ok(role(store).await?.unwrap_or(own)),
        Err(error) if !matches!(error, Error::Unsupported(_)) => Err(error),
        _ => Ok(own),
    }
}

/// True if a store has no task.
async fn is_empty(store: &dyn Store) -> Result<bool> {
    for task_type in store.types().await? {
        if owned(&store.stats(&task_type).await?) > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use delayq_core::memory::MemoryStore;
    use delayq_core::{NewTask, TaskType, When, hours};

    use super::*;

    fn store() -> Arc<MemoryStore> {
        Arc::new(MemoryStore::default())
    }

    async fn fails(hot: &MemoryStore, cold: &MemoryStore, word: &str) {
        for is_owner in [false, true] {
            let error = check_pair(hot, cold, is_owner).await.unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[tokio::test]
    async fn one_place_under_two_names_and_the_cold_store_of_another_are_refused() {
        let (hot, cold, other) = (store(), store(), store());
        let one = check_pair(&*other, &*other, true).await.unwrap_err();
        assert!(one.to_string().contains("another name"), "{one}");
        assert_eq!(check_pair(&*hot, &*cold, false).await, Ok(()));
        for _ in 0..2 {
            assert_eq!(check_pair(&*hot, &*cold, true).await, Ok(()));
        }
        fails(&cold, &hot, "the cold one of another").await;
        fails(&hot, &hot, "another name").await;
        // A hot store that was lost, and one that a process does not own.
        let empty = store();
        assert_eq!(check_pair(&*empty, &*cold, true).await, Ok(()));
        assert_eq!(check_pair(&*hot, &*cold, true).await, Ok(()));
        assert_eq!(check_pair(&*other, &*cold, true).await, Ok(()), "empty");
        let (task_type, id) = (TaskType::new("a").unwrap(), TaskId::new("1").unwrap());
        let mut task = NewTask::new(task_type, id, Vec::new());
        task.when = When::After(hours(1));
        cold.submit(vec![task.clone()]).await.remove(0).unwrap();
        fails(&hot, &cold, "tasks of another hot store").await;
        assert_eq!(check_pair(&*other, &*cold, true).await, Ok(()));
        // The application of a hot store in use that never had a cold one.
        let used = store();
        used.submit(vec![task]).await.remove(0).unwrap();
        fails(&used, &cold, "no mark that both belong together").await;
        // One that was lost and is in use again, as its processes go on.
        restore(&*used, &*cold).await.unwrap();
        assert_eq!(check_pair(&*used, &*cold, true).await, Ok(()));
        assert_eq!(check_alone(&*used).await, Ok(true));
        assert_eq!(check_alone(&*store()).await, Ok(false));
        let alone = check_alone(&*cold).await.unwrap_err();
        assert!(alone.to_string().contains("cold_url"), "{alone}");
    }

    #[tokio::test]
    async fn an_operator_makes_a_pair_of_a_store_and_an_older_copy() {
        let (hot, cold, copy) = (store(), store(), store());
        check_pair(&*hot, &*cold, true).await.unwrap();
        let task = |id: &str| {
            let (task_type, id) = (TaskType::new("a").unwrap(), TaskId::new(id).unwrap());
            let mut task = NewTask::new(task_type, id, Vec::new());
            task.when = When::After(hours(1));
            task
        };
        cold.submit(vec![task("far")]).await.remove(0).unwrap();
        // A copy from before its first cold store, and one of another pair.
        copy.submit(vec![task("near")]).await.remove(0).unwrap();
        let other = store();
        check_pair(&*other, &*store(), true).await.unwrap();
        other.submit(vec![task("near")]).await.remove(0).unwrap();
        for restored in [copy, other] {
            assert!(check_pair(&*restored, &*cold, true).await.is_err());
            assert_eq!(mark_pair(&*restored, &*cold).await, Ok(true));
            assert_eq!(check_pair(&*restored, &*cold, false).await, Ok(()));
            assert_eq!(mark_pair(&*restored, &*cold).await, Ok(false));
        }
        for (near, far) in [(&cold, &hot), (&hot, &hot)] {
            assert!(mark_pair(&**near, &**far).await.is_err());
        }
    }
}
