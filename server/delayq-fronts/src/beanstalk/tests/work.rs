//! What clients rely on beyond the recorded exchanges.

use std::sync::Arc;
use std::time::Duration;

use delayq_plugin::store::{MemoryStore, Operate, Presence};

use super::{Client, start, start_on};

#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_of_puts_is_answered_in_order_with_numbers_that_follow_each_other() {
    let mut client = Client::connect(start().await).await;
    let puts = (0..3_000).map(|n| ["0", "1", "2"][n % 3]);
    let puts = puts.map(|pri| ["put ", pri, " 0 9 1\r\nx\r\n"].concat());
    let puts: Vec<String> = puts.collect();
    client.send(&puts.concat()).await;
    for number in 1..=3_000 {
        client.hear(&format!("INSERTED {number}")).await;
    }
    // The most urgent first, in the order of the puts.
    for number in [1, 4, 7] {
        let answer = format!("RESERVED {number} 1\r\nx");
        client.expect("reserve", &answer).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tube_is_served_while_a_client_asks_for_its_jobs_or_holds_one() {
    let store = Arc::new(MemoryStore::default());
    let mut client = Client::connect(start_on(Arc::clone(&store) as _).await).await;
    let is_served = async |tube: &str| {
        let announced = store.instances().await.unwrap();
        let mut types = announced.iter().flat_map(|one| &one.types);
        types.any(|one| one.as_str().starts_with(&format!("tube:{tube}:")))
    };
    let until_served = async |tube: &str| {
        let served = async {
            while !is_served(tube).await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let served = tokio::time::timeout(Duration::from_secs(30), served).await;
        served.unwrap_or_else(|_| panic!("{tube} is served"));
    };
    client.expect("use left", "USING left").await;
    client.expect("put 1 0 60 1\r\nx", "INSERTED 1").await;
    client.expect("use held", "USING held").await;
    client.expect("put 1 0 60 1\r\nx", "INSERTED 2").await;
    client.expect("reserve-job 2", "RESERVED 2 1\r\nx").await;
    until_served("held").await;
    client.expect("put 1 3600 60 1\r\nx", "INSERTED 3").await;
    client.expect("use asked", "USING asked").await;
    client.expect("put 1 3600 60 1\r\nx", "INSERTED 4").await;
    client.expect("watch asked", "WATCHING 2").await;
    client.send("reserve\r\n").await;
    until_served("asked").await;
    assert!(!is_served("left").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_released_with_another_priority_is_reserved_by_it() {
    let mut client = Client::connect(start().await).await;
    for (pri, number) in [(10, 1), (20, 2), (30, 3)] {
        let put = format!("put {pri} 0 60 1\r\nx");
        client.expect(&put, &format!("INSERTED {number}")).await;
    }
    client.expect("reserve", "RESERVED 1 1\r\nx").await;
    client.expect("release 1 25 0", "RELEASED").await;
    for number in [2, 1, 3] {
        let answer = format!("RESERVED {number} 1\r\nx");
        client.expect("reserve", &answer).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_reserved_by_its_number_goes_back_to_its_priority() {
    let mut client = Client::connect(start().await).await;
    client.expect("put 5 0 60 1\r\na", "INSERTED 1").await;
    client.expect("put 5 0 60 1\r\nb", "INSERTED 2").await;
    client.expect("reserve-job 2", "RESERVED 2 1\r\nb").await;
    client.expect("release 2 5 0", "RELEASED").await;
    client.expect("reserve-job 2", "RESERVED 2 1\r\nb").await;
    client.expect("bury 2 6", "BURIED").await;
    client.expect("peek-buried", "FOUND 2 1\r\nb").await;
    client.expect("kick 9", "KICKED 1").await;
    client.expect("reserve", "RESERVED 1 1\r\na").await;
    client.expect("reserve", "RESERVED 2 1\r\nb").await;
    client.expect("reserve-with-timeout 0", "TIMED_OUT").await;
    client.expect("delete 2", "DELETED").await;
    client.expect("delete 2", "NOT_FOUND").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_reserved_by_its_number_is_ready_when_its_client_leaves_and_paused_with_its_tube() {
    let address = start().await;
    let mut other = Client::connect(address).await;
    other.expect("put 5 600 60 1\r\na", "INSERTED 1").await;
    for _ in 0..2 {
        let mut one = Client::connect(address).await;
        one.expect("reserve-job 1", "RESERVED 1 1\r\na").await;
        drop(one);
        let reserved = "RESERVED 1 1\r\na";
        other.expect("reserve-with-timeout 9", reserved).await;
        other.expect("release 1 5 0", "RELEASED").await;
    }
    other.expect("pause-tube default 600", "PAUSED").await;
    other.expect("reserve-with-timeout 0", "TIMED_OUT").await;
    other.expect("reserve-job 1", "RESERVED 1 1\r\na").await;
    other.expect("release 1 5 0", "RELEASED").await;
    other.expect("reserve-with-timeout 0", "TIMED_OUT").await;
    other.expect("put 5 600 60 1\r\nb", "INSERTED 2").await;
    other.expect("reserve-job 2", "RESERVED 2 1\r\nb").await;
    other.expect("release 2 5 0", "RELEASED").await;
    other.expect("reserve-with-timeout 0", "TIMED_OUT").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_on_one_store_share_jobs_numbers_and_pauses() {
    let store = Arc::new(MemoryStore::default());
    let mut one = Client::connect(start_on(store.clone()).await).await;
    let mut other = Client::connect(start_on(store).await).await;
    one.expect("put 3 0 60 1\r\na", "INSERTED 1").await;
    other.expect("put 2 0 60 1\r\nb", "INSERTED 2").await;
    other.expect("peek 1", "FOUND 1 1\r\na").await;
    one.expect("pause-tube default 1", "PAUSED").await;
    other.expect("put 1 0 60 1\r\nc", "INSERTED 3").await;
    other.expect("reserve-with-timeout 0", "TIMED_OUT").await;
    for number in [3, 2] {
        other.send("reserve-with-timeout 9\r\n").await;
        let body = if number == 3 { "c" } else { "b" };
        other.hear(&format!("RESERVED {number} 1\r\n{body}")).await;
    }
    one.expect("delete 3", "NOT_FOUND").await;
    drop(other);
    // What the one that left had reserved comes back.
    for _ in 0..3 {
        one.send("reserve-with-timeout 9\r\n").await;
        let text = one.read(Duration::from_secs(9)).await;
        assert!(text.starts_with("RESERVED "), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_job_is_held_for_its_time_to_run_whatever_the_lock_of_the_store() {
    let address = start().await;
    let (mut one, mut other) = (
        Client::connect(address).await,
        Client::connect(address).await,
    );
    one.expect("put 0 0 10 1\r\na", "INSERTED 1").await;
    one.expect("reserve", "RESERVED 1 1\r\na").await;
    other.expect("reserve-with-timeout 8", "TIMED_OUT").await;
    one.expect("delete 1", "DELETED").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tubes_are_listed_in_the_order_of_beanstalkd() {
    let mut client = Client::connect(start().await).await;
    for (line, answer) in [
        ("use zz", "USING zz"),
        ("put 5 0 60 1\r\na", "INSERTED 1"),
        ("use aa", "USING aa"),
        ("put 5 0 60 1\r\nb", "INSERTED 2"),
        ("watch mm", "WATCHING 2"),
        ("list-tubes", "OK 29\r\n---\n- default\n- zz\n- aa\n- mm\n"),
        ("watch zz", "WATCHING 3"),
        ("watch aa", "WATCHING 4"),
        ("use 1.5", "USING 1.5"),
        ("use n1", "USING n1"),
        ("watch n2", "WATCHING 5"),
        ("ignore mm", "WATCHING 4"),
        (
            "list-tubes",
            "OK 34\r\n---\n- default\n- zz\n- aa\n- n2\n- n1\n",
        ),
        (
            "list-tubes-watched",
            "OK 29\r\n---\n- default\n- n2\n- zz\n- aa\n",
        ),
        ("ignore zz", "WATCHING 3"),
        ("delete 1", "DELETED"),
        ("list-tubes", "OK 29\r\n---\n- default\n- n1\n- aa\n- n2\n"),
    ] {
        client.expect(line, answer).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_tubes_with_jobs_of_one_priority_the_lowest_number_is_first() {
    let address = start().await;
    let mut client = Client::connect(address).await;
    for (place, tube) in ["r", "q", "p"].into_iter().enumerate() {
        let using = format!("USING {tube}");
        client.expect(&format!("use {tube}"), &using).await;
        let inserted = format!("INSERTED {}", place + 1);
        client.expect("put 7 0 60 1\r\nx", &inserted).await;
        let watching = format!("WATCHING {}", place + 2);
        client.expect(&format!("watch {tube}"), &watching).await;
    }
    client.expect("reserve", "RESERVED 1 1\r\nx").await;
    client.expect("release 1 7 1", "RELEASED").await;
    // Until job 1 is ready, later than the others.
    let mut other = Client::connect(address).await;
    other.expect("reserve-with-timeout 2", "TIMED_OUT").await;
    for number in [1, 2, 3] {
        let answer = format!("RESERVED {number} 1\r\nx");
        client.expect("reserve", &answer).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_are_quoted_where_those_of_beanstalkd_are() {
    let mut client = Client::connect(start().await).await;
    client.expect("use 1.5", "USING 1.5").await;
    client.expect("put 5 0 60 1\r\na", "INSERTED 1").await;
    let quoted = |text: &str| {
        let lines = text.lines().filter(|line| line.ends_with('"'));
        let names = lines.filter_map(|line| line.split(": \"").next());
        names.collect::<Vec<_>>().join(" ")
    };
    let stats = client.body("stats").await;
    assert_eq!(quoted(&stats), "version hostname os platform", "{stats}");
    let version = concat!(
        "version: \"1.13.0+delayq-",
        env!("CARGO_PKG_VERSION"),
        "\"\n"
    );
    assert!(stats.contains(version), "{stats}");
    assert_eq!(quoted(&client.body("stats-tube 1.5").await), "name");
    assert_eq!(quoted(&client.body("stats-job 1").await), "tube");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_ever_higher_priorities_share_the_last_lane() {
    let store = Arc::new(MemoryStore::default());
    let mut client = Client::connect(start_on(store.clone()).await).await;
    let puts: Vec<String> = (0..1_100)
        .map(|pri| format!("put {pri} 0 9 1\r\nx\r\n"))
        .collect();
    client.send(&puts.concat()).await;
    for number in 1..=1_100 {
        client.hear(&format!("INSERTED {number}")).await;
    }
    let types = store.types().await.unwrap();
    let lanes = types
        .iter()
        .filter(|name| name.as_str().starts_with("tube:default::"));
    assert_eq!(lanes.count(), 1_024);
    let stats = client.body("stats-job 1100").await;
    assert!(stats.contains("pri: 1099\n"), "{stats}");
}
