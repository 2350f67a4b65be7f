//! Claims in doubt: their answers were lost. The next claim of the bucket names them, and the
//! script returns the tasks they took. Otherwise these tasks would wait for the end of locks that
//! nobody holds, and would have lost an attempt.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use delayq_core::Bucket;
use delayq_core::store::ClaimRequest;

use crate::lock::lock;
use crate::scripts::claim::ClaimNumbers;

/// Maximum number of claims of a bucket that are named. Older ones keep their locks until these
/// expire.
const MAX_IN_DOUBT: usize = 16;

/// The claims of one store that have no answer, or whose answer may not have been seen.
#[derive(Debug, Default)]
pub(crate) struct InDoubt(Mutex<DoubtState>);

#[derive(Debug, Default)]
struct DoubtState {
    last: u64,
    claims: HashMap<Bucket, Vec<Lost>>,
}

/// A claim that may have locked tasks.
#[derive(Debug)]
struct Lost {
    number: u64,
    since: Instant,
    /// The length of its locks, if it took any.
    lock_for: Duration,
}

/// A claim in progress. If it is dropped without an answer, it is in doubt; so is a claim that its
/// caller gave up.
#[derive(Debug)]
pub(crate) struct OpenClaim<'a> {
    in_doubt: &'a InDoubt,
    bucket: &'a Bucket,
    pub(crate) numbers: ClaimNumbers,
    lock_for: Duration,
    has_answer: bool,
}

impl InDoubt {
    /// Begins a claim. A claim for no tasks takes no locks that could be lost.
    pub(crate) fn begin<'a>(&'a self, bucket: &'a Bucket, request: &ClaimRequest) -> OpenClaim<'a> {
        let mut state = lock(&self.0);
        state.last += 1;
        let number = state.last;
        let mut in_doubt = String::new();
        if let Some(claims) = state.claims.get_mut(bucket) {
            // The answer to a later claim does not prove that an earlier one will never arrive at
            // the server.
            claims.retain(|claim| claim.since.elapsed() < claim.lock_for);
            for claim in claims {
                in_doubt.extend([" ", &claim.number.to_string(), " "]);
            }
        }
        if in_doubt.is_empty() {
            state.claims.remove(bucket);
        }
        OpenClaim {
            in_doubt: self,
            bucket,
            numbers: ClaimNumbers { number, in_doubt },
            lock_for: request.lock_for,
            has_answer: request.limit == 0,
        }
    }
}

impl OpenClaim<'_> {
    /// The claim was answered, or has certainly had no effect.
    pub(crate) fn answered(mut self) {
        self.has_answer = true;
    }
}

impl Drop for OpenClaim<'_> {
    fn drop(&mut self) {
        if self.has_answer {
            return;
        }
        let mut state = lock(&self.in_doubt.0);
        let claims = state.claims.entry(self.bucket.clone()).or_default();
        if claims.len() == MAX_IN_DOUBT {
            claims.remove(0);
        }
        claims.push(Lost {
            number: self.numbers.number,
            since: Instant::now(),
            lock_for: self.lock_for,
        });
    }
}

#[cfg(test)]
mod tests {
    use delayq_core::{TaskType, Timestamp};

    use super::*;

    #[test]
    fn a_claim_without_an_answer_is_named_until_its_locks_have_expired() {
        let in_doubt = InDoubt::default();
        let bucket = Bucket::whole(TaskType::new("a").unwrap());
        let request = |lock_for| ClaimRequest::new(1, lock_for, Timestamp::ZERO);
        let named = |lock_for| {
            in_doubt
                .begin(&bucket, &request(lock_for))
                .numbers
                .in_doubt
                .clone()
        };
        assert_eq!(named(Duration::from_secs(9)), "");
        in_doubt
            .begin(&bucket, &request(Duration::from_secs(9)))
            .answered();
        // The first one was dropped.
        let open = in_doubt.begin(&bucket, &request(Duration::ZERO));
        assert_eq!(open.numbers.in_doubt, " 1 ");
        drop(open);
        let other = Bucket::shard(TaskType::new("a").unwrap(), "1.0");
        let request = ClaimRequest::new(0, Duration::from_secs(9), Timestamp::ZERO);
        assert_eq!(in_doubt.begin(&other, &request).numbers.in_doubt, "");
        assert_eq!(in_doubt.begin(&bucket, &request).numbers.in_doubt, " 1 ");
    }

    #[test]
    fn so_many_claims_are_named_and_no_more() {
        let in_doubt = InDoubt::default();
        let bucket = Bucket::whole(TaskType::new("a").unwrap());
        let request = ClaimRequest::new(1, Duration::from_secs(9), Timestamp::ZERO);
        for _ in 0..MAX_IN_DOUBT + 3 {
            drop(in_doubt.begin(&bucket, &request));
        }
        let open = in_doubt.begin(&bucket, &request);
        let named: Vec<&str> = open.numbers.in_doubt.split_whitespace().collect();
        assert_eq!((named.len(), named[0]), (MAX_IN_DOUBT, "4"));
    }
}
