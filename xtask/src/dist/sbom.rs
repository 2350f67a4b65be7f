//! What the programs are made of, as `CycloneDX` 1.5 in JSON.

use serde_json::{Value, json};

use crate::dist::packages::{Id, Package};
use crate::dist::release::Release;

/// The document. It has no time and no random number, so that it is the same for the same crates.
pub(crate) fn document(release: &Release, packages: &[Package]) -> String {
    let components: Vec<_> = packages.iter().map(component).collect();
    let mut graph: Vec<_> = packages
        .iter()
        .map(|package| {
            let uses: Vec<_> = package.uses.iter().map(reference).collect();
            json!({"ref": reference(&package.id()), "dependsOn": uses})
        })
        .collect();
    let programs = packages
        .iter()
        .filter(|package| ["delayq-server", "delayq-cli"].contains(&package.name.as_str()));
    let programs: Vec<_> = programs.map(|package| reference(&package.id())).collect();
    graph.push(json!({"ref": "delayq", "dependsOn": programs}));
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "delayq",
                "name": "delayq",
                "version": release.version,
                "properties": [{"name": "target", "value": release.target}],
            },
        },
        "components": components,
        "dependencies": graph,
    });
    format!("{document:#}\n")
}

fn reference((name, version): &Id) -> String {
    format!("pkg:cargo/{name}@{version}")
}

fn component(package: &Package) -> Value {
    let reference = reference(&package.id());
    let kind = match package.name.as_str() {
        "delayq-server" | "delayq-cli" => "application",
        _ => "library",
    };
    let mut component = json!({
        "type": kind,
        "bom-ref": reference,
        "name": package.name,
        "version": package.version,
        "purl": reference,
    });
    let Some(fields) = component.as_object_mut() else {
        return component;
    };
    // Older crates separate alternatives by a slash.
    let licence = package.licence.replace('/', " OR ");
    if !licence.is_empty() {
        fields.insert("licenses".to_owned(), json!([{"expression": licence}]));
    }
    if let Some(checksum) = &package.checksum {
        let hash = json!([{"alg": "SHA-256", "content": checksum}]);
        fields.insert("hashes".to_owned(), hash);
    }
    if let Some(description) = &package.description {
        let words: Vec<_> = description.split_whitespace().collect();
        fields.insert("description".to_owned(), words.join(" ").into());
    }
    if let Some(repository) = &package.repository {
        let places = json!([{"type": "vcs", "url": repository}]);
        fields.insert("externalReferences".to_owned(), places);
    }
    component
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_document_has_every_crate_with_its_licence_and_its_checksum() {
        let release = Release {
            version: "1.2.0".to_owned(),
            target: "x86_64-unknown-linux-gnu".to_owned(),
            revision: None,
            time: 0,
        };
        let a = Package {
            name: "a".to_owned(),
            version: "2.0.0".to_owned(),
            licence: "MIT/Apache-2.0".to_owned(),
            authors: Vec::new(),
            repository: None,
            description: Some("two\n  lines".to_owned()),
            folder: "a".into(),
            checksum: Some("9f".to_owned()),
            uses: Vec::new(),
        };
        let server = Package {
            name: "delayq-server".to_owned(),
            checksum: None,
            uses: vec![a.id()],
            ..a.clone()
        };
        let text = document(&release, &[a, server]);
        let document: Value = serde_json::from_str(&text).unwrap();
        let at = |path: &str| document.pointer(path).unwrap().as_str().unwrap();
        assert_eq!(at("/components/0/purl"), "pkg:cargo/a@2.0.0");
        let licence = at("/components/0/licenses/0/expression");
        assert_eq!(licence, "MIT OR Apache-2.0");
        assert_eq!(at("/components/0/hashes/0/content"), "9f");
        assert_eq!(at("/components/0/description"), "two lines");
        assert_eq!(at("/components/1/type"), "application");
        assert_eq!(at("/dependencies/1/dependsOn/0"), "pkg:cargo/a@2.0.0");
        assert_eq!(at("/dependencies/2/ref"), "delayq");
    }
}
