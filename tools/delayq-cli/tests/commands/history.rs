//! What became of tasks, with and without their store.

use std::process::Command;

use delayq_plugin::history::{HistoryStore, KeptMessage};
use delayq_plugin::store::TypeSettings;
use delayq_plugin::{DelayQueueJob, Namespace, TaskType, hours, seconds};

use crate::stage::Stage;

#[test]
fn a_search_needs_no_store_and_the_database_stands_on_either_side_of_a_command() {
    let stage = Stage::sqlite();
    let database = format!("sqlite:{}", stage.file("history.sqlite").display());
    stage.plant(async |tasks| {
        let of_type = TaskType::new("mail.send").unwrap();
        let settings = TypeSettings::default().history(Some(KeptMessage::Nothing));
        let configured = tasks.store().configure_type(&of_type, &settings);
        configured.await.unwrap();
        let job = DelayQueueJob::raw("mail.send", "{}");
        tasks.send(job.id("a-1").after(hours(1))).await.unwrap();
        let _ = tasks.cancel("mail.send", "a-1").await.unwrap();
        let ends = tasks.store().ends(10).await.unwrap();
        let lives: Vec<_> = ends.into_iter().map(|end| end.life).collect();
        let history = HistoryStore::at(&database, Namespace::default(), seconds(5)).unwrap();
        assert_eq!(history.record(&lives).await.unwrap(), 1);
        history.close().await;
    });
    let alone = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_delayq"));
        let command = command
            .env_clear()
            .args(["history", "--history", &database]);
        let output = command.args(words).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    for search in [&["--id", "a-1"][..], &["show", "--type", "mail.send"], &[]] {
        let (code, said) = alone(search);
        assert!(code == Some(0) && said.contains("cancelled"), "{said}");
    }
    let (code, said) = alone(&["status"]);
    assert!(code == Some(2) && said.contains("no store"), "{said}");
    let (code, said) = alone(&["--id", "a-1", "status"]);
    assert!(code == Some(2) && said.contains("after the"), "{said}");
    for words in [
        ["history", "--history", &database, "status"],
        ["history", "status", "--history", &database],
    ] {
        assert_eq!(stage.json(0, &words)["waiting"]["waiting"], 1);
    }
    // With its store, one task is looked up there, too.
    let of_one = ["history", "--type", "mail.send", "--id", "a-1"];
    let fate = stage.json(0, &[&of_one[..], &["--history", &database]].concat());
    assert_eq!(fate["now"]["state"], "cancelled");
}
