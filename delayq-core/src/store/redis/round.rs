//! The claim of a split type: a round over those of its partitions that are due.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::RedisStore;
use super::claim::Visited;
use super::keys::Partition;
use super::merge::{self, Merged};
use super::permits::Again;
use super::seek::MAX_LOOKS;
use super::spread::Spread;
use super::together::together;
use crate::error::{Error, Result};
use crate::fleet::FleetLimits;
use crate::name::TaskType;
use crate::store::{ClaimRequest, Claimed, MAX_BATCH};

/// What a sealed partition that is empty says of itself.
pub(super) const DRAINED: &str = "--";

/// The least share of a visit to a partition that is known to have more: so many tasks cost a script, and the
/// settlements that follow, little more each than a whole batch does.
const WORTHWHILE: usize = MAX_BATCH / 2;

/// A visit of one partition.
struct Visit {
    part: Arc<Partition>,
    /// How many tasks it might take.
    share: usize,
    known_fence: u64,
    outcome: Result<Visited>,
}

/// What came of a claim, and whether it was made by an outdated layout.
struct Found {
    claimed: Claimed,
    is_outdated: bool,
}

impl RedisStore {
    pub(super) async fn claim_tasks(
        &self,
        task_type: &TaskType,
        request: &ClaimRequest,
    ) -> Result<Claimed> {
        let mut unheard = 0;
        for _ in 0..MAX_LOOKS {
            let spread = self.scope.spread(task_type);
            let Found {
                mut claimed,
                is_outdated,
            } = match spread.single() {
                Some(part) => self.claim_single(part, request).await?,
                None if request.fleet == FleetLimits::NONE => {
                    self.claim_round(task_type, &spread, request).await?
                }
                None => self.claim_limited(task_type, &spread, request).await?,
            };
            unheard += claimed.unheard;
            claimed.unheard = unheard;
            if !is_outdated {
                return Ok(claimed);
            }
            let has_taken = !claimed.tasks.is_empty() || !claimed.ended.is_empty();
            let look = self.look_again(task_type, &spread);
            let looked = if has_taken {
                self.in_a_moment(look).await
            } else {
                look.await
            };
            if has_taken || (unheard > 0 && looked.is_err()) {
                // What was taken is handed out, whatever else there is.
                claimed.next_due = Some(claimed.now);
                return Ok(claimed);
            }
            looked?;
        }
        Err(self.unsettled(task_type))
    }

    async fn claim_single(&self, part: &Partition, request: &ClaimRequest) -> Result<Found> {
        // What limits hold back is told by the wake-up that ends it, to all.
        let in_turn = request.fleet == FleetLimits::NONE;
        let visited = self.claim_part(part, request, in_turn).await?;
        let is_outdated = visited.split != part.open;
        if is_outdated {
            let given = visited.claimed.tasks.iter().map(|task| task.lock.fence);
            let top = given.chain([visited.claimed.high_water]).max();
            self.scope.visits.top(&part.task_type, top.unwrap_or(0));
        }
        Ok(Found {
            claimed: visited.claimed,
            is_outdated,
        })
    }

    /// Claims what the limits of the fleet allow. They are asked only if something is known to be due, and nothing is
    /// taken that they do not grant.
    async fn claim_limited(
        &self,
        task_type: &TaskType,
        spread: &Spread,
        request: &ClaimRequest,
    ) -> Result<Found> {
        let of = |limit| ClaimRequest {
            limit,
            fleet: FleetLimits::NONE,
            ..request.clone()
        };
        let is_due = |found: &Found| found.claimed.next_in() == Some(Duration::ZERO);
        let (mut look, mut start) = (None, Instant::now());
        if request.limit == 0 || !self.scope.visits.know_due(spread.all(), Instant::now()) {
            let found = self.claim_round(task_type, spread, &of(0)).await?;
            if request.limit == 0 || found.is_outdated || !is_due(&found) {
                return Ok(found);
            }
            look = Some(found);
        }
        let permit = self.permit(task_type, spread, request).await?;
        let (starts, is_full, mut again) = (permit.starts, permit.is_full, permit.again);
        let found = match look {
            Some(found) if starts == 0 => Ok(found),
            _ => {
                start = Instant::now();
                self.claim_round(task_type, spread, &of(starts)).await
            }
        };
        let tasks = found.as_ref().map_or(&[][..], |found| &found.claimed.tasks);
        let unused = permit.used_by(tasks, request.lock_for);
        if unused > 0 {
            self.give_back(task_type, false).await;
        }
        let mut found = found?;
        if unused > 0 || !is_due(&found) {
            return Ok(found);
        }
        if starts > 0 && is_full {
            // Whoever frees a place has to know that somebody waits for it.
            let one = ClaimRequest {
                limit: 1,
                ..request.clone()
            };
            let next = self.permit(task_type, spread, &one);
            let Ok(next) = self.in_a_moment(next).await else {
                return Ok(found);
            };
            let is_unused = next.starts > 0;
            again = next.again;
            drop(next);
            if is_unused {
                self.give_back(task_type, false).await;
            }
        }
        match again {
            Again::AtOnce => {}
            Again::At(at) => {
                let wait = at.saturating_duration_since(start);
                merge::hold_back(&mut found.claimed, Some(wait));
            }
            Again::WhenTold => merge::hold_back(&mut found.claimed, None),
        }
        Ok(found)
    }

    /// Visits the partitions that are due, at the same time: each may take its share of the limit, and those that
    /// have more what the others leave. Nothing is found only where every partition has been looked at.
    async fn claim_round(
        &self,
        task_type: &TaskType,
        spread: &Spread,
        request: &ClaimRequest,
    ) -> Result<Found> {
        let limit = request.limit;
        // So many are worth starting before others are asked for.
        let enough = limit.min(MAX_BATCH);
        let visits = &self.scope.visits;
        let start = Instant::now();
        let mut merged = Merged::new(start);
        let turn = visits.due(spread.all().cloned().collect(), start);
        let (mut due, mut others) = (turn.due, turn.others);
        for part in turn.asked {
            self.ask_beside(part, request);
        }
        let (mut sent, mut failed, mut unheard, mut is_outdated) = (start, None, 0, false);
        let (mut has_to_come, mut heard) = (false, None);
        loop {
            let left = limit.saturating_sub(merged.taken());
            let wave = self.wave(&mut due, left);
            let spare = ([&mut due, &mut others], heard.clone());
            for visit in self.visit(wave, spare, left, (sent, request)).await {
                match visit.outcome {
                    Ok(Visited { claimed, split }) => {
                        is_outdated |= split != visit.part.open && spread.is_newest(&visit.part);
                        let is_full = claimed.tasks.len() + claimed.ended.len() >= visit.share;
                        let has_more = claimed.next_in() == Some(Duration::ZERO);
                        has_to_come |= limit == 0 && has_more;
                        heard = Some(Arc::clone(&visit.part));
                        if left > 0 && is_full && has_more {
                            due.push(visit.part);
                        }
                        merged.add(claimed, visit.known_fence);
                    }
                    Err(error) => {
                        unheard += u32::from(error.is_indeterminate());
                        // One that may have been applied says more than one that was not.
                        let is_known =
                            |known: &Error| known.is_indeterminate() || !error.is_indeterminate();
                        failed = failed.filter(is_known).or(Some(error));
                    }
                }
            }
            sent = Instant::now();
            let is_late = sent.duration_since(start) > self.scope.options.call_timeout;
            if due.is_empty() && merged.taken() == 0 && !has_to_come {
                due.append(&mut others);
            }
            let has_enough = limit > 0 && merged.taken() >= enough;
            if due.is_empty() || has_enough || is_late {
                break;
            }
        }
        let dropped = self.drop_drained(task_type, spread);
        if let Err(error) = self.in_a_moment(dropped).await {
            tracing::debug!(%task_type, %error, "cannot take drained partitions out of the layout yet");
            visits.not_dropped(spread.all());
        }
        let claimed = merged.finish(task_type, spread, visits);
        let no_answer = || failed.unwrap_or_else(|| self.unsettled(task_type));
        let claimed = claimed.ok_or_else(no_answer)?;
        Ok(Found {
            claimed: Claimed { unheard, ..claimed },
            is_outdated,
        })
    }

    /// Takes those to visit next off `due`, in their order. Of those known to have more a few are enough, each for a
    /// share worth the visit: the others have their turn with the next claim.
    fn wave(&self, due: &mut Vec<Arc<Partition>>, left: usize) -> Vec<Arc<Partition>> {
        if left == 0 {
            // One that may take nothing says at least when to come again.
            return std::mem::take(due);
        }
        let has_more = |part: &Arc<Partition>| {
            let known = self.scope.visits.look(part, |visit| visit.has_more);
            known.unwrap_or(false)
        };
        let (mut wave, mut rich) = (Vec::new(), (left / WORTHWHILE).max(1));
        let mut staying = Vec::new();
        for part in due.drain(..) {
            let is_rich = has_more(&part);
            if wave.len() < left && (!is_rich || rich > 0) {
                rich -= usize::from(is_rich);
                wave.push(part);
            } else {
                staying.push(part);
            }
        }
        *due = staying;
        wave
    }

    /// Visits partitions at the same time. Where none answers soon, `others` are looked at, too, or one that was heard
    /// before: they tell whether it is worth to wait, and must not be kept waiting themselves.
    async fn visit(
        &self,
        parts: Vec<Arc<Partition>>,
        (others, heard): ([&mut Vec<Arc<Partition>>; 2], Option<Arc<Partition>>),
        left: usize,
        (sent, request): (Instant, &ClaimRequest),
    ) -> Vec<Visit> {
        let (answered, _) = watch::channel(false);
        let count = parts.len();
        let of = |limit| ClaimRequest {
            limit,
            ..request.clone()
        };
        let visits = parts.into_iter().enumerate().map(|(at, part)| {
            // The first ones get what cannot be divided.
            let own = (left / count + usize::from(at < left % count)).min(MAX_BATCH);
            self.visit_one(part, of(own), sent, &answered)
        });
        let mut visits = pin!(together(visits));
        if heard.is_none() && others.iter().all(|others| others.is_empty()) {
            return visits.await;
        }
        tokio::select! {
            biased;
            found = &mut visits => return found,
            () = self.client.rest(self.patience()) => {}
        }
        if *answered.borrow() {
            return visits.await;
        }
        let sent = Instant::now();
        let mut looks: Vec<_> = others.into_iter().flat_map(std::mem::take).collect();
        if looks.is_empty() {
            looks.extend(heard);
        }
        let looks = looks.into_iter();
        let looks = looks.map(|part| self.visit_one(part, of(0), sent, &answered));
        let (mut found, looked) = tokio::join!(visits, together(looks));
        found.extend(looked);
        found
    }

    async fn visit_one(
        &self,
        part: Arc<Partition>,
        request: ClaimRequest,
        sent: Instant,
        answered: &watch::Sender<bool>,
    ) -> Visit {
        let visits = &self.scope.visits;
        let begun = visits.begin(&part);
        let patience = async {
            // The sender outlives this.
            let _ = answered.subscribe().wait_for(|answered| *answered).await;
            self.client.rest(begun.patience).await;
        };
        let outcome = tokio::select! {
            biased;
            outcome = self.claim_part(&part, &request, false) => outcome,
            () = patience => Err(self.slower(begun.patience)),
        };
        let task_type = &part.task_type;
        match &outcome {
            Ok(Visited { claimed, split }) => {
                answered.send_replace(true);
                if visits.answered(&part, (begun.known_fence, sent), claimed) {
                    tracing::info!(%task_type, partition = part.name, "the partition answers again");
                }
                if split == DRAINED {
                    visits.drained(&part);
                }
            }
            Err(error) => {
                if visits.failed(&part, self.scope.options.call_timeout) {
                    tracing::warn!(%task_type, partition = part.name, %error,
                        "claims from a partition fail; going on with the others");
                }
            }
        }
        Visit {
            part,
            share: request.limit,
            known_fence: begun.known_fence,
            outcome,
        }
    }

    /// Waits a moment for a call that the tasks of a claim must not wait for; it can be repeated.
    pub(super) async fn in_a_moment<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            answer = call => answer,
            () = self.client.rest(self.patience()) => Err(self.slower(self.patience())),
        }
    }

    /// The error of a call that others have overtaken. What a claim took is given back by the next one.
    pub(super) fn slower(&self, patience: Duration) -> Error {
        Error::Indeterminate {
            store: self.client.place().to_string(),
            detail: format!("no answer within {patience:?} of those of other partitions"),
        }
    }
}
