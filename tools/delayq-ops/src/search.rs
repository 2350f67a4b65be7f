//! A search over types and tasks.

use std::collections::VecDeque;
use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use delayq_plugin::store::MAX_BATCH;
use delayq_plugin::{
    Cursor, Page, Result, TaskId, TaskInfo, TaskState, TaskSubmitService, TaskType, TypePattern,
};
use futures_util::future::{Either, select};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

mod place;

pub use place::SearchPlace;

/// Maximum number of tasks that one search reads. No store has an index of groups, errors and
/// messages, so a search is a walk.
pub const MAX_SEARCHED: u64 = 20_000;

/// Maximum number of tasks that one search returns.
pub const MAX_FOUND: usize = 100;

/// Maximum number of calls that one search makes, after the one that lists the types. A list
/// without tasks takes one, too.
pub const MAX_SEARCH_CALLS: usize = 1_024;

/// Maximum number of look-ups by id. The other calls are left for the lists.
const MAX_LOOKUPS: usize = MAX_SEARCH_CALLS / 2;
/// Number of look-ups by id at a time.
const LOOKUPS: usize = 32;
/// Number of pages read at a time. Each can hold 128 messages of full size.
const PAGES: usize = 4;
/// The states whose tasks a search reads, those with trouble first.
const STATES: [TaskState; 3] = [TaskState::Dead, TaskState::Running, TaskState::Scheduled];

/// A search.
#[derive(Clone, Debug)]
#[must_use = "a search does nothing by itself"]
pub struct Search {
    text: String,
    types: String,
    state: Option<TaskState>,
    place: Option<SearchPlace>,
    within: Option<Duration>,
}

/// A task that was found.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SearchHit {
    /// Its type.
    pub task_type: TaskType,
    /// The task, without its message.
    pub task: TaskInfo,
    /// Where the text is.
    pub place: SearchPlace,
    /// The text there; of a long message the part around it.
    pub found: String,
}

/// What was found.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct SearchResults {
    /// The types that have the text in their names, in any case.
    pub types: Vec<TaskType>,
    /// The tasks: first those whose id is the text, then dead, running and scheduled ones.
    pub hits: Vec<SearchHit>,
    /// The number of tasks that were read.
    pub searched: u64,
    /// False if there were more tasks than [`MAX_SEARCHED`], more hits than [`MAX_FOUND`] or more
    /// lists than [`MAX_SEARCH_CALLS`], or if the time was over.
    pub is_complete: bool,
}

/// A list that is not read to its end.
struct Lane {
    task_type: TaskType,
    state: TaskState,
    cursor: Option<Cursor>,
}

impl Search {
    /// A search for a text, in all places of all tasks.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            types: "*".to_owned(),
            state: None,
            place: None,
            within: None,
        }
    }

    /// Searches only the types that a pattern matches.
    pub fn types(mut self, types: impl Into<String>) -> Self {
        self.types = types.into();
        self
    }

    /// Searches only tasks in this state. Of ended tasks only the exact id is found.
    pub fn state(mut self, state: TaskState) -> Self {
        self.state = Some(state);
        self
    }

    /// Searches only this place.
    pub fn place(mut self, place: SearchPlace) -> Self {
        self.place = Some(place);
        self
    }

    /// Ends the search after this time, with what it has found by then.
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// Runs the search. An empty text finds nothing.
    ///
    /// # Errors
    /// `InvalidName` for an invalid pattern, and the store's errors.
    pub async fn run(&self, tasks: &TaskSubmitService) -> Result<SearchResults> {
        let (clock, began) = (tasks.clock(), tasks.clock().elapsed());
        let pattern = TypePattern::new(&self.types)?;
        let mut found = SearchResults {
            is_complete: true,
            ..SearchResults::default()
        };
        if self.text.is_empty() {
            return Ok(found);
        }
        let mut types = tasks.types().await?;
        types.retain(|task_type| pattern.matches(task_type));
        let low = self.text.to_lowercase();
        let is_named = |one: &&TaskType| one.as_str().to_lowercase().contains(&low);
        let named = types.iter().filter(is_named);
        found.types = named.cloned().collect();
        let end = self.within.map(|time| began.saturating_add(time));
        let is_over = async {
            match end {
                Some(end) => clock.sleep_until(end).await,
                None => pending().await,
            }
        };
        let search = self.search(tasks, &types, &mut found);
        let ended = match select(pin!(search), pin!(is_over)).await {
            Either::Left((ended, _)) => Some(ended),
            Either::Right(_) => None,
        };
        match ended {
            Some(ended) => ended?,
            None => found.is_complete = false,
        }
        Ok(found)
    }

    /// Searches the tasks of these types.
    async fn search(
        &self,
        tasks: &TaskSubmitService,
        types: &[TaskType],
        found: &mut SearchResults,
    ) -> Result<()> {
        let calls = self.look_up(tasks, types, found).await?;
        let left = MAX_SEARCH_CALLS.saturating_sub(calls);
        self.walk(tasks, types, left, found).await
    }

    fn searches(&self, place: SearchPlace) -> bool {
        self.place.is_none_or(|own| own == place)
    }

    /// Finds the tasks of any state whose id is the text. Returns the number of calls.
    async fn look_up(
        &self,
        tasks: &TaskSubmitService,
        types: &[TaskType],
        found: &mut SearchResults,
    ) -> Result<usize> {
        if TaskId::new(&self.text).is_err() || !self.searches(SearchPlace::Id) {
            return Ok(0);
        }
        let count = types.len().min(MAX_LOOKUPS);
        found.is_complete &= count == types.len();
        let calls = types.iter().take(count).cloned();
        let calls = calls.map(|task_type| find(tasks, task_type, &self.text));
        let mut calls = stream::iter(calls).buffered(LOOKUPS);
        while let Some(answer) = calls.try_next().await? {
            let wanted = answer.filter(|one| self.state.is_none_or(|own| own == one.task.state));
            if let Some(FoundById { task_type, task }) = wanted {
                found.add(task_type, task, SearchPlace::Id, self.text.clone());
            }
        }
        Ok(count)
    }

    /// Reads the tasks of all types in turn, a page of each at a time, with up to `calls` calls.
    async fn walk(
        &self,
        tasks: &TaskSubmitService,
        types: &[TaskType],
        mut calls: usize,
        found: &mut SearchResults,
    ) -> Result<()> {
        let states = STATES.into_iter();
        let states = states.filter(|state| self.state.is_none_or(|own| own == *state));
        let lanes = states.flat_map(|state| {
            types.iter().map(move |task_type| Lane {
                task_type: task_type.clone(),
                state,
                cursor: None,
            })
        });
        let mut lanes: VecDeque<_> = lanes.collect();
        while !lanes.is_empty() {
            let round = lanes.len().min(PAGES).min(calls);
            calls -= round;
            let round: Vec<_> = lanes.drain(..round).collect();
            let pages = round.into_iter().map(|lane| read(tasks, lane));
            let pages: Vec<_> = stream::iter(pages).buffered(PAGES).try_collect().await?;
            for (mut lane, page) in pages {
                found.searched += page.tasks.len() as u64;
                self.take(&lane.task_type, page.tasks, found);
                lane.cursor = page.next;
                if lane.cursor.is_some() {
                    lanes.push_back(lane);
                }
            }
            let is_enough = found.searched >= MAX_SEARCHED || found.hits.len() >= MAX_FOUND;
            if is_enough || calls == 0 {
                found.is_complete &= lanes.is_empty() && found.hits.len() < MAX_FOUND;
                found.hits.truncate(MAX_FOUND);
                return Ok(());
            }
        }
        Ok(())
    }

    fn take(&self, task_type: &TaskType, tasks: Vec<TaskInfo>, found: &mut SearchResults) {
        for task in tasks {
            let mut places = SearchPlace::ALL.into_iter();
            let hit = places.find_map(|place| {
                let text = place
                    .find(&task, &self.text)
                    .filter(|_| self.searches(place));
                text.map(|text| (place, text))
            });
            let is_known = task.id.as_str() == self.text && found.has(task_type, &task.id);
            if let Some((place, text)) = hit.filter(|_| !is_known) {
                found.add(task_type.clone(), task, place, text);
            }
        }
    }
}

/// A task with the id that is searched for.
struct FoundById {
    task_type: TaskType,
    task: TaskInfo,
}

async fn find(
    tasks: &TaskSubmitService,
    task_type: TaskType,
    id: &str,
) -> Result<Option<FoundById>> {
    let task = tasks.find(task_type.as_str(), id).await?;
    Ok(task.map(|task| FoundById { task_type, task }))
}

async fn read(tasks: &TaskSubmitService, lane: Lane) -> Result<(Lane, Page)> {
    let name = lane.task_type.as_str();
    let page = tasks.list(name, lane.state, lane.cursor.as_ref(), MAX_BATCH);
    let page = page.await?;
    Ok((lane, page))
}

impl SearchResults {
    fn has(&self, task_type: &TaskType, id: &TaskId) -> bool {
        let mut hits = self.hits.iter();
        hits.any(|hit| hit.task_type == *task_type && hit.task.id == *id)
    }

    fn add(&mut self, task_type: TaskType, mut task: TaskInfo, place: SearchPlace, found: String) {
        task.message = None;
        self.hits.push(SearchHit {
            task_type,
            task,
            place,
            found,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use delayq_plugin::store::{MemoryStore, StoreOptions};
    use delayq_plugin::{DelayQueueJob, SystemClock, hours};

    use super::*;

    async fn shop() -> TaskSubmitService {
        let store = MemoryStore::new(Arc::new(SystemClock), StoreOptions::default());
        let tasks = TaskSubmitService::new(Arc::new(store));
        for (name, id, to) in [
            ("mail.send", "order-1", "ann"),
            ("mail.send", "order-12", "bob"),
            ("sms.send", "order-1", "müller, ann"),
        ] {
            let message = serde_json::json!({"to": to});
            let job = DelayQueueJob::new(name, &message).unwrap().id(id);
            let job = job.group(format!("tenant-{to}")).header("trace", "t-7");
            tasks.send(job.after(hours(1))).await.unwrap();
        }
        tasks
    }

    async fn found(search: Search) -> Vec<(String, String, &'static str)> {
        let found = search.run(&shop().await).await.unwrap();
        assert!(found.is_complete);
        let hits = found.hits.into_iter();
        hits.map(|hit| {
            assert_eq!(hit.task.message, None);
            let id = hit.task.id.to_string();
            (hit.task_type.to_string(), id, hit.place.as_str())
        })
        .collect()
    }

    fn hit(task_type: &str, id: &str, place: &'static str) -> (String, String, &'static str) {
        (task_type.to_owned(), id.to_owned(), place)
    }

    #[tokio::test]
    async fn a_text_is_found_in_every_place_and_an_exact_id_comes_first() {
        let all = found(Search::new("order-1")).await;
        assert_eq!(
            all,
            [
                hit("mail.send", "order-1", "id"),
                hit("sms.send", "order-1", "id"),
                hit("mail.send", "order-12", "id"),
            ]
        );
        let bob = found(Search::new("bob")).await;
        assert_eq!(bob, [hit("mail.send", "order-12", "group")]);
        let trace = found(Search::new("t-7").types("sms.*")).await;
        assert_eq!(trace, [hit("sms.send", "order-1", "header")]);
        let message = Search::new("müller").place(SearchPlace::Message);
        assert_eq!(
            found(message).await,
            [hit("sms.send", "order-1", "message")]
        );
        for nothing in ["", "nobody"] {
            assert_eq!(found(Search::new(nothing)).await, []);
        }
        let dead = Search::new("order-1").state(TaskState::Dead);
        assert_eq!(found(dead).await, []);
    }

    #[tokio::test]
    async fn a_type_is_found_by_a_part_of_its_name() {
        let shop = shop().await;
        let job = DelayQueueJob::raw("Fax.Send", "hi").after(hours(1));
        shop.send(job).await.unwrap();
        for (text, name) in [
            ("MAIL", "mail.send"),
            ("Fax.Send", "Fax.Send"),
            ("fax", "Fax.Send"),
        ] {
            let types = Search::new(text).run(&shop).await.unwrap().types;
            assert_eq!(types, [TaskType::new(name).unwrap()], "{text}");
        }
    }

    #[tokio::test]
    async fn a_store_with_very_many_types_is_searched_in_part() {
        let shop = shop().await;
        for number in 0..MAX_SEARCH_CALLS {
            let name = TaskType::new(format!("empty.{number:04}")).unwrap();
            shop.store().register_type(&name).await.unwrap();
        }
        let last = DelayQueueJob::raw("zoo.feed", "hi").id("order-1");
        shop.send(last.after(hours(1))).await.unwrap();
        let search = Search::new("order-1");
        let found = search.run(&shop).await.unwrap();
        assert!(!found.is_complete);
        let found = search.types("zoo.*").run(&shop).await.unwrap();
        assert!(found.is_complete);
    }
}
