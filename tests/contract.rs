//! The store contract on every store of this workspace.

mod memory {
    use delayq_tests::stores::Memory;

    delayq_tests::contract_suite!(Memory::default());
    delayq_tests::limit_suite!(Memory::default());
    delayq_tests::fleet_suite!(Memory::default());
    delayq_tests::clock_suite!(Memory::default());
}

mod on_sqlite {
    use delayq_tests::stores::Sqlite;

    delayq_tests::contract_suite!(Sqlite::default());
    delayq_tests::limit_suite!(Sqlite::default());
    delayq_tests::fleet_suite!(Sqlite::default());
    delayq_tests::shared_suite!(Sqlite::default());
    delayq_tests::damage_suite!(Sqlite::default());
    delayq_tests::clock_suite!(Sqlite::default());
}

mod on_split_redis {
    use delayq_tests::stores::{Redis, Split};

    delayq_tests::contract_suite!(Split(Redis));
    delayq_tests::fleet_suite!(Split(Redis));
    delayq_tests::shared_suite!(Split(Redis));
    delayq_tests::damage_suite!(Split(Redis));
}

mod on_a_split_cluster {
    use delayq_tests::stores::{RedisCluster, Split};

    delayq_tests::contract_suite!(Split(RedisCluster));
    delayq_tests::fleet_suite!(Split(RedisCluster));
    delayq_tests::shared_suite!(Split(RedisCluster));
}

mod on_redis {
    use delayq_tests::stores::Redis;

    delayq_tests::contract_suite!(Redis);
    delayq_tests::limit_suite!(Redis);
    delayq_tests::fleet_suite!(Redis);
    delayq_tests::shared_suite!(Redis);
    delayq_tests::damage_suite!(Redis);
}

mod on_a_cluster {
    use delayq_tests::stores::RedisCluster;

    delayq_tests::contract_suite!(RedisCluster);
    delayq_tests::limit_suite!(RedisCluster);
    delayq_tests::fleet_suite!(RedisCluster);
    delayq_tests::shared_suite!(RedisCluster);
}

mod on_replicated_redis {
    use delayq_tests::stores::ReplicatedRedis;

    delayq_tests::contract_suite!(ReplicatedRedis);
    delayq_tests::limit_suite!(ReplicatedRedis);
    delayq_tests::fleet_suite!(ReplicatedRedis);
    delayq_tests::shared_suite!(ReplicatedRedis);
}

/// As the user of the guide, who may do nothing else.
mod on_restricted_redis {
    use delayq_tests::stores::RestrictedRedis;

    delayq_tests::contract_suite!(RestrictedRedis);
    delayq_tests::limit_suite!(RestrictedRedis);
    delayq_tests::fleet_suite!(RestrictedRedis);
    delayq_tests::shared_suite!(RestrictedRedis);
    delayq_tests::damage_suite!(RestrictedRedis);
}

mod on_split_restricted_redis {
    use delayq_tests::stores::{RestrictedRedis, Split};

    delayq_tests::contract_suite!(Split(RestrictedRedis));
    delayq_tests::fleet_suite!(Split(RestrictedRedis));
}
