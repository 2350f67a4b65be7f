//! The distribution of lateness, as an SVG.

use std::path::Path;

use plotters::prelude::*;

use crate::Failure;
use crate::lateness::Lateness;

const SIZE: (u32, u32) = (900, 480);
/// What is later is not drawn, in ms: few tasks, which would press all others against the edge.
const MOST_MS: u32 = 20;
/// Points of a line for each ms.
const POINTS: u32 = 20;
pub(crate) const COLOURS: [RGBColor; 8] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(127, 127, 127),
];

/// Draws, for each lateness, the share of tasks that started within it.
pub(crate) fn lateness(all: &[Lateness], file: &Path) -> Result<(), Failure> {
    let longest = all
        .iter()
        .map(|one| one.percentile_ms(99.9))
        .fold(2.0, f64::max)
        .min(f64::from(MOST_MS));
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
        .build_cartesian_2d(0.0..longest, 0.0..100.0)?;
    chart
        .configure_mesh()
        .x_desc("lateness, ms")
        .y_desc("% of the tasks")
        .draw()?;
    for (one, colour) in all.iter().zip(COLOURS.iter().cycle()) {
        let label = format!("{}, {}", one.place.name(), one.load.label());
        let line = LineSeries::new(shares(one, longest), colour.stroke_width(2));
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

/// The points of a line: a lateness in ms, and the share of tasks that started within it.
#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn shares(one: &Lateness, longest_ms: f64) -> Vec<(f64, f64)> {
    let tasks = (one.histogram.len() + one.early).max(1) as f64;
    let share = |point: u32| {
        let ms = f64::from(point) / f64::from(POINTS);
        let within_us = u64::from(point) * 1_000 / u64::from(POINTS);
        let within = one.histogram.count_between(0, within_us) + one.early;
        (ms, 100.0 * within as f64 / tasks)
    };
    (0..=MOST_MS * POINTS)
        .map(share)
        .take_while(|(ms, _)| *ms <= longest_ms)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lateness::Load;
    use crate::stage::Place;

    #[test]
    fn a_line_rises_to_all_tasks_and_shows_fractions_of_a_ms() {
        let mut lateness = Lateness::new(Place::Redis, Load::Steady(5)).unwrap();
        for us in [100, 420, 1_000, 1_900] {
            lateness.record(us);
        }
        let points = shares(&lateness, 2.0);
        assert_eq!(points.len(), 41);
        let at = |index: usize| format!("{:.2}: {:.0} %", points[index].0, points[index].1);
        assert_eq!(at(1), "0.05: 0 %");
        assert_eq!(at(2), "0.10: 25 %");
        assert_eq!(at(9), "0.45: 50 %");
        assert_eq!(at(40), "2.00: 100 %");
    }

    #[test]
    fn a_plot_names_each_load() {
        let mut sooner = Lateness::new(Place::Sqlite, Load::Sooner).unwrap();
        sooner.record(250_000);
        let steady = Lateness::new(Place::Redis, Load::Steady(5)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lateness.svg");
        lateness(&[sooner, steady], &file).unwrap();
        let plot = std::fs::read_to_string(file).unwrap();
        for label in ["sqlite, a sooner task", "redis, 5 tasks/s"] {
            assert!(plot.contains(label), "{label}");
        }
    }
}
