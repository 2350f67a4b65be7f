//! The Helm chart as one file, as `helm package` makes it, and the same bytes each time.

use std::fs;
use std::path::Path;

use crate::call::{Failure, root};
use crate::dist::file_tree::FileTree;
use crate::dist::release::Release;

/// The chart. Its files of alerts and of the dashboard are links to those of this tree.
pub(crate) const CHART: &str = "docs/deploy/helm/delayq";
/// The page about it, which is the README of the package.
const PAGE: &str = "docs/guide/kubernetes.md";

/// The chart: its name and its bytes.
///
/// # Errors
/// It has another version than the release, or cannot be read.
pub(crate) fn package(release: &Release) -> Result<(String, Vec<u8>), Failure> {
    let version = &release.version;
    let about = fs::read_to_string(root().join(CHART).join("Chart.yaml"))?;
    for line in [
        format!("version: {version}"),
        format!("appVersion: \"{version}\""),
    ] {
        if !about.lines().any(|one| one == line) {
            return Err(Failure(format!("{CHART}/Chart.yaml has no line `{line}`")));
        }
    }
    let mut chart = FileTree::default();
    add(&mut chart, &root().join(CHART), "")?;
    chart.file("README.md", fs::read(root().join(PAGE))?);
    let packed = chart.below("delayq/").tar_gz(release.time)?;
    Ok((format!("delayq-{version}.chart.tgz"), packed))
}

fn add(chart: &mut FileTree, folder: &Path, prefix: &str) -> Result<(), Failure> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            add(chart, &entry.path(), &format!("{path}/"))?;
        } else {
            chart.file(&path, fs::read(entry.path())?);
        }
    }
    Ok(())
}
