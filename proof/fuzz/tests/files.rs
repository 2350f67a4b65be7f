//! What an import reads: lines of a file, and what the Redis of a lmstfy answers.

use bolero::{check, produce};
use delayq_fuzz::{Reach, bytes, each_damaged, is_read_the_same, spell, text, words};
use delayq_ops::fuzz;

const LINES: [&str; 4] = [
    r#"{"v":1,"type":"mail","id":"a","state":"scheduled","at":1767225600000,"expires_at":1767225700000,"message":"x","headers":{"shop":"berlin"},"past":{"attempt":3}}"#,
    r#"{"v":1,"type":"order.cancel","id":"b","state":"dead","at":0,"message_base64":"AAEC"}"#,
    r#"{"v":2,"type":"mail","id":"a","state":"scheduled","at":1,"message":"x"}"#,
    r#"{"v":1,"type":"mail","id":"a","state":"scheduled","at":253402207199999,"message":""}"#,
];

#[test]
fn a_line_of_a_file_is_read_the_same_again() {
    let now = 1_767_225_600_000;
    each_damaged(&LINES, |line| {
        is_read_the_same(line, |line| fuzz::transfer_line(line, now))
    });
}

/// The fields of a member: lengths of two bytes, the lower first.
fn field(text: &str) -> Vec<u8> {
    let end = text.floor_char_boundary(usize::from(u16::MAX));
    let text = text.get(..end).unwrap_or(text);
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    [&length.to_le_bytes(), text.as_bytes()].concat()
}

const IDS: [&str; 5] = [
    "01ARZ3NDEK72TECMN7Y8Y00000",
    "101ARZ3NDEK72TECMN7Y8Y00000",
    "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
    "a",
    "\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}",
];

#[test]
fn a_place_of_lmstfy_is_a_job_that_is_never_early_or_none() {
    let reach = Reach::at_least(20);
    let names = (words(2), words(1), produce::<u16>());
    let times = (produce::<i64>(), produce::<i64>(), produce::<bool>());
    let inputs = (names, times, bytes(12));
    check!()
        .with_generator(inputs)
        .for_each(|(names, times, data)| {
            let ((queue, id, tries), (score, now, is_whole)) = (names, times);
            // As far away as it can be, now and then.
            let score = if tries % 8 == 0 { &i64::MAX } else { score };
            let (queue, id) = (spell(queue, &["mail", "order", "", "/"]), spell(id, &IDS));
            let job = [tries.to_le_bytes().to_vec(), field(&id)].concat();
            let mut member = [field("shop"), field(&queue), job.clone()].concat();
            if !is_whole {
                member.truncate(usize::from(*tries) % member.len().max(1));
            }
            let place = fuzz::lmstfy_place(None, &member, [*score, *now]);
            assert!(!is_whole || place.is_some(), "{member:?}");
            let listed = fuzz::lmstfy_place(Some(&format!("q/shop/{queue}")), &job, [*score, *now]);
            assert!(listed.is_some());
            // Most of the times are possible.
            let (near, later) = (score % 4_000_000_000, now % 4_000_000_000_000);
            for score in [None, Some(*score), Some(near)] {
                let _ = fuzz::lmstfy_job(&member, data, score, later);
            }
            reach.count(place.is_some());
        });
}

#[test]
fn the_data_of_a_job_of_lmstfy_has_a_message_no_larger_than_itself() {
    let parts = [
        "\u{a}\u{2}hi",
        "\u{12}\u{6}\u{a}\u{1}a\u{12}\u{1}b",
        "\u{a}\u{0}",
        "\u{7f}",
        "*",
        "{\"body\":",
        "\"aGk=\"",
        ",\"attributes\":{\"a\":\"b\"}",
        "}",
    ];
    let reach = Reach::at_least(2);
    check!()
        .with_generator((bytes(6), words(1)))
        .for_each(|(data, id)| {
            for data in [spell(data, &parts).into_bytes(), data.clone()] {
                let (message, attributes) = fuzz::lmstfy_payload(&spell(id, &IDS), &data);
                assert!(message <= data.len() && attributes <= data.len());
                let (message, attributes) = fuzz::lmstfy_payload(&"1".repeat(27), &data);
                assert!(message <= data.len());
                reach.count(attributes > 0 || message < data.len());
            }
        });
}

#[test]
fn an_answer_of_redis_is_read_or_refused_and_what_comes_later_changes_nothing() {
    let parts = [
        "+OK\r\n",
        "-ERR no\r\n",
        ":9223372036854775807\r\n",
        ":",
        "$2\r\nhi\r\n",
        "$-1\r\n",
        "$536870913\r\n",
        "$",
        "*2\r\n",
        "*0\r\n",
        "*-1\r\n",
        "*9223372036854775807\r\n",
        "*1\r\n",
        "\r\n",
        "\n",
        "\u{ff}",
    ];
    let reach = Reach::at_least(20);
    check!()
        .with_generator((words(4), text(4)))
        .for_each(|(bytes, more)| {
            let answer = spell(bytes, &parts);
            let read = fuzz::lmstfy_reply(answer.as_bytes());
            let longer = fuzz::lmstfy_reply(format!("{answer}{more}").as_bytes());
            assert!(
                read.is_none() || longer == read || !answer.ends_with('\n'),
                "{answer:?}"
            );
            reach.count(read.is_some());
        });
}
