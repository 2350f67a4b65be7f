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
