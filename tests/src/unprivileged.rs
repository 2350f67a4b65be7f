//! Programs that refuse to run as root, such as those of PostgreSQL: root has them run as another
//! user.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Whom root becomes, the first one that exists.
const USERS: [&str; 2] = ["postgres", "nobody"];

#[derive(Debug)]
struct User {
    uid: u32,
    gid: u32,
}

/// A call of `program` in `folder`, with messages in English; not as root.
pub(crate) fn command(program: &Path, folder: &Path) -> Command {
    let mut command = match user() {
        None => Command::new(program),
        Some(User { uid, gid }) => {
            let mut setpriv = Command::new("setpriv");
            setpriv.args([format!("--reuid={uid}"), format!("--regid={gid}")]);
            setpriv.arg("--clear-groups").arg(program);
            setpriv
        }
    };
    command.env("LC_ALL", "C").current_dir(folder);
    command
}

/// Gives a file or folder to whom [`command`] runs as.
pub(crate) fn give(path: &Path) {
    if let Some(User { uid, gid }) = user() {
        std::os::unix::fs::chown(path, Some(*uid), Some(*gid)).expect("root gives files away");
    }
}

/// The other user, when this is root.
fn user() -> Option<&'static User> {
    static USER: OnceLock<Option<User>> = OnceLock::new();
    let user = USER.get_or_init(|| {
        let is_root = id(&["-u"]) == Some(0);
        is_root.then(|| {
            let user = |name: &&str| {
                let (uid, gid) = (id(&["-u", name])?, id(&["-g", name])?);
                Some(User { uid, gid })
            };
            let found = USERS.iter().find_map(user);
            found.expect("there is a user other than root: postgres, or nobody")
        })
    });
    user.as_ref()
}

fn id(arguments: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(arguments).output();
    let output = output.expect("id can be started");
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}
