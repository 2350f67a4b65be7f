//! What is sent over a connection, in which order, and what its answers mean.

use std::sync::Mutex;
use std::sync::mpsc;

use tokio::runtime::Handle;

use super::super::fake::{array, bulk, serve, setup};
use super::super::settings::{Kind, Settings};
use super::*;
use crate::config::RedisConfig;
use crate::connection::LuaScript;

/// The commands that a server was sent, in order.
type Log = Arc<Mutex<Vec<String>>>;

/// What a connection says of itself once it is open.
fn is_greeting(command: &str) -> bool {
    command.starts_with("CLIENT ")
}

/// A server that notes its commands.
fn noting(log: &Log, answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Address {
    let log = Arc::clone(log);
    serve(move |_, command| {
        if is_greeting(command) {
            return "+OK\r\n".to_owned();
        }
        log.lock().unwrap().push(command.to_owned());
        answer(command)
    })
}

async fn wire_to(address: &Address, replication: Option<Replication>) -> Wire {
    let config = RedisConfig::parse(&format!("redis://{address}")).unwrap();
    let settings = Settings::new(&config, &Handle::current(), &setup()).unwrap();
    let Ok(connection) = settings.open(address, |_| {}).await else {
        panic!("no connection to {address}");
    };
    Wire {
        connection,
        ended: Arc::default(),
        left: CancellationToken::new(),
        address: address.clone(),
        place: settings.place_of(Kind::Data, address),
        replication: replication.map(Arc::new),
    }
}

fn replication(url: &str) -> Replication {
    let config = RedisConfig::parse(url).unwrap();
    // A wait of 100 ms.
    Replication::new(&config, Duration::from_millis(400))
}

fn write() -> Command {
    Command::write(&["SET", "k", "v"])
}

fn is_indeterminate(answer: &CommandResult) -> bool {
    matches!(answer, CommandResult::Failed(Error::Indeterminate { .. }))
}

#[tokio::test]
async fn a_write_that_too_few_replicas_confirmed_is_indeterminate_and_a_read_beside_it_is_not() {
    for (confirmed, is_lost) in [(1, true), (2, false)] {
        let log = Log::default();
        let address = noting(&log, move |command| match command {
            "WAIT 2 100" => format!(":{confirmed}\r\n"),
            _ => "+OK\r\n".to_owned(),
        });
        let wire = wire_to(&address, Some(replication("redis://h?replicas=2"))).await;
        let commands = [write(), Command::read(&["GET", "k"])];
        let answers = wire.exchange(&commands, false).await;
        assert_eq!(is_indeterminate(&answers[0]), is_lost);
        assert!(matches!(answers[1], CommandResult::Reply(_)));
        assert_eq!(*log.lock().unwrap(), ["SET k v", "GET k", "WAIT 2 100"]);
    }
}

#[tokio::test]
async fn nothing_is_waited_for_behind_what_only_reads() {
    let log = Log::default();
    let address = noting(&log, |_| "+OK\r\n".to_owned());
    let wire = wire_to(&address, Some(replication("redis://h?replicas=2"))).await;
    let answers = wire.exchange(&[Command::read(&["GET", "k"])], false).await;
    assert!(matches!(answers[..], [CommandResult::Reply(_)]));
    assert_eq!(*log.lock().unwrap(), ["GET k"]);
}

#[tokio::test]
#[cfg(feature = "sentinel")]
async fn a_replica_that_came_while_a_write_was_confirmed_has_to_confirm_it_too() {
    for (confirmed, is_lost) in [(1, true), (2, false)] {
        let log = Log::default();
        let line = |n| format!("slave{n}:ip=10.0.0.1,port=1{n},state=online,offset=1,lag=0\r\n");
        let info = bulk(&(line(0) + &line(1)));
        let address = noting(&log, move |command| match command {
            "WAIT 1 100" => ":1\r\n".to_owned(),
            "WAIT 2 100" => format!(":{confirmed}\r\n"),
            "INFO replication" => info.clone(),
            _ => "+OK\r\n".to_owned(),
        });
        let replication = replication("redis-sentinel://h/orders");
        replication.may_choose(&address, [Address::new("10.0.0.1", 10)].into(), "");
        let wire = wire_to(&address, Some(replication)).await;
        let answers = wire.exchange(&[write()], false).await;
        assert_eq!(is_indeterminate(&answers[0]), is_lost);
        let expected = [
            "SET k v",
            "WAIT 1 100",
            "INFO replication",
            "WAIT 2 100",
            "INFO replication",
        ];
        assert_eq!(*log.lock().unwrap(), expected);
    }
}

#[tokio::test]
async fn a_script_that_is_missing_is_loaded_and_only_its_calls_are_repeated() {
    for asks in [false, true] {
        let (log, script) = (Log::default(), LuaScript::new("#!lua\nreturn 1".to_owned()));
        let script: &'static LuaScript = Box::leak(Box::new(script));
        let is_loaded = Mutex::new(false);
        let address = noting(&log, move |command| {
            let mut is_loaded = is_loaded.lock().unwrap();
            *is_loaded |= command.starts_with("SCRIPT LOAD");
            if command.starts_with("EVALSHA") && !*is_loaded {
                return "-NOSCRIPT no\r\n".to_owned();
            }
            bulk(command.split(' ').next_back().unwrap_or_default())
        });
        let wire = wire_to(&address, None).await;
        let call = |key: &str| Command::script(script, 0, &[key.to_owned()], 0);
        let answers = wire.exchange(&[call("a"), write(), call("b")], asks).await;
        let said = answers.into_iter().map(|answer| match answer {
            CommandResult::Reply(RespValue::Bytes(said)) => String::from_utf8(said).unwrap(),
            _ => panic!("every call is answered"),
        });
        assert_eq!(said.collect::<Vec<_>>(), ["a", "v", "b"]);
        let mut words: Vec<String> = Vec::new();
        for command in log.lock().unwrap().iter() {
            let first = command.split(' ').next().unwrap_or_default();
            words.push(first.to_owned());
        }
        let ask = if asks { "ASKING " } else { "" };
        let expected = format!(
            "{ask}EVALSHA {ask}SET {ask}EVALSHA \
             SCRIPT {ask}EVALSHA SCRIPT {ask}EVALSHA"
        );
        assert_eq!(words.join(" "), expected);
    }
}

#[tokio::test]
async fn what_waits_for_a_server_that_is_the_master_no_more_ends_and_a_write_is_in_doubt() {
    let (silent, never) = mpsc::channel::<()>();
    let never = Mutex::new(never);
    let (asked, mut is_asked) = tokio::sync::mpsc::unbounded_channel();
    let address = serve(move |_, command| {
        if !is_greeting(command) {
            asked.send(()).unwrap();
            // It says nothing until the test has ended.
            let _ = never.lock().unwrap().recv();
        }
        "+OK\r\n".to_owned()
    });
    let wire = wire_to(&address, None).await;
    let commands = [write(), Command::read(&["GET", "k"])];
    let exchange = wire.exchange(&commands, false);
    let leave = async {
        is_asked.recv().await;
        wire.left.cancel();
    };
    let (answers, ()) = tokio::join!(exchange, leave);
    assert!(is_indeterminate(&answers[0]));
    assert!(matches!(
        answers[1],
        CommandResult::Failed(Error::Unavailable { .. })
    ));
    drop(silent);
}

#[tokio::test]
async fn an_answer_of_no_known_kind_leaves_a_write_in_doubt() {
    let log = Log::default();
    let address = noting(&log, |_| array(&[",1.5\r\n".to_owned()]));
    let wire = wire_to(&address, None).await;
    let answers = wire.exchange(&[write()], false).await;
    assert!(is_indeterminate(&answers[0]));
}
