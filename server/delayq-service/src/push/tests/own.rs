//! Targets of single tasks.

use delayq_plugin::store::{Expected, NewTask};
use delayq_plugin::{TaskId, Timestamp};

use super::super::own_target::OWN_TARGET;
use super::super::seal::{EARLIER_SEAL, SEAL};
use super::*;

pub(super) async fn with_target(
    site: &Site,
    id: &str,
    target: &Value,
) -> delayq_plugin::Result<DelayQueueJob> {
    let job = DelayQueueJob::raw("job", "x").id(id);
    let named = (&TaskType::new("job").unwrap(), &TaskId::new(id).unwrap());
    let target = target.to_string();
    let headers = site.push.headers_of_own(named, b"x", &target);
    let headers = headers.await?.into_iter();
    Ok(headers.fold(job, |job, (name, value)| job.header(name, value)))
}

#[tokio::test]
async fn a_task_goes_to_its_own_target_and_one_without_waits_for_somebody_else() {
    let site = Site::open(&near());
    let mut target = Receiver::open(Vec::new()).await;
    let own = json!({"http": {"url": target.url, "method": "PATCH"}});
    let job = with_target(&site, "1", &own).await.unwrap();
    site.send(job).await;
    let got = target.next().await;
    assert_eq!(got.method.as_str(), "PATCH");
    assert!(
        got.headers
            .keys()
            .all(|name| !name.as_str().contains("target")),
        "{got:?}"
    );
    assert_eq!(got.header("webhook-signature"), "");
    site.until("job", "1", TaskState::Done).await;
    site.send(DelayQueueJob::raw("job", "x").id("2")).await;
    let wait = async {
        loop {
            let task = site.tasks.find("job", "2").await.unwrap().unwrap();
            if task.history.releases > 0 && task.state == TaskState::Scheduled {
                return task;
            }
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(wait.await.attempt, 0);
    // The type gets a target: what waits goes there, and own targets are signed by its secrets.
    let (_, secret) = site.set("job", json!({"http": {"url": target.url}})).await;
    let got = target.next().await;
    assert_eq!(
        (got.method.as_str(), got.header("delayq-task-id")),
        ("POST", "2")
    );
    site.send(with_target(&site, "3", &own).await.unwrap())
        .await;
    let got = target.next().await;
    assert_eq!(got.method.as_str(), "PATCH");
    Webhook::new(&secret.unwrap())
        .unwrap()
        .verify(&got.body, &got.headers)
        .unwrap();
    site.push.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_task_goes_to_its_own_target_also_once_that_of_its_type_is_removed() {
    for pattern in ["job", "*"] {
        let site = Site::open(&near());
        let mut target = Receiver::open(Vec::new()).await;
        site.set(pattern, json!({"http": {"url": target.url}}))
            .await;
        let own = json!({"http": {"url": target.url, "method": "PATCH"}});
        let job = with_target(&site, "1", &own).await.unwrap();
        site.send(job.after(Duration::from_hours(1))).await;
        let of_type = TypePattern::new(pattern).unwrap();
        assert!(site.push.remove(&of_type).await.unwrap());
        assert!(site.push.target(&of_type).await.unwrap().is_none());
        assert!(!site.push.remove(&of_type).await.unwrap(), "it is repeated");
        let _ = site.tasks.run_now("job", "1").await.unwrap();
        assert_eq!(target.next().await.method.as_str(), "PATCH", "{pattern}");
        site.until("job", "1", TaskState::Done).await;
        site.push.close(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn a_target_that_no_server_has_sealed_is_not_called_and_a_repeated_create_is_the_same() {
    let store = memory();
    let site = Site::on(&store, &near());
    let mut target = Receiver::open(Vec::new()).await;
    let own = json!({"http": {"url": target.url}});
    let (one, again) = (
        with_target(&site, "1", &own).await.unwrap(),
        with_target(&site, "1", &own).await.unwrap(),
    );
    let hour = Duration::from_hours(1);
    site.send(one.after(hour)).await;
    site.send(again.after(hour)).await;
    let task = site.until("job", "1", TaskState::Scheduled).await;
    let (text, seal) = (&task.headers[OWN_TARGET], &task.headers[SEAL]);
    let forged = DelayQueueJob::raw("job", "x")
        .id("2")
        .header(OWN_TARGET, text);
    site.send(forged).await;
    let dead = site.until("job", "2", TaskState::Dead).await;
    assert!(dead.history.last_error.unwrap().contains("scope operate"));
    // The seal of another target.
    let other = text.replace("/hook", "/other");
    let forged = DelayQueueJob::raw("job", "x").id("3").header(SEAL, seal);
    site.send(forged.header(OWN_TARGET, other)).await;
    site.until("job", "3", TaskState::Dead).await;
    assert!(target.got.try_recv().is_err());
    // A server that allows it to everybody asks for no seal.
    site.push.close(Duration::ZERO).await;
    let open = Site::on(
        &store,
        &PushConfig {
            allow_task_targets: true,
            ..near()
        },
    );
    open.send(
        DelayQueueJob::raw("job", "x")
            .id("4")
            .header(OWN_TARGET, text),
    )
    .await;
    assert_eq!(target.next().await.header("delayq-task-id"), "4");
    open.push.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_seal_is_about_one_task_and_one_message() {
    let store = memory();
    let site = Site::on(&store, &near());
    let mut target = Receiver::open(Vec::new()).await;
    let own = json!({"http": {"url": target.url}});
    let hour = Duration::from_hours(1);
    let job = with_target(&site, "1", &own).await.unwrap();
    site.send(job.after(hour)).await;
    let sealed = site.until("job", "1", TaskState::Scheduled).await;
    let copy = |id: &str, message: &str| {
        let job = DelayQueueJob::raw("job", message).id(id);
        let headers = sealed.headers.iter();
        headers.fold(job, |job, (name, value)| job.header(name, value))
    };
    // Its target goes to no other task, and with no other message.
    for job in [copy("2", "x"), copy("1", "foreign").replace()] {
        let id = job.task_id().to_owned();
        site.send(job).await;
        let dead = site.until("job", &id, TaskState::Dead).await;
        assert!(
            dead.history
                .last_error
                .unwrap()
                .contains("with this message")
        );
    }
    assert!(target.got.try_recv().is_err());
    // Put back as it was it is the task that was sealed.
    site.send(copy("1", "x").replace()).await;
    assert_eq!(target.next().await.header("delayq-task-id"), "1");
    site.push.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_task_whose_message_a_server_replaces_is_pushed_with_it() {
    let store = memory();
    let site = Site::on(&store, &near());
    let mut target = Receiver::open(Vec::new()).await;
    let own = json!({"http": {"url": target.url}});
    let (task_type, hour) = (TaskType::new("job").unwrap(), Duration::from_hours(1));
    let seals = site.push.seals();
    for id in ["1", "2"] {
        let job = with_target(&site, id, &own).await.unwrap();
        site.send(job.after(hour)).await;
    }
    let one = TaskId::new("1").unwrap();
    for message in ["new", "newer"] {
        let headers = seals.of_update(&task_type, &one, message.as_bytes());
        let headers = headers.await.unwrap();
        let updated = store.update_with(&task_type, &one, message.into(), &headers);
        let _ = updated.await.unwrap();
    }
    let _ = site.tasks.run_now("job", "1").await.unwrap();
    assert_eq!(&target.next().await.body[..], b"newer");
    // Replaced behind the back of the servers it is not, and no update makes that good.
    let two = TaskId::new("2").unwrap();
    let _ = store
        .update(&task_type, &two, b"foreign".to_vec())
        .await
        .unwrap();
    let headers = seals.of_update(&task_type, &two, b"x").await.unwrap();
    assert!(headers.is_empty(), "{headers:?}");
    let _ = site.tasks.run_now("job", "2").await.unwrap();
    site.until("job", "2", TaskState::Dead).await;
    assert!(target.got.try_recv().is_err());
    site.push.close(Duration::ZERO).await;
}

#[tokio::test]
async fn seals_of_the_earlier_release_hold_for_what_was_accepted_until_a_day_after_it() {
    for was_there in [true, false] {
        let store = memory();
        if was_there {
            let key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE";
            let written = store.write_document("target-seal", "key", key, Expected::Absent);
            let _ = written.await.unwrap();
        }
        let site = Site::on(&store, &near());
        let mut target = Receiver::open(Vec::new()).await;
        let own = json!({"http": {"url": target.url}});
        let job = with_target(&site, "1", &own).await.unwrap();
        let now = Timestamp::from_millis(0);
        let mut task: NewTask = job
            .into_task(&delayq_plugin::Limits::default(), now)
            .unwrap();
        assert!(task.headers.remove(SEAL).is_some());
        assert!(task.headers.contains_key(EARLIER_SEAL) && task.headers.contains_key(OWN_TARGET));
        store.submit(vec![task]).await.remove(0).unwrap();
        if was_there {
            assert_eq!(target.next().await.header("delayq-task-id"), "1");
        } else {
            site.until("job", "1", TaskState::Dead).await;
            assert!(target.got.try_recv().is_err());
        }
        site.push.close(Duration::ZERO).await;
    }
}

#[tokio::test]
async fn a_task_cannot_say_what_is_the_matter_of_its_type() {
    let site = Site::open(&near());
    let url = "https://example.org/";
    let secret = secret::new_secret().unwrap();
    for (target, word) in [
        (
            json!({"http": {"url": url, "secrets": [secret]}}),
            "secrets",
        ),
        (
            json!({"http": {"url": url}, "concurrency": 5}),
            "concurrency",
        ),
        (json!({"http": {"url": url}, "rate": {"pushes": 1}}), "rate"),
        (json!({"http": {"url": "https://10.0.0.1/"}}), "private"),
        (json!(7), "invalid type"),
    ] {
        let refused = with_target(&site, "1", &target).await;
        let said = refused.unwrap_err().to_string();
        assert!(said.contains(word), "{target}: {said}");
    }
    assert!(site.tasks.types().await.unwrap().is_empty());
    site.push.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_task_is_repeated_as_its_own_target_says_and_as_often() {
    let site = Site::open(&near());
    let fails = || StatusCode::INTERNAL_SERVER_ERROR.into_response();
    let mut target = Receiver::open(vec![fails(), fails(), fails(), fails()]).await;
    let retry = json!({"attempts": 3, "wait": "300ms", "is_fixed": true});
    let own = json!({"http": {"url": target.url}, "retry": retry});
    site.send(with_target(&site, "1", &own).await.unwrap())
        .await;
    let mut times = Vec::new();
    for attempt in ["1", "2", "3"] {
        let got = target.next().await;
        assert_eq!(got.header("delayq-attempt"), attempt);
        times.push(tokio::time::Instant::now());
    }
    let dead = site.until("job", "1", TaskState::Dead).await;
    assert_eq!(dead.attempt, 3);
    for pair in times.windows(2) {
        let wait = pair[1] - pair[0];
        assert!(wait >= Duration::from_millis(290), "{wait:?}");
    }
    site.push.close(Duration::from_secs(5)).await;
}
