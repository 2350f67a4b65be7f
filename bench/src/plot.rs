//! The distribution of lateness, as an SVG.

use std::path::Path;

use plotters::prelude::*;

use crate::Failure;
use crate::lateness::Lateness;

const SIZE: (u32, u32) = (900, 480);
const COLOURS: [RGBColor; 6] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
];

/// Draws, for each lateness, the share of tasks that started within it.
pub(crate) fn lateness(all: &[Lateness], file: &Path) -> Result<(), Failure> {
    let longest = all
        .iter()
        .map(|one| one.percentile_ms(99.9))
        .max()
        .unwrap_or(0);
    let longest = longest.max(10) + 2;
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .caption(
            "Started within so many ms of the due time",
            ("sans-serif", 20),
        )
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d(0..longest, 0.0..100.0)?;
    chart
        .configure_mesh()
        .x_desc("lateness, ms")
        .y_desc("% of the tasks")
        .draw()?;
    for (one, colour) in all.iter().zip(COLOURS.iter().cycle()) {
        let label = format!("{}, {} tasks/s", one.place.name(), one.rate);
        let line = LineSeries::new(steps(one, longest), colour.stroke_width(2));
        let key = move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2));
        chart.draw_series(line)?.label(label).legend(key);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    area.present()?;
    Ok(())
}

/// The corners of a line that steps up at every whole ms.
#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn steps(one: &Lateness, longest: u64) -> Vec<(u64, f64)> {
    let tasks = (one.histogram.len() + one.early).max(1) as f64;
    let (mut corners, mut share) = (Vec::new(), 0.0);
    for ms in 0..=longest {
        corners.push((ms, share));
        let within = one.histogram.count_between(0, ms) + one.early;
        share = 100.0 * within as f64 / tasks;
        corners.push((ms, share));
    }
    corners
}
