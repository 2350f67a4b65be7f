//! Outages of the store: a Redis server that dies, hangs or drops its listeners, a disk that is
//! full.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "what a test must not do in silence, it does by panicking; it prints what it measured"
)]

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use delayq_plugin::{Clock, SystemClock, Timestamp, hours, millis, seconds};
use delayq_tests::instance::history::Attempt;
use delayq_tests::instance::log::What;
use delayq_tests::instance::plan::{Chore, Load, Plan};
use delayq_tests::instance::scene::{Fault, Scene, check_file};
use delayq_tests::instance::send_signal;
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::until;

const INSTANCE: &str = env!("CARGO_BIN_EXE_instance");
/// The lock time of all these tests.
const LOCK: Duration = Duration::from_secs(1);
/// What the promise adds to the lock time.
const GRACE: Duration = Duration::from_secs(1);
/// Outages of a server under load.
const OUTAGES: u32 = if cfg!(feature = "soak") { 5 } else { 2 };
/// Times at which a disk is full.
const FILLS: u32 = if cfg!(feature = "soak") { 3 } else { 1 };

/// Two instances under load, each with a type of its own beside the shared one, through some
/// outages: `begin` and `end` make one. Work resumes in every handler of every instance.
async fn outages(
    mut server: RedisServer,
    begin: impl Fn(&mut RedisServer),
    end: impl Fn(&mut RedisServer),
    is_noticed: fn(&What) -> bool,
) {
    let mut scene = Scene::on(INSTANCE, server.url());
    let mut dice = fastrand::Rng::with_seed(scene.seed());
    let service = scene.service().await;
    let mut instances = Vec::new();
    for own in ["a", "b"] {
        let plan = Plan {
            load: Some(Load::of(&[own, "shared"])),
            ..scene.plan([own, "shared"])
        };
        instances.push(scene.start(&plan).await);
    }
    for round in 1..=OUTAGES {
        let more = instances[0].count(What::is_sent) + dice.usize(100..400);
        instances[0]
            .nth("an acknowledgement", more, What::is_sent)
            .await;
        for (instance, own) in instances.iter_mut().zip(["a", "b"]) {
            // Running when the outage begins, and first to be told.
            let sign = Chore::Heed(2_500).job(own).id(format!("sign-{round}"));
            let task = format!("{own}/sign-{round}");
            service.send(sign).await.unwrap();
            let is_it = |what: &What| matches!(what, What::Start { task: t, .. } if *t == task);
            instance.nth("the start of the sign", 1, is_it).await;
        }
        let from = SystemClock.now();
        let before: Vec<_> = instances.iter_mut().map(|i| i.count(is_noticed)).collect();
        begin(&mut server);
        for (instance, before) in instances.iter_mut().zip(before) {
            instance
                .nth("a sign of the outage", before + 1, is_noticed)
                .await;
        }
        end(&mut server);
        let back = SystemClock.now();
        scene.note(Fault::Outage { from, to: back });
        for (index, task_type) in [(0, "a"), (1, "b"), (0, "shared"), (1, "shared")] {
            let wait = resumes(&scene, &instances[index].name, task_type, back).await;
            println!("round {round}: i{index} works on {task_type} again after {wait:?}");
            assert!(wait <= LOCK + GRACE, "{wait:?}");
        }
    }
    for instance in &mut instances {
        instance.quiet().await;
    }
    scene.drained(&service).await;
    let history = scene.history();
    history.check_starts();
    let done = history.check_done(&service).await;
    let foreign = history.refused.iter().find(|(_, _, transient)| !transient);
    assert_eq!(foreign, None, "every failure of an outage is transient");
    println!(
        "{done} accepted and done; {} submits failed",
        history.refused.len()
    );
}

/// How long after `back` the instance `name` starts a task of this type.
async fn resumes(scene: &Scene, name: &str, task_type: &str, back: Timestamp) -> Duration {
    let prefix = format!("{task_type}/");
    let what = format!("work of {name} on {task_type}");
    let first = until(&what, || {
        let meant = |task: &str, start: &Attempt| start.name == name && task.starts_with(&prefix);
        std::future::ready(scene.history().first_start_after(back, meant))
    })
    .await;
    scene.between(back.as_millis(), first)
}

#[tokio::test]
async fn a_redis_server_killed_under_load_loses_nothing_and_stalls_no_handler() {
    let server = RedisServer::start(Persistence::Always, &[]);
    outages(
        server,
        RedisServer::kill,
        RedisServer::restart,
        What::is_refused,
    )
    .await;
}

/// The server does not die but hangs, for longer than the locks last.
#[tokio::test]
async fn a_redis_server_that_hangs_under_load_loses_nothing_and_stalls_no_handler() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    let signal = |server: &mut RedisServer, name: &str| send_signal(server.pid().unwrap(), name);
    outages(
        server,
        |s| signal(s, "STOP"),
        |s| signal(s, "CONT"),
        What::is_told_end,
    )
    .await;
}

/// A small file system of its own, in memory.
#[derive(Debug)]
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    /// `None` when this process may not mount.
    fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={size}");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path());
        let mounted = mount.stderr(Stdio::null()).status();
        mounted
            .is_ok_and(|status| status.success())
            .then_some(Self { folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Leaves no room.
    fn fill(&self) {
        let mut filler = File::create(self.path("filler")).unwrap();
        // Ends with "no space left on device", after a last piece that fits in part.
        while filler.write_all(&[7; 4_096]).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.path("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a process that is being ended may still have a file open.
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.folder.path())
            .status();
    }
}

#[tokio::test]
async fn a_full_disk_is_a_clear_error_loses_nothing_and_is_over_when_there_is_room() {
    let Some(disk) = Disk::mount("64m") else {
        println!("LEFT OUT: this user may not mount a small file system (root on Linux may)");
        return;
    };
    let url = format!("sqlite:{}", disk.path("tasks.sqlite").display());
    let mut scene = Scene::on(INSTANCE, url);
    let plan = Plan {
        load: Some(Load::of(&["a", "b"])),
        ..scene.plan(["a", "b"])
    };
    let mut instance = scene.start(&plan).await;
    for round in 1..=FILLS {
        let more = instance.count(What::is_sent) + 200;
        instance
            .nth("an acknowledgement", more, What::is_sent)
            .await;
        let (from, refused) = (SystemClock.now(), instance.count(What::is_refused));
        disk.fill();
        instance
            .nth("a failed submit", refused + 50, What::is_refused)
            .await;
        disk.free();
        let to = SystemClock.now();
        scene.note(Fault::Outage { from, to });
        let more = instance.count(What::is_sent) + 200;
        instance
            .nth("an acknowledgement", more, What::is_sent)
            .await;
        let again = until("a start", || {
            std::future::ready(scene.history().first_start_after(to, |_, _| true))
        })
        .await;
        let wait = scene.between(to.as_millis(), again);
        println!("round {round}: works again after {wait:?}");
        assert!(wait <= LOCK + GRACE, "{wait:?}");
    }
    instance.quiet().await;
    let service = scene.service().await;
    scene.drained(&service).await;
    let history = scene.history();
    history.check_starts();
    let done = history.check_done(&service).await;
    for (_, error, transient) in &history.refused {
        // A commit whose last sync fails may have been applied.
        let clear = error.contains(" is full: ") || error.contains("it may have been applied");
        assert!(clear && *transient, "{error}");
    }
    let refused = history.refused.len();
    let full = history
        .refused
        .iter()
        .filter(|(_, error, _)| error.contains(" is full: "));
    let full = full.count();
    assert!(
        full * 2 > refused,
        "{full} of {refused} say that the disk is full"
    );
    println!("{done} accepted and done; {full} of {refused} failures say that the disk is full");
    check_file(&disk.path("tasks.sqlite"));
}

fn ask(server: &RedisServer, command: &[&str]) -> redis::Value {
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let cmd = redis::cmd(command[0]).arg(&command[1..]).to_owned();
    cmd.query(&mut connection).unwrap()
}

/// Awaits that so many connections listen to wake-ups.
async fn listeners(server: &RedisServer, expected: usize) {
    until(&format!("{expected} subscriptions"), || {
        let clients = ask(server, &["CLIENT", "LIST", "TYPE", "pubsub"]);
        let clients: String = redis::from_redis_value(clients).unwrap();
        let found = clients
            .lines()
            .filter(|client| client.contains(" sub=1 "))
            .count();
        std::future::ready((found == expected).then_some(()))
    })
    .await;
}

/// Kills every subscription again and again, until the sender is dropped.
fn kill_subscriptions(url: &str) -> Sender<()> {
    let (stop, stopped) = channel();
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_connection().unwrap();
    std::thread::spawn(move || {
        while stopped.recv_timeout(millis(1)) == Err(RecvTimeoutError::Timeout) {
            let mut kill = redis::cmd("CLIENT");
            kill.arg(&["KILL", "TYPE", "pubsub"]);
            kill.exec(&mut connection).unwrap();
        }
    });
    stop
}

/// A poll of three seconds shows what a wake-up is worth, and what its loss costs.
#[tokio::test]
async fn a_lost_wake_up_costs_at_most_a_poll_and_later_ones_work_again() {
    const POLL: Duration = seconds(3);
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    let mut scene = Scene::on(INSTANCE, server.url());
    let service = scene.service().await;
    let plan = Plan {
        poll_ms: 3_000,
        ..scene.plan(["job"])
    };
    let mut instance = scene.start(&plan).await;
    // The instance, and this process.
    listeners(&server, 2).await;
    Chore::Work(0).send(&service, "far", hours(1)).await;
    let mut started = 0;
    for (round, limit) in [
        ("before", seconds(1)),
        ("lost", POLL + seconds(1)),
        ("after", seconds(1)),
    ] {
        let mut storm = None;
        for n in 0..5 {
            if round == "lost" {
                storm.get_or_insert_with(|| kill_subscriptions(&server.url()));
                listeners(&server, 0).await;
            }
            let sent = SystemClock.now();
            Chore::Work(0)
                .send(&service, &format!("{round}-{n}"), Duration::ZERO)
                .await;
            started += 1;
            let start = instance.started(started).await;
            let wait = scene.between(sent.as_millis(), start.at);
            println!("{round}: started after {wait:?}");
            assert!(wait <= limit, "{round}: {wait:?}");
        }
        drop(storm);
        listeners(&server, 2).await;
    }
}
