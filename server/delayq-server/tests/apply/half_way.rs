//! A store that fails half-way: what is done is told, and a repeat does the rest.

use delayq_tests::postgres_server::PostgresServer;
use serde_json::Value;

use crate::stage::Stage;

/// Lets the store refuse what `when` says, until it is given back.
struct Broken<'a> {
    server: &'a PostgresServer,
    table: &'a str,
}

impl<'a> Broken<'a> {
    fn new(server: &'a PostgresServer, table: &'a str, when: &str) -> Self {
        server.sql(
            "postgres",
            &format!(
                "create or replace function refuse() returns trigger language plpgsql as \
                 $$begin raise exception 'a planted failure'; end$$; \
                 create trigger refuse before {when} execute function refuse()",
            ),
        );
        Self { server, table }
    }
}

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        let text = format!("drop trigger refuse on delayq.{}", self.table);
        self.server.sql("postgres", &text);
    }
}

fn done(report: &Value) -> Vec<bool> {
    let items = report["items"].as_array().unwrap();
    let done = items.iter().map(|item| item["is_done"].as_bool().unwrap());
    done.collect()
}

pub(crate) fn judge(stage: &Stage, server: &PostgresServer) {
    let second = "insert or update on delayq.types for each row when (new.name = 'b-second')";
    let with = |most: u32| {
        format!(
            "[namespaces.default.types.a-first]\nmax_pending = 5\n\
             [namespaces.default.types.b-second]\nmax_pending = {most}\n\
             [namespaces.default.recurring.hourly]\ntype = \"a.b\"\nevery = \"1h\"\n\
             [tokens.late]\nscopes = [\"read\"]\n"
        )
    };
    stage.write(&with(6));
    let made = ["--tokens-to", "tokens"];
    let broken = Broken::new(server, "types", second);
    let (report, error) = stage.apply(1, &made);
    assert!(error.contains("b-second max_pending"), "{error}");
    assert_eq!(done(&report), [true, false, false, false], "{report}");
    drop(broken);
    let (report, _) = stage.apply(0, &made);
    assert_eq!(Stage::counts(&report), [3, 0, 0, 1], "{report}");
    stage.is(&stage.secret("late.token"), "types/a-first", 200);

    // A change that was begun does not make the thing somebody else's.
    let broken = Broken::new(server, "types", second);
    stage.write(&with(7));
    stage.apply(1, &made);
    drop(broken);
    let removal = "delete on delayq.documents for each row when (old.folder = 'recurring')";
    let broken = Broken::new(server, "documents", removal);
    stage.write("[tokens.late]\nscopes = [\"read\"]\n");
    let (report, error) = stage.apply(1, &["--prune"]);
    assert!(error.contains("recurring task hourly"), "{error}");
    assert_eq!(
        (&report["removed"], &report["kept"]),
        (&3.into(), &0.into()),
        "{report}"
    );
    // Half of the removal.
    let hourly = stage.is(&stage.token, "recurring/hourly", 200);
    assert_eq!(hourly["paused"], true, "{hourly}");
    drop(broken);
    let (report, _) = stage.apply(0, &["--prune"]);
    assert_eq!(report["kept"], 0, "{report}");
    stage.is(&stage.token, "recurring/hourly", 404);
    let (report, _) = stage.apply(0, &["--prune", "--check"]);
    assert_eq!(Stage::counts(&report), [0, 0, 0, 1], "{report}");
}
