//! `cargo xtask dist`: what a release consists of, in `target/dist`: an archive of the programs, a
//! package of Debian, an image, a chart, a list of crates, and the sums of all.

mod binaries;
mod calendar;
mod chart;
mod containerfile;
mod debian;
mod file_tree;
mod image;
mod licences;
mod packages;
mod release;
mod sbom;
mod sums;
// Packages and images are made on Linux.
#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::call::{Failure, root};

use self::binaries::{Binaries, PROGRAMS, of_server};
use self::file_tree::FileTree;
use self::release::Release;

/// Where the files go without `--out`.
const OUT: &str = "target/dist";
/// Files of the tree that the archive, the package and the image have beside the programs.
const DOCUMENTS: [(&str, &str); 7] = [
    ("README.md", "README.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("examples/server.toml", "docs/deploy/server.toml"),
    ("monitoring/alerts.yml", "docs/monitoring/alerts.yml"),
    (
        "monitoring/grafana-dashboard.json",
        "docs/monitoring/grafana-dashboard.json",
    ),
];
/// What has the sums of all others.
const SUMS: &str = "SHA256SUMS";

/// What to make a release of.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pack the programs `delayq-server` and `delayq` of this folder instead of building them.
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// The folder for the files.
    #[arg(long, value_name = "DIR", default_value = OUT)]
    out: PathBuf,
    /// Features of the server beside those that it has without this, such as kafka.
    #[arg(long, value_name = "FEATURES")]
    features: Option<String>,
    /// Make only the archive, the list of crates and the chart, also where there is no Linux.
    #[arg(long)]
    archive_only: bool,
}

/// Makes all files, and prints their names and sizes.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let release = Release::of_this_tree()?;
    let binaries = match &args.bin_dir {
        Some(folder) => Binaries::at(&root().join(folder))?,
        None => Binaries::build(args.features.as_deref())?,
    };
    let features = args.features.as_deref().map(of_server);
    let packages = packages::read(&release.target, features.as_deref())?;
    let sbom = sbom::document(&release, &packages);
    let mut documents = FileTree::default();
    for (path, source) in DOCUMENTS {
        documents.file(path, fs::read(root().join(source))?);
    }
    documents.file("THIRD-PARTY-LICENSES.txt", licences::document(&packages)?);
    documents.file("sbom.cdx.json", sbom.clone());
    let mut made = vec![
        archive(&release, &binaries, &documents)?,
        chart::package(&release)?,
        (format!("{}.cdx.json", release.name()), sbom.into_bytes()),
    ];
    if !args.archive_only {
        made.push(debian::package(&release, &binaries, &documents)?);
        made.push(image::image(&release, &binaries, &documents)?);
    }
    write(&root().join(&args.out), made)
}

/// The archive: unpacked into `/usr/local`, without its first folder, it is installed.
fn archive(
    release: &Release,
    binaries: &Binaries,
    documents: &FileTree,
) -> Result<(String, Vec<u8>), Failure> {
    let mut tree = FileTree::default();
    for program in PROGRAMS {
        tree.program(&format!("bin/{program}"), binaries.read(program)?);
    }
    tree.extend(binaries.pages(false)?);
    tree.extend(documents.clone().below("share/doc/delayq/"));
    let unit = fs::read(root().join("docs/deploy/delayq-server.service"))?;
    tree.file("lib/systemd/system/delayq-server.service", unit);
    let name = release.name();
    let packed = tree.below(&format!("{name}/")).tar_gz(release.time)?;
    Ok((format!("{name}.tar.gz"), packed))
}

/// Writes the files and their sums.
fn write(folder: &std::path::Path, mut files: Vec<(String, Vec<u8>)>) -> Result<(), Failure> {
    fs::create_dir_all(folder)?;
    files.sort();
    let mut sums = String::new();
    for (name, content) in &files {
        fs::write(folder.join(name), content)?;
        let _ = writeln!(sums, "{}  {name}", sums::sha256(content));
        println!("  {:>12} bytes  {name}", content.len());
    }
    fs::write(folder.join(SUMS), sums)?;
    println!("in {}, with {SUMS}", folder.display());
    Ok(())
}
