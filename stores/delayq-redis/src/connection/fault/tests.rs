use super::*;

/// An error that the server has answered with.
fn error(answer: &str) -> RedisError {
    let value = redis::parse_redis_value(format!("-{answer}\r\n").as_bytes());
    match value {
        Ok(redis::Value::ServerError(error)) => error.into(),
        Err(error) => error,
        Ok(other) => panic!("{other:?} is no error"),
    }
}

/// What a call makes of an answer of the server.
fn failure(answer: &str, only_reads: bool) -> Error {
    failed("redis://h:1/0", &error(answer), only_reads)
}

#[test]
fn a_refusal_by_the_server_is_never_indeterminate() {
    for answer in [
        "LOADING Redis is loading the dataset in memory",
        "BUSY Redis is busy running a script",
        "MASTERDOWN Link with MASTER is down",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN The cluster is down",
        "NOREPLICAS Not enough good replicas to write",
        "ERR max number of clients reached",
    ] {
        let error = failure(answer, false);
        assert!(
            matches!(error, Error::Unavailable { .. }),
            "{answer}: {error:?}"
        );
        assert!(error.to_string().contains(answer), "{error}");
    }
    let full = failure(
        "OOM command not allowed when used memory > 'maxmemory'.",
        false,
    );
    assert!(matches!(full, Error::Full { .. }), "{full:?}");
    for answer in [
        "READONLY You can't write against a read only replica.",
        "MISCONF Redis is configured to save RDB snapshots, but it's unable to persist to disk.",
    ] {
        let error = failure(answer, false);
        assert!(
            matches!(error, Error::ReadOnly { .. }),
            "{answer}: {error:?}"
        );
    }
    for answer in [
        "NOAUTH Authentication required.",
        "WRONGPASS invalid username-password pair or user is disabled.",
        "NOPERM User app has no permissions to run the 'hset' command",
        "ERR ACL failure in script: User app has no permissions to run the 'hset' command",
        "ERR The user executing the script can't run this command or subcommand script: 5f, on @user_script:4.",
        "ERR The user executing the script can't publish to the channel mentioned in the command",
        "MOVED 3999 127.0.0.1:6381",
        "ASK 3999 127.0.0.1:6381",
        "ERR DB index is out of range",
    ] {
        let error = failure(answer, false);
        assert!(
            matches!(error, Error::Misconfigured { .. }),
            "{answer}: {error:?}"
        );
    }
    for answer in [
        "WRONGTYPE Operation against a key",
        "ERR user_script:12: attempt to compare",
    ] {
        let error = failure(answer, false);
        assert!(
            matches!(error, Error::Corrupt { .. }),
            "{answer}: {error:?}"
        );
    }
}

#[test]
fn the_user_that_the_server_names_is_the_one_to_change() {
    for (answer, user) in [
        (
            "NOPERM User app has no permissions to run the 'hset' command",
            "app ~delayq:*",
        ),
        (
            "NOPERM User a b has no permissions to run it",
            "USER ~delayq:*",
        ),
        (
            "ERR The user executing the script can't publish",
            "USER ~delayq:*",
        ),
    ] {
        let told = failure(answer, false).to_string();
        assert!(told.contains(&format!("ACL SETUSER {user}")), "{told}");
    }
}

#[test]
fn a_key_that_holds_something_else_is_said_to_be_somebody_elses() {
    let said = failure("WRONGTYPE Operation against a key", false).to_string();
    assert!(said.contains("who else writes to `delayq:*`?"), "{said}");
}

#[test]
fn a_lost_answer_leaves_a_write_indeterminate_and_a_read_unavailable() {
    let broken = || RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
    let write = failed("redis://h:1/0", &broken(), false);
    assert!(write.is_indeterminate(), "{write:?}");
    let read = failed("redis://h:1/0", &broken(), true);
    assert!(matches!(read, Error::Unavailable { .. }), "{read:?}");
    assert!(wants_new_connection(&broken()));
}

#[test]
fn who_is_there_and_will_answer_soon_is_known_from_who_lacks_a_script_and_from_who_refuses() {
    for code in ["LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN"] {
        let said = error(&format!("{code} a while"));
        assert!(is_busy(&said) && !is_no_script(&said), "{code}");
    }
    let missing = error("NOSCRIPT No matching script");
    assert!(is_no_script(&missing) && !is_busy(&missing));
    assert!(!is_busy(&error("ERR no")));
}

#[test]
fn a_connection_that_broke_or_leads_to_a_replica_is_made_anew() {
    let io = |kind| RedisError::from(std::io::Error::from(kind));
    for useless in [
        io(std::io::ErrorKind::ConnectionReset),
        io(std::io::ErrorKind::Other),
        RedisError::from((ErrorKind::Parse, "what is no RESP")),
        error("READONLY You can't write against a read only replica."),
    ] {
        assert!(wants_new_connection(&useless), "{useless}");
    }
    for answer in ["ERR no", "OOM command not allowed", "MOVED 1 h:1"] {
        assert!(!wants_new_connection(&error(answer)), "{answer}");
    }
}

#[test]
fn who_cannot_connect_is_told_what_to_change_and_no_password() {
    for (error, what) in [
        (
            error("ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'hunter2'"),
            "does not speak RESP3",
        ),
        (
            (ErrorKind::RESP3NotSupported, "old").into(),
            "does not speak RESP3",
        ),
        (
            (ErrorKind::AuthenticationFailed, "no").into(),
            "the user or the password",
        ),
        (
            (ErrorKind::Client, "WRONGPASS").into(),
            "the user or the password",
        ),
        (error("NOPERM no"), "may not do what delayq needs"),
        (
            error("ERR this user has no permissions to run the 'select' command"),
            "may not do what delayq needs",
        ),
        (error("ERR unknown command 'SENTINEL'"), "it is no sentinel"),
        (
            error("ERR unknown command 'CLUSTER'"),
            "redis-sentinel://HOST:PORT/MASTER",
        ),
        (
            error("ERR unknown command 'SCRIPT'"),
            "redis-sentinel://HOST:PORT/MASTER",
        ),
    ] {
        let refused = refused("redis://h:1/0", &error);
        let said = refused.to_string();
        assert!(matches!(refused, Error::Misconfigured { .. }), "{said}");
        assert!(said.contains(what) && !said.contains("hunter2"), "{said}");
    }
    let io = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into();
    for (place, what) in [
        ("redis://h:1/0", "write rediss://"),
        ("rediss://h:1/0", "write redis://"),
    ] {
        let said = refused(place, &io()).to_string();
        assert!(said.contains(what), "{said}");
    }
}

/// A login that is refused in words that hold the password is still a login that is refused.
#[test]
fn a_password_that_is_a_word_of_the_server_is_as_wrong_as_any_other() {
    let of = |answer| unspeakable("redis://h:1/0", &error(answer));
    let refused = of("WRONGPASS invalid username-password pair or user is disabled.");
    let said = refused.to_string();
    assert!(matches!(refused, Error::Misconfigured { .. }), "{said}");
    assert!(said.contains("redis://USER:PASSWORD@HOST"), "{said}");
    assert!(!said.contains("pair"), "{said}");
    let other = of("ERR what is hunter2");
    assert!(matches!(other, Error::Unavailable { .. }), "{other}");
    assert!(!other.to_string().contains("hunter2"), "{other}");
}

#[test]
#[cfg(feature = "sentinel")]
fn a_sentinel_says_what_to_write_for_it() {
    for (answer, fix) in [
        ("NOAUTH no", "sentinel_password="),
        ("NOPERM no", "on each sentinel"),
    ] {
        let said = of_sentinel(failure(answer, true)).to_string();
        assert!(said.contains(fix), "{said}");
    }
}

#[test]
fn a_server_that_cannot_wait_says_what_to_write_for_it() {
    for (answer, fix) in [
        ("NOPERM no", "+waitaof"),
        ("ERR unknown command", "use Redis 7.2 or newer"),
    ] {
        let said = cannot_wait("redis://h:1/0", &error(answer)).to_string();
        assert!(said.contains(fix) && said.contains(answer), "{said}");
    }
}
