//! Slows down the guessing of secrets.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::TokenBucket;
use crate::server_metric::LOGINS_FAILED;

/// Failures of one guesser: the burst, and then the seconds for each further one.
const BURST: f64 = 5.0;
const SECONDS: f64 = 12.0;
/// The largest number of guessers remembered.
const MAX_GUESSERS: usize = 10_000;

/// Counts a login with a wrong secret, or one refused after too many, in the metric.
pub fn count_failed_login(listener: &'static str) {
    metrics::counter!(LOGINS_FAILED, "listener" => listener).increment(1);
}

/// Who tries a secret, and whose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Guesser {
    /// The token or user whose secret is tried. `None` if there is no such one: all names that do
    /// not exist count together, so that inventing names gains nothing.
    name: Option<String>,
    /// The network that it is tried from; `None` if unknown.
    net: Option<IpAddr>,
}

impl Guesser {
    pub fn new(name: Option<String>, address: Option<IpAddr>) -> Self {
        Self {
            name,
            net: address.map(net_of),
        }
    }
}

/// An IPv6 address counts as its /64 network, because one host usually has all of it.
fn net_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let net = address.to_bits() & !u128::from(u64::MAX);
            Ipv6Addr::from_bits(net).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Counts failed attempts, by secret and address. Nobody's failures refuse a secret at another
/// address, or another secret. A successful attempt costs nothing.
#[derive(Debug, Default)]
pub struct Brake(Mutex<HashMap<Guesser, TokenBucket>>);

impl Brake {
    /// Counts an attempt as failed until [`Self::forgive`] revokes it, so that concurrent attempts
    /// gain nothing. The error is the time until the next attempt is allowed.
    pub fn attempt(&self, guesser: &Guesser) -> Result<(), Duration> {
        self.attempt_at(guesser, Instant::now())
    }

    fn attempt_at(&self, guesser: &Guesser, now: Instant) -> Result<(), Duration> {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= MAX_GUESSERS && !failures.contains_key(guesser) {
            make_room(&mut failures, now);
        }
        let bucket = failures.entry(guesser.clone());
        let bucket = bucket.or_insert_with(|| TokenBucket::new(1.0 / SECONDS, BURST, now));
        let wait = bucket.wait(1, now);
        if !wait.is_zero() {
            return Err(wait);
        }
        bucket.take(1, now);
        Ok(())
    }

    /// Revokes the last failure.
    pub fn forgive(&self, guesser: &Guesser) {
        let now = Instant::now();
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = failures.get_mut(guesser) {
            bucket.give_back(1, now);
        }
    }
}

/// Forgets who has no failures left. If that is too little, forgets the half with the fewest, so
/// that nobody escapes a brake by the failures of others.
fn make_room(failures: &mut HashMap<Guesser, TokenBucket>, now: Instant) {
    failures.retain(|_, bucket| !bucket.is_full(now));
    if failures.len() < MAX_GUESSERS {
        return;
    }
    let mut left: Vec<_> = failures
        .values()
        .map(|one| one.reading(now).remaining)
        .collect();
    left.sort_by(f64::total_cmp);
    let middle = left.get(left.len() / 2).copied().unwrap_or_default();
    let fewer = left.iter().filter(|one| **one < middle).count();
    // Of those at the middle, as many as there is room for.
    let mut room = (left.len() / 2).saturating_sub(fewer);
    failures.retain(|_, bucket| {
        let remaining = bucket.reading(now).remaining;
        let is_middle = remaining.total_cmp(&middle).is_eq();
        let has_room = is_middle && room > 0;
        room -= usize::from(has_room);
        remaining < middle || has_room
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guesser(name: Option<&str>, address: &str) -> Guesser {
        Guesser::new(name.map(ToOwned::to_owned), address.parse().ok())
    }

    #[test]
    fn a_secret_is_braked_at_an_address_after_five_failures_and_nowhere_else() {
        let (brake, now) = (Brake::default(), Instant::now());
        let one = guesser(Some("a"), "2001:db8::1");
        for _ in 0..5 {
            assert_eq!(brake.attempt_at(&one, now), Ok(()));
        }
        let same_net = guesser(Some("a"), "2001:db8::ffff");
        let wait = Duration::from_secs(12);
        assert_eq!(brake.attempt_at(&same_net, now), Err(wait));
        for other in [
            guesser(Some("b"), "2001:db8::1"),
            guesser(None, "2001:db8::1"),
            guesser(Some("a"), "10.0.0.1"),
            guesser(Some("a"), ""),
        ] {
            assert_eq!(brake.attempt_at(&other, now), Ok(()), "{other:?}");
        }
        let later = now + Duration::from_secs(13);
        assert_eq!(brake.attempt_at(&one, later), Ok(()));
    }

    #[test]
    fn many_others_neither_free_nor_brake_anybody() {
        let (brake, now) = (Brake::default(), Instant::now());
        let braked = guesser(Some("a"), "10.0.0.1");
        while brake.attempt_at(&braked, now).is_ok() {}
        for one in 0..30_000_u32 {
            let other = Guesser::new(None, Some(IpAddr::from(one.to_be_bytes())));
            assert_eq!(brake.attempt_at(&other, now), Ok(()));
        }
        assert!(brake.attempt_at(&braked, now).is_err(), "still braked");
        let remembered = brake.0.lock().unwrap().len();
        assert!(remembered <= MAX_GUESSERS, "{remembered}");
    }
}
