//! Workers in processes that are killed or stopped in the middle of their transaction.

use std::process::Command;

use delayq_plugin::{TaskState, seconds};
use delayq_tests::rig::until;
use delayq_tests::watched_process::{KILL, WatchedProcess, new_folder};

use crate::shop::{PAY, Shop, pay_job};

/// Starts an instance and returns once its worker has come to a moment.
fn start(shop: &Shop, moment: &str) -> WatchedProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_order_worker"));
    command.args([&shop.url(), moment]);
    let folder = new_folder("delayq-order-worker-");
    let ready = format!("moment: {moment}");
    WatchedProcess::start(&command, &folder, &ready, KILL).unwrap()
}

#[tokio::test]
async fn an_order_is_paid_once_whenever_its_worker_is_killed() {
    for (moment, paid) in [("before", 0), ("after", 1)] {
        let shop = Shop::open(&format!("killed_{moment}"));
        let tasks = shop.tasks().await;
        tasks.send(pay_job("o-1")).await.unwrap();
        let process = start(&shop, moment);
        process.kill();
        // The server notices that the client has gone.
        let open = "SELECT count(*) FROM pg_locks WHERE relation = 'paid'::regclass";
        until("the end of its transaction", async || {
            (shop.sql(open) == "0").then_some(())
        })
        .await;
        assert_eq!(shop.paid("o-1"), paid, "{moment}");
        let state = tasks.find(PAY, "o-1").await.unwrap().unwrap().state;
        assert_eq!(state == TaskState::Done, paid == 1, "{moment}: {state}");
        let running = shop.start_paying().await;
        running.reaches("o-1", TaskState::Done).await;
        tasks.send(pay_job("o-2")).await.unwrap();
        running.reaches("o-2", TaskState::Done).await;
        assert_eq!(shop.paid("o-1"), 1, "{moment}");
        assert_eq!(running.calls(), 2 - paid, "{moment}");
        running.plugin.shutdown(seconds(1)).await;
    }
}

#[tokio::test]
async fn a_worker_that_has_lost_its_lock_is_refused_and_rolls_back() {
    let shop = Shop::open("lost");
    let tasks = shop.tasks().await;
    tasks.send(pay_job("o-1")).await.unwrap();
    let mut process = start(&shop, "gate");
    process.signal("STOP");
    let running = shop.start_paying().await;
    running.reaches("o-1", TaskState::Done).await;
    process.signal("CONT");
    shop.sql("INSERT INTO gate VALUES (1)");
    let refused = until("its refusal", async || {
        let mut lines = process.log().into_iter();
        lines.find(|line| line.starts_with("moment: refused"))
    })
    .await;
    assert!(
        refused.contains("another attempt has its lock"),
        "{refused}"
    );
    process.kill();
    assert_eq!(shop.paid("o-1"), 1);
    running.plugin.shutdown(seconds(1)).await;
}
