//! The store contract on every store of this workspace. The memory store has it in delayq-testing.

mod on_sqlite {
    use delayq_tests::stores::Sqlite;

    delayq_testing::contract_suite!(Sqlite::default());
    delayq_testing::id_suite!(Sqlite::default());
    delayq_testing::limit_suite!(Sqlite::default());
    delayq_testing::shared_suite!(Sqlite::default());
    delayq_testing::damage_suite!(Sqlite::default());
    delayq_testing::clock_suite!(Sqlite::default());
}

mod on_postgres {
    use delayq_testing::contract::Damaged;
    use delayq_tests::stores::Postgres;

    delayq_testing::contract_suite!(Postgres);
    delayq_testing::id_suite!(Postgres);
    delayq_testing::limit_suite!(Postgres);
    delayq_testing::shared_suite!(Postgres);

    /// A row that is gone leaves no place behind, so of the damages there are two.
    #[tokio::test]
    async fn damage_is_found_and_blocks_nothing() {
        use delayq_testing::contract;
        contract::the_audit_finds_a_task_that_has_lost_its_place(&Damaged::open(Postgres).await)
            .await;
        contract::the_audit_finds_a_flipped_bit(&Damaged::open(Postgres).await).await;
        let damaged = Damaged::open(Postgres).await;
        contract::a_corrupt_task_goes_to_dead_and_blocks_nothing(&damaged).await;
    }
}

/// What a pooler could get wrong. The statements are those of the suites above.
mod on_pooled_postgres {
    use delayq_tests::stores::PooledPostgres;

    delayq_testing::limit_suite!(PooledPostgres::Hearing);
    delayq_testing::shared_suite!(PooledPostgres::Hearing);
}

#[cfg(feature = "soak")]
mod on_pooled_postgres_at_length {
    use delayq_tests::stores::PooledPostgres;

    delayq_testing::contract_suite!(PooledPostgres::Hearing);
    delayq_testing::id_suite!(PooledPostgres::Hearing);
}

#[cfg(feature = "soak")]
mod on_pooled_postgres_without_wake_ups {
    use delayq_tests::stores::PooledPostgres;

    delayq_testing::contract_suite!(PooledPostgres::Deaf);
    delayq_testing::id_suite!(PooledPostgres::Deaf);
    delayq_testing::limit_suite!(PooledPostgres::Deaf);
}

/// What else there is of it is on the cluster, whose scripts are the same.
mod on_sharded_redis {
    use delayq_tests::stores::{Redis, Sharded};

    delayq_testing::damage_suite!(Sharded(Redis));
}

#[cfg(feature = "soak")]
mod on_sharded_redis_at_length {
    use delayq_tests::stores::{Redis, Sharded};

    delayq_testing::contract_suite!(Sharded(Redis));
    delayq_testing::id_suite!(Sharded(Redis));
}

mod on_a_cluster {
    use delayq_tests::stores::RedisCluster;

    delayq_testing::limit_suite!(RedisCluster);
    delayq_testing::sharded_suite!(RedisCluster);
    delayq_testing::shared_suite!(RedisCluster);
}

mod on_a_sharded_cluster {
    use delayq_tests::stores::{RedisCluster, Sharded};

    delayq_testing::contract_suite!(Sharded(RedisCluster));
    delayq_testing::id_suite!(Sharded(RedisCluster));
}

mod on_replicated_redis {
    use delayq_tests::stores::ReplicatedRedis;

    delayq_testing::contract_suite!(ReplicatedRedis);
    delayq_testing::id_suite!(ReplicatedRedis);
    delayq_testing::limit_suite!(ReplicatedRedis);
    delayq_testing::shared_suite!(ReplicatedRedis);
}

/// Every task is packed, however near it is.
mod on_packed_redis {
    use delayq_tests::stores::PackedRedis;

    delayq_testing::contract_suite!(PackedRedis);
    delayq_testing::id_suite!(PackedRedis);
    delayq_testing::limit_suite!(PackedRedis);
    delayq_testing::sharded_suite!(PackedRedis);
    delayq_testing::shared_suite!(PackedRedis);
}

mod on_sharded_packed_redis {
    use delayq_tests::stores::{PackedRedis, Sharded};

    delayq_testing::contract_suite!(Sharded(PackedRedis));
    delayq_testing::id_suite!(Sharded(PackedRedis));
}

/// On one server, as the user of the guide, who has no other rights. A user with all rights has no
/// suites: the scripts and commands are these.
mod on_restricted_redis {
    use delayq_tests::stores::RestrictedRedis;

    delayq_testing::contract_suite!(RestrictedRedis);
    delayq_testing::id_suite!(RestrictedRedis);
    delayq_testing::limit_suite!(RestrictedRedis);
    delayq_testing::sharded_suite!(RestrictedRedis);
    delayq_testing::shared_suite!(RestrictedRedis);
    delayq_testing::damage_suite!(RestrictedRedis);
}
