//! The page in a real browser: headless Chromium, by chromedriver. Where they are not installed the
//! tests say so and do nothing; `cargo xtask test` installs them where that is one command.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by a panic, also in its helpers, and says what it leaves out"
)]

use std::path::PathBuf;

use delayq_plugin::minutes;
use fantoccini::Locator;
use fantoccini::error::CmdError;
use fantoccini::key::Key;
use serde_json::Value;

mod driver;
mod shop;

use crate::driver::{Browser, Driver};
use crate::shop::Shop;

/// Acts on an element again where the live page has replaced it between its find and the act.
async fn held(act: impl AsyncFn() -> Result<(), CmdError>) {
    for _ in 0..5 {
        match act().await {
            Err(error) if error.is_stale_element_reference() => {}
            done => return done.unwrap(),
        }
    }
    panic!("the element is replaced again and again");
}

/// Every page.
const PAGES: [&str; 15] = [
    "/",
    "/type?name=mail.send",
    "/tasks?type=mail.send&state=scheduled",
    "/task?type=mail.send&id=order-7",
    "/dead",
    "/dead/requeue?type=webhook.deliver",
    "/?sort=-due",
    "/search?q=order-7",
    "/recurring",
    "/batches",
    "/pools",
    "/instances",
    "/log",
    "/health",
    "/history?outcome=dead",
];

/// A shop and a browser in front of it; `None` where there is no browser.
async fn scene() -> Option<(Shop, Driver, Browser)> {
    let driver = Driver::start()?;
    let browser = driver.browser().await;
    Some((Shop::open().await, driver, browser))
}

impl Browser {
    async fn open(&self, shop: &Shop, path: &str) {
        let address = format!("{}{path}", shop.address);
        self.client.goto(&address).await.unwrap();
    }

    /// Keys that no field takes. A page that a key has opened hears none before it is complete.
    async fn press(&self, keys: &str) {
        let state = "return document.readyState";
        until(|| async { self.script(state).await == "complete" }).await;
        let send = async || {
            let body = self.client.find(Locator::Css("body")).await?;
            body.send_keys(keys).await
        };
        held(send).await;
    }

    async fn click(&self, xpath: &str) {
        let wait = self.client.wait().for_element(Locator::XPath(xpath));
        let is_there = wait.await.is_ok();
        let seen = if is_there {
            String::new()
        } else {
            self.seen().await
        };
        assert!(is_there, "{xpath} does not come on {seen}");
        let click = async || {
            let found = self.client.find(Locator::XPath(xpath)).await?;
            found.click().await
        };
        held(click).await;
    }

    async fn fill(&self, css: &str, text: &str) {
        let fill = async || {
            let field = self.client.find(Locator::Css(css)).await?;
            field.clear().await?;
            field.send_keys(text).await
        };
        held(fill).await;
    }

    /// The page as it is, for a failure.
    async fn seen(&self) -> String {
        let url = self.client.current_url().await.unwrap();
        let text = self.script("return document.body.innerText").await;
        format!("{url}: {text}")
    }

    /// Waits until an element is there whose text contains this.
    async fn sees(&self, text: &str) {
        let xpath = format!("//body//*[contains(normalize-space(.), {text:?})]");
        let wait = self.client.wait().for_element(Locator::XPath(&xpath));
        let is_there = wait.await.is_ok();
        let seen = if is_there {
            String::new()
        } else {
            self.seen().await
        };
        assert!(is_there, "{text:?} does not come on {seen}");
    }

    async fn script(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap()
    }
}

/// The source of axe-core; `None`, and a line, where it is not installed.
fn axe() -> Option<String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join("target/axe-core/node_modules/axe-core/axe.min.js");
    let source = std::fs::read_to_string(file).ok();
    if source.is_none() {
        println!(
            "LEFT OUT: axe-core is not here, which checks accessibility (`cargo xtask test --only \
             install` fetches it with npm)"
        );
    }
    source
}

/// What axe-core calls serious or critical, by rule and place.
async fn barriers(browser: &Browser, axe: &str) -> Vec<String> {
    browser.script(axe).await;
    let run = "const done = arguments[arguments.length - 1]; axe.run().then(done, done)";
    let result = browser.client.execute_async(run, Vec::new()).await.unwrap();
    let violations = result["violations"]
        .as_array()
        .expect("axe answers")
        .clone();
    let is_grave = |one: &&Value| matches!(one["impact"].as_str(), Some("serious" | "critical"));
    let said = |one: &Value| format!("{}: {}", one["id"], one["nodes"][0]["html"]);
    violations.iter().filter(is_grave).map(said).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_is_readable_in_light_and_dark_on_a_desk_and_on_a_phone() {
    let Some((shop, _driver, browser)) = scene().await else {
        return;
    };
    let axe = axe();
    for (width, height, is_dark) in [(1_280, 900, false), (1_280, 900, true), (390, 844, false)] {
        browser.look(width, height, is_dark).await;
        for path in PAGES {
            browser.open(&shop, path).await;
            let place = format!("{path} at {width}, dark {is_dark}");
            if let Some(axe) = &axe {
                assert_eq!(barriers(&browser, axe).await, [""; 0], "{place}");
            }
            let wide = "return document.documentElement.scrollWidth - window.innerWidth";
            let wide = browser.script(wide).await.as_i64().unwrap();
            assert!(wide <= 0, "{place} is {wide} pixels too wide");
            assert_eq!(browser.complaints().await, [""; 0], "{place}");
        }
    }
    browser.client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_action_does_what_it_says() {
    let Some((shop, _driver, browser)) = scene().await else {
        return;
    };
    steer_a_type(&shop, &browser).await;
    steer_a_task(&shop, &browser).await;
    steer_dead_tasks(&shop, &browser).await;
    browser.open(&shop, "/log").await;
    browser.sees("ann").await;
    let verbs = shop.verbs().await;
    for verb in [
        "pause",
        "resume",
        "update",
        "reschedule",
        "run-now",
        "cancel",
        "requeue",
        "discard",
        "purge",
    ] {
        assert!(
            verbs.iter().any(|one| one == verb),
            "{verb} is not in {verbs:?}"
        );
    }
    assert_eq!(browser.complaints().await, [""; 0]);
    browser.client.close().await.unwrap();
}

/// Pause, resume, purge after the name was typed.
async fn steer_a_type(shop: &Shop, browser: &Browser) {
    browser.open(shop, "/type?name=mail.send").await;
    browser.click("//button[contains(., 'Pause')]").await;
    browser.sees("paused").await;
    assert!(
        shop.tasks
            .stats("mail.send")
            .await
            .unwrap()
            .paused_until
            .is_some()
    );
    browser.click("//button[contains(., 'Resume')]").await;
    browser.sees("goes on").await;
    assert_eq!(
        shop.tasks.stats("mail.send").await.unwrap().paused_until,
        None
    );
    // A purge asks for the name.
    browser
        .open(shop, "/type/purge?name=sms.sent&state=scheduled")
        .await;
    browser.sees("5").await;
    browser.fill("form input[name=typed]", "sms.sent").await;
    browser.click("//form//button[contains(., 'Purge')]").await;
    until(|| async { shop.counts("sms.sent").await == (0, 0) }).await;
}

/// Its message, its time, its end.
async fn steer_a_task(shop: &Shop, browser: &Browser) {
    let find = |id: &'static str| {
        let tasks = shop.tasks.clone();
        async move { tasks.find("mail.send", id).await.unwrap().unwrap() }
    };
    browser.open(shop, "/task?type=mail.send&id=order-7").await;
    browser.click("//summary[normalize-space()='Edit']").await;
    browser.fill("#edit-message", "{\"order\": 77}").await;
    browser.click("//button[contains(., 'Save message')]").await;
    browser.sees("77").await;
    assert_eq!(find("order-7").await.message.unwrap(), b"{\"order\": 77}");
    let before = find("order-7").await.at;
    browser.fill("#when", "3h").await;
    browser.click("//button[normalize-space()='Move']").await;
    browser.sees("moved").await;
    assert!(find("order-7").await.at > before);
    browser.click("//button[contains(., 'Run now')]").await;
    browser.sees("it may start now").await;
    assert!(find("order-7").await.at <= shop.tasks.clock().now());
    browser.click("//summary[contains(., 'Cancel')]").await;
    browser
        .click("//button[contains(., 'Cancel this task')]")
        .await;
    browser.sees("cancelled").await;
    assert_eq!(find("order-7").await.state.as_str(), "cancelled");
}

/// One, a group, the rest.
async fn steer_dead_tasks(shop: &Shop, browser: &Browser) {
    browser
        .open(shop, "/task?type=webhook.deliver&id=order-1")
        .await;
    browser.click("//button[contains(., 'Requeue')]").await;
    browser.sees("scheduled").await;
    assert_eq!(shop.counts("webhook.deliver").await, (1, 11));
    browser.open(shop, "/dead").await;
    browser
        .click("//tr[contains(., 'connection reset')]//a[contains(., 'Requeue')]")
        .await;
    browser.sees("7").await;
    browser
        .click("//form//button[contains(., 'equeue 7')]")
        .await;
    until(|| async { shop.counts("webhook.deliver").await == (8, 4) }).await;
    browser
        .open(shop, "/dead/discard?type=webhook.deliver")
        .await;
    browser
        .click("//form//button[contains(., 'iscard 4')]")
        .await;
    until(|| async { shop.counts("webhook.deliver").await == (8, 0) }).await;
}

/// Asks again until it is so; the page works in the background.
async fn until<F: Future<Output = bool>>(is_so: impl Fn() -> F) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(20), wait).await;
    waited.expect("it does not come");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keyboard_is_enough() {
    let Some((shop, _driver, browser)) = scene().await else {
        return;
    };
    browser.open(&shop, "/").await;
    for (keys, heading) in [
        ("gd", "/dead"),
        ("gr", "/recurring"),
        ("gb", "/batches"),
        ("gp", "/pools"),
        ("gi", "/instances"),
        ("gl", "/log"),
        ("gh", "/health"),
    ] {
        browser.press(keys).await;
        let there = |url: &str| url.contains(heading);
        until(|| async { there(browser.client.current_url().await.unwrap().as_str()) }).await;
    }
    browser.press("go").await;
    until(|| async { browser.client.current_url().await.unwrap().path() == "/shop" }).await;
    browser.press("?").await;
    browser.sees("next row, row before").await;
    browser.press(&char::from(Key::Escape).to_string()).await;
    browser.press("/").await;
    let focus = "return document.activeElement.tagName";
    assert_eq!(browser.script(focus).await, "INPUT");
    browser.press(&char::from(Key::Escape).to_string()).await;
    browser.press("j").await;
    browser.press("j").await;
    let focused = "return document.activeElement.closest('tr')?.rowIndex ?? -1";
    let row = browser.script(focused).await.as_i64().unwrap();
    assert!(row >= 1, "j goes to a row");
    browser.press("").await;
    // Everything that can be clicked is reached by Tab, and shows that it has the focus.
    browser.open(&shop, "/task?type=mail.send&id=order-9").await;
    let targets = "return [...document.querySelectorAll('a[href], button, input:not([type=hidden]), \
                   summary, textarea')].filter(e => e.checkVisibility() && e.tabIndex < 0).length";
    assert_eq!(browser.script(targets).await, 0);
    browser.client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_follows_what_happens_without_being_loaded_again() {
    let Some((shop, _driver, browser)) = scene().await else {
        return;
    };
    browser.open(&shop, "/").await;
    browser.script("window.isTheSame = true").await;
    browser.sees("order.cancel").await;
    let job = delayq_plugin::DelayQueueJob::raw("brand.new", "hi").after(minutes(5));
    shop.tasks.send(job).await.unwrap();
    browser.sees("brand.new").await;
    assert_eq!(browser.script("return window.isTheSame").await, true);
    browser.client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_selected_stays_selected_while_the_page_follows_and_is_changed_together() {
    let Some((shop, _driver, browser)) = scene().await else {
        return;
    };
    browser
        .open(&shop, "/tasks?type=mail.send&state=scheduled")
        .await;
    for id in ["order-3", "order-5"] {
        let xpath = format!("//tr[contains(., '{id}')]//td[@class='pick']/input");
        browser.click(&format!("({xpath})[1]")).await;
    }
    let count = "return document.getElementById('picked-count').textContent";
    assert_eq!(browser.script(count).await, "2");
    let job = delayq_plugin::DelayQueueJob::raw("mail.send", "hi").id("brand-new");
    shop.tasks.send(job.after(minutes(5))).await.unwrap();
    browser.sees("brand-new").await;
    assert_eq!(browser.script(count).await, "2");
    browser.click("//form[@id='selected']//summary").await;
    browser
        .click("//button[contains(., 'Cancel the selected tasks')]")
        .await;
    browser.sees("2 tasks cancelled").await;
    for id in ["order-3", "order-5"] {
        let task = shop.tasks.find("mail.send", id).await.unwrap().unwrap();
        assert_eq!(task.state.as_str(), "cancelled", "{id}");
    }
    assert_eq!(browser.complaints().await, [""; 0]);
    browser.client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enter_moves_what_is_selected_and_groups_are_discarded_after_a_question() {
    let Some((shop, _driver, browser)) = scene().await else {
        return;
    };
    browser
        .open(&shop, "/tasks?type=mail.send&state=scheduled")
        .await;
    browser
        .click("(//tr[contains(., 'order-3')]//td[@class='pick']/input)[1]")
        .await;
    let keys = format!("9h{}", char::from(Key::Enter));
    browser.fill("#bulk-when", &keys).await;
    browser.sees("1 task moved").await;
    browser.open(&shop, "/dead").await;
    browser
        .click("//tr[contains(., 'connection reset')]//td[@class='pick']/input")
        .await;
    browser
        .click("//form[@id='selected']//button[contains(., 'Discard')]")
        .await;
    browser.sees("Discard 8 dead tasks?").await;
    assert_eq!(shop.counts("webhook.deliver").await, (0, 12));
    browser
        .click("//form//button[contains(., 'Discard 8 dead tasks')]")
        .await;
    browser.sees("8 dead tasks discarded").await;
    assert_eq!(shop.counts("webhook.deliver").await, (0, 4));
    assert_eq!(browser.complaints().await, [""; 0]);
    browser.client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_is_read_and_used_without_scripts() {
    let Some((shop, _driver, browser)) = scene().await else {
        return;
    };
    browser.without_scripts().await;
    browser.open(&shop, "/type?name=order.cancel").await;
    browser.click("//button[contains(., 'Pause')]").await;
    browser.sees("paused").await;
    assert!(
        shop.tasks
            .stats("order.cancel")
            .await
            .unwrap()
            .paused_until
            .is_some()
    );
    browser.open(&shop, "/dead").await;
    browser.sees("connection reset by peer").await;
    browser.client.close().await.unwrap();
}
