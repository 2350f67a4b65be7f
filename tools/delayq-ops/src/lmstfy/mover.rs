//! The move of the waiting jobs of a running lmstfy.

use std::time::Duration;

use delayq_plugin::store::SubmitOutcome;
use delayq_plugin::{Error, TaskSubmitService};

use super::job::ImportedJob;
use super::old_redis::{LmstfyError, OldRedis, RespValue, connect};
use super::place::{Place, is_overdue};
use super::report::LmstfyReport;

/// The set of delayed and taken jobs.
const TIMER: &str = "timer_set";
/// The place for entries that a move has taken out but not sent yet.
const TAKEN_TIMER: &str = "delayq-import/timer";
const TAKEN: &str = "delayq-import";
const REFUSED: &str = "delayq-import/refused";
/// Number of jobs in one step.
const BATCH: usize = 32;
/// The wait between two looks of a move that follows.
const AGAIN: Duration = Duration::from_secs(1);

/// Moves members from one set to another. Returns those that existed.
const TAKE_TIMED: &str = "local taken = {} \
    for i = 1, #ARGV, 2 do \
      if redis.call('ZREM', KEYS[1], ARGV[i + 1]) == 1 then \
        redis.call('ZADD', KEYS[2], ARGV[i], ARGV[i + 1]) \
        taken[#taken + 1] = ARGV[i] taken[#taken + 1] = ARGV[i + 1] end end \
    return taken";
/// Moves the oldest members from one list to another.
const TAKE_LISTED: &str = "local taken = {} \
    for i = 1, tonumber(ARGV[1]) do \
      local member = redis.call('RPOPLPUSH', KEYS[1], KEYS[2]) \
      if not member then break end \
      taken[i] = member end \
    return taken";

/// An entry that was taken out, with its time if it had one.
type Found = (Place, Option<i64>);

/// The move of the waiting jobs of a running lmstfy into a store. It can be repeated, also after an
/// interruption at any point: entries that it has taken out are in separate lists until the store
/// has them.
#[derive(Debug)]
pub struct LmstfyImport<'a> {
    tasks: &'a TaskSubmitService,
    redis: OldRedis,
    with_dead: bool,
    report: LmstfyReport,
}

impl<'a> LmstfyImport<'a> {
    /// Connects to the Redis of lmstfy. With `with_dead` its dead letters are moved, too: they are
    /// due at once, with one try.
    ///
    /// # Errors
    /// The address is invalid, or nobody answers there.
    pub async fn connect(
        tasks: &'a TaskSubmitService,
        address: &str,
        with_dead: bool,
    ) -> Result<Self, LmstfyError> {
        Ok(Self {
            tasks,
            redis: connect(address).await?,
            with_dead,
            report: LmstfyReport::default(),
        })
    }

    /// Moves the waiting jobs. With `follow` it continues until nothing is left, including the jobs
    /// that consumers hold now.
    ///
    /// # Errors
    /// Either side fails. The next move continues from there.
    pub async fn run(
        mut self,
        follow: bool,
        progress: &mut (dyn FnMut(&LmstfyReport) + Send),
    ) -> Result<LmstfyReport, LmstfyError> {
        loop {
            let before = self.report.clone();
            self.report.dead_left_out = 0;
            self.resume(progress).await?;
            self.timed(progress).await?;
            self.listed("q", progress).await?;
            self.dead(progress).await?;
            let is_quiet = self.report.moved == before.moved && self.report.taken_left == 0;
            if !follow || is_quiet {
                return Ok(self.report);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Sends the jobs that an earlier move had taken out.
    async fn resume(
        &mut self,
        progress: &mut (dyn FnMut(&LmstfyReport) + Send),
    ) -> Result<(), LmstfyError> {
        let last = (BATCH - 1).to_string();
        loop {
            let command: [&[u8]; 5] = [
                b"ZRANGE",
                TAKEN_TIMER.as_bytes(),
                b"0",
                last.as_bytes(),
                b"WITHSCORES",
            ];
            let members = self.redis.ask(&command).await?.list();
            if members.is_empty() {
                break;
            }
            let members = pairs(members);
            self.send_timed(members).await?;
            progress(&self.report);
        }
        for list in self.keys(&format!("{TAKEN}/?/*")).await? {
            loop {
                let command: [&[u8]; 4] = [b"LRANGE", list.as_bytes(), b"0", last.as_bytes()];
                let members = self.redis.ask(&command).await?.list();
                if members.is_empty() {
                    break;
                }
                self.send_listed(&list, members).await?;
                progress(&self.report);
            }
        }
        Ok(())
    }

    /// Moves delayed jobs, and counts those that consumers hold.
    async fn timed(
        &mut self,
        progress: &mut (dyn FnMut(&LmstfyReport) + Send),
    ) -> Result<(), LmstfyError> {
        let (mut left, mut held) = (0, 0);
        loop {
            let (offset, count) = (left.to_string(), BATCH.to_string());
            let command: [&[u8]; 8] = [
                b"ZRANGEBYSCORE",
                TIMER.as_bytes(),
                b"-inf",
                b"+inf",
                b"WITHSCORES",
                b"LIMIT",
                offset.as_bytes(),
                count.as_bytes(),
            ];
            let members = pairs(self.redis.ask(&command).await?.list());
            if members.is_empty() {
                break;
            }
            let now = self.tasks.clock().now().as_millis() / 1_000;
            let waits = |member: &Vec<u8>, score: i64| {
                let place = Place::timed(member.clone());
                place.is_some_and(|place| {
                    let is_moved = place.tries > 0 || self.with_dead;
                    place.is_delayed(score, now) || (is_moved && is_overdue(score, now))
                })
            };
            let (delayed, taken): (Vec<_>, Vec<_>) = members
                .into_iter()
                .partition(|(member, score)| waits(member, *score));
            let is_held = |score: &i64| !is_overdue(*score, now);
            held += taken.iter().filter(|(_, score)| is_held(score)).count();
            left += taken.len();
            for (member, score) in &taken {
                if !is_held(score) {
                    self.count_dead(member).await?;
                }
            }
            if delayed.is_empty() {
                continue;
            }
            let scores: Vec<_> = delayed.iter().map(|(_, score)| score.to_string()).collect();
            let mut command: Vec<&[u8]> = vec![b"EVAL", TAKE_TIMED.as_bytes(), b"2"];
            command.extend([TIMER.as_bytes(), TAKEN_TIMER.as_bytes()]);
            for ((member, _), score) in delayed.iter().zip(&scores) {
                command.extend([score.as_bytes(), member]);
            }
            let taken = self.redis.ask(&command).await?.list();
            let mut taken = taken.into_iter();
            let mut members = Vec::new();
            while let (Some(score), Some(member)) = (taken.next(), taken.next()) {
                members.push((member.bytes().unwrap_or_default(), score_of(score)));
            }
            self.send_timed(members).await?;
            progress(&self.report);
        }
        self.report.taken_left = held as u64;
        Ok(())
    }

    /// Moves the jobs of lists.
    async fn listed(
        &mut self,
        prefix: &str,
        progress: &mut (dyn FnMut(&LmstfyReport) + Send),
    ) -> Result<(), LmstfyError> {
        let count = BATCH.to_string();
        for list in self.keys(&format!("{prefix}/*/*")).await? {
            let target = format!("{TAKEN}/{list}");
            loop {
                let command: [&[u8]; 6] = [
                    b"EVAL",
                    TAKE_LISTED.as_bytes(),
                    b"2",
                    list.as_bytes(),
                    target.as_bytes(),
                    count.as_bytes(),
                ];
                let members = self.redis.ask(&command).await?.list();
                if members.is_empty() {
                    break;
                }
                self.send_listed(&target, members).await?;
                progress(&self.report);
            }
        }
        Ok(())
    }

    /// Moves dead letters, or counts them.
    async fn dead(
        &mut self,
        progress: &mut (dyn FnMut(&LmstfyReport) + Send),
    ) -> Result<(), LmstfyError> {
        if self.with_dead {
            return self.listed("d", progress).await;
        }
        for list in self.keys("d/*/*").await? {
            let length = self.redis.ask(&[b"LLEN", list.as_bytes()]).await?.number();
            self.report.dead_left_out += u64::try_from(length).unwrap_or(0);
        }
        Ok(())
    }

    /// Counts a job in the set that is dead, unless it was acknowledged: then it has no data.
    async fn count_dead(&mut self, member: &[u8]) -> Result<(), LmstfyError> {
        if let Some(place) = Place::timed(member.to_vec()) {
            let key = place.data_key();
            let there = self.redis.ask(&[b"EXISTS", key.as_bytes()]).await?.number();
            self.report.dead_left_out += u64::from(there > 0);
        }
        Ok(())
    }

    /// The keys with matching names.
    async fn keys(&mut self, pattern: &str) -> Result<Vec<String>, LmstfyError> {
        let (mut keys, mut cursor) = (std::collections::BTreeSet::new(), b"0".to_vec());
        loop {
            let command: [&[u8]; 6] = [
                b"SCAN",
                &cursor,
                b"MATCH",
                pattern.as_bytes(),
                b"COUNT",
                b"1000",
            ];
            let mut answer = self.redis.ask(&command).await?.list().into_iter();
            let next = answer.next().and_then(RespValue::bytes).unwrap_or_default();
            let found = answer.next().map(RespValue::list).unwrap_or_default();
            let found = found.into_iter().filter_map(RespValue::bytes);
            keys.extend(found.filter_map(|key| String::from_utf8(key).ok()));
            if next.is_empty() || next == b"0" {
                return Ok(keys.into_iter().collect());
            }
            cursor = next;
        }
    }

    async fn send_timed(&mut self, members: Vec<(Vec<u8>, i64)>) -> Result<(), LmstfyError> {
        let sent: Vec<_> = members.iter().map(|(member, _)| member.clone()).collect();
        let mut found = Vec::new();
        for (member, score) in members {
            match Place::timed(member.clone()) {
                Some(place) => found.push((place, Some(score))),
                None => self.refuse(&member, "it is damaged").await?,
            }
        }
        self.send(found).await?;
        let mut command: Vec<&[u8]> = vec![b"ZREM", TAKEN_TIMER.as_bytes()];
        command.extend(sent.iter().map(Vec::as_slice));
        if !sent.is_empty() {
            self.redis.ask(&command).await?;
        }
        Ok(())
    }

    async fn send_listed(
        &mut self,
        list: &str,
        members: Vec<RespValue>,
    ) -> Result<(), LmstfyError> {
        let members: Vec<_> = members.into_iter().filter_map(RespValue::bytes).collect();
        let mut found = Vec::new();
        for member in members.clone() {
            match Place::listed(list, member.clone()) {
                Some(place) => found.push((place, None)),
                None => self.refuse(&member, "it is damaged").await?,
            }
        }
        self.send(found).await?;
        for member in members {
            self.redis
                .ask(&[b"LREM", list.as_bytes(), b"1", &member])
                .await?;
        }
        Ok(())
    }

    /// Sends jobs, and then forgets their data.
    async fn send(&mut self, found: Vec<Found>) -> Result<(), LmstfyError> {
        let now = self.tasks.clock().now();
        let (mut tasks, mut sent) = (Vec::new(), Vec::new());
        for (place, score) in found {
            let key = place.data_key();
            let Some(data) = self.redis.ask(&[b"GET", key.as_bytes()]).await?.bytes() else {
                self.report.expired += 1;
                continue;
            };
            let ttl = self.redis.ask(&[b"PTTL", key.as_bytes()]).await?.number();
            let ttl = u64::try_from(ttl).ok().map(Duration::from_millis);
            let member = place.member.clone();
            let job = ImportedJob {
                place,
                data,
                ttl,
                score,
            };
            match job.task(now) {
                Ok(task) => {
                    tasks.push(task);
                    sent.push((key, member));
                }
                Err(error) => self.refuse(&member, &error.to_string()).await?,
            }
        }
        let outcomes = self.tasks.store().submit(tasks).await;
        let mut failed = None;
        for ((key, member), outcome) in sent.into_iter().zip(outcomes) {
            match outcome {
                Ok(SubmitOutcome::Accepted { .. }) => self.report.moved += 1,
                Ok(_) => self.report.existing += 1,
                Err(error @ (Error::InvalidInput { .. } | Error::LimitExceeded { .. })) => {
                    self.refuse(&member, &error.to_string()).await?;
                    continue;
                }
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            }
            if failed.is_none() {
                self.redis.ask(&[b"DEL", key.as_bytes()]).await?;
            }
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Sets a job aside that the store does not accept.
    async fn refuse(&mut self, member: &[u8], reason: &str) -> Result<(), LmstfyError> {
        self.report.refused += 1;
        self.report.refusal = Some(reason.to_owned());
        self.redis
            .ask(&[b"LPUSH", REFUSED.as_bytes(), member])
            .await?;
        Ok(())
    }
}

/// Members with their scores.
fn pairs(flat: Vec<RespValue>) -> Vec<(Vec<u8>, i64)> {
    let (mut flat, mut pairs) = (flat.into_iter(), Vec::new());
    while let (Some(member), Some(score)) = (flat.next(), flat.next()) {
        pairs.push((member.bytes().unwrap_or_default(), score_of(score)));
    }
    pairs
}

/// A score, in whole seconds.
fn score_of(reply: RespValue) -> i64 {
    let text = reply.bytes().unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let whole = text.split('.').next().unwrap_or_default();
    whole.parse().unwrap_or(0)
}
