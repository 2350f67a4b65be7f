//! docs/benchmarks.md: the part between two markers is rewritten with each full run.

use std::fs;
use std::path::Path;

use crate::Failure;
use crate::plot;
use crate::report::Report;

const BEGIN: &str = "<!-- figures: written by cargo xtask bench -->\n";
const END: &str = "<!-- end of figures -->\n";

/// Writes the figures into the document, and the plot beside it.
pub(crate) fn write(report: &Report) -> Result<(), Failure> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let file = docs.join("benchmarks.md");
    let text = with_figures(&fs::read_to_string(&file)?, &section(report))
        .ok_or_else(|| format!("docs/benchmarks.md needs the lines\n{BEGIN}{END}"))?;
    fs::write(&file, text)?;
    plot::lateness(&report.lateness, &docs.join("lateness.svg"))?;
    println!("written: docs/benchmarks.md, docs/lateness.svg");
    Ok(())
}

fn section(report: &Report) -> String {
    let stores = report.stores.join("\n- ");
    format!(
        "`cargo xtask bench` on {}.\n\n- {stores}\n\n{}\n",
        report.machine,
        report.tables()
    )
}

/// `document` with `figures` between the markers; `None` when it has none.
fn with_figures(document: &str, figures: &str) -> Option<String> {
    between(document, (BEGIN, END), figures)
}

/// `document` with `text` between two markers; `None` when it does not have them.
pub(crate) fn between(document: &str, (begin, end): (&str, &str), text: &str) -> Option<String> {
    let (before, rest) = document.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n{text}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_markers_changes() {
        let old = format!("# Title\n{BEGIN}\nold\n\n{END}the rest\n");
        let new = with_figures(&old, "new\n").unwrap();
        assert_eq!(new, format!("# Title\n{BEGIN}\nnew\n\n{END}the rest\n"));
        assert_eq!(with_figures(&new, "new\n").unwrap(), new);
        assert_eq!(with_figures("# Title\n", "new"), None);
    }

    #[test]
    fn the_document_has_the_markers() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks.md");
        assert!(with_figures(&fs::read_to_string(file).unwrap(), "").is_some());
    }
}
