//! What clients of lmstfy and Grape send: understood within the limits or refused, never a panic,
//! and the same again after it was written.

use bolero::{check, produce};
use delayq_fuzz::{Reach, again, bytes, each_damaged, is_read_the_same, list, spell, text, words};
use delayq_server::fuzz;

const PATHS: [&str; 24] = [
    "/api/",
    "/api/shop/mail",
    "shop",
    "mail",
    "mail,order",
    "/",
    "//",
    "/bulk",
    "/peek",
    "/size",
    "/job/",
    "01HNOBODYKNOWSTHISTOKEN000",
    "/deadletter",
    "/deadletter/size",
    "_",
    "-",
    ",",
    "%2f",
    "%2F",
    "%ff",
    "%00",
    "\u{e4}",
    ".",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

#[test]
fn a_path_of_lmstfy_is_an_operation_on_a_queue_that_has_a_type_of_its_own() {
    let reach = Reach::at_least(3);
    let methods = ["GET", "PUT", "DELETE", "POST", "get", ""];
    let inputs = (produce::<u8>(), words(3));
    check!().with_generator(inputs).for_each(|(which, bytes)| {
        let method = methods.iter().cycle().nth(usize::from(*which));
        let text = spell(bytes, &PATHS);
        for path in [text.clone(), format!("/api/shop/mail{text}")] {
            let read = fuzz::lmstfy_path(method.unwrap_or(&"GET"), &path);
            reach.count(read.is_some());
        }
    });
}

const QUERY: [&str; 24] = [
    "delay=",
    "ttl=",
    "tries=",
    "ttr=",
    "timeout=",
    "count=",
    "limit=",
    "freeze_tries=",
    "token=",
    "true",
    "T",
    "0",
    "1",
    "60",
    "100",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-1",
    "+1",
    "&",
    "%31",
];

#[test]
fn a_query_of_lmstfy_is_within_its_limits_and_read_the_same_again() {
    let reach = Reach::at_least(20);
    check!().with_generator(words(5)).for_each(|bytes| {
        reach.count(again(fuzz::lmstfy_query, &spell(bytes, &QUERY)));
    });
}

#[test]
fn a_token_an_id_and_a_form_of_lmstfy_are_read_the_same_again() {
    let parts = [
        "default",
        ":",
        "second:",
        "01HNOBODYKNOWSTHISTOKEN000",
        "7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "1",
        "/",
        "&token=",
        "description=",
        "%ff",
        "+",
        "=",
    ];
    let reach = Reach::at_least(20);
    let inputs = (bytes(4), produce::<i64>());
    check!().with_generator(inputs).for_each(|(bytes, now)| {
        let text = spell(bytes, &parts);
        assert!(again(|text| Some(fuzz::lmstfy_token(text)), &text));
        assert!(fuzz::lmstfy_age(&text, *now) >= 0);
        let (description, token) = fuzz::lmstfy_form(text.as_bytes());
        reach.count(!description.is_empty() || !token.is_empty() || text.contains(':'));
    });
}

#[test]
fn attributes_of_lmstfy_are_few_and_short() {
    let names = ["job-attr-", "Job-Attr-", "a", "enable-job-version", "-"];
    let values = ["a", "\u{e4}", "\u{10ffff}", "no", " "];
    let reach = Reach::at_least(20);
    let (fill, headers) = (
        produce::<u8>(),
        list(24, (produce::<u8>(), words(3), bytes(3))),
    );
    check!()
        .with_generator((fill, headers))
        .for_each(|(fill, headers)| {
            let headers = headers.iter().map(|(number, name, value)| {
                let fill = "x".repeat(usize::from(fill / 2));
                let name = format!("job-attr-{number}{}{fill}", spell(name, &names));
                (name, format!("{}{fill}", spell(value, &values)))
            });
            let headers: Vec<_> = headers.collect();
            let headers = headers.iter();
            let headers = headers.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            let count = fuzz::lmstfy_attributes(&headers.collect::<Vec<_>>());
            reach.count(count.is_some());
        });
}

const JOBS: [&str; 5] = [
    r#"["a",{"order":42},null,[1e400,"\ud83d\ude00"]]"#,
    r#"[ {"a" : 1} , "b" ]"#,
    "[1]",
    r#"{"read":100,"write":9223372036854775807,"interval":60}"#,
    r#"{"read":-1,"interval":0}"#,
];

#[test]
fn bodies_of_lmstfy_are_read_the_same_again() {
    each_damaged(&JOBS, |body| {
        let jobs = is_read_the_same(body, fuzz::lmstfy_jobs);
        let limit = is_read_the_same(body, fuzz::lmstfy_limit);
        jobs || limit
    });
}

const GRAPE: [&str; 22] = [
    "tube=",
    "jid=",
    "dtr=",
    "ttr=",
    "max=",
    "wait=",
    "tube=mail&jid=a",
    "mail",
    "b64:",
    "b64:YQ",
    "%E8%AE%A2",
    "%ff",
    "%00",
    "+",
    "&",
    "0",
    "-1",
    "60000",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "\u{8ba2}",
];

#[test]
fn a_query_of_grape_is_read_the_same_again() {
    let reach = Reach::at_least(5);
    check!().with_generator(words(4)).for_each(|bytes| {
        let text = spell(bytes, &GRAPE);
        for query in [text.clone(), format!("tube=mail&jid=a&{text}")] {
            reach.count(again(fuzz::grape_query, &query));
        }
    });
}

#[test]
fn every_id_of_a_job_of_grape_comes_back_as_it_was() {
    let reach = Reach::at_least(50);
    check!()
        .with_generator((bytes(3), text(12)))
        .for_each(|(bytes, text)| {
            let text = format!("{}{text}", spell(bytes, &GRAPE));
            let jid = fuzz::grape_id(&text);
            assert!(
                jid.as_ref().is_none_or(|jid| *jid == text),
                "{jid:?} of {text:?}"
            );
            assert!(jid.is_some() || text.len() > 90, "{text:?}");
            let _ = fuzz::grape_shown_id(&text);
            reach.count(jid.is_some());
        });
}

#[test]
fn a_course_of_grape_goes_on_whatever_its_headers_and_notes_say() {
    let parts = [
        "grape:",
        "grape:0:0",
        "grape:-9:1",
        ":",
        "0",
        "-1",
        "1000",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "+",
    ];
    let reach = Reach::at_least(10);
    let inputs = (words(2), words(2), words(2), words(3));
    check!()
        .with_generator(inputs)
        .for_each(|(delay, time, executions, note)| {
            let [delay, time, executions] = [delay, time, executions].map(|one| spell(one, &parts));
            let note = format!("grape:{}", spell(note, &parts));
            let (dtr, _) = fuzz::grape_course([&delay, &time, &executions], &note);
            reach.count(dtr != 0);
        });
}

#[test]
fn a_password_of_grape_is_a_token() {
    // The password of a user is a token; what is none stays as it is.
    let tokens = [
        "Basic YWRtaW46ZHFfMV94",
        "basic Og==",
        "Bearer dq_1_x",
        "Basic ",
    ];
    each_damaged(&tokens, |value| {
        let read = fuzz::front_authorization(value);
        let is_password = read.as_ref().is_some_and(|read| read != value);
        let again = read.as_deref().and_then(fuzz::front_authorization);
        assert!(!is_password || again == read, "{value:?}");
        is_password
    });
}
