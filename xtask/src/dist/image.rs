//! The image, built without a registry and without a daemon: an archive in the layout of OCI, with
//! the manifest that older versions of Docker read.

use std::path::Path;

use serde_json::{Value, json};

use crate::call::{Call, Failure, root};
use crate::dist::binaries::{Binaries, PROGRAMS};
use crate::dist::calendar::rfc_3339;
use crate::dist::containerfile::Containerfile;
use crate::dist::file_tree::{FileTree, gz};
use crate::dist::release::Release;
use crate::dist::sums::sha256;

/// What the image is called where it is loaded.
const NAME: &str = "ghcr.io/delayq/delayq-server";
/// How the image is run.
const CONTAINERFILE: &str = "docs/deploy/Containerfile";
/// The authorities that TLS of stores and of push trusts.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The image: the name of its archive and its bytes. `documents` are files for
/// `usr/share/doc/delayq`.
///
/// # Errors
/// A library of the programs, or the list of authorities, is not on this machine.
pub(crate) fn image(
    release: &Release,
    binaries: &Binaries,
    documents: &FileTree,
) -> Result<(String, Vec<u8>), Failure> {
    let how = Containerfile::read(&std::fs::read_to_string(root().join(CONTAINERFILE))?)?;
    let root = root_of(&how, binaries, documents)?;
    let layer = root.tar(release.time)?;
    let packed = gz(&layer)?;
    let mut labels = vec![("org.opencontainers.image.version", release.version.clone())];
    if let Some(revision) = &release.revision {
        labels.push(("org.opencontainers.image.revision", revision.clone()));
    }
    let created = rfc_3339(release.time);
    let config = json!({
        "created": created,
        "architecture": release.architecture()?,
        "os": "linux",
        "config": how.config(&labels)?,
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))]},
        "history": [{"created": created, "created_by": "cargo xtask dist"}],
    });
    let mut layout = FileTree::default();
    let mut blob = |kind: &str, content: Vec<u8>| -> Value {
        let (sum, size) = (sha256(&content), content.len());
        layout.file(&format!("blobs/sha256/{sum}"), content);
        json!({"mediaType": kind, "digest": format!("sha256:{sum}"), "size": size})
    };
    let config = blob(
        "application/vnd.oci.image.config.v1+json",
        config.to_string().into_bytes(),
    );
    let layer = blob("application/vnd.oci.image.layer.v1.tar+gzip", packed);
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer],
    });
    let mut manifest = blob(kind, manifest.to_string().into_bytes());
    let tag = format!("{NAME}:{}", release.version);
    if let Some(fields) = manifest.as_object_mut() {
        let names = json!({
            "io.containerd.image.name": tag,
            "org.opencontainers.image.ref.name": release.version,
        });
        fields.insert("annotations".to_owned(), names);
        let platform = json!({"architecture": release.architecture()?, "os": "linux"});
        fields.insert("platform".to_owned(), platform);
    }
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    });
    layout.file("index.json", index.to_string());
    layout.file("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);
    let path = |blob: &Value| {
        let digest = blob.get("digest").and_then(Value::as_str);
        digest
            .unwrap_or_default()
            .replace("sha256:", "blobs/sha256/")
    };
    let older = json!([
        {"Config": path(&config), "RepoTags": [tag], "Layers": [path(&layer)]}
    ]);
    layout.file("manifest.json", older.to_string());
    let (version, architecture) = (&release.version, release.architecture()?);
    let name = format!("delayq-server-{version}-linux-{architecture}.oci.tar");
    Ok((name, layout.tar(release.time)?))
}

/// The files of the image: the programs, the libraries that they were linked with, and what those
/// read.
fn root_of(
    how: &Containerfile,
    binaries: &Binaries,
    documents: &FileTree,
) -> Result<FileTree, Failure> {
    let mut root = FileTree::default();
    let mut libraries = Vec::new();
    for program in PROGRAMS {
        root.program(&format!("usr/local/bin/{program}"), binaries.read(program)?);
        libraries.extend(libraries_of(&binaries.path(program))?);
    }
    libraries.sort();
    libraries.dedup();
    for library in &libraries {
        let content = std::fs::read(library)?;
        root.program(library.trim_start_matches('/'), content);
        if let Some((package, licence)) = licence_of(library) {
            root.file(&format!("usr/share/doc/{package}/copyright"), licence);
        }
    }
    let authorities = std::fs::read(AUTHORITIES).map_err(|error| {
        let advice = "the package ca-certificates has it";
        Failure(format!("{AUTHORITIES}: {error}; {advice}"))
    })?;
    root.file(AUTHORITIES.trim_start_matches('/'), authorities);
    let (user, folder) = (how.user()?, how.folder()?);
    let users = format!(
        "root:x:0:0:root:/root:/sbin/nologin\n\
         nonroot:x:{user}:{user}:nonroot:/{folder}:/sbin/nologin\n"
    );
    root.file("etc/passwd", users);
    root.file("etc/group", format!("root:x:0:\nnonroot:x:{user}:\n"));
    root.file("etc/nsswitch.conf", "hosts: files dns\n");
    root.folder("tmp", 0o1777, 0);
    root.folder(folder, 0o700, user);
    root.extend(documents.clone().below("usr/share/doc/delayq/"));
    Ok(root)
}

/// The paths of the libraries of a program, its loader included; none if it is static.
///
/// # Errors
/// One is not on this machine.
fn libraries_of(program: &Path) -> Result<Vec<String>, Failure> {
    // It fails for a static program.
    let call = Call::new("ldd").word(program.display().to_string());
    let said = call.output().unwrap_or_default();
    if let Some(line) = said.lines().find(|line| line.ends_with("not found")) {
        return Err(Failure(format!("{}: {}", program.display(), line.trim())));
    }
    Ok(said
        .lines()
        .filter_map(library)
        .map(str::to_owned)
        .collect())
}

/// The path in `libm.so.6 => /lib/libm.so.6 (0x1)`, or in `/lib64/ld-linux-x86-64.so.2 (0x1)`.
fn library(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    words.find(|word| word.starts_with('/'))
}

/// The package of Debian that a library is from, and its licence; `None` elsewhere.
fn licence_of(library: &str) -> Option<(String, String)> {
    // Since /lib is a link to /usr/lib, a path may be known by either.
    let merged = format!("/usr{library}");
    let ask = |path: &str| Call::new("dpkg --search").word(path).output();
    let said = ask(library).or_else(|| ask(&merged))?;
    let package = said.split(':').next()?.to_owned();
    let path = format!("/usr/share/doc/{package}/copyright");
    let licence = std::fs::read_to_string(path).ok()?;
    Some((package, licence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_are_read_from_what_ldd_prints() {
        let said = "\tlinux-vdso.so.1 (0x7f)\n\tlibm.so.6 => /lib/a/libm.so.6 (0x7f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x7f)\n\tstatically linked\n";
        let found: Vec<_> = said.lines().filter_map(library).collect();
        assert_eq!(found, ["/lib/a/libm.so.6", "/lib64/ld-linux-x86-64.so.2"]);
    }
}
