//! Secrets that go to files: none that is there is believed, and none comes back.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::stage::{GIVEN, Stage};

const STATE: &str = "name = \"shop\"\n[tokens.worker]\nscopes = [\"read\"]\n\
                     [namespaces.default.types.mail.target.http]\nurl = \"http://127.0.0.1:8089/\"\n";

#[test]
fn a_revoked_secret_never_comes_back_and_a_new_one_takes_its_file() {
    let stage = Stage::on_sqlite();
    stage.write(STATE);
    let made = ["--tokens-to", "tokens"];
    stage.apply(0, &made);
    let first = stage.secret("worker.token");
    stage.is(&first, "types", 200);
    stage.token(&["revoke", first.split('_').nth(1).unwrap()]);
    let (report, _) = stage.apply(0, &made);
    assert_eq!(report["created"], 1, "{report}");
    let second = stage.secret("worker.token");
    assert_ne!(first, second);
    stage.is(&second, "types", 200);
    stage.is(&first, "types", 401);
    // What the state removes, it knows no more: the file is the operator's.
    stage.write("name = \"shop\"");
    stage.apply(0, &["--prune"]);
    stage.write(STATE);
    let (_, error) = stage.apply(1, &made);
    assert!(error.contains(": it is there"), "{error}");
    stage.is(&second, "types", 401);
}

#[test]
fn a_file_or_a_folder_of_somebody_else_is_refused() {
    let stage = Stage::on_sqlite();
    stage.write(STATE);
    let made = ["--tokens-to", "tokens"];
    let folder = stage.folder.path().join("tokens");
    let set = |mode| fs::set_permissions(&folder, PermissionsExt::from_mode(mode)).unwrap();
    fs::create_dir(&folder).unwrap();
    set(0o777);
    let (_, error) = stage.apply(1, &made);
    assert!(error.contains("others may write to it"), "{error}");
    set(0o700);
    // From another environment, or planted.
    let other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    for (file, text) in [("worker.token", GIVEN), ("default.mail.whsec", other)] {
        let file = folder.join(file);
        fs::write(&file, text).unwrap();
        for (code, options) in [(1, &made[..]), (2, &["--check", "--tokens-to", "tokens"])] {
            let (report, error) = stage.apply(code, options);
            let says = error.contains("it is there") && report.is_null();
            assert!(says, "{error}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        fs::remove_file(file).unwrap();
    }
    assert_eq!(stage.verbs(), [""; 0], "nothing is done");
    stage.apply(0, &made);
    stage.is(GIVEN, "types", 401);
}

#[test]
fn one_thing_is_of_one_state() {
    let stage = Stage::on_sqlite();
    stage.write(STATE);
    stage.apply(0, &["--tokens-to", "tokens"]);
    for declared in ["[tokens.worker]\nscopes = [\"work\"]", STATE] {
        let other = declared.replace("\"shop\"", "\"other\"");
        let name = if declared == STATE {
            ""
        } else {
            "name = \"other\"\n"
        };
        stage.write(&format!("{name}{other}"));
        let (_, error) = stage.apply(1, &["--tokens-to", "more"]);
        assert!(error.contains("the state \"shop\" has made it"), "{error}");
    }
}
