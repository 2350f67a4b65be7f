//! The suite about options of a job that depend on its id.

sentences! {
    ($)
    /// Debounced tasks, and tasks that run again: for every store.
    id_suite on Rig
    again: [
        a_running_task_runs_again_when_it_is_done,
        the_same_request_runs_a_running_or_ended_task_again,
        a_task_runs_again_after_each_end_and_not_before_a_retry,
        what_runs_again_has_its_own_time_expiry_and_message,
        the_last_request_counts_and_with_keep_the_first,
        debounced_requests_share_their_longest_wait,
        a_cancel_drops_the_request_and_a_later_one_counts,
        a_claim_that_ends_a_task_runs_it_again,
        a_task_that_expires_between_two_attempts_runs_again,
        a_task_that_is_replaced_or_purged_takes_its_request_with_it,
        requests_of_a_batch_are_kept_apart,
    ]
    debounce: [
        a_debounced_task_moves_with_each_send_and_keeps_its_first_submit,
        a_debounced_task_waits_no_longer_than_its_longest_wait,
        a_tried_or_dead_task_begins_a_new_wait,
        a_debounced_send_conflicts_with_a_running_task_and_follows_an_ended_one,
    ]
}
