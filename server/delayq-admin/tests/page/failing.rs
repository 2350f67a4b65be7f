//! A store that is down, slow or broken: the page says so in place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use delayq_admin::{Admin, Role, Viewer};
use delayq_plugin::{SystemClock, TaskSubmitService};
use delayq_testing::{Fault, FaultyStore};
use tokio::sync::Notify;

use crate::shop::{PAGES, Shop, get, post, token};

fn page(store: FaultyStore, shop: &Shop) -> axum::Router {
    let tasks = TaskSubmitService::new(Arc::new(store)).with_clock(Arc::new(shop.clock.clone()));
    Admin::new(tasks)
        .authorize(|_| Some(Viewer::new("ann", Role::Admin)))
        .router()
}

#[tokio::test]
async fn every_page_says_that_the_store_is_down() {
    for fault in [Fault::NotApplied, Fault::AnswerLost, Fault::ReadOnly] {
        let shop = Shop::busy().await;
        let store = FaultyStore::new(Arc::clone(&shop.store) as _, move |_| fault);
        let page = page(store, &shop);
        for path in PAGES {
            let answer = get(&page, path).await;
            assert!(
                answer.text.contains("planned fault"),
                "{path}: {}",
                answer.text
            );
            if path != "/health" {
                assert_eq!(answer.status, 503, "{path}");
                assert!(answer.text.contains("The store did not answer"), "{path}");
            }
        }
    }
}

#[tokio::test]
async fn what_was_seen_before_is_shown_with_its_time_and_the_error() {
    let shop = Shop::busy().await;
    let is_down = Arc::new(AtomicBool::new(false));
    let down = Arc::clone(&is_down);
    let store = FaultyStore::new(Arc::clone(&shop.store) as _, move |_| {
        if down.load(Ordering::Relaxed) {
            Fault::NotApplied
        } else {
            Fault::None
        }
    });
    let page = page(store, &shop);
    for path in PAGES.into_iter().filter(|path| *path != "/health") {
        assert_eq!(get(&page, path).await.status, 200);
    }
    is_down.store(true, Ordering::Relaxed);
    shop.clock.advance(Duration::from_mins(10));
    for path in PAGES.into_iter().filter(|path| *path != "/health") {
        let answer = get(&page, path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.text.contains("Shown is the state of"), "{path}");
        assert!(answer.text.contains("planned fault"), "{path}");
    }
    let token_page = get(&page, "/type?name=mail.send").await;
    assert!(token_page.text.contains("mail.send"));
    let flash = post(&page, "/type/pause", &[("name", "mail.send")])
        .await
        .flash();
    assert!(
        flash.starts_with("-not done: ") && flash.contains("planned fault"),
        "{flash}"
    );
    is_down.store(false, Ordering::Relaxed);
    shop.clock.advance(Duration::from_mins(10));
    assert!(!get(&page, "/").await.text.contains("planned fault"));
}

/// A read that took 5 s kept its view for 200 s: long after the store was back, Health said that
/// it was down, and an overview showed what it had seen.
#[tokio::test]
async fn a_store_that_is_back_is_seen_at_once() {
    let shop = Shop::busy().await;
    let is_slow = Arc::new(AtomicBool::new(false));
    let (slow, clock) = (Arc::clone(&is_slow), shop.clock.clone());
    let store = FaultyStore::new(Arc::clone(&shop.store) as _, move |edge| {
        if !slow.load(Ordering::Relaxed) {
            return Fault::None;
        }
        clock.advance(Duration::from_secs(4));
        if edge == "check" {
            Fault::NotApplied
        } else {
            Fault::None
        }
    });
    let page = page(store, &shop);
    get(&page, "/").await;
    is_slow.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        shop.clock.advance(Duration::from_secs(3));
        assert!(get(&page, "/health").await.text.contains("planned fault"));
    }
    get(&page, "/").await;
    is_slow.store(false, Ordering::Relaxed);
    shop.clock.advance(Duration::from_secs(3));
    assert!(!get(&page, "/health").await.text.contains("planned fault"));
    let job = delayq_plugin::DelayQueueJob::raw("new.type", "hi");
    shop.tasks.send(job).await.unwrap();
    assert!(get(&page, "/").await.text.contains("new.type"));
}

/// What was done before a failure is said, and what follows it is tried.
#[tokio::test]
async fn a_change_of_several_says_what_was_done_and_what_failed() {
    let shop = Shop::busy().await;
    let page_of = |store| page(store, &shop);
    let healthy = page_of(FaultyStore::new(Arc::clone(&shop.store) as _, |_| {
        Fault::None
    }));
    let types = ["mail.send", "gone.type", "order.cancel"].map(|name| ("name", name));
    let flash = post(&healthy, "/types/pause", &types).await.flash();
    let said = "-2 types paused until resumed; 1 type not changed: ";
    assert!(
        flash.starts_with(said) && flash.contains("gone.type"),
        "{flash}"
    );
    let is_paused = async |name: &str| shop.tasks.stats(name).await.unwrap().paused_until.is_some();
    assert!(is_paused("mail.send").await && is_paused("order.cancel").await);
    let ids: Vec<_> = (0..300)
        .map(|number| format!("bulk.die d-{number}"))
        .collect();
    for id in &ids {
        shop.kill("bulk.die", &id["bulk.die ".len()..], "away")
            .await;
    }
    let calls = AtomicU32::new(0);
    let store = FaultyStore::new(Arc::clone(&shop.store) as _, move |edge| {
        let is_third = edge == "discard_dead" && calls.fetch_add(1, Ordering::Relaxed) == 2;
        if is_third {
            Fault::NotApplied
        } else {
            Fault::None
        }
    });
    let picked: Vec<_> = ids.iter().map(|id| ("task", id.as_str())).collect();
    let answer = post(&page_of(store), "/selected/discard", &picked).await;
    let said = "-256 tasks discarded; 44 tasks not changed: ";
    assert!(answer.flash().starts_with(said), "{}", answer.flash());
    assert_eq!(shop.tasks.stats("bulk.die").await.unwrap().dead, 44);
    let store = FaultyStore::new(Arc::clone(&shop.store) as _, |edge| match edge {
        "cancel" => Fault::NotApplied,
        _ => Fault::None,
    });
    let picked: Vec<_> = (0..5)
        .map(|number| format!("mail.send order-{number}"))
        .collect();
    let picked: Vec<_> = picked.iter().map(|id| ("task", id.as_str())).collect();
    let answer = post(&page_of(store), "/selected/cancel", &picked).await;
    let said = "-0 tasks cancelled; 2 tasks not tried; 3 tasks not changed: ";
    assert!(answer.flash().starts_with(said), "{}", answer.flash());
}

/// A browser that leaves does not end an action between its change and its entry in the log.
#[tokio::test]
async fn an_action_goes_on_when_the_browser_leaves() {
    let shop = Shop::busy().await;
    let store = FaultyStore::new(Arc::clone(&shop.store) as _, |edge| match edge {
        "cancel" => Fault::AnswerLate,
        _ => Fault::None,
    });
    let late = Duration::from_millis(100);
    let page = page(store.with_delay(Arc::new(SystemClock), late), &shop);
    let task = [("type", "mail.send"), ("id", "order-0")];
    token(&page).await;
    let left = tokio::time::timeout(late / 2, post(&page, "/task/cancel", &task)).await;
    assert!(left.is_err(), "it takes longer than the browser waits");
    let is_logged = async || shop.log().await[0].action.verb == "cancel";
    for _ in 0..200 {
        if is_logged().await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(is_logged().await);
}

/// A search that takes long shows what it has found: the store is not down.
#[tokio::test]
async fn a_search_ends_in_time_with_what_it_has_found() {
    let (shop, listing) = (Shop::busy().await, Arc::new(Notify::new()));
    let begins = Arc::clone(&listing);
    let store = FaultyStore::new(Arc::clone(&shop.store) as _, move |edge| match edge {
        "list" => {
            begins.notify_one();
            Fault::Hang
        }
        _ => Fault::None,
    });
    let hour = Duration::from_hours(1);
    let page = page(store.with_delay(Arc::new(shop.clock.clone()), hour), &shop);
    let time_passes = async {
        listing.notified().await;
        shop.clock.advance(Duration::from_secs(4));
    };
    let (answer, ()) = tokio::join!(get(&page, "/search?q=order-1"), time_passes);
    assert_eq!(answer.status, 200);
    for part in [
        "href=\"/task?type=sms.sent&#38;id=order-1\"",
        "Not everything was searched",
        "for up to 4 s",
    ] {
        assert!(answer.text.contains(part), "{part}: {}", answer.text);
    }
}

/// Reads that fail slowly have their share of the time, too, but the page soon sees the end of it.
#[tokio::test]
async fn a_read_that_fails_slowly_is_not_repeated_at_once() {
    let shop = Shop::busy().await;
    let (clock, calls) = (shop.clock.clone(), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&calls);
    let store = FaultyStore::new(Arc::clone(&shop.store) as _, move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        clock.advance(Duration::from_secs(4));
        Fault::NotApplied
    });
    let page = page(store, &shop);
    let mut reads = Vec::new();
    for _ in 0..14 {
        get(&page, "/search?q=order").await;
        reads.push(calls.load(Ordering::Relaxed));
        shop.clock.advance(Duration::from_secs(3));
    }
    assert_eq!(reads[..3], [1, 2, 2], "{reads:?}");
    assert_eq!(reads[13], 3, "after 30 s: {reads:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_does_not_hang_the_page() {
    let shop = Shop::busy().await;
    let store = FaultyStore::new(Arc::clone(&shop.store) as _, |_| Fault::Hang);
    let store = store.with_delay(Arc::new(SystemClock), Duration::from_hours(1));
    let page = page(store, &shop);
    for path in PAGES {
        let began = tokio::time::Instant::now();
        let answer = get(&page, path).await;
        assert!(
            began.elapsed() <= Duration::from_secs(5),
            "{path}: {:?}",
            began.elapsed()
        );
        // The read of a view before may have come to its end by now.
        let says = ["The store is being read", "no answer within 6 s"];
        let is_said = says.iter().any(|said| answer.text.contains(said));
        assert!(is_said, "{path}: {}", answer.text);
    }
}
