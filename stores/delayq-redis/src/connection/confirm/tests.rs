//! What is asked for behind commands, and what the answers say.

use super::*;

fn servers(ports: &[u16]) -> HashSet<Address> {
    let server = |port: &u16| Address::new("10.0.0.1", *port);
    ports.iter().map(server).collect()
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

fn confirm(synced: bool) -> Confirm {
    Confirm {
        replicas: 2,
        within: Duration::from_millis(100),
        synced,
        asks: false,
        node: None,
    }
}

fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

fn refused() -> RedisResult<Value> {
    Err((redis::ErrorKind::Client, "no").into())
}

#[test]
fn the_wait_for_replicas_is_never_for_ever_and_comes_before_the_questions() {
    assert_eq!(lines(&confirm(false).pipeline()), ["WAIT 2 100"]);
    let synced = ["WAIT 2 50", "WAITAOF 1 2 100"];
    assert_eq!(lines(&confirm(true).pipeline()), synced);
    // 0 would mean for ever.
    let at_once = Confirm {
        within: Duration::ZERO,
        ..confirm(true)
    };
    assert_eq!(lines(&at_once.pipeline()), ["WAIT 2 1", "WAITAOF 1 2 1"]);
    let of_node = Confirm {
        asks: true,
        node: Some([b'n'; 40]),
        ..confirm(false)
    };
    let replicas = format!("CLUSTER REPLICAS {}", "n".repeat(40));
    let expected = ["WAIT 2 100", "INFO replication", &replicas];
    assert_eq!(lines(&of_node.pipeline()), expected);
    assert!(confirm(true).probe().is_some() && confirm(false).probe().is_none());
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
        (true, refused(), 0, false),
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
}

#[test]
fn what_a_node_says_of_its_replicas_is_told_apart_from_those_that_follow_it() {
    let confirm = Confirm {
        asks: true,
        node: Some([b'n'; 40]),
        ..confirm(false)
    };
    let info = "slave0:ip=10.0.0.1,port=2,state=online,offset=1,lag=0\r\n";
    let verbatim = Value::VerbatimString {
        format: redis::VerbatimFormat::Text,
        text: info.to_owned(),
    };
    let line = bulk("name 10.0.0.1:3@13 slave master 0 0 1 connected");
    for info in [bulk(info), verbatim] {
        let listed = Value::Array(vec![line.clone()]);
        let mut answers = vec![Ok(Value::Int(2)), Ok(info), Ok(listed)];
        let confirmed = confirm.take_from(&mut answers).unwrap();
        assert_eq!(confirmed.followers, Some(servers(&[2])));
        assert_eq!(confirmed.listed, Some(servers(&[3])));
        assert_eq!((confirmed.replicas, confirmed.shortage), (2, None));
    }
    for other in [Ok(Value::Okay), refused()] {
        let mut answers = vec![Ok(Value::Int(2)), other.clone(), other];
        let confirmed = confirm.take_from(&mut answers).unwrap();
        assert_eq!(confirmed.listed, None);
        assert!(confirmed.followers.is_none_or(|all| all.is_empty()));
    }
}

/// A line of `CLUSTER REPLICAS`.
fn listed(port: u16, flags: &str) -> Value {
    bulk(&format!(
        "name 10.0.0.1:{port}@1{port},h {flags} master 0 0 1 connected"
    ))
}

#[test]
fn a_node_is_replaced_by_any_replica_that_most_masters_do_not_take_for_dead() {
    let lines = [
        listed(2, "slave"),
        listed(3, "slave,fail?"),
        listed(4, "slave,fail"),
        listed(5, "slave,nofailover"),
        bulk("name ::1:6@16 myself,slave master"),
        bulk("lost :0@0 slave,noaddr master"),
        bulk("hidden 10.0.0.1:0@17 slave master"),
    ];
    let mut expected = servers(&[2, 3, 5]);
    expected.insert(Address::new("::1", 6));
    expected.insert(Address::new("lost", 0));
    expected.insert(Address::new("hidden", 0));
    assert_eq!(of_node(&lines), Some(expected));
    for other in ["?", "name 10.0.0.1 slave", "name 10.0.0.1:x@1 slave"] {
        assert_eq!(of_node(&[listed(2, "slave"), bulk(other)]), None);
    }
}

#[test]
fn replicas_that_are_online_and_heard_of_follow() {
    let info = "# Replication\r\nrole:master\r\nconnected_slaves:5\r\n\
        slave0:ip=10.0.0.1,port=2,state=online,offset=1,lag=0\r\n\
        slave1:ip=10.0.0.1,port=3,state=online,offset=1,lag=2,type=replica\r\n\
        slave2:ip=10.0.0.1,port=4,state=online,offset=1,lag=3\r\n\
        slave3:ip=10.0.0.1,port=5,state=wait_bgsave,offset=0,lag=0\r\n\
        slave4:ip=10.0.0.1,port=6,state=send_bulk,offset=0,lag=0\r\n\
        slave_repl_offset:1\r\n";
    assert_eq!(followers(info), servers(&[2, 3]));
    assert_eq!(
        followers("role:master\r\nconnected_slaves:0\r\n"),
        servers(&[])
    );
    assert_eq!(followers(""), servers(&[]));
}
