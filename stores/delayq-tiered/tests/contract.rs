//! The contract through a tier: all that is due later than a second goes through cold.

#![allow(clippy::unwrap_used, reason = "tests: a panic is a failure")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::memory::MemoryStore;
use delayq_core::store::StoreOptions;
use delayq_core::{Clock, Store, Timestamp, hours, millis, seconds};
use delayq_testing::VirtualClock;
use delayq_testing::contract::{SettableClock, StoreUnderTest};
use delayq_tiered::{TierOptions, TieredStore};

/// Tasks are moved so long before they are due.
const LEAD: Duration = millis(200);
const HORIZON: Duration = seconds(1);

/// What does not hold for far tasks.
const LEFT_OUT: [&str; 20] = [
    // A claim of hot says when it can find something next: that a far task was moved is a wake-up.
    "a_claim_of_nothing_still_says_when_to_call_again",
    "a_claim_without_a_free_place_still_names_what_is_due_later",
    "a_claim_without_a_start_left_waits_until_a_few_have_gathered",
    "a_delay_counts_from_the_end_of_the_present_millisecond",
    "a_moved_task_waits_from_the_end_of_the_present_millisecond",
    "a_rate_starts_its_burst_and_then_nothing",
    "a_task_can_be_moved_earlier_and_later",
    "a_task_can_wait_for_ten_years",
    "a_task_moved_later_does_not_block_its_type",
    "a_wait_counts_from_the_end_of_the_present_millisecond",
    "due_times_are_exact_to_the_millisecond",
    "the_next_claim_is_the_first_due_time_or_end_of_a_lock",
    // The same: nothing of hot becomes earlier when a far task is the first of its type.
    "a_batch_of_tasks_wakes_for_the_first_of_them",
    "a_first_task_wakes",
    "an_earlier_task_wakes",
    "moving_a_task_to_the_front_wakes",
    // A move takes a moment, for which the test does not wait.
    "a_leap_forward_loses_nothing",
    // Of the submits that are refused, those are not counted that the tier itself refuses, and for
    // an ended id hot decides without counting what is in cold.
    "a_batch_is_accepted_up_to_the_bound",
    "an_ended_task_is_known_though_its_type_is_full",
    "tasks_beyond_the_bound_are_refused_and_counted",
];

/// Tiers over two memory stores, on a virtual clock.
#[derive(Clone, Debug, Default)]
struct Tiered {
    clock: VirtualClock,
    opened: Arc<Mutex<Vec<Arc<TieredStore>>>>,
}

impl Tiered {
    async fn has_moved_all(&self) {
        let opened = self.opened.lock().unwrap().clone();
        for store in opened {
            store.has_moved_all().await.unwrap();
        }
    }
}

#[async_trait]
impl StoreUnderTest for Tiered {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        let memory = || {
            let clock = Arc::new(self.clock.clone());
            Arc::new(MemoryStore::new(clock, options.clone()))
        };
        let clock = Arc::new(self.clock.clone());
        let tier = TierOptions::new(HORIZON, &options);
        let tier = tier.for_tests(LEAD, seconds(10), clock);
        let store = TieredStore::open(memory(), memory(), tier).unwrap();
        self.opened.lock().unwrap().push(store.clone());
        store
    }

    /// Moves the clock in steps, so that each task is moved ahead of its due time.
    async fn advance(&self, span: Duration) {
        let end = self.clock.elapsed() + span;
        let is_long = span > hours(2);
        let step = if is_long { span } else { LEAD / 2 };
        while self.clock.elapsed() < end {
            let rest = end.saturating_sub(self.clock.elapsed());
            self.clock.advance(rest.min(step));
            self.has_moved_all().await;
        }
    }

    fn leaves_out(&self, sentence: &str) -> bool {
        LEFT_OUT.contains(&sentence)
    }
}

impl SettableClock for Tiered {
    fn set_clock(&self, time: Timestamp) {
        self.clock.set(time);
    }
}

delayq_testing::contract_suite!(Tiered::default());
delayq_testing::id_suite!(Tiered::default());
delayq_testing::limit_suite!(Tiered::default());
delayq_testing::clock_suite!(Tiered::default());
