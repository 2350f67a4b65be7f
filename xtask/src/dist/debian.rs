//! The package of Debian, written without the tools of Debian, so that it is the same everywhere.

use std::fmt::Write as _;

use crate::call::{Failure, root};
use crate::dist::binaries::{Binaries, PROGRAMS};
use crate::dist::calendar::rfc_2822;
use crate::dist::file_tree::{FileTree, gz};
use crate::dist::release::Release;
use crate::dist::sums::md5;

/// Scripts, and what the package is said to be.
const FOLDER: &str = "docs/deploy/debian";
/// The unit for those who install by hand.
const UNIT: &str = "docs/deploy/delayq-server.service";
/// The example configuration.
const EXAMPLE: &str = "docs/deploy/server.toml";
/// What the package changes in the unit: what stands there, and what takes its place. The user of
/// the package stays, so that the commands of the server can be run as that user.
const CHANGES: [(&str, &str); 3] = [
    ("/usr/local/bin/", "/usr/bin/"),
    ("DynamicUser=yes\n", "User=delayq\nGroup=delayq\n"),
    ("StateDirectoryMode=0700\n", "StateDirectoryMode=0750\n"),
];

/// The package: its name and its bytes. `documents` are files for `usr/share/doc/delayq`.
///
/// # Errors
/// A program cannot be run, a file of the tree is missing, or the unit is not as expected.
pub(crate) fn package(
    release: &Release,
    binaries: &Binaries,
    documents: &FileTree,
) -> Result<(String, Vec<u8>), Failure> {
    let mut data = FileTree::default();
    let mut depends = vec!["adduser".to_owned()];
    for program in PROGRAMS {
        let content = binaries.read(program)?;
        depends.extend(libraries(&content));
        data.program(&format!("usr/bin/{program}"), content);
    }
    depends.sort();
    depends.dedup();
    for (path, page) in binaries.pages(true)?.files() {
        // Policy wants compressed pages.
        if path.contains("/man/") {
            data.file(&format!("usr/{path}.gz"), gz(page)?);
        } else {
            data.file(&format!("usr/{path}"), page);
        }
    }
    data.file("usr/lib/systemd/system/delayq-server.service", unit()?);
    data.add("etc/delayq/server.toml", 0o600, text(EXAMPLE)?);
    data.extend(documents.clone().below("usr/share/doc/delayq/"));
    data.file("usr/share/doc/delayq/copyright", copyright()?);
    let overrides = text(&format!("{FOLDER}/lintian-overrides"))?;
    data.file("usr/share/lintian/overrides/delayq", overrides);
    let changes = gz(changelog(release).as_bytes())?;
    data.file("usr/share/doc/delayq/changelog.gz", changes);
    let size: usize = data.files().map(|(_, content)| content.len()).sum();
    let architecture = release.architecture()?;
    let mut control = FileTree::default();
    let fields = text(&format!("{FOLDER}/control"))?
        .replace("@VERSION@", &release.debian_version())
        .replace("@ARCHITECTURE@", architecture)
        .replace("@DEPENDS@", &depends.join(", "))
        .replace("@SIZE@", &(size / 1024 + 1).to_string());
    control.file("control", fields);
    control.file("conffiles", "/etc/delayq/server.toml\n");
    control.file("md5sums", sums(&data));
    for script in ["postinst", "prerm", "postrm"] {
        control.program(script, text(&format!("{FOLDER}/{script}"))?);
    }
    let mut package = b"!<arch>\n".to_vec();
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", control.below("./").tar_gz(release.time)?),
        ("data.tar.gz", data.below("./").tar_gz(release.time)?),
    ];
    for (name, content) in members {
        member(&mut package, name, release.time, &content);
    }
    let version = release.debian_version();
    Ok((format!("delayq_{version}_{architecture}.deb"), package))
}

/// Adds a member to an archive of `ar`, the outer form of a package.
fn member(archive: &mut Vec<u8>, name: &str, time: u64, content: &[u8]) {
    let size = content.len();
    let header = format!(
        "{name:<16}{time:<12}{:<6}{:<6}{:<8}{size:<10}`\n",
        0, 0, 100_644
    );
    archive.extend_from_slice(header.as_bytes());
    archive.extend_from_slice(content);
    if size % 2 == 1 {
        archive.push(b'\n');
    }
}

fn text(path: &str) -> Result<String, Failure> {
    let read = std::fs::read_to_string(root().join(path));
    read.map_err(|error| Failure(format!("{path}: {error}")))
}

/// The unit as the package has it.
///
/// # Errors
/// A line that the package changes is not there.
fn unit() -> Result<String, Failure> {
    let unit = text(UNIT)?;
    // What stands above the first section is for those who install by hand.
    let start = unit.find("[Unit]").unwrap_or_default();
    let mut unit = unit.get(start..).unwrap_or_default().to_owned();
    for (old, new) in CHANGES {
        if !unit.contains(old) {
            let line = old.trim();
            return Err(Failure(format!(
                "{UNIT} has no {line}, which {} changes",
                file!()
            )));
        }
        unit = unit.replace(old, new);
    }
    Ok(unit)
}

/// The packages that have the libraries of a program: none if it is static.
fn libraries(program: &[u8]) -> Vec<String> {
    let newest = newest_glibc(program);
    let glibc = newest.map(|(major, minor)| format!("libc6 (>= {major}.{minor})"));
    let unwinds = contains(program, b"libgcc_s.so.1").then(|| "libgcc-s1".to_owned());
    glibc.into_iter().chain(unwinds).collect()
}

/// The newest `GLIBC_2.34` among the versions of symbols that a program asks for.
pub(crate) fn newest_glibc(program: &[u8]) -> Option<(u32, u32)> {
    const MARK: &[u8] = b"GLIBC_";
    let places = program.windows(MARK.len()).enumerate();
    let found = places.filter(|(_, window)| *window == MARK);
    let versions = found.filter_map(|(place, _)| {
        let rest = program.get(place + MARK.len()..)?;
        let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let end = rest.iter().take(16).position(|byte| !is_number(byte))?;
        let text = std::str::from_utf8(rest.get(..end)?).ok()?;
        let mut parts = text.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    });
    versions.max()
}

fn contains(program: &[u8], part: &[u8]) -> bool {
    program.windows(part.len()).any(|window| window == part)
}

/// What `dpkg --verify` compares. Configuration is not in it.
fn sums(data: &FileTree) -> String {
    let mut sums = String::new();
    for (path, content) in data.files().filter(|(path, _)| !path.starts_with("etc/")) {
        let _ = writeln!(sums, "{}  {path}", md5(content));
    }
    sums
}

/// Who made it, and under which licences; the texts of the crates are beside it.
fn copyright() -> Result<String, Failure> {
    let head = text(&format!("{FOLDER}/copyright"))?;
    let licence = text("LICENSE-MIT")?;
    // A paragraph of the form has one blank before each line, and a dot for an empty one.
    let lines = licence.trim().lines().map(|line| match line.trim_end() {
        "" => " .".to_owned(),
        line => format!(" {line}"),
    });
    let lines: Vec<_> = lines.collect();
    Ok(format!("{}\n{}\n", head.trim_end(), lines.join("\n")))
}

fn changelog(release: &Release) -> String {
    format!(
        "delayq ({}) unstable; urgency=medium\n\n  * Release {}; see CHANGELOG.md beside this \
         file.\n\n -- The delayq developers <delayq@users.noreply.github.com>  {}\n",
        release.debian_version(),
        release.version,
        rfc_2822(release.time),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_a_program_are_those_that_it_names() {
        let program = b"\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_PRIVATE\0libgcc_s.so.1\0";
        let libraries = libraries(program);
        assert_eq!(libraries, ["libc6 (>= 2.34)", "libgcc-s1"]);
        assert_eq!(super::libraries(b"static"), [""; 0]);
    }

    #[test]
    fn the_unit_of_the_package_has_its_own_user_and_no_word_of_other_installs() {
        let unit = unit().unwrap();
        for line in [
            "ExecStart=/usr/bin/delayq-server",
            "User=delayq",
            "StateDirectoryMode=0750",
            "LoadCredential=server.toml:/etc/delayq/server.toml",
        ] {
            assert!(unit.contains(line), "{line}");
        }
        assert!(!unit.contains("/usr/local") && !unit.contains("DynamicUser"));
    }
}
