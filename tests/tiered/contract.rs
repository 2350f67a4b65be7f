//! The contract through Redis and PostgreSQL: all that is due later than a second is in the
//! database.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::store::StoreOptions;
use delayq_core::{Store, SystemClock, millis, seconds};
use delayq_testing::contract::StoreUnderTest;
use delayq_tests::stores::{Postgres, Redis};
use delayq_tiered::{TierOptions, TieredStore};

/// What does not hold for far tasks; the contract through two memory stores says why.
const LEFT_OUT: [&str; 19] = [
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
    "a_batch_of_tasks_wakes_for_the_first_of_them",
    "a_first_task_wakes",
    "an_earlier_task_wakes",
    "moving_a_task_to_the_front_wakes",
    // Its second is too short for the calls to two servers on a slow machine.
    "a_claim_takes_tasks_by_due_time_then_by_id",
    "a_batch_is_accepted_up_to_the_bound",
    "tasks_beyond_the_bound_are_refused_and_counted",
];

/// Tiers over the servers that all tests of a process share.
#[derive(Clone, Debug, Default)]
struct Tiered {
    opened: Arc<Mutex<Vec<Arc<TieredStore>>>>,
}

#[async_trait]
impl StoreUnderTest for Tiered {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        let hot = Redis.open(options.clone()).await;
        let cold = Postgres.open(options.clone()).await;
        let tier = TierOptions::new(seconds(1), &options);
        let tier = tier.for_tests(millis(300), seconds(10), Arc::new(SystemClock));
        let store = TieredStore::open(hot, cold, tier).unwrap();
        self.opened.lock().unwrap().push(store.clone());
        store
    }

    async fn advance(&self, span: Duration) {
        tokio::time::sleep(span).await;
        let opened = self.opened.lock().unwrap().clone();
        for store in opened {
            store.has_moved_all().await.unwrap();
        }
    }

    fn leaves_out(&self, sentence: &str) -> bool {
        LEFT_OUT.contains(&sentence)
    }
}

delayq_testing::contract_suite!(Tiered::default());
delayq_testing::id_suite!(Tiered::default());
