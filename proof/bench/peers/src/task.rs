//! What is sent: the message of delayq's own benchmark, 200 bytes of JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Tasks of one call in bulk.
pub(crate) const BULK: usize = 1_000;
/// Callers that each wait for their own call.
pub(crate) const IN_FLIGHT: usize = 64;
/// Tasks that may run at once, where that can be set.
pub(crate) const CONCURRENCY: usize = 128;

/// A message such as a shop would send.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Message {
    order: String,
    customer: String,
    reason: String,
    note: String,
}

impl Message {
    fn new(number: usize) -> Self {
        Self {
            order: format!("order-{:010}", number % 10_000_000_000),
            customer: format!("customer-{:08}", number % 100_000_000),
            reason: "the payment did not arrive in time".to_owned(),
            note: "goods reserved in warehouse 17, shelf 120; release them, then write to the customers.".to_owned(),
        }
    }

    /// Which task it is.
    pub(crate) fn number(&self) -> usize {
        let digits = self.order.strip_prefix("order-");
        digits
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(usize::MAX)
    }
}

/// One task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) message: Message,
    /// Zero: due at once.
    pub(crate) delay: Duration,
}

impl Task {
    pub(crate) fn new(number: usize, delay: Duration) -> Self {
        Self {
            message: Message::new(number),
            delay,
        }
    }

    /// Its delay for a peer that knows whole seconds only: rounded up, as somebody does who wants
    /// no task early.
    pub(crate) fn delay_s(&self) -> u64 {
        self.delay
            .as_millis()
            .div_ceil(1_000)
            .try_into()
            .unwrap_or(u64::MAX)
    }

    pub(crate) fn delay_ms(&self) -> u64 {
        self.delay.as_millis().try_into().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_that_of_the_other_benchmark_and_knows_its_number() {
        let message = Message::new(4_711);
        assert_eq!(serde_json::to_vec(&message).unwrap().len(), 200);
        assert_eq!(message.number(), 4_711);
    }

    #[test]
    fn whole_seconds_are_rounded_up() {
        let task = |ms| Task::new(0, Duration::from_millis(ms)).delay_s();
        assert_eq!([0, 1, 1_000, 1_001].map(task), [0, 1, 1, 2]);
    }
}
