//! The suites for certain kinds of stores.

sentences! {
    ($)
    /// Exact limits on scheduled tasks and fleet limits: for types with one bucket.
    limit_suite on Rig
    bound: [
        tasks_beyond_the_bound_are_refused_and_counted,
        a_place_below_the_bound_is_free_for_the_next_task,
        a_batch_is_accepted_up_to_the_bound,
        an_id_that_is_taken_is_not_refused_by_the_bound,
        a_dead_task_that_is_replaced_takes_a_place_below_the_bound,
        an_ended_task_is_known_though_its_type_is_full,
        what_comes_back_is_not_refused_by_the_bound,
        a_bound_can_be_raised_and_lifted,
        a_bound_of_nothing_closes_a_type_for_new_tasks,
        a_bound_concerns_one_type_and_lists_none,
        submits_at_the_same_time_keep_the_bound,
    ]
    fleet: [
        no_more_tasks_run_than_the_fleets_limit,
        every_way_to_end_an_attempt_frees_its_place,
        a_lock_that_is_taken_over_keeps_its_place,
        a_claim_without_a_free_place_waits_for_the_first_lock_to_end,
        a_claim_without_a_free_place_still_names_what_is_due_later,
        a_poison_task_leaves_its_place_to_another,
        each_claimer_keeps_to_its_own_limits,
        the_limits_of_one_type_leave_others_alone,
        claims_at_the_same_time_keep_the_fleets_limit,
        a_rate_starts_its_burst_and_then_nothing,
        a_claim_without_a_start_left_waits_until_a_few_have_gathered,
        a_rate_starts_one_task_each_interval,
        starts_that_nobody_used_gather_up_to_the_burst,
        a_lock_that_is_taken_over_is_a_start,
        a_task_that_is_ended_unstarted_is_no_start,
        another_rate_is_kept_from_its_first_claim_on,
        both_limits_hold_together,
    ]
    settings: [
        a_limit_in_the_settings_takes_the_place_of_every_claimers_own,
        a_rate_in_the_settings_takes_the_place_of_every_claimers_own,
        limits_that_cannot_be_kept_are_refused_and_the_others_are_shown,
    ]
    explain: [a_due_task_names_the_limit_that_holds_it]
    drop: [
        a_dropped_type_leaves_nothing_but_its_largest_fence,
        a_type_with_tasks_is_not_dropped,
        an_unknown_type_can_be_dropped,
        a_task_submitted_while_its_type_is_dropped_is_kept_and_listed,
    ]
    chronicle: [a_dropped_type_loses_its_figures_and_keeps_the_log]
    wakeup: [
        freeing_a_place_that_a_claim_had_missed_wakes,
        freeing_a_place_wakes_for_a_task_that_came_later,
    ]
}

sentences! {
    ($)
    /// For a store that shards types: buckets, resizes, and settings that exclude shards.
    sharded_suite on Rig
    sharded: [
        a_sharded_type_has_a_bucket_for_each_shard,
        a_bucket_gives_its_own_tasks_and_no_others,
        a_lock_is_settled_in_the_bucket_it_was_claimed_from,
        fleet_limits_and_shards_exclude_each_other,
        a_type_with_a_fleet_limit_is_not_sharded,
        a_limit_in_the_settings_and_shards_exclude_each_other,
        a_type_that_was_sharded_is_not_dropped,
        a_resize_keeps_every_task_and_every_id,
        what_runs_during_a_resize_ends_where_it_was_claimed,
        a_sealed_bucket_drains_and_is_gone,
        operators_see_all_shards_during_a_resize,
        fewer_shards_than_there_are_change_nothing,
    ]
}

sentences! {
    ($)
    /// The tests of a store whose data others can open: opening a `StoreUnderTest` again with the
    /// same namespace must show the same tasks, with another namespace none of them.
    shared_suite on Rig
    shared: [
        two_stores_on_the_same_data_see_each_others_tasks,
        two_stores_on_the_same_data_never_hold_one_lock_both,
        a_store_opened_later_goes_on_where_the_other_stopped,
        two_namespaces_never_see_each_other,
        two_stores_on_the_same_data_share_the_limits_of_the_fleet,
        a_bound_set_by_one_store_is_kept_by_another,
        a_limit_set_by_one_store_is_kept_by_another,
        the_bound_of_recorded_ends_is_that_of_who_set_it,
        two_stores_on_the_same_data_see_each_others_instances,
    ]
    drop: [a_store_that_has_sent_before_lists_a_dropped_type_again]
}

sentences! {
    ($)
    /// The tests of a store whose data can be damaged; the expression creates a `Damageable`.
    damage_suite on Damaged
    damage: [
        the_audit_finds_a_task_that_has_lost_its_place,
        the_audit_finds_a_place_without_a_task,
        the_audit_finds_a_flipped_bit,
        a_corrupt_task_goes_to_dead_and_blocks_nothing,
        a_place_without_a_task_blocks_no_claim,
    ]
}

sentences! {
    ($)
    /// The tests of a store with a clock that can be set; the expression creates a `SettableClock`.
    clock_suite on Timed
    clock: [
        fences_grow_though_the_clock_steps_back,
        nothing_starts_early_though_the_clock_steps_back,
        a_lock_holds_longer_when_the_clock_steps_back,
        an_ended_task_stays_known_when_the_clock_steps_back,
        a_leap_forward_loses_nothing,
    ]
}
