//! Service mode: what registries and instances answer, and what whoever reaches an application
//! sends to it.

use bolero::{check, produce};
use delayq_endpoint::{EurekaClient, EurekaInstance, fuzz as endpoint};
use delayq_fuzz::{Reach, again, bytes, damage, each_damaged, list, spell, words};
use delayq_server::fuzz;

/// What a registry answers, as it was recorded, and what may stand in it.
const REGISTRY: [&str; 4] = [
    r#"{"applications":{"versions__delta":"1","apps__hashcode":"UP_1_","application":[{"name":"SHOP","instance":[{"instanceId":"host-a:shop:8081","hostName":"host-a","app":"SHOP","status":"UP","port":{"$":8081,"@enabled":"true"},"securePort":{"$":443,"@enabled":"false"},"vipAddress":"shop","metadata":{"delayq.types":"order.cancel, mail","delayq.path":"/work","delay-queue:task":"a,b"},"actionType":"ADDED"}]}]}}"#,
    r#"{"applications":{"apps__hashcode":"","application":{"instance":{"instanceId":"host-a:shop:8081","app":"SHOP","hostName":"host-a","status":"UP","actionType":"DELETED"}}}}"#,
    r#"{"applications":{"apps__hashcode":"STARTING_1_UP_1_","application":[{"instance":[{"hostName":"10.0.0.5","app":"MAIL","status":"STARTING"},{"hostName":"[::1]","app":"A","status":"UP","securePort":{"$":"8443","@enabled":true},"metadata":{"delayq.types":"*,a"}}]}]}}"#,
    r#"{"applications":{"application":[]}}"#,
];

#[test]
fn an_answer_of_a_registry_leads_to_no_other_hosts_than_it_names() {
    each_damaged(&REGISTRY, |answer| {
        fuzz::registry(answer).is_some_and(|found| !found.is_empty())
    });
}

#[test]
fn a_change_of_a_registry_is_applied_or_found_to_lead_elsewhere() {
    let reach = Reach::at_least(5);
    let accidents = || list(2, produce::<(u16, u8, u8)>());
    let inputs = (
        (produce::<u8>(), accidents()),
        (produce::<u8>(), accidents()),
    );
    let sample = |(which, accidents): &(u8, Vec<(u16, u8, u8)>)| {
        let sample = REGISTRY.iter().cycle().nth(usize::from(*which));
        let mut answer = sample.expect("no samples").as_bytes().to_vec();
        damage(&mut answer, accidents);
        answer
    };
    check!()
        .with_generator(inputs)
        .for_each(|(before, change)| {
            let applied = fuzz::registry_change(&sample(before), &sample(change));
            reach.count(applied == Some(true));
        });
}

const HOSTS: [&str; 24] = [
    "http://",
    "https://",
    "srv://",
    "srvs://",
    "user:zebra@",
    "@",
    "eureka",
    "_delayq._tcp.shop.test",
    ":8761",
    ":0",
    ":65536",
    "/eureka",
    "/",
    "[::1]",
    "10.0.0.7",
    "shop",
    ".",
    "-",
    "?",
    "#",
    "%",
    "\\",
    " ",
    "\u{e4}",
];

#[test]
fn an_address_of_a_registry_or_an_instance_is_understood_or_refused() {
    let reach = Reach::at_least(2);
    check!()
        .with_generator((words(4), words(2)))
        .for_each(|(url, app)| {
            let (text, app) = (spell(url, &HOSTS), spell(app, &HOSTS));
            let is_name = again(fuzz::dns_name, &text);
            let client = EurekaClient::new([&text]);
            // A password is told to nobody.
            let shown = client.as_ref().map(|client| format!("{client:?}"));
            let is_told = shown.is_ok_and(|shown| shown.contains("zebra"));
            let authority = text
                .split("://")
                .nth(1)
                .and_then(|rest| rest.split('/').next());
            let is_password = authority.is_some_and(|one| one.contains("zebra@"));
            assert!(!(is_told && is_password), "{text}");
            let instance = EurekaInstance::new(&app, &text);
            if let Ok(instance) = &instance {
                let id = instance.id();
                assert!(id.contains(&format!(":{}:", app.to_lowercase())), "{id}");
            }
            reach.count(is_name || client.is_ok() || instance.is_ok());
        });
}

#[test]
fn the_options_of_service_mode_are_read_the_same_again() {
    let options = [
        r#"{"namespace":"shop","allow_networks":["10.0.0.0/8"],"refresh_ms":100,"eureka":{"types_key":"t","app":"a","heartbeat_ms":1}}"#,
        r#"{"static":{"mail":["http://10.0.0.5:8080"]},"dns":{"mail":["srv://_delayq._tcp.shop.test"]},"dns_servers":["127.0.0.1:53"]}"#,
    ];
    each_damaged(&options, |text| {
        let text = String::from_utf8_lossy(text);
        again(fuzz::service, &text)
    });
}

#[test]
fn an_announcement_of_an_application_holds_for_a_while_or_is_refused() {
    let announcements = [
        r#"{"url":"http://10.0.0.7:8080/delayq/work","types":["mail"],"lease":"30s"}"#,
        r#"{"url":"","types":[],"lease":3000}"#,
        r#"{"types":["a","b"],"url":"x"}"#,
    ];
    each_damaged(&announcements, |body| {
        let lease = fuzz::announcement(body);
        assert!(lease.is_none_or(|lease| (3_000..=3_600_000).contains(&lease)));
        let _ = fuzz::callee_name(&String::from_utf8_lossy(body));
        lease.is_some()
    });
}

#[test]
fn an_answer_of_an_instance_means_something_for_its_task() {
    let names = [
        "delayq-outcome",
        "delayq-after-ms",
        "delayq-settle",
        "content-type",
    ];
    let values = [
        "retry",
        "release",
        "dead",
        "refused",
        "done",
        "later",
        "0",
        "1000",
        "18446744073709551615",
        "-1",
        "text/plain",
        "\u{80}",
    ];
    let statuses = [200, 202, 204, 302, 400, 404, 410, 421, 429, 500, 503, 999];
    let reach = Reach::at_least(20);
    let headers = list(3, (words(1), words(1)));
    let inputs = (produce::<u8>(), headers, bytes(8), produce::<bool>());
    check!()
        .with_generator(inputs)
        .for_each(|(status, headers, body, is_spring)| {
            let status = statuses.iter().cycle().nth(usize::from(*status));
            let headers = headers.iter();
            let headers = headers.map(|(name, value)| (spell(name, &names), spell(value, &values)));
            let headers: Vec<_> = headers.collect();
            let headers = headers.iter();
            let headers = headers.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            let (headers, app): (Vec<_>, _) = (headers.collect(), is_spring.then_some("shop"));
            let status = status.copied().unwrap_or(200);
            reach.count(fuzz::instance_answer(status, &headers, body, app).is_some());
        });
    let kept = [r#"{"submitted_at":1767225600000,"headers":{"a":"b"},"message":"YSBtZXNzYWdl"}"#];
    each_damaged(&kept, |reply| {
        let read = fuzz::kept_task(reply);
        let again = read
            .as_ref()
            .and_then(|(text, _)| fuzz::kept_task(text.as_bytes()));
        assert_eq!(again, read);
        read.is_some()
    });
}

const SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";
const OTHER: &str = "whsec_MzIxMDk4NzY1NDMyMTA5ODc2NTQzMjEw";
const NOW_MS: i64 = 1_767_225_600_000;

/// A part of a call that is signed.
fn part(calls: &[&str], which: u8) -> String {
    let part = calls.iter().cycle().nth(usize::from(which));
    (*part.expect("no samples")).to_owned()
}

#[test]
fn a_call_counts_as_signed_only_as_it_was_signed() {
    let reach = Reach::at_least(5);
    let accidents = list(2, produce::<(u16, u8, u8)>());
    let inputs = (produce::<u8>(), bytes(12), produce::<u8>(), accidents);
    check!()
        .with_generator(inputs)
        .for_each(|(which, body, target, accidents)| {
            let (id, at) = (
                part(&["mail/a/1", "shop-mail/b/7", ""], *which),
                NOW_MS / 1_000,
            );
            let signed = fuzz::signature(SECRET, &id, at, body).expect("a secret");
            let mut parts = [
                id.into_bytes(),
                at.to_string().into_bytes(),
                body.clone(),
                signed.into(),
            ];
            let before = parts.clone();
            if let Some(part) = parts.get_mut(usize::from(target % 4)) {
                damage(part, accidents);
            }
            let is_same = parts == before;
            let [id, at, body, signature] = &parts;
            let headers: [(&[u8], &[u8]); 3] = [
                (b"webhook-id", id),
                (b"webhook-timestamp", at),
                (b"webhook-signature", signature),
            ];
            let is_signed = endpoint::is_signed(SECRET, &headers, body, NOW_MS);
            assert!(!is_same || is_signed == Some(true));
            // More spaces, or one more signature, are as good; nothing else is.
            let is_content_same = parts
                .iter()
                .zip(&before)
                .take(3)
                .all(|(one, other)| one == other);
            assert!(is_content_same || is_signed != Some(true), "{parts:?}");
            assert_ne!(
                endpoint::is_signed(OTHER, &headers, body, NOW_MS),
                Some(true)
            );
            let late = NOW_MS + 301_000;
            assert_ne!(
                endpoint::is_signed(SECRET, &headers, body, late),
                Some(true)
            );
            reach.count(is_signed == Some(true));
        });
}

#[test]
fn a_call_is_that_of_a_task_or_refused() {
    let names = [
        "delayq-task-type",
        "delayq-task-id",
        "delayq-attempt",
        "delayq-tried",
        "delayq-fence",
        "delayq-due-at",
        "delayq-header-",
        "delayq-header-shop",
        "webhook-id",
    ];
    let values = [
        "mail",
        "a",
        "mail/a/1",
        "1",
        "18446744073709551616",
        "-9223372036854775808",
        "/",
        "\u{e4}",
    ];
    let reach = Reach::at_least(1);
    let headers = list(4, (words(1), words(1)));
    check!()
        .with_generator((headers, bytes(4)))
        .for_each(|(headers, body)| {
            let headers = headers.iter();
            let headers = headers.map(|(name, value)| (spell(name, &names), spell(value, &values)));
            let mut headers: Vec<_> = headers.collect();
            headers.push(("delayq-task-type".to_owned(), "mail".to_owned()));
            let headers = headers.iter();
            let headers = headers.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            let headers: Vec<_> = headers.collect();
            let called = endpoint::call(&headers, body);
            reach.count(
                called.is_some_and(|(task_type, id, _)| task_type == "mail" && !id.is_empty()),
            );
        });
    let jobs = [
        r#"{"taskId":"a","taskType":"mail","delayTime":1767225600000,"params":"x","appName":"shop"}"#,
        r#"{"taskId":"a","taskType":"mail","delayTime":-1}"#,
    ];
    each_damaged(&jobs, |job| endpoint::spring_call(&[], job).is_some());
}
