//! Slows down the guessing of tokens.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use delayq_service::limits::TokenBucket;
use tokio::time::Instant;

/// Failed logins of one address: the burst, and then the seconds for each further one.
const OF_ADDRESS: f64 = 5.0;
const SECONDS_OF_ADDRESS: f64 = 12.0;
/// Failed logins of all addresses: the burst, and then the number a second.
const OVERALL: f64 = 100.0;
const OVERALL_A_SECOND: f64 = 2.0;
/// The largest number of addresses remembered. Further addresses share only the overall limit.
const MAX_ADDRESSES: usize = 10_000;

/// Counts failed logins, by address and overall. A successful login costs nothing.
#[derive(Debug)]
pub(super) struct Brake(Mutex<Failures>);

#[derive(Debug)]
struct Failures {
    overall: TokenBucket,
    by_address: HashMap<IpAddr, TokenBucket>,
}

impl Brake {
    pub(super) fn new() -> Self {
        let overall = TokenBucket::new(OVERALL_A_SECOND, OVERALL, Instant::now());
        Self(Mutex::new(Failures {
            overall,
            by_address: HashMap::new(),
        }))
    }

    /// Counts an attempt as failed until [`Self::forgive`] revokes it, so that concurrent attempts
    /// gain nothing. The error is the time until the next attempt is allowed.
    pub(super) fn attempt(&self, address: IpAddr) -> Result<(), Duration> {
        self.attempt_at(address, Instant::now())
    }

    fn attempt_at(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Failures {
            overall,
            by_address,
        } = &mut *failures;
        if by_address.len() >= MAX_ADDRESSES {
            by_address.retain(|_, bucket| !bucket.is_full(now));
        }
        let is_known = by_address.len() < MAX_ADDRESSES;
        let new = || TokenBucket::new(1.0 / SECONDS_OF_ADDRESS, OF_ADDRESS, now);
        let mut spare = new();
        let own = match by_address.get_mut(&net_of(address)) {
            Some(_) | None if is_known => by_address.entry(net_of(address)).or_insert_with(new),
            Some(known) => known,
            None => &mut spare,
        };
        let wait = own.wait(1, now).max(overall.wait(1, now));
        if !wait.is_zero() {
            return Err(wait);
        }
        own.take(1, now);
        overall.take(1, now);
        Ok(())
    }

    /// Revokes the last failure of an address.
    pub(super) fn forgive(&self, address: IpAddr) {
        let now = Instant::now();
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.overall.give_back(1, now);
        if let Some(own) = failures.by_address.get_mut(&net_of(address)) {
            own.give_back(1, now);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_braked_after_five_failures_and_another_one_is_not() {
        let (brake, now) = (Brake::new(), Instant::now());
        let one: IpAddr = "2001:db8::1".parse().unwrap();
        let same_net: IpAddr = "2001:db8::ffff".parse().unwrap();
        for _ in 0..5 {
            assert_eq!(brake.attempt_at(one, now), Ok(()));
        }
        assert_eq!(
            brake.attempt_at(same_net, now),
            Err(Duration::from_secs(12))
        );
        assert_eq!(brake.attempt_at("10.0.0.1".parse().unwrap(), now), Ok(()));
        assert_eq!(brake.attempt_at(one, now + Duration::from_secs(13)), Ok(()));
    }

    #[test]
    fn many_addresses_together_are_braked_too() {
        let (brake, now) = (Brake::new(), Instant::now());
        let granted = (0..1_000_u32)
            .filter(|one| {
                let address = IpAddr::from(one.to_be_bytes());
                brake.attempt_at(address, now).is_ok()
            })
            .count();
        assert_eq!(granted, 100);
    }
}
