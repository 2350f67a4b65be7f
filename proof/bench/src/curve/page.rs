//! Where the curves are shown: docs/benchmarks.md, each between its own markers, with a plot beside
//! it.

use crate::Failure;
use crate::curve::Curve;
use crate::curve::chart;
use crate::curve::sheet::Sheet;
use crate::document::{docs, rewrite};
use crate::machine::Machine;

/// Writes a curve into the document, and its plot beside it.
pub(crate) fn write(curve: Curve, machine: &Machine, sheet: &Sheet) -> Result<(), Failure> {
    let (name, plot) = (curve.name(), format!("curve-{}.svg", curve.name()));
    chart::draw(&sheet.panels, &docs().join(&plot))?;
    let section = format!(
        "`cargo xtask bench --curves --curve {name}` on {machine}.\n\n{}\n\n![{name}]({plot})\n",
        sheet.table()
    );
    let (begin, end) = markers(curve);
    rewrite([&begin, &end], &section)?;
    println!("written: docs/benchmarks.md, docs/{plot}");
    Ok(())
}

fn markers(curve: Curve) -> (String, String) {
    let name = curve.name();
    let begin = format!("<!-- curve {name}: written by cargo xtask bench --curves -->\n");
    (begin, format!("<!-- end of curve {name} -->\n"))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn the_document_has_the_markers_of_every_curve() {
        let text = std::fs::read_to_string(docs().join("benchmarks.md")).unwrap();
        for curve in Curve::value_variants() {
            let (begin, end) = markers(*curve);
            assert!(text.contains(&begin) && text.contains(&end), "{begin}{end}");
        }
    }
}
