//! Time: the only module that reads it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
mod timer;
#[cfg(any(test, feature = "test-util"))]
mod virtual_clock;

#[cfg(any(test, feature = "test-util"))]
pub use virtual_clock::VirtualClock;

/// The longest delay, for a task or a retry: 10 years of 365 days. Longer ones are unit mistakes.
pub const MAX_DELAY: Duration = Duration::from_hours(87600);

/// A point in time: milliseconds since the Unix epoch, UTC.
///
/// Every time that delayq stores or compares has this resolution.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The latest time that delayq accepts: 9999-12-30T21:59:59.999Z, the last one with an RFC 3339
    /// form in every time zone. As a number it is far below 2^53, so that Lua and JSON keep it
    /// exact.
    pub const MAX: Self = Self(253_402_207_199_999);
    /// The epoch.
    pub const ZERO: Self = Self(0);

    /// The time `ms` milliseconds after the epoch; values outside `0..=MAX` are clamped.
    #[must_use]
    pub fn from_millis(ms: i64) -> Self {
        Self(ms.clamp(0, Self::MAX.0))
    }

    /// A time written in the code, which must be within the limits.
    pub(crate) const fn literal(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This time moved later by `delay`; stops at [`Timestamp::MAX`].
    #[must_use]
    pub fn plus(self, delay: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(duration_ms(delay)))
    }

    /// This time moved earlier by `span`; stops at the epoch.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self::from_millis(self.0.saturating_sub(duration_ms(span)))
    }

    /// The time from `earlier` to this time; zero if this time is not later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl From<SystemTime> for Timestamp {
    /// Rounded up to whole milliseconds, so that nothing due at `time` starts early.
    fn from(time: SystemTime) -> Self {
        time.duration_since(UNIX_EPOCH)
            .map_or(Self::ZERO, |since| Self::ZERO.plus(since))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn whole_ms(ms: u128) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// `duration` in whole milliseconds, rounded up, so that a delay is never cut short.
#[must_use]
pub fn duration_ms(duration: Duration) -> i64 {
    let ms = duration.as_nanos().div_ceil(1_000_000);
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// `n` milliseconds.
#[must_use]
pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// `n` seconds.
#[must_use]
pub const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// `n` minutes.
#[must_use]
pub const fn minutes(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(60))
}

/// `n` hours.
#[must_use]
pub const fn hours(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(3_600))
}

/// `n` days of 24 hours.
#[must_use]
pub const fn days(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(86_400))
}

/// A reading of a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// In whole milliseconds, rounded down, for comparison with due times.
    pub now: Timestamp,
    /// The part cut off: less than a millisecond.
    pub sub_ms: Duration,
}

impl Reading {
    /// The reading at this time since the epoch.
    #[must_use]
    pub fn since_epoch(since: Duration) -> Self {
        Self {
            now: Timestamp::from_millis(whole_ms(since.as_millis())),
            sub_ms: Duration::from_nanos(u64::from(since.subsec_nanos() % 1_000_000)),
        }
    }

    /// Rounded up to whole milliseconds, as the start of delays, so that none is cut short.
    #[must_use]
    pub fn rounded_up(self) -> Timestamp {
        self.now.plus(self.sub_ms)
    }
}

impl From<Timestamp> for Reading {
    fn from(now: Timestamp) -> Self {
        let sub_ms = Duration::ZERO;
        Self { now, sub_ms }
    }
}

/// A boxed sleep.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source of time: the system, or a test.
///
/// A clock shows two times: the time of day, which people, NTP and operators may set forwards and
/// backwards, and the time that has passed, which only grows. Sleeps are measured on the latter.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The time of day.
    fn now(&self) -> Timestamp;

    /// The time of day with fractions of a millisecond. By default without fractions, for a clock
    /// that has none.
    fn read(&self) -> Reading {
        self.now().into()
    }

    /// The time passed since a fixed moment; never set, never backwards.
    fn elapsed(&self) -> Duration;

    /// Completes once [`elapsed`](Self::elapsed) has reached `elapsed`. Must be called within a
    /// tokio runtime. Takes an end rather than a length, so that no time is lost between the
    /// calculation and the sleep.
    fn sleep_until(&self, elapsed: Duration) -> Sleep;
}

/// The system's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// The start of [`SystemClock::elapsed`]: the first time that it is read.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.read().now
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "the one place that reads the time of day"
    )]
    fn read(&self) -> Reading {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Reading::since_epoch(since.unwrap_or_default())
    }

    fn elapsed(&self) -> Duration {
        STARTED.elapsed()
    }

    fn sleep_until(&self, elapsed: Duration) -> Sleep {
        match STARTED.checked_add(elapsed) {
            Some(end) => Box::pin(timer::sleep_until(end)),
            None => Box::pin(std::future::pending()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_rounded_up_and_never_overflows() {
        assert_eq!(duration_ms(Duration::from_nanos(1)), 1);
        assert_eq!(duration_ms(Duration::from_millis(5)), 5);
        assert_eq!(
            Timestamp::from_millis(7).plus(Duration::MAX),
            Timestamp::MAX
        );
        assert_eq!(
            Timestamp::from_millis(7).minus(Duration::MAX),
            Timestamp::ZERO
        );
        assert_eq!(Timestamp::from_millis(i64::MIN), Timestamp::ZERO);
    }

    #[test]
    fn a_time_to_start_at_is_rounded_up() {
        let time = UNIX_EPOCH + Duration::from_micros(1_001);
        assert_eq!(Timestamp::from(time), Timestamp::from_millis(2));
    }

    /// A clock that is a fraction of a millisecond ahead starts tasks that much early, and a clock
    /// that is behind cuts delays short by as much.
    #[test]
    #[allow(
        clippy::disallowed_methods,
        reason = "the time of day is what is tested"
    )]
    fn the_time_of_day_is_never_ahead_and_delays_never_count_from_behind() {
        for _ in 0..1_000 {
            let before = SystemTime::now();
            let reading = SystemClock.read();
            let (now, later) = (reading.now, reading.rounded_up());
            assert!(later >= Timestamp::from(before) && later >= now);
            let time = |time: Timestamp| {
                let ms = u64::try_from(time.as_millis()).unwrap();
                UNIX_EPOCH + Duration::from_millis(ms)
            };
            assert!(time(now) <= SystemTime::now());
        }
    }

    #[test]
    fn a_timestamp_prints_as_rfc_3339() {
        assert_eq!(
            Timestamp::from_millis(1_767_225_600_005).to_string(),
            "2026-01-01T00:00:00.005Z"
        );
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-30T21:59:59.999Z");
    }

    #[tokio::test]
    async fn a_virtual_sleep_ends_when_the_time_is_moved() {
        let clock = VirtualClock::default();
        let mut sleep = clock.sleep_until(minutes(30));
        clock.advance(minutes(29));
        clock.sleep_until(minutes(29)).await;
        clock.set(Timestamp::MAX);
        assert!(
            tokio::time::timeout(Duration::ZERO, &mut sleep)
                .await
                .is_err()
        );
        clock.advance(minutes(1));
        sleep.await;
    }
}
