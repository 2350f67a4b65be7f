//! Arguments and answers of `ended.lua`, and the page of ended tasks built from them.

use std::collections::BTreeMap;

use delayq_core::operate::{Cursor, Page};
use delayq_core::task::TaskInfo;
use delayq_core::{Result, TaskId, TaskState, Timestamp};

use super::{Script, ShardKeys, id_of, record};
use crate::connection::{Command, Fields};

/// The generations of ended tasks by their index among the keys, younger first: it may become the
/// older one meanwhile.
pub(crate) const GENERATIONS: [i64; 2] = [8, 9];

/// The latest ended tasks of one shard before a cursor, among those read so far. They are stored in
/// no order, and a scan may return one twice.
#[derive(Debug)]
pub(crate) struct EndedScan {
    state: TaskState,
    before: Option<(Timestamp, TaskId)>,
    limit: usize,
    /// One more than the page needs, if there are more.
    latest: BTreeMap<(Timestamp, TaskId), TaskInfo>,
}

impl EndedScan {
    pub(crate) fn new(state: TaskState, cursor: Option<&Cursor>, limit: usize) -> Self {
        Self {
            state,
            before: cursor.map(|cursor| (cursor.at, cursor.id.clone())),
            limit,
            latest: BTreeMap::new(),
        }
    }

    /// The next step in a generation, from the cursor `at`.
    pub(crate) fn step(
        &self,
        keys: &ShardKeys,
        generation: i64,
        at: &str,
        retention_ms: i64,
    ) -> Command {
        let letter = match self.state {
            TaskState::Cancelled => "c",
            TaskState::Expired => "e",
            _ => "d",
        };
        let is_full = self.latest.len() > self.limit;
        let oldest = self.latest.keys().next().filter(|_| is_full);
        let from = oldest.map_or(Timestamp::ZERO, |(at, _)| *at);
        let to = self.before.as_ref().map_or(Timestamp::MAX, |(at, _)| *at);
        keys.script(Script::Ended, 96)
            .number(generation)
            .arg(at)
            .arg(letter)
            .number(retention_ms)
            .number(from.as_millis())
            .number(to.as_millis())
    }

    /// Reads the answer of a step. Returns the cursor of the next one, "0" at the end.
    pub(crate) fn read(&mut self, keys: &ShardKeys, mut fields: Fields) -> Result<String> {
        let next = fields.text()?;
        while !fields.is_empty() {
            let id = id_of(&mut fields)?;
            let (end, note) = (fields.bytes()?, fields.bytes()?);
            let Some(end) = record::decode_end(&end) else {
                let what = "its remembered end is damaged; an audit with repair forgets it";
                return Err(keys.corrupt(id.as_str(), what));
            };
            let place = (end.at, id.clone());
            if self.before.as_ref().is_some_and(|before| place >= *before) {
                continue;
            }
            let mut info = TaskInfo::new(id, self.state, end.at);
            info.attempt = end.attempt;
            info.settled_fence = end.settled;
            info.history.last_error = record::decode_failure(&note);
            self.latest.insert(place, info);
            if self.latest.len() > self.limit + 1 {
                self.latest.pop_first();
            }
        }
        Ok(next)
    }

    pub(crate) fn into_page(self) -> Page {
        let has_more = self.latest.len() > self.limit;
        let mut page = Page::default();
        page.tasks = self.latest.into_values().rev().take(self.limit).collect();
        let last = page.tasks.last().filter(|_| has_more);
        page.next = last.map(|task| Cursor::new(task.at, task.id.clone()));
        page
    }
}

#[cfg(test)]
mod tests {
    use delayq_core::{Bucket, Namespace, TaskType};

    use super::*;
    use crate::connection::RespValue;
    use crate::scripts::Keyspace;

    #[test]
    fn the_latest_are_kept_though_they_come_in_no_order_and_twice() {
        let keys = Keyspace::new(Namespace::default());
        let bucket = Bucket::whole(TaskType::new("a").unwrap());
        let keys = keys.shard_of(&bucket).unwrap();
        let cursor = Cursor::new(Timestamp::from_millis(70), TaskId::new("7").unwrap());
        let mut scan = EndedScan::new(TaskState::Done, Some(&cursor), 2);
        let bytes = |text: String| RespValue::Bytes(text.into_bytes());
        for batch in [&[3, 9, 5][..], &[1, 7, 5, 6], &[6, 2, 8]] {
            let mut reply = vec![bytes("17".to_owned())];
            for n in batch {
                let end = format!("d{n}0 {n} 1 0badcafe");
                reply.extend([n.to_string(), end, String::new()].map(bytes));
            }
            assert_eq!(
                scan.read(&keys, RespValue::List(reply).fields()).unwrap(),
                "17"
            );
        }
        let page = scan.into_page();
        let ids: Vec<&str> = page.tasks.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(ids, ["6", "5"]);
        assert_eq!(page.next.unwrap().id.as_str(), "5");
    }
}
