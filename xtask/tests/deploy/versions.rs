//! One release has one version: the tag is compared with that of the workspace, and here the
//! manifests are.

use serde_json::Value;

use crate::{VERSION, read, yaml};

/// What stands between two texts in a file.
fn between(file: &str, before: &str, after: &str) -> String {
    let text = read(file);
    let (_, rest) = text
        .split_once(before)
        .unwrap_or_else(|| panic!("{file}: {before}"));
    rest.split_once(after).unwrap().0.to_owned()
}

/// A version as Python writes it: 0.2.0-rc.1 is 0.2.0rc1.
fn of_python(version: &str) -> String {
    let parts = [("-alpha.", "a"), ("-beta.", "b"), ("-rc.", "rc")];
    let python = parts.iter();
    python.fold(version.to_owned(), |text, (one, other)| {
        text.replace(one, other)
    })
}

#[test]
fn every_client_has_the_version_of_the_workspace() {
    let package: Value = serde_json::from_str(&read("clients/typescript/package.json")).unwrap();
    assert_eq!(package["version"], VERSION);
    let lock = read("clients/typescript/package-lock.json");
    let lock: Value = serde_json::from_str(&lock).unwrap();
    assert_eq!(lock["version"], VERSION, "npm install --package-lock-only");
    let java = between("clients/java/pom.xml", "<version>", "</version>");
    assert_eq!(java, VERSION);
    let go = "github.com/delayq/delayq/clients/go v";
    let go = between("clients/go/delayqotel/go.mod", go, "\n");
    assert_eq!(go, VERSION);
    let python = "clients/python/src/delayq/__init__.py";
    let python = between(python, "__version__ = \"", "\"");
    assert_eq!(python, of_python(VERSION));
    assert_eq!(of_python("0.2.0-rc.1"), "0.2.0rc1");
}

/// The job of the guide is copied as it is.
#[test]
fn the_job_of_the_guide_has_the_image_of_this_version_and_its_volumes() {
    let page = read("docs/guide/kubernetes.md");
    let (_, part) = page.split_once("\n## The state in files\n").unwrap();
    let block = part.split("```yaml\n").nth(1).unwrap();
    let block = block.split("```").next().unwrap();
    let documents: Vec<_> = block.split("\n---\n").map(yaml).collect();
    let [map, job] = documents.as_slice() else {
        panic!("{documents:?}");
    };
    let pod = &job["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let image = format!("ghcr.io/delayq/delayq-server:{VERSION}");
    assert_eq!(container["image"], image);
    let names = |list: &Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|one| one["name"].to_string()).collect()
    };
    assert_eq!(names(&container["volumeMounts"]), names(&pod["volumes"]));
    let state = map["data"]["state.toml"].as_str().unwrap();
    assert!(state.contains("name = \"shop\""), "{state}");
    assert_eq!(
        pod["volumes"][0]["configMap"]["name"],
        map["metadata"]["name"]
    );
}
