//! The suites and their sentences.

/// Makes each listed function public and adds it to a suite. A function that is not listed is
/// unreachable, which the compiler reports.
macro_rules! sentences {
    (
        ($d:tt) $(#[$doc:meta])* $suite:ident on $subject:ident
        $($module:ident: [$($name:ident),+ $(,)?])+
    ) => {
        $(pub use crate::contract::$module::{$($name),+};)+

        $(#[$doc])*
        #[macro_export]
        macro_rules! $suite {
            ($d harness:expr) => {
                $($(
                    #[tokio::test]
                    async fn $name() {
                        use $d crate::contract::StoreUnderTest;
                        let harness = $d harness;
                        if harness.leaves_out(stringify!($name)) {
                            return;
                        }
                        let subject = $d crate::contract::$subject::open(harness).await;
                        $d crate::contract::$name(&subject).await;
                        subject.finish().await;
                    }
                )+)+
            };
        }
    };
}

mod ids;
mod of_some;

pub use ids::*;
pub use of_some::*;

sentences! {
    ($)
    /// The tests that every store has to pass. The expression creates a `StoreUnderTest` and may
    /// await.
    contract_suite on Rig
    submit: [
        a_submitted_task_is_found_at_once_as_it_was_sent,
        a_delay_counts_from_the_stores_clock,
        a_delay_counts_from_the_end_of_the_present_millisecond,
        a_delay_is_never_cut_short_by_rounding,
        an_absolute_time_is_kept_to_the_millisecond,
        a_past_time_means_now,
        a_task_can_wait_for_ten_years,
        an_empty_batch_is_answered_with_nothing,
        a_batch_of_a_thousand_has_one_outcome_each_in_order,
        a_batch_mixes_accepted_repeated_and_conflicting_tasks,
        equal_ids_in_one_batch_are_judged_in_order,
        the_same_id_in_two_types_is_two_tasks,
    ]
    duplicate: [
        the_same_request_is_known_in_every_state,
        the_same_request_is_known_even_if_it_would_replace,
        replace_with_the_same_delay_moves_the_task,
        another_request_conflicts_and_changes_nothing,
        a_request_differs_by_message_header_expiry_delay_or_kind_of_time,
        a_message_and_a_header_cannot_be_taken_for_each_other,
        an_ended_request_differs_by_its_expiry_too,
        the_same_absolute_time_is_the_same_request,
        a_past_time_is_the_same_request_when_it_is_sent_again_later,
        a_rescheduled_task_is_known_by_its_new_time,
        an_updated_task_is_known_by_its_new_message,
        a_retried_task_is_still_the_same_request,
        keep_keeps_the_old_task,
        replace_puts_the_new_task_in_the_old_ones_place,
        replace_does_not_touch_a_running_task,
        an_ended_id_is_free_for_another_request,
        an_end_is_forgotten_when_its_id_is_used_again,
        ends_are_remembered_whatever_ends_after_them,
        an_older_end_is_remembered_and_forgotten_like_a_younger_one,
        replace_runs_the_same_request_again_once_it_has_ended,
        an_ended_request_is_known_whatever_its_time,
        without_a_retention_an_ended_id_is_free_at_once,
        after_the_retention_an_ended_id_is_free,
    ]
    claim: [
        a_claim_takes_tasks_by_due_time_then_by_id,
        a_task_is_never_claimed_before_it_is_due,
        a_task_is_claimed_at_its_very_millisecond,
        a_claim_tells_the_largest_fence_given_before_it,
        a_claimed_task_has_all_that_was_sent,
        a_claimed_task_is_running_until_its_lock_expires,
        ids_of_one_letter_and_any_length_are_claimed_together,
        a_claim_takes_no_more_than_its_limit,
        a_claim_of_nothing_still_says_when_to_call_again,
        a_claim_without_a_limit_is_capped,
        claims_at_the_same_time_share_the_tasks,
        a_claim_of_an_unknown_type_finds_nothing,
        the_next_claim_is_none_when_nothing_is_scheduled_or_running,
        the_next_claim_is_the_first_due_time_or_end_of_a_lock,
        the_next_claim_counts_the_locks_just_taken,
        every_lock_has_a_larger_fence,
        a_store_clock_far_ahead_of_the_caller_starts_nothing_early,
        a_task_is_claimed_at_its_time_and_not_a_moment_before,
        a_caller_far_ahead_of_the_store_starts_nothing_early,
        locks_live_on_the_stores_clock_alone,
        an_expiry_is_not_judged_by_a_store_clock_far_ahead,
    ]
    lock: [
        a_task_is_claimed_again_only_after_its_lock_has_expired,
        a_lock_is_taken_over_at_its_very_millisecond,
        tasks_with_expired_locks_are_claimed_before_due_ones,
        expired_locks_count_to_the_limit_of_a_claim,
        what_a_claim_has_no_room_for_beside_expired_locks_stays_due,
        a_repeat_after_a_lost_lock_was_due_when_the_submit_said,
        an_extended_lock_lasts_from_the_stores_now,
        a_lock_is_never_cut_short_by_rounding,
        locks_stop_at_the_last_time_and_waits_at_ten_years,
        an_expired_lock_that_nobody_took_over_still_settles,
        an_expired_lock_that_nobody_took_over_can_be_extended,
        an_old_fence_can_settle_extend_or_release_nothing,
        an_old_fence_can_do_nothing_to_a_task_that_waits_or_died,
        a_lock_that_never_was_can_do_nothing,
        fences_grow_over_the_whole_life_of_an_id,
        a_task_whose_lock_expires_too_often_is_poison,
        a_task_is_poison_earlier_if_its_lock_expires_while_it_runs_alone,
        a_mark_of_a_lock_goes_with_the_lock,
        a_lock_of_another_holder_need_not_count,
        a_task_that_no_holder_survives_is_found_though_none_counts_for_another,
        no_lock_expiry_allowed_is_read_as_one,
        failures_and_releases_are_not_poison,
        an_old_lock_cannot_touch_the_task_that_took_its_id,
    ]
    settle: [
        a_done_task_is_remembered_without_its_message,
        an_expired_settlement_ends_the_task,
        a_retry_is_due_after_its_wait_and_counts_a_failure,
        a_release_is_due_after_its_wait_and_burns_no_attempt,
        a_retry_without_a_wait_can_be_claimed_at_once,
        a_wait_counts_from_the_end_of_the_present_millisecond,
        a_dead_task_is_parked_with_its_error_and_message,
        succeeded_workers_survive_a_lost_lock_and_a_death,
        attempts_are_explained_by_failures_and_lost_locks,
        an_ended_task_is_remembered_with_all_its_attempts,
        a_batch_of_settlements_has_one_outcome_each_in_order,
        batches_above_the_cap_are_settled_and_extended_whole,
        a_lock_twice_in_one_batch_is_settled_once,
        empty_batches_are_answered_with_nothing,
        a_long_error_is_cut_at_a_character,
        an_error_of_any_text_is_kept,
        a_lock_of_one_type_settles_nothing_in_another,
    ]
    note: [
        a_note_is_shown_to_whoever_claims_the_task_next_or_looks_at_it,
        a_note_stays_until_another_settlement_has_one,
        a_note_outlives_every_error_and_a_requeue,
        a_note_is_gone_with_its_task,
        a_note_of_any_text_is_kept_and_a_long_one_cut_at_a_character,
        a_settlement_that_changes_nothing_leaves_the_note_as_it_is,
    ]
    repeat: [
        repeating_a_settlement_is_settled_and_changes_nothing,
        repeating_a_settlement_of_a_cancelled_attempt_is_settled,
        repeating_a_retry_after_a_cancel_is_settled,
        repeating_a_retry_while_the_next_attempt_runs_changes_nothing,
        another_end_by_a_settled_lock_has_lost_it,
        another_end_by_a_settled_lock_is_lost_while_the_next_attempt_runs,
        another_end_by_the_lock_of_a_cancelled_attempt_has_lost_it,
        a_requeued_task_knows_its_last_end,
        a_settlement_repeated_after_the_retention_has_lost_its_lock,
    ]
    cancel: [
        a_cancelled_task_never_starts,
        a_task_waiting_for_its_retry_can_be_cancelled,
        cancelling_says_why_not,
        a_second_cancel_finds_the_task_cancelled,
        without_a_retention_a_cancelled_task_is_gone,
        the_holder_of_a_running_task_hears_of_a_cancel,
        after_a_cancel_no_further_attempt_follows,
        a_task_that_finishes_in_spite_of_a_cancel_is_done,
        a_cancelled_task_whose_lock_expires_is_cancelled,
        a_cancel_is_stronger_than_poison,
        a_second_cancel_of_a_running_task_changes_nothing,
        a_cancel_request_does_not_outlive_its_task,
    ]
    change: [
        a_task_can_be_moved_earlier_and_later,
        a_moved_task_waits_from_the_end_of_the_present_millisecond,
        a_task_can_be_run_now,
        rescheduling_to_a_past_time_means_now,
        a_task_moved_at_once_is_not_due_before_its_submit,
        rescheduling_keeps_message_headers_and_attempts,
        a_repeat_after_a_lost_lock_was_due_when_the_reschedule_said,
        an_update_replaces_the_message_alone,
        an_update_gives_headers_that_the_task_has_new_values,
        a_task_given_back_can_be_updated,
        rescheduling_and_updating_say_why_not,
    ]
    expiry: [
        a_task_past_its_absolute_expiry_ends_as_expired,
        a_task_before_its_expiry_runs,
        a_task_expires_at_its_very_millisecond,
        an_expiry_after_due_counts_from_the_due_time,
        an_expiry_after_due_moves_with_a_reschedule,
        an_absolute_expiry_stays_with_a_reschedule,
        an_expiry_after_due_moves_with_a_requeue,
        an_expiry_does_not_move_with_a_retry,
        a_retry_past_the_expiry_does_not_start,
        a_running_task_past_its_expiry_may_finish,
        a_task_whose_lock_and_expiry_have_passed_is_expired,
        a_settlement_repeated_after_the_task_expired_is_settled,
        expired_tasks_do_not_hold_up_those_behind_them,
    ]
    dead: [
        a_requeued_task_is_due_now_with_its_attempts_counted_anew,
        a_repeat_after_a_lost_lock_was_due_when_the_requeue_said,
        requeues_are_counted,
        dead_tasks_are_requeued_in_order_of_death_at_the_interval,
        dead_tasks_are_requeued_by_id_in_the_order_given,
        dead_tasks_are_requeued_by_their_error,
        an_empty_text_is_no_condition_on_dead_tasks,
        an_error_filter_is_text_and_no_pattern,
        dead_tasks_are_requeued_up_to_a_time_of_death,
        dead_tasks_are_requeued_up_to_a_limit,
        discarded_tasks_are_gone_for_good,
        only_dead_tasks_are_requeued_or_discarded,
        hundreds_of_dead_tasks_are_requeued_at_one_interval,
        hundreds_of_dead_tasks_are_discarded,
        dead_tasks_are_found_by_their_error_behind_hundreds_of_others,
        a_purge_removes_every_task_of_one_state,
        a_purge_counts_only_what_was_known_until_then,
        a_purge_of_running_tasks_is_refused,
        a_purge_of_hundreds_leaves_other_types_alone,
        a_purged_id_can_be_used_again,
    ]
    pause: [
        a_paused_type_hands_out_nothing_until_it_is_resumed,
        a_pause_with_an_end_ends_by_itself,
        a_pause_that_has_ended_already_pauses_nothing,
        a_pause_can_be_lengthened_and_shortened,
        a_paused_type_keeps_expired_locks_too,
        running_tasks_go_on_while_their_type_is_paused,
        a_paused_type_takes_submits_and_cancels,
        a_paused_type_expires_nothing,
        a_pause_concerns_one_type,
        a_type_can_be_paused_before_its_first_task,
    ]
    list: [
        each_state_is_listed_with_its_tasks_in_full,
        a_listing_is_ordered_by_time_then_id,
        pages_show_every_task_once_though_all_have_one_due_time,
        a_page_goes_on_in_order_though_ids_begin_alike,
        a_page_that_ends_with_the_last_task_is_the_last_page,
        a_cursor_stays_valid_while_tasks_come_and_go,
        a_page_is_capped,
        an_unknown_type_lists_nothing,
    ]
    explain: [
        a_scheduled_task_says_what_it_waits_for,
        a_running_task_says_who_runs_it_since_when_and_what_went_wrong_before,
        a_failed_attempt_keeps_when_it_was_due_and_started_and_who_made_it,
    ]
    ended: [
        ended_tasks_are_listed_page_by_page_the_latest_first,
        what_is_forgotten_is_not_listed,
        what_has_ended_is_counted_by_how_it_did,
        of_too_many_ends_the_oldest_are_forgotten_and_the_stats_say_since_when,
        a_failure_is_noted_with_the_end_of_its_task,
    ]
    query: [
        a_store_has_a_name_a_durability_and_good_health,
        an_unknown_task_is_not_found,
        a_query_right_after_an_edge_knows_of_it,
        an_ended_task_is_forgotten_after_the_retention,
        types_are_listed_sorted_and_once,
        a_type_stays_listed_when_its_tasks_have_gone,
        a_type_can_be_registered_before_its_first_task,
        asking_about_a_type_does_not_list_it,
        stats_count_every_state,
        stats_of_an_unknown_type_count_nothing,
        the_histogram_counts_scheduled_tasks_by_due_time,
        a_histogram_of_an_impossible_range_is_refused,
        an_audit_looks_at_every_task,
        a_repairing_audit_changes_nothing_that_is_right,
    ]
    wakeup: [
        a_first_task_wakes,
        an_earlier_task_wakes,
        a_batch_of_tasks_wakes_for_the_first_of_them,
        moving_a_task_to_the_front_wakes,
        requeueing_wakes,
        a_retry_that_is_due_first_wakes,
        a_batch_of_retries_wakes_for_the_first_of_them,
        resuming_wakes,
        shortening_a_pause_wakes,
    ]
    instances: [
        an_announced_instance_is_listed_as_it_said,
        an_announcement_takes_the_place_of_the_one_before,
        instances_are_told_apart_by_their_identity_alone,
        a_silent_instance_is_forgotten,
        a_withdrawn_instance_is_forgotten_at_once,
        an_instance_is_listed_in_its_namespace_and_lists_no_type,
    ]
    chronicle: [
        figures_of_instances_add_up_by_minute_and_hour,
        figures_of_types_and_namespaces_stay_apart,
        figures_are_shown_since_the_span_that_holds_a_time,
        minutes_reach_a_day_back_and_hours_thirty,
        actions_are_read_the_latest_first_as_they_were_logged,
        a_log_of_actions_is_read_page_by_page,
        a_page_of_actions_is_capped,
        an_action_of_any_text_comes_back,
        each_namespace_has_a_log_of_its_own,
    ]
    documents: [
        documents_are_kept_by_name_and_each_change_counts,
        a_document_is_changed_only_where_it_is_as_expected,
        documents_that_cannot_be_are_refused_and_large_ones_are_kept,
        many_documents_are_all_read,
    ]
    replies: [
        a_reply_comes_back_as_given_and_names_the_end_of_its_task,
        a_reply_of_a_smaller_fence_never_replaces_one_of_a_larger,
        replies_of_types_and_namespaces_stay_apart,
        a_reply_is_forgotten_after_its_retention,
        replies_that_cannot_be_are_refused,
    ]
    history: [
        the_record_of_an_end_has_its_facts,
        every_kind_of_end_is_recorded_once,
        ends_by_a_claim_are_recorded,
        what_an_operator_removes_is_recorded,
        a_life_that_another_follows_is_recorded,
        a_repeated_settlement_records_nothing,
        ends_are_recorded_only_while_the_setting_says_so,
        as_much_of_a_message_is_recorded_as_the_setting_says,
        records_stay_until_they_are_removed_and_no_place_is_given_twice,
        at_the_bound_the_oldest_records_go_and_are_counted,
        a_record_has_what_a_database_takes_of_a_group,
        a_type_that_is_dropped_goes_on_to_be_recorded,
        the_records_of_namespaces_stay_apart,
    ]
    data: [
        a_message_of_every_byte_comes_back_as_sent,
        an_empty_message_comes_back_empty,
        a_message_of_the_largest_size_comes_back_as_sent,
        many_of_the_largest_messages_are_listed_and_claimed_in_the_end,
        text_that_looks_like_something_else_comes_back_as_sent,
        an_updated_message_of_every_byte_comes_back_as_sent,
        headers_come_back_as_sent,
        as_many_headers_as_allowed_come_back,
        ids_of_every_allowed_byte_are_told_apart,
        ids_and_types_of_the_largest_size_are_told_apart,
        types_that_look_alike_never_mix,
    ]
    defects: [
        a_zombie_cannot_free_its_successors_lock,
        a_task_moved_later_does_not_block_its_type,
        a_cancelled_task_frees_its_memory_at_once,
        finishing_a_waiting_task_is_impossible_without_its_lock,
        a_duplicate_submit_while_running_makes_no_second_copy,
        binary_bodies_are_not_corrupted,
        equal_messages_are_different_tasks,
        a_claimed_task_is_kept_until_it_is_settled,
        due_times_are_exact_to_the_millisecond,
        a_late_task_is_not_dropped,
        a_retry_does_not_start_before_its_interval,
        a_settled_task_is_not_run_again,
        an_ended_task_leaves_nothing_behind_after_its_retention,
        a_busy_type_does_not_hide_another,
    ]
}
