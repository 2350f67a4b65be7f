//! Where the programs that tests start are.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

/// Where systems have the programs of PostgreSQL: a folder, and the beginning of the names of those
/// in there that hold a `bin` of one version.
const VERSIONS: [(&str, &str); 4] = [
    ("/usr/lib/postgresql", ""),
    ("/usr", "pgsql-"),
    ("/opt/homebrew/opt", "postgresql"),
    ("/usr/local/opt", "postgresql"),
];

/// The folders of the PATH, and those that a system may leave out of it: servers, and each version
/// of PostgreSQL, the newest one first.
pub(crate) fn program_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    for (parent, prefix) in VERSIONS {
        let parent = Path::new(parent);
        let of_version = |name: String| parent.join(name).join("bin");
        folders.extend(newest_first(parent, prefix).map(of_version));
    }
    folders
}

/// The names in a folder that begin with `prefix`, ordered by the number at the end of each.
fn newest_first(parent: &Path, prefix: &str) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort_by_key(|name| Reverse(version(name)));
    names.into_iter()
}

fn version(name: &str) -> Option<u32> {
    let number = name.trim_start_matches(|one: char| !one.is_ascii_digit());
    number.parse().ok()
}

#[test]
fn a_newer_version_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["pgsql-9", "other-20", "pgsql-15", "pgsql-"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let found: Vec<_> = newest_first(folder.path(), "pgsql-").collect();
    assert_eq!(found, ["pgsql-15", "pgsql-9", "pgsql-"]);
}
