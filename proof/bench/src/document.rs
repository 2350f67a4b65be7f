//! docs/benchmarks.md: the parts between two markers are rewritten with each full run.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::plot;
use crate::report::Report;

/// The lines before and after a part.
type Markers = [&'static str; 2];

const FIGURES: Markers = [
    "<!-- figures: written by cargo xtask bench -->\n",
    "<!-- end of figures -->\n",
];
const POSTGRES: Markers = [
    "<!-- postgres: written by cargo xtask bench --store postgres -->\n",
    "<!-- end of postgres -->\n",
];
const PEERS: Markers = [
    "<!-- peers: written by cargo xtask bench --peers -->\n",
    "<!-- end of peers -->\n",
];
const EYES: Markers = [
    "<!-- eyes: written by cargo xtask bench --eyes -->\n",
    "<!-- end of eyes -->\n",
];

const FAR: Markers = [
    "<!-- far: written by cargo xtask bench --far -->\n",
    "<!-- end of far -->\n",
];

/// Writes the figures into the document, and the plot beside it.
pub(crate) fn write(report: &Report) -> Result<(), Failure> {
    rewrite(FIGURES, &section(report))?;
    plot::lateness(&report.lateness, &docs().join("lateness.svg"))?;
    println!("written: docs/benchmarks.md, docs/lateness.svg");
    Ok(())
}

/// Writes the figures of the PostgreSQL store into the document, and the tables of its peers.
pub(crate) fn write_postgres(report: &Report, peers: &str) -> Result<(), Failure> {
    let section = format!("{}\n{peers}", section(report));
    rewrite(
        POSTGRES,
        &section.replace("xtask bench`", "xtask bench --store postgres`"),
    )?;
    println!("written: docs/benchmarks.md");
    Ok(())
}

/// Writes the tables of the peers into the document.
pub(crate) fn write_peers(section: &str) -> Result<(), Failure> {
    rewrite(PEERS, section)?;
    println!("written: docs/benchmarks.md");
    Ok(())
}

/// Writes the tables of what looking costs into the document.
pub(crate) fn write_eyes(section: &str) -> Result<(), Failure> {
    rewrite(EYES, section)?;
    println!("written: docs/benchmarks.md");
    Ok(())
}

/// Writes the tables of tasks of the far future into the document.
pub(crate) fn write_far(section: &str) -> Result<(), Failure> {
    rewrite(FAR, section)?;
    println!("written: docs/benchmarks.md");
    Ok(())
}

/// Writes a part of the document anew.
pub(crate) fn rewrite(markers: [&str; 2], section: &str) -> Result<(), Failure> {
    let file = docs().join("benchmarks.md");
    let text = with_part(&fs::read_to_string(&file)?, markers, section)
        .ok_or_else(|| format!("docs/benchmarks.md needs the lines\n{}", markers.concat()))?;
    Ok(fs::write(&file, text)?)
}

/// The folder of the documents.
pub(crate) fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn section(report: &Report) -> String {
    let stores = report.stores.join("\n- ");
    format!(
        "`cargo xtask bench` on {}.\n\n- {stores}\n\n{}\n",
        report.machine,
        report.tables()
    )
}

/// `document` with `part` between the markers; `None` when it has none.
fn with_part(document: &str, [begin, end]: [&str; 2], part: &str) -> Option<String> {
    let (before, rest) = document.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n{part}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_markers_changes() {
        for [begin, end] in [FIGURES, POSTGRES, PEERS, EYES, FAR] {
            let old = format!("# Title\n{begin}\nold\n\n{end}the rest\n");
            let new = with_part(&old, [begin, end], "new\n").unwrap();
            assert_eq!(new, format!("# Title\n{begin}\nnew\n\n{end}the rest\n"));
            assert_eq!(with_part(&new, [begin, end], "new\n").unwrap(), new);
            assert_eq!(with_part("# Title\n", [begin, end], "new"), None);
        }
    }

    #[test]
    fn the_document_has_the_markers() {
        let text = fs::read_to_string(docs().join("benchmarks.md")).unwrap();
        for markers in [FIGURES, POSTGRES, PEERS, EYES, FAR] {
            assert!(with_part(&text, markers, "").is_some(), "{markers:?}");
        }
    }
}
