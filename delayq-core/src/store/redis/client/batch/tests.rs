//! What is asked for behind commands, and what the answers say.

use super::*;

fn confirm(synced: bool) -> Confirm {
    Confirm {
        replicas: 2,
        within: Duration::from_millis(100),
        synced,
        followers: None,
        node: None,
    }
}

fn batch(commands: &[&str], confirm: Confirm) -> Batch {
    let commands = commands.iter().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        match words.first() {
            Some(&"GET") => Command::read(&words),
            _ => Command::write(&words),
        }
    });
    Batch::new(commands.collect(), Some(confirm))
}

/// What is sent, a command a line.
fn lines(pipeline: &Pipeline) -> Vec<String> {
    let line = |cmd: &redis::Cmd| {
        let words = cmd.args_iter().map(|arg| match arg {
            redis::Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
            _ => String::new(),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    pipeline.cmd_iter().map(line).collect()
}

fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

#[test]
fn confirmations_are_asked_for_behind_what_writes() {
    let written = batch(&["SET a 1", "GET a"], confirm(false));
    let expected = ["SET a 1", "GET a", "WAIT 2 100"];
    assert_eq!(lines(written.pipeline()), expected);
    assert_eq!(written.len(), 2);
    assert!(!written.only_reads(0) && written.only_reads(1));
    let read = batch(&["GET a"], confirm(false));
    assert_eq!(lines(read.pipeline()), ["GET a"]);
    assert_eq!(read.confirm, None);
    let synced = batch(&["SET a 1"], confirm(true));
    let expected = ["SET a 1", "WAIT 2 50", "WAITAOF 1 2 100"];
    assert_eq!(lines(synced.pipeline()), expected);
    // 0 would mean for ever.
    let at_once = Confirm {
        within: Duration::ZERO,
        ..confirm(true)
    };
    let expected = ["SET a 1", "WAIT 2 1", "WAITAOF 1 2 1"];
    let sent = batch(&["SET a 1"], at_once);
    assert_eq!(lines(sent.pipeline()), expected);
    for (followers, asked) in [
        (AskFollowers::Info, "INFO replication"),
        (AskFollowers::Role, "ROLE"),
    ] {
        let confirm = Confirm {
            followers: Some(followers),
            ..confirm(false)
        };
        let sent = batch(&["SET a 1"], confirm);
        assert_eq!(lines(sent.pipeline()).pop().as_deref(), Some(asked));
        let of_node = Confirm {
            node: Some([b'n'; 40]),
            ..confirm
        };
        let sent = lines(batch(&["SET a 1"], of_node).pipeline());
        let replicas = format!("CLUSTER REPLICAS {}", "n".repeat(40));
        assert_eq!(sent[sent.len() - 2..], [asked.to_owned(), replicas]);
    }
}

#[test]
fn what_a_node_says_of_its_replicas_is_told_apart_from_who_follows_it() {
    let confirm = Confirm {
        followers: Some(AskFollowers::Info),
        node: Some([b'n'; 40]),
        ..confirm(false)
    };
    let info = bulk("slave0:ip=10.0.0.1,port=2,state=online,offset=1,lag=0\r\n");
    let line = bulk("name 10.0.0.1:3@13 slave master 0 0 1 connected");
    let mut answers = vec![Ok(Value::Int(2)), Ok(info), Ok(Value::Array(vec![line]))];
    let confirmed = confirm.take_from(&mut answers).unwrap();
    let one = |port| Some(HashSet::from([Address::new("10.0.0.1", port)]));
    assert_eq!((confirmed.followers, confirmed.listed), (one(2), one(3)));
    assert_eq!((confirmed.replicas, confirmed.shortage), (2, None));
    for other in [
        Ok(Value::Okay),
        Err((redis::ErrorKind::Client, "no").into()),
    ] {
        assert_eq!(read_replicas(&other), None);
    }
}

#[test]
fn what_is_sent_again_has_what_it_needs_in_front_and_the_wait_behind() {
    let mut batch = batch(&["SET a 1", "SET b 2", "GET c"], confirm(false));
    let again = batch.again(&[1, 2], true, true);
    let expected = ["ASKING", "SET b 2", "ASKING", "GET c", "WAIT 2 100"];
    assert_eq!(lines(&again), expected);
    let again = batch.again(&[0], false, false);
    assert_eq!(lines(&again), ["SET a 1", "WAIT 2 100"]);
    let one = batch.command(1).unwrap();
    assert!(!one.only_reads && batch.command(2).unwrap().only_reads);
    assert!(batch.command(3).is_none());
    let more = Confirm {
        replicas: 3,
        ..confirm(false)
    };
    batch.confirm_as(Some(more));
    let expected = ["SET a 1", "SET b 2", "GET c", "WAIT 3 100"];
    assert_eq!(lines(batch.pipeline()), expected);
    batch.confirm_as(None);
    assert_eq!(lines(batch.pipeline()).len(), 3);
    let mut read = super::Batch::new(vec![Command::read(&["GET", "a"])], None);
    read.confirm_as(Some(more));
    assert_eq!(lines(read.pipeline()), ["GET a"]);
}

#[test]
fn what_too_few_have_confirmed_is_short_of_something() {
    let counts = |own, found| Ok(Value::Array(vec![Value::Int(own), Value::Int(found)]));
    for (synced, answer, replicas, is_enough) in [
        (false, Ok(Value::Int(2)), 2, true),
        (false, Ok(Value::Int(3)), 3, true),
        (false, Ok(Value::Int(1)), 1, false),
        (false, counts(1, 2), 0, false),
        (false, Ok(Value::Okay), 0, false),
        (true, counts(1, 2), 2, true),
        (true, counts(1, 1), 1, false),
        (true, counts(0, 2), 0, false),
        (true, Ok(Value::Int(2)), 0, false),
        (
            true,
            Err((redis::ErrorKind::Client, "lost").into()),
            0,
            false,
        ),
    ] {
        let mut answers = vec![Ok(Value::Okay)];
        // That of the first wait, if there are two.
        answers.extend(synced.then_some(Ok(Value::Int(0))));
        let said = format!("{answer:?}");
        answers.push(answer);
        let confirmed = confirm(synced).take_from(&mut answers).unwrap();
        assert_eq!(confirmed.replicas, replicas, "{said}");
        assert_eq!(confirmed.shortage.is_none(), is_enough, "{said}");
        assert_eq!(confirmed.followers, None);
        assert_eq!(answers.len(), 1, "{said}");
    }
    assert!(confirm(true).probe().is_some() && confirm(false).probe().is_none());
}

#[test]
fn who_follows_is_read_from_each_kind_of_answer() {
    let info = "slave0:ip=10.0.0.1,port=2,state=online,offset=1,lag=0\r\n";
    let verbatim = Value::VerbatimString {
        format: redis::VerbatimFormat::Text,
        text: info.to_owned(),
    };
    let one = Value::Array(vec![bulk("10.0.0.1"), bulk("2"), bulk("1")]);
    let role = vec![bulk("master"), Value::Int(1), Value::Array(vec![one])];
    let role = Value::Array(role);
    let expected = HashSet::from([Address::new("10.0.0.1", 2)]);
    for (ask, answer) in [
        (AskFollowers::Info, bulk(info)),
        (AskFollowers::Info, verbatim),
        (AskFollowers::Role, role),
    ] {
        let confirm = Confirm {
            followers: Some(ask),
            ..confirm(false)
        };
        let mut answers = vec![Ok(Value::Int(2)), Ok(answer)];
        let confirmed = confirm.take_from(&mut answers).unwrap();
        assert_eq!(confirmed.followers.as_ref(), Some(&expected), "{ask:?}");
        let refused = Err((redis::ErrorKind::Client, "no").into());
        for other in [Ok(Value::Okay), refused] {
            assert_eq!(ask.read(&other), None, "{ask:?}");
        }
    }
}
