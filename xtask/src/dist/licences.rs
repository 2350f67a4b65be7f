//! The licences of all crates in the programs, with the texts that their authors ask to pass on.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::call::Failure;
use crate::dist::packages::Package;

/// How files with licences begin, in capitals.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];
/// Folders below that of a crate that are looked into: C code is a few folders down.
const DEPTH: u32 = 5;
/// Crates without a file: their licences ask for no more than the text, which the standard form of
/// each of these is.
const STANDARD: [(&str, &str); 2] = [
    ("Apache-2.0", include_str!("../../../LICENSE-APACHE")),
    ("MIT", include_str!("../../../LICENSE-MIT")),
];

/// One document: a table of the crates, then each text once, with those that it is from.
///
/// # Errors
/// A crate has no text, and its licence is none of the standard ones.
pub(crate) fn document(packages: &[Package]) -> Result<String, Failure> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut bare = Vec::new();
    for package in packages {
        let mut found = Vec::new();
        collect(&package.folder, DEPTH, &mut found);
        // What is of this project stands beside this document.
        if found.is_empty() && !package.is_own() {
            bare.push(package);
        }
        for text in found {
            let users = texts.entry(text).or_default();
            let named = format!("{} {}", package.name, package.version);
            if !users.contains(&named) {
                users.push(named);
            }
        }
    }
    let mut document = String::from(
        "The programs delayq and delayq-server contain these crates. Each is used under one of the\n\
         licences that its expression allows. The texts follow the table.\n\n",
    );
    for package in packages {
        let Package {
            name,
            version,
            licence,
            ..
        } = package;
        let _ = writeln!(document, "{name} {version}: {licence}");
    }
    for (text, users) in standard(&bare)?.into_iter().chain(by_first_user(texts)) {
        let line = "-".repeat(79);
        let _ = write!(
            document,
            "\n{line}\n{}\n{line}\n\n{text}\n",
            users.join("\n")
        );
    }
    Ok(document)
}

/// The texts, sorted by the crates that they are from.
fn by_first_user(texts: BTreeMap<String, Vec<String>>) -> Vec<(String, Vec<String>)> {
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|one, other| one.1.cmp(&other.1));
    texts
}

/// The standard texts for crates that bring none, with the names of their authors.
fn standard(bare: &[&Package]) -> Result<Vec<(String, Vec<String>)>, Failure> {
    let mut texts: Vec<(String, Vec<String>)> = Vec::new();
    for (name, text) in STANDARD {
        // The holders are the authors, who are named above it.
        let lines = text
            .lines()
            .filter(|line| !line.starts_with("Copyright (c) The delayq"));
        let text = lines.collect::<Vec<_>>().join("\n");
        let text = format!("{name}, in its standard form\n\n{}", text.trim());
        texts.push((text, Vec::new()));
    }
    for package in bare {
        let allows = |(name, _): &(&str, &str)| {
            let mut words = package.licence.split([' ', '/', '(', ')']);
            !package.licence.contains("AND") && words.any(|word| word == *name)
        };
        let place = STANDARD.iter().position(allows);
        let Some((_, users)) = place.and_then(|place| texts.get_mut(place)) else {
            return Err(Failure(format!(
                "{} {} has no file with its licence, {}: add its text to {}",
                package.name,
                package.version,
                package.licence,
                file!()
            )));
        };
        let authors = package.authors.join(", ");
        users.push(format!("{} {} {authors}", package.name, package.version));
    }
    texts.retain(|(_, users)| !users.is_empty());
    Ok(texts)
}

/// The texts in files whose names say that they are licences.
fn collect(folder: &Path, depth: u32, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let path = entry.path();
        if path.is_dir() {
            // The crates of this workspace may have a folder of builds.
            if depth > 0 && name != "TARGET" && !name.starts_with('.') {
                collect(&path, depth.saturating_sub(1), found);
            }
            continue;
        }
        let is_licence = NAMES
            .iter()
            .any(|start| name.starts_with(start) || name.contains(&format!(".{start}")));
        let is_code = matches!(path.extension(), Some(end) if end == "rs" || end == "c");
        if is_licence
            && !is_code
            && let Ok(text) = fs::read_to_string(&path)
        {
            let lines: Vec<_> = text.trim().lines().map(str::trim_end).collect();
            found.push(lines.join("\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, licence: &str, folder: &Path) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: licence.to_owned(),
            authors: vec!["Ann".to_owned()],
            repository: None,
            description: None,
            folder: folder.to_owned(),
            checksum: Some(String::new()),
            uses: Vec::new(),
        }
    }

    #[test]
    fn every_text_stands_once_with_those_that_it_is_from() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b, bare] = ["a", "b", "bare"].map(|name| folder.path().join(name));
        for path in [&a, &b.join("c/lib"), &bare] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(a.join("LICENSE-MIT"), "Copyright Bob\r\n").unwrap();
        fs::write(b.join("c/lib/htmx.LICENSE.txt"), "Copyright Bob\n").unwrap();
        fs::write(b.join("license.rs"), "no text").unwrap();
        let packages = [
            package("a", "MIT", &a),
            package("b", "MIT", &b),
            package("bare", "MIT/Apache-2.0", &bare),
        ];
        let text = document(&packages).unwrap();
        assert_eq!(text.matches("Copyright Bob").count(), 1, "{text}");
        assert!(text.contains("a 1.0.0\nb 1.0.0\n---"), "{text}");
        assert!(text.contains("bare 1.0.0 Ann\n---"), "{text}");
        assert!(!text.contains("no text"), "{text}");
        let unknown = [package("bare", "Zlib", &bare)];
        let failure = document(&unknown).unwrap_err().0;
        assert!(failure.contains("bare 1.0.0 has no file"), "{failure}");
    }
}
