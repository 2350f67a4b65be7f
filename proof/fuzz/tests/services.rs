//! What clients of the task service and of the Spring delay queue send: tasks within their limits
//! or refusals, never a panic, and the same again after it was written.

use bolero::{check, produce};
use delayq_fuzz::{
    Reach, again, bytes, damage, each_damaged, is_read_the_same, list, spell, words,
};
use delayq_proto::pb::tasks;
use delayq_server::fuzz;
use prost::Message;

const TASKS: [&str; 6] = [
    r#"{"request_id":"1","project":"shop","group":"mail","trigger_at":1767225600000,"retry":{"count":3,"interval":60},"format":"json","body":{"a":[1,"\ud83d\ude00"]},"timeout":5,"url":"https://example.org/","method":"put","headers":{"a":"b"}}"#,
    r#"{"format":"application/x-a; q=1","body_base64":"AAEC","url":"https://example.org/"}"#,
    r#"{"retry":{"count":999,"interval":86400},"body":"text","format":"text","url":"https://a.b/"}"#,
    r#"{"target":"a:1","service":"a.v1.B","method":"C","metadata":{"k":"v"},"body_base64":"AA==","format":"protobuf"}"#,
    r#"{"topic":"t","key":"k","headers":{"a":"b"},"cluster":"main","format":"binary"}"#,
    r#"{"topic":"t","retry":{"count":1},"body":null}"#,
];

#[test]
fn a_task_of_the_service_keeps_its_body_and_its_retry_and_has_a_target_that_is_one() {
    let reach = Reach::at_least(5);
    let accidents = list(2, produce::<(u16, u8, u8)>());
    let inputs = (produce::<u8>(), produce::<u8>(), accidents);
    check!()
        .with_generator(inputs)
        .for_each(|(which, kind, accidents)| {
            let sample = TASKS.iter().cycle().nth(usize::from(*which));
            let mut body = sample.expect("no samples").as_bytes().to_vec();
            damage(&mut body, accidents);
            let taken = fuzz::task_form(kind % 3, &body);
            if let Some((_, target)) = &taken {
                // Push refuses it or reads it: never as another one.
                is_read_the_same(target.as_bytes(), fuzz::target);
            }
            reach.count(taken.is_some());
        });
}

/// Options of a task, and bytes that damage what they are encoded as.
fn options(body: &[u8], format: &str, [count, interval]: [u32; 2]) -> tasks::TaskOptions {
    tasks::TaskOptions {
        body: body.to_vec(),
        format: format.to_owned(),
        retry: Some(tasks::Retry { count, interval }),
        ..tasks::TaskOptions::default()
    }
}

/// Decodes a message after accidents, if it is one still.
fn decoded<T: Message + Default>(message: &T, accidents: &[(u16, u8, u8)]) -> Option<T> {
    let mut bytes = message.encode_to_vec();
    damage(&mut bytes, accidents);
    T::decode(&*bytes).ok()
}

#[test]
fn a_message_of_the_service_is_a_task_within_its_limits_or_refused() {
    let formats = [
        "json", "text", "form", "binary", "protobuf", "a/b", "yaml", "",
    ];
    let reach = Reach::at_least(10);
    let numbers = (produce::<u16>(), produce::<u32>());
    let inputs = (
        bytes(8),
        words(1),
        numbers,
        list(2, produce::<(u16, u8, u8)>()),
    );
    check!()
        .with_generator(inputs)
        .for_each(|(body, format, numbers, accidents)| {
            let (count, interval) = numbers;
            let (count, interval) = (u32::from(count % 1_010), interval % 90_000);
            let task = Some(options(body, &spell(format, &formats), [count, interval]));
            let http = tasks::CreateHttpTaskRequest {
                task: task.clone(),
                url: "https://example.org/".to_owned(),
                ..Default::default()
            };
            let grpc = tasks::CreateGrpcTaskRequest {
                task: task.clone(),
                target: "example.org:443".to_owned(),
                ..Default::default()
            };
            let kafka = tasks::CreateKafkaTaskRequest {
                task,
                topic: "t".to_owned(),
                ..Default::default()
            };
            let made = [
                decoded(&http, accidents).and_then(fuzz::http_task),
                decoded(&grpc, accidents).and_then(fuzz::grpc_task),
                decoded(&kafka, accidents).and_then(fuzz::kafka_task),
            ];
            for (body_of, target) in made.iter().flatten() {
                assert!(!accidents.is_empty() || body_of == body);
                is_read_the_same(target.as_bytes(), fuzz::target);
            }
            reach.count(made.iter().any(Option::is_some));
        });
}

#[test]
fn which_task_of_the_service_is_said_by_its_id_or_its_request() {
    let parts = [
        "default", ".", "shop", "r-", "a", "_", "-", " ", "\u{e4}", "..", "x.y",
    ];
    let reach = Reach::at_least(5);
    check!().with_generator(words(5)).for_each(|bytes| {
        let id = spell(bytes, &parts);
        let is_id = again(fuzz::task_id, &id);
        let form = |task_id: &str| {
            let more = r#""request_id":"order 42","project":"shop""#;
            fuzz::which_task(format!(r#"{{"task_id":"{task_id}",{more}}}"#).as_bytes())
        };
        assert!(!is_id || form(&id) == fuzz::task_id(&id), "{id:?}");
        // A request leads always to the same task, which its id leads to as well.
        let by_request = form("");
        let found = by_request.as_deref().and_then(fuzz::task_id);
        assert!(found.is_some() && found == by_request);
        reach.count(is_id);
    });
}

#[test]
fn a_body_of_the_service_is_shown_as_text_or_else_in_base64() {
    let reach = Reach::at_least(20);
    let inputs = (bytes(12), produce::<i64>(), produce::<i32>());
    check!()
        .with_generator(inputs)
        .for_each(|(body, created_at, state)| {
            let shown = fuzz::task_view(tasks::QueryTaskResponse {
                body: body.clone(),
                created_at: *created_at,
                state: *state,
                ..Default::default()
            });
            let (text, base64) = (shown["body"].as_str(), shown["body_base64"].as_str());
            match std::str::from_utf8(body) {
                Ok(body) => assert!(base64.is_none() && text.is_none_or(|text| text == body)),
                Err(_) => assert!(text.is_none() && base64.is_some()),
            }
            reach.count(base64.is_some());
        });
}

const SPRING: [&str; 4] = [
    r#"{"taskId":"42","taskType":"mail","delayTime":1767225700000,"params":"{\"a\":\"\\u8ba2\"}","appName":"SHOP"}"#,
    r#"{"appName":"shop","taskType":"order.cancel","taskId":"a","more":[1]}"#,
    r#"{"taskId":null,"taskType":"","delayTime":-9223372036854775808,"params":null}"#,
    r#"{"instanceId":"a","hostName":"10.0.0.5","app":"SHOP","status":"UP","port":{"$":8080,"@enabled":"true"},"lastUpdatedTimestamp":"1700000000000","metadata":{"delay-queue:task":"a, b"}}"#,
];

#[test]
fn a_body_of_spring_is_a_task_of_its_application_and_read_the_same_again() {
    each_damaged(&SPRING, |body| {
        let now = 1_767_225_600_000;
        // What is shown of a record is shown of any JSON.
        let _ = fuzz::spring_instance(body);
        is_read_the_same(body, |body| fuzz::spring_job(body, now))
    });
    let parts = ["/token/", "dq_1_x", "/", "/job/add", "//", "%2f", "token"];
    let reach = Reach::at_least(20);
    check!().with_generator(words(4)).for_each(|bytes| {
        let path = spell(bytes, &parts);
        let shown = fuzz::spring_path(&format!("/token/dq_secret/{path}"));
        assert!(!shown.contains("dq_secret"), "{shown}");
        reach.count(shown.len() > 1);
    });
}
