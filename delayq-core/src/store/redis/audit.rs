//! The audit: records, indexes, locks and trails agree. Chunk by chunk; each look at a task is one step.

use super::RedisStore;
use super::client::{Command, Lane};
use super::keys::Partition;
use super::record::{self, Damage};
use super::scripts::Script;
use crate::error::Result;
use crate::name::{TaskId, TaskType};
use crate::store::{AuditReport, Problem};

/// The keys beside the records, by their place among the keys, and what a bad entry in them is.
const INDEXES: [(i64, &str); 7] = [
    (1, "is scheduled without a record"),
    (2, "runs without a record"),
    (3, "has a lock without a record"),
    (4, "is dead without a record"),
    (6, "has a trail without a record"),
    (8, "its remembered end is damaged"),
    (9, "its remembered end is damaged"),
];

/// What `audit_tasks.lua` calls by a letter.
fn structural(letter: char) -> &'static str {
    match letter {
        'n' => "is in no state",
        'i' => "is in several states",
        'l' => "runs without a lock",
        's' => "has a lock without running",
        't' => "its trail is damaged",
        'f' => "its fence is above the largest one given",
        _ => "is damaged",
    }
}

impl RedisStore {
    /// Audits one partition. `belongs` says which ids may be there.
    pub(super) async fn audit_part(
        &self,
        part: &Partition,
        belongs: impl Fn(&[u8]) -> bool,
        repair: bool,
        report: &mut AuditReport,
    ) -> Result<()> {
        let mends = if repair { "1" } else { "0" };
        for (key, what) in INDEXES {
            self.audit_index(part, (key, what), mends, report).await?;
        }
        let mut cursor = "0".to_owned();
        loop {
            let command = part.script(Script::AuditTasks, 32).arg(&cursor).arg(mends);
            let mut fields = self.run(Lane::Main, part, command).await?;
            cursor = fields.text()?;
            while !fields.is_empty() {
                let (id, state, record) = (fields.bytes()?, fields.text()?, fields.bytes()?);
                let wrong = fields.text()?;
                report.checked += 1;
                if !belongs(&id) {
                    let what = "is in another partition than its id belongs to: it runs, and no query finds it";
                    report.problems.push(problem(&id, what, false));
                }
                for letter in wrong.chars() {
                    report
                        .problems
                        .push(problem(&id, structural(letter), repair));
                }
                self.audit_record(part, (&id, &state, record), repair, report)
                    .await?;
            }
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    async fn audit_index(
        &self,
        part: &Partition,
        (key, what): (i64, &str),
        mends: &str,
        report: &mut AuditReport,
    ) -> Result<()> {
        let mut cursor = "0".to_owned();
        loop {
            let command = part
                .script(Script::AuditIndex, 32)
                .number(key)
                .arg(&cursor)
                .arg(mends);
            let mut fields = self.run(Lane::Main, part, command).await?;
            cursor = fields.text()?;
            while !fields.is_empty() {
                report
                    .problems
                    .push(problem(&fields.bytes()?, what, mends == "1"));
            }
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    /// A damaged record that waits is moved to dead. A running one is left to its holder, who has the bytes
    /// as they were; a dead one is where it belongs.
    async fn audit_record(
        &self,
        part: &Partition,
        (id, state, stored): (&[u8], &str, Vec<u8>),
        repair: bool,
        report: &mut AuditReport,
    ) -> Result<()> {
        let is_id = std::str::from_utf8(id).is_ok_and(|id| TaskId::new(id).is_ok());
        let what = match record::decode(stored.clone()) {
            _ if !is_id => "is not a task id",
            Err(Damage::Bad(what)) => what,
            Ok(_) | Err(Damage::Newer(_)) => return Ok(()),
        };
        if state == "k" {
            return Ok(());
        }
        let mut buried = false;
        if repair && state == "s" {
            let command = part
                .script(Script::Bury, 256 + stored.len())
                .arg(id)
                .arg(stored)
                .arg(format!("corrupt: {what}"));
            buried = self.run(Lane::Main, part, command).await?.flag()?;
        }
        report.problems.push(problem(id, what, buried));
        Ok(())
    }

    /// A type that has tasks is listed, else no restart would find it.
    pub(super) async fn audit_listing(
        &self,
        task_type: &TaskType,
        repair: bool,
        report: &mut AuditReport,
    ) -> Result<()> {
        if report.checked == 0 {
            return Ok(());
        }
        let name = task_type.as_str();
        let ask = Command::read(&["SISMEMBER", &self.scope.keys.types(), name]);
        let ask = ask.at(self.scope.keys.slot());
        if self.client.call(Lane::Main, ask).await?.fields().flag()? {
            return Ok(());
        }
        if repair {
            self.client
                .call(Lane::Main, self.scope.list_type(task_type))
                .await?;
        }
        report.problems.push(problem(
            name.as_bytes(),
            "this type has tasks and is not listed",
            repair,
        ));
        Ok(())
    }
}

fn problem(id: &[u8], what: &str, repaired: bool) -> Problem {
    Problem {
        id: String::from_utf8_lossy(id).into_owned(),
        what: what.to_owned(),
        repaired,
    }
}
