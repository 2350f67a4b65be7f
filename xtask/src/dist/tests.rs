//! A release of programs that are shell scripts: its files are all there, twice the same, and as
//! the tools of each kind of package take them.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::*;

/// Programs that print a line for each of their commands.
fn programs(folder: &Path) {
    for program in PROGRAMS {
        let path = folder.join(program);
        fs::write(&path, format!("#!/bin/sh\necho {program} \"$@\"\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn release(folder: &Path, out: &str) {
    let args = Args {
        bin_dir: Some(folder.to_owned()),
        out: folder.join(out),
        features: None,
        archive_only: false,
    };
    run(&args).unwrap();
}

/// The name of the file with this ending.
fn named(folder: &Path, ending: &str) -> String {
    let names = fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<_> = names.filter(|name| name.ends_with(ending)).collect();
    assert_eq!(found.len(), 1, "{ending}: {found:?}");
    found.pop().unwrap()
}

/// The files of an archive: path and content.
fn entries(archive: impl std::io::Read) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(archive);
    let files = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let path = String::from_utf8(entry.path_bytes().to_vec()).unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (path, content)
    });
    files.filter(|(path, _)| !path.ends_with('/')).collect()
}

fn unpacked(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    entries(flate2::read::GzDecoder::new(bytes))
}

/// The layer of an image, found as a loader finds it, every sum checked on the way.
fn layer(image: &[u8]) -> (Value, Vec<(String, Vec<u8>)>) {
    let files = entries(image);
    let file = |path: &str| {
        let found = files.iter().find(|(one, _)| one == path);
        found.map(|(_, content)| content.as_slice()).unwrap()
    };
    let json = |bytes: &[u8]| -> Value { serde_json::from_slice(bytes).unwrap() };
    let blob = |about: &Value| {
        let sum = about["digest"].as_str().unwrap().strip_prefix("sha256:");
        let content = file(&format!("blobs/sha256/{}", sum.unwrap()));
        assert_eq!(sums::sha256(content), sum.unwrap());
        assert_eq!(about["size"], content.len());
        content
    };
    assert_eq!(json(file("oci-layout"))["imageLayoutVersion"], "1.0.0");
    let manifest = json(blob(&json(file("index.json"))["manifests"][0]));
    let config = json(blob(&manifest["config"]));
    let packed = blob(&manifest["layers"][0]);
    let mut plain = Vec::new();
    let mut reader = flate2::read::GzDecoder::new(packed);
    reader.read_to_end(&mut plain).unwrap();
    let sum = format!("sha256:{}", sums::sha256(&plain));
    assert_eq!(config["rootfs"]["diff_ids"][0], sum);
    let older = json(file("manifest.json"));
    let path = older[0]["Layers"][0].as_str().unwrap();
    assert_eq!(file(path), packed);
    (config, entries(plain.as_slice()))
}

fn paths(files: &[(String, Vec<u8>)]) -> BTreeSet<&str> {
    files.iter().map(|(path, _)| path.as_str()).collect()
}

#[test]
fn a_release_has_every_kind_of_package_and_is_the_same_twice() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    programs(folder);
    release(folder, "one");
    release(folder, "two");
    let one = folder.join("one");
    let sums = fs::read_to_string(one.join(SUMS)).unwrap();
    assert_eq!(
        fs::read_to_string(folder.join("two").join(SUMS)).unwrap(),
        sums
    );
    assert_eq!(sums.lines().count(), 5, "{sums}");
    let mut checked = Command::new("sha256sum");
    let checked = checked.args(["--check", "--quiet", SUMS]);
    assert!(checked_in(checked, &one), "{sums}");
    let read = |ending: &str| fs::read(one.join(named(&one, ending))).unwrap();

    let archive = unpacked(&read("linux-gnu.tar.gz"));
    let archive = paths(&archive);
    let top = archive.first().unwrap().split('/').next().unwrap();
    for path in [
        "bin/delayq",
        "bin/delayq-server",
        "lib/systemd/system/delayq-server.service",
        "share/bash-completion/completions/delayq-server",
        "share/doc/delayq/LICENSE-MIT",
        "share/doc/delayq/THIRD-PARTY-LICENSES.txt",
        "share/doc/delayq/examples/server.toml",
        "share/doc/delayq/sbom.cdx.json",
        "share/fish/vendor_completions.d/delayq.fish",
        "share/man/man1/delayq-server.1",
        "share/zsh/site-functions/_delayq",
    ] {
        assert!(archive.contains(format!("{top}/{path}").as_str()), "{path}");
    }

    let chart = unpacked(&read(".chart.tgz"));
    for (path, about) in [
        ("delayq/files/alerts.yml", "groups:"),
        ("delayq/files/grafana-dashboard.json", "\"panels\""),
        ("delayq/Chart.yaml", "appVersion"),
        ("delayq/README.md", "helm"),
    ] {
        let file = chart.iter().find(|(one, _)| one == path).unwrap();
        assert!(String::from_utf8_lossy(&file.1).contains(about), "{path}");
    }

    let sbom: Value = serde_json::from_slice(&read(".cdx.json")).unwrap();
    let crates = sbom["components"].as_array().unwrap();
    let has = |name: &str| crates.iter().any(|one| one["name"] == name);
    assert!(has("delayq-core") && has("libsqlite3-sys") && has("rustls"));
    // Kafka needs a library in C, and tests are no part of a program.
    assert!(!has("rdkafka") && !has("fantoccini") && !has("xtask"));

    let (config, files) = layer(&read(".oci.tar"));
    assert_eq!(config["config"]["User"], "65532:65532");
    let version = &config["config"]["Labels"]["org.opencontainers.image.version"];
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    let files = paths(&files);
    for path in [
        "etc/passwd",
        "etc/ssl/certs/ca-certificates.crt",
        "usr/local/bin/delayq",
        "usr/local/bin/delayq-server",
    ] {
        assert!(files.contains(path), "{path}");
    }
}

fn checked_in(command: &mut Command, folder: &Path) -> bool {
    command.current_dir(folder).status().unwrap().success()
}

#[test]
fn dpkg_takes_the_package_and_its_scripts_are_shell() {
    let Ok(version) = Command::new("dpkg-deb").arg("--version").output() else {
        return println!("LEFT OUT: dpkg-deb is not here, which reads the package of Debian");
    };
    assert!(version.status.success());
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    programs(folder);
    release(folder, "out");
    let out = folder.join("out");
    let package = named(&out, ".deb");
    let ask = |words: &[&str]| {
        let mut command = Command::new("dpkg-deb");
        let output = command.args(words).current_dir(&out).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{said}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(ask(&["--field", &package, "Package"]), "delayq\n");
    assert_eq!(ask(&["--field", &package, "Depends"]), "adduser\n");
    let listed = ask(&["--contents", &package]);
    for line in [
        "-rwxr-xr-x root/root",
        "-rw------- root/root",
        "./etc/delayq/server.toml",
        "./usr/bin/delayq-server",
        "./usr/lib/systemd/system/delayq-server.service",
        "./usr/share/man/man1/delayq.1.gz",
        "./usr/share/zsh/vendor-completions/_delayq-server",
    ] {
        assert!(listed.contains(line), "{line} in {listed}");
    }
    // Without the programs, files of the package are as its sums say.
    ask(&["--raw-extract", &package, "raw"]);
    let mut sums = Command::new("md5sum");
    let sums = sums.args(["--check", "--quiet", "DEBIAN/md5sums"]);
    assert!(checked_in(sums, &out.join("raw")));
    for script in ["postinst", "prerm", "postrm"] {
        let path = format!("raw/DEBIAN/{script}");
        let mut shell = Command::new("sh");
        assert!(checked_in(shell.args(["-n", &path]), &out), "{script}");
    }
}

#[test]
fn programs_that_are_not_there_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let failure = Binaries::at(folder.path()).unwrap_err().0;
    assert!(
        failure.starts_with("there is no delayq-server in"),
        "{failure}"
    );
}
