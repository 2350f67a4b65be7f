use std::ffi::OsString;

use super::*;

fn refused(text: &str) -> String {
    Config::parse(text).unwrap_err().to_string()
}

/// Each line is a value that `#[task_worker]` refuses, or a mistake of the file.
#[test]
fn a_mistake_is_named_with_its_line_its_key_and_what_would_do() {
    let of_type = |line: &str| {
        let error = refused(&format!("threads = 2\n[types.\"mail.*\"]\n{line}"));
        let place = "configuration, line 3: types.\"mail.*\"";
        assert!(error.starts_with(place), "{error}");
        error
    };
    for (line, why) in [
        ("lock = 30", "`30` has no unit: write \"30s\""),
        ("lock = \"30\"", "`30` has no unit: write \"30s\""),
        ("lock = \"999ms\"", "at least 1 s"),
        (
            "lock = \"soon\"",
            "\"soon\" is not a span: write a span as text, such as \"30s\"",
        ),
        ("lock = \"3651d\"", "at most \"3650d\""),
        ("lock = \"-5s\"", "is not a span"),
        ("timeout = \"0s\"", "at least 1 ms"),
        ("timeout = true", "expected a span as text"),
        ("concurrency = 0", "a whole number, 1 or more"),
        ("concurrency = \"8\"", "a whole number, 1 or more"),
        ("concurrency = 4294967296", "a whole number, 1 or more"),
        ("fleet_rate = 100", "such as \"100/s\""),
        ("fleet_rate = \"1/d\"", "units: s, min, h"),
        ("fleet_rate = \"1000001/s\"", "1 to 1000000"),
        (
            "on_late = \"skip\"",
            "expected one of `run`, `drop`, `dead`",
        ),
        (
            "delivery = \"once\"",
            "expected `at_least_once` or `at_most_once`",
        ),
        ("retry = 5", "backoff = \"exponential\""),
        ("retry = \"no\"", "or \"never\""),
        ("retry = { jitter = 1.5 }", "from 0.0 to 1.0"),
        (
            "retry = { maximum = 1 }",
            "did you mean `max`? the options are `max`, `backoff`",
        ),
        (
            "concurency = 8",
            "unknown option `concurency`: did you mean `concurrency`?",
        ),
    ] {
        let error = of_type(line);
        assert!(error.contains(why), "{line}: {error}");
    }
    let nested = refused("[types.mail.send]\nlock = \"5s\"");
    assert!(nested.contains("as in [types.\"mail.send\"]"), "{nested}");
    let pattern = refused("[types.\"*.mail\"]");
    assert!(pattern.contains("the * stands at the end"), "{pattern}");
    for timeout in ["0s", "25h"] {
        let refused = refused(&format!("call_timeout = \"{timeout}\""));
        assert!(refused.contains("1 ms to a day"), "{refused}");
    }
    let top = refused("thread = 2");
    assert!(top.contains("did you mean `threads`?"), "{top}");
    let secret = refused("url = redis://user:hunter2@host");
    assert!(
        secret.contains("line 1") && !secret.contains("hunter2"),
        "{secret}"
    );
    let config = Config::parse("url = \"redis://user:hunter2@host\"").unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
}

fn with_env(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let owned = |text: &str| OsString::from(text);
    let variables = variables
        .iter()
        .map(|(name, value)| (owned(name), owned(value)));
    env::over(Config::parse(text)?, variables)
}

#[test]
fn the_environment_goes_over_the_file_field_by_field() {
    let file = "[types.\"mail.send\"]\nlock = \"5s\"\nretry = { base = \"3s\" }";
    let variables = [
        ("DELAYQ_URL", "memory:"),
        ("DELAYQ_NAMESPACE", "2026"),
        ("DELAYQ_ONLY", "[\"mail.*\"]"),
        ("DELAYQ_SERVICE_PORT", "tcp://10.0.0.1:80"),
        ("DELAYQ_TYPES__MAIL_SEND__CONCURRENCY", "8"),
        ("DELAYQ_TYPES__MAIL_SEND__RETRY__MAX", "7"),
        ("DELAYQ_TYPES__MAIL_SEND__FLEET_RATE", "100/s"),
        (
            "DELAYQ_TYPES",
            "{ \"mail.*\" = { timeout = \"9s\" }, \"mail.send\" = { concurrency = 1 } }",
        ),
        ("PATH", "/bin"),
    ];
    let expected = "url = \"memory:\"\nnamespace = \"2026\"\nonly = [\"mail.*\"]\n\
                    [types.\"mail.*\"]\ntimeout = \"9s\"\n\
                    [types.\"mail.send\"]\nlock = \"5s\"\nretry = { base = \"3s\", max = 7 }\n\
                    concurrency = 8\nfleet_rate = \"100/s\"";
    assert_eq!(with_env(file, &variables), Config::parse(expected));
    for (name, value, why) in [
        ("DELAYQ_TYPES__MAIL__LOCK", "5", "has no unit"),
        (
            "DELAYQ_TYPES__MAIL__CONCURENCY",
            "5",
            "did you mean `concurrency`?",
        ),
        ("DELAYQ_THREADS", "many", "a whole number"),
        ("DELAYQ_TYPES", "mail", "map"),
    ] {
        let error = with_env("", &[(name, value)]).unwrap_err().to_string();
        assert!(error.starts_with(name) && error.contains(why), "{error}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Config::load("no/such/file.toml").unwrap_err().to_string();
    assert!(error.starts_with("no/such/file.toml: "), "{error}");
}

#[test]
fn a_section_of_another_configuration_is_read_with_the_messages_of_a_file() {
    let section =
        |text: &str| Config::from_section("[queue]", text.parse::<toml::Table>().unwrap());
    let read = section("threads = 2\n[types.\"mail.*\"]\nlock = \"5s\"").unwrap();
    assert_eq!(read.threads, Some(2));
    assert_eq!(read.patterns().count(), 1);
    let refused = read.refused(&"mail.*", "no worker").to_string();
    assert_eq!(refused, "[queue], types.\"mail.*\": no worker");
    for (text, message) in [
        (
            "thread = 2",
            "unknown option `thread`: did you mean `threads`? the options are `url`",
        ),
        (
            "[types.\"mail.*\"]\nlock = 30",
            "types.\"mail.*\".lock: `30` has no unit",
        ),
    ] {
        let error = section(text).unwrap_err().to_string();
        let begins = format!("[queue]: {message}");
        assert!(
            error.starts_with(&begins) && !error.contains('\n'),
            "{error}"
        );
    }
    let json = Config::from_section("queue", serde_json::json!({ "threads": 0 }));
    let error = json.unwrap_err().to_string();
    assert!(
        error.starts_with("queue: threads: 0: expected a whole number"),
        "{error}"
    );
}
