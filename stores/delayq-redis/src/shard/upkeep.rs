//! Upkeep of a shard: operations for operators and for a resize. Long work is done in chunks, so
//! that no step blocks all others for long.

use std::time::{Duration, Instant};

use delayq_core::history::{EndsStatus, WaitingEnd};
use delayq_core::operate::{AuditReport, Cursor, Page, Setting, TypeSettings};
use delayq_core::{Error, Result, TaskId, TaskState, Timestamp};

use super::Shard;
use super::context::Context;
use crate::connection::{Class, Command, RespValue};
use crate::scripts::audit::{Audit, Audited, INDEXES};
use crate::scripts::dead::{DeadScan, Purge, RequeuePlan, TOMBSTONES};
use crate::scripts::ended::{EndedScan, GENERATIONS};
use crate::scripts::far::{self, FarAudit, Place, ScheduledPage};
use crate::scripts::query::ShardStats;
use crate::scripts::{Script, claim, dead, ends, query};

/// The largest number that Lua keeps exact.
const MAX_EXACT: u64 = (1 << 53) - 1;

/// A setting in the format of configure.lua.
fn argument<T>(setting: Setting<T>, text: impl Fn(T) -> String) -> String {
    match setting {
        Setting::To(value) => text(value),
        Setting::Unset => "-".to_owned(),
        Setting::Keep => String::new(),
    }
}

/// Settings of a shard that new shards of its type inherit.
#[derive(Clone, Debug, Default)]
pub(crate) struct SealedSettings {
    pub(crate) pause_ms: Option<u64>,
    pub(crate) max_pending: Option<u64>,
    /// The record of ends, as it is stored; empty for none.
    pub(crate) history: String,
    /// The bound of the records while their history is off; empty for none.
    pub(crate) history_most: String,
    /// `1` if it began under a release that knows packed tasks; empty otherwise.
    pub(crate) born: String,
    /// It has never had a task, so it is drained already.
    pub(crate) is_empty: bool,
}

/// The operations for operators and for a resize on one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upkeep<'a>(pub(super) &'a Shard);

impl Upkeep<'_> {
    pub(crate) async fn list(
        self,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        if state.is_ended() {
            return self.list_ended(EndedScan::new(state, cursor, limit)).await;
        }
        let keys = &self.0.keys;
        let mut packed = ScheduledPage::new(keys, cursor, limit);
        let has_packed = keys.packs() && state == TaskState::Scheduled;
        // First the packed ones: those that are unpacked meanwhile are found by the last step.
        while has_packed && !packed.place.is_end() {
            packed.read(self.0.run(Class::Main, packed.step()).await?)?;
        }
        let command = query::list(keys, state, cursor, limit);
        let fields = self.0.run(Class::Main, command).await?;
        let page = query::read_page(keys, state, fields)?;
        Ok(if has_packed {
            packed.merged(page)
        } else {
            page
        })
    }

    /// Goes through all remembered tasks, in small steps.
    async fn list_ended(self, mut scan: EndedScan) -> Result<Page> {
        let Context {
            retention, timeout, ..
        } = &*self.0.cx;
        let begun = Instant::now();
        for generation in GENERATIONS {
            let mut at = "0".to_owned();
            loop {
                let command = scan.step(&self.0.keys, generation, &at, retention.ms);
                let fields = self.0.run(Class::Main, command).await?;
                at = scan.read(&self.0.keys, fields)?;
                if at == "0" {
                    break;
                }
                if begun.elapsed() > *timeout {
                    let detail = format!(
                        "listing the ended tasks takes longer than {timeout:?}: raise call_timeout, \
                         or lower remembered"
                    );
                    let place = self.0.cx.connections.place().to_string();
                    return Err(Error::unavailable(place, detail));
                }
            }
        }
        Ok(scan.into_page())
    }

    pub(crate) async fn stats(self) -> Result<ShardStats> {
        let command = self.0.keys.script(Script::Stats, 0);
        let retention_ms = self.0.cx.retention.ms;
        let fields = self.0.run(Class::Main, command).await?;
        let mut found = query::read_stats(fields, retention_ms)?;
        if found.has_packed_due {
            let mut due = [0];
            let bounds = [
                Timestamp::ZERO,
                found.stats.now.plus(Duration::from_millis(1)),
            ];
            self.count_packed(&bounds, &mut due).await?;
            found.stats.due = found
                .stats
                .scheduled
                .min(found.stats.due + due.iter().sum::<u64>());
        }
        Ok(found)
    }

    pub(crate) async fn histogram(self, bounds: &[Timestamp]) -> Result<Vec<u64>> {
        let command = query::histogram(&self.0.keys, bounds);
        let mut counts = query::read_histogram(self.0.run(Class::Main, command).await?)?;
        if self.0.keys.packs() {
            self.count_packed(bounds, &mut counts).await?;
        }
        Ok(counts)
    }

    /// Adds the numbers of packed tasks between these bounds.
    async fn count_packed(self, bounds: &[Timestamp], counts: &mut [u64]) -> Result<()> {
        let mut place = Place::start();
        while !place.is_end() {
            let command = far::histogram(&self.0.keys, &place, bounds);
            place = far::read_histogram(self.0.run(Class::Main, command).await?, counts)?;
        }
        Ok(())
    }

    /// Requeues the tasks selected by `scan`; `plan` advances with each of them.
    pub(crate) async fn requeue(
        self,
        mut scan: DeadScan,
        plan: &mut RequeuePlan,
    ) -> Result<Vec<TaskId>> {
        while !scan.is_over() {
            let command = dead::requeue(&self.0.keys, &self.0.wake, plan, &mut scan);
            let mut fields = self.0.run_and_wake(command).await?;
            plan.next_due = fields.int()?.to_string();
            scan.read(fields)?;
        }
        Ok(scan.into_done())
    }

    pub(crate) async fn discard(self, mut scan: DeadScan) -> Result<Vec<TaskId>> {
        while !scan.is_over() {
            let command = dead::discard(&self.0.keys, &mut scan);
            scan.read(self.0.run(Class::Main, command).await?)?;
        }
        Ok(scan.into_done())
    }

    pub(crate) async fn purge(self, purge: Purge) -> Result<u64> {
        match purge {
            Purge::Tasks(state) => self.purge_tasks(state).await,
            Purge::Ends(state) => self.purge_ends(state).await,
        }
    }

    /// Removes as many tasks as there were at the start, so that a busy type cannot keep this
    /// running for ever.
    async fn purge_tasks(self, state: &str) -> Result<u64> {
        let (mut purged, mut goal) = (0, None);
        loop {
            let command = self.0.keys.script(Script::Purge, 8).arg(state);
            let mut fields = self.0.run(Class::Main, command).await?;
            let (before, removed) = (fields.count()?, fields.count()?);
            purged += removed;
            if removed == 0 || purged >= *goal.get_or_insert(before) {
                return Ok(purged);
            }
        }
    }

    async fn purge_ends(self, state: &str) -> Result<u64> {
        let mut forgotten = 0;
        for tombstones in TOMBSTONES {
            let mut cursor = "0".to_owned();
            loop {
                let command = self.0.keys.script(Script::Forget, 64).number(tombstones);
                let command = command
                    .arg(&cursor)
                    .arg(state)
                    .number(self.0.cx.retention.ms);
                let mut fields = self.0.run(Class::Main, command).await?;
                cursor = fields.text()?;
                forgotten += fields.count()?;
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(forgotten)
    }

    /// An `until` at or before the present time ends a pause. Returns the field `split`.
    pub(crate) async fn pause(self, until: Timestamp) -> Result<String> {
        let command = self.0.keys.script(Script::Pause, 256);
        let command = command.number(until.as_millis());
        let command = command.arg(&self.0.wake.channel).arg(&self.0.wake.message);
        self.0.run_and_wake(command).await?.text()
    }

    /// Changes the settings of the shard; the limit is the shard's own share. Returns the field
    /// `split`.
    pub(crate) async fn configure(
        self,
        max_pending: Setting<u64>,
        settings: &TypeSettings,
    ) -> Result<String> {
        let exact = |most: u64| most.min(MAX_EXACT).to_string();
        let concurrency = |most: u32| most.max(1).to_string();
        let command = self.0.keys.script(Script::Configure, 96);
        let command = command.arg(argument(max_pending, exact));
        let command = command.arg(argument(settings.fleet_concurrency, concurrency));
        let command = command.arg(argument(settings.fleet_rate, claim::rate_text));
        let history = |kept| ends::setting(kept, self.0.cx.history_buffer);
        let command = command.arg(argument(settings.history, history));
        self.0.run(Class::Main, command).await?.text()
    }

    /// The oldest records of ends, until their size is `most` bytes.
    pub(crate) async fn oldest_ends(self, limit: usize, most: usize) -> Result<Vec<WaitingEnd>> {
        let (mut all, mut after, mut bytes) = (Vec::new(), "-".to_owned(), 0);
        let mut count = 1;
        while all.len() < limit && bytes < most {
            let command = ends::oldest(&self.0.keys, &after, count.min(limit - all.len()));
            let answer = self.0.cx.connections.call(Class::Main, command).await?;
            let page = ends::read_oldest(&self.0.keys, answer.fields())?;
            let Some(last) = page.last else {
                break;
            };
            if let Some(place) = page.damaged
                && let Some(left_out) = self.0.cx.log.admit()
            {
                let key = self.0.keys.ends();
                tracing::error!(
                    key,
                    place,
                    left_out,
                    "the record of an end cannot be read: XDEL it"
                );
            }
            after = format!("({last}");
            bytes += page.bytes;
            count = ends::next_count(count, page.bytes);
            all.extend(page.waiting);
        }
        Ok(all)
    }

    /// Removes records of ends, given by place and size. Returns the number that was still there.
    pub(crate) async fn take_ends(self, places: &[(&str, &str)]) -> Result<u64> {
        let command = ends::take(&self.0.keys, places);
        self.0.run(Class::Main, command).await?.count()
    }

    /// The state of its records.
    pub(crate) async fn ends_status(self) -> Result<EndsStatus> {
        let command = ends::status(&self.0.keys);
        let mut status = ends::read_status(self.0.run(Class::Main, command).await?)?;
        if status.limit == 0 {
            status.limit = self.0.cx.history_buffer.unwrap_or(ends::SHARD_BUFFER);
        }
        Ok(status)
    }

    /// Removes everything about a type without tasks. Returns the numbers of its scheduled, running
    /// and dead tasks, each of which prevents the removal, and the field `split`.
    pub(crate) async fn drop_type(self) -> Result<([u64; 3], String)> {
        let figures = [self.0.keys.figures()];
        let keys = [self.0.keys.keys.as_slice(), &figures].concat();
        let command = Command::script(Script::Drop.lua(), self.0.keys.slot, &keys, 0);
        let mut fields = self.0.run(Class::Main, command).await?;
        let in_use = [fields.count()?, fields.count()?, fields.count()?];
        Ok((in_use, fields.text()?))
    }

    /// A field of its settings.
    pub(crate) async fn setting(self, field: &str) -> Result<Option<String>> {
        let ask = self.0.keys.setting(field);
        match self.0.cx.connections.call(Class::Main, ask).await? {
            RespValue::Nil => Ok(None),
            reply => reply.fields().text().map(Some),
        }
    }

    /// Seals the shard with a layout: from now on it takes no id that it does not know.
    pub(crate) async fn seal(self, layout: &str) -> Result<SealedSettings> {
        let command = self.0.keys.script(Script::Seal, layout.len()).arg(layout);
        let mut fields = self.0.run(Class::Main, command).await?;
        let mut number = || Ok::<_, Error>(fields.text()?.parse().ok());
        Ok(SealedSettings {
            pause_ms: number()?,
            max_pending: number()?,
            history: fields.text()?,
            history_most: fields.text()?,
            born: fields.text()?,
            is_empty: fields.flag()?,
        })
    }

    /// Creates the shard, unless it exists.
    pub(crate) async fn open(self, kept: SealedSettings) -> Result<()> {
        let text = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
        let command = self.0.keys.script(Script::Open, 32).arg(&self.0.keys.open);
        let command = command.arg(text(kept.pause_ms)).arg(text(kept.max_pending));
        let command = command.arg(kept.history).arg(kept.history_most);
        let command = command.arg(kept.born);
        self.0.run(Class::Main, command).await.map(drop)
    }

    /// Audits the shard in chunks; each look at a task is one step. `belongs` returns true for the
    /// ids that may be here.
    pub(crate) async fn audit(
        self,
        belongs: impl Fn(&[u8]) -> bool,
        repair: bool,
        report: &mut AuditReport,
    ) -> Result<()> {
        // First the packed ones: what is unpacked to be repaired is found by the last step.
        let mut packed = FarAudit::new(repair);
        while self.0.keys.packs() && !packed.place.is_end() {
            let fields = self.0.run(Class::Main, packed.step(&self.0.keys)).await?;
            packed.read(fields, &belongs, report)?;
            while let Some(unpack) = packed.unpack(&self.0.keys) {
                packed.read_unpacked(self.0.run(Class::Main, unpack).await?)?;
            }
        }
        if let Some(correct) = packed.end(&self.0.keys, report) {
            self.0.run(Class::Main, correct).await?;
        }
        let mut audit = Audit { repair, report };
        for index in INDEXES {
            let mut cursor = "0".to_owned();
            loop {
                let command = audit.index(&self.0.keys, index, &cursor);
                cursor = audit.read_index(index, self.0.run(Class::Main, command).await?)?;
                if cursor == "0" {
                    break;
                }
            }
        }
        let mut cursor = "0".to_owned();
        loop {
            let command = audit.tasks(&self.0.keys, &cursor);
            let mut fields = self.0.run(Class::Main, command).await?;
            cursor = fields.text()?;
            while !fields.is_empty() {
                let task = Audited::read(&mut fields)?;
                audit.note(&task, belongs(&task.id));
                self.audit_record(&task, &mut audit).await?;
            }
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    async fn audit_record(self, task: &Audited, audit: &mut Audit<'_>) -> Result<()> {
        let Some(what) = task.damage() else {
            return Ok(());
        };
        let bury = task.bury(&self.0.keys, what).filter(|_| audit.repair);
        let buried = match bury {
            Some(command) => self.0.run(Class::Main, command).await?.flag()?,
            None => false,
        };
        audit.add(&task.id, what, buried);
        Ok(())
    }
}
