//! Panels, drawn side by side as one SVG.

use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::Failure;
use crate::curve::sheet::{Line, Panel, Scale};
use crate::plot::COLOURS;

/// Of one panel.
const SIZE: (u32, u32) = (560, 420);
const POINT: u32 = 3;
/// The height of a panel against its greatest value, so that the names of the lines hide none of
/// them.
const ROOM: f64 = 1.4;

/// Draws the panels into a file.
pub(crate) fn draw(panels: &[Panel], file: &Path) -> Result<(), Failure> {
    let wide = u32::try_from(panels.len())?.max(1);
    let area = SVGBackend::new(file, (SIZE.0 * wide, SIZE.1)).into_drawing_area();
    area.fill(&WHITE)?;
    for (panel, area) in panels.iter().zip(area.split_evenly((1, panels.len()))) {
        let (least, most) = reach(&panel.lines);
        match panel.scale {
            Scale::Linear => draw_panel(panel, &area, 0.0..most * ROOM)?,
            Scale::Logarithmic => {
                draw_panel(panel, &area, (least / 2.0..most * 2.0).log_scale())?;
            }
        }
    }
    area.present()?;
    Ok(())
}

/// The least and the greatest value of all lines; something that can be drawn when there is none.
fn reach(lines: &[Line]) -> (f64, f64) {
    let values = || lines.iter().flat_map(|line| line.values.iter().copied());
    let most = values().fold(f64::MIN_POSITIVE, f64::max);
    let least = values().filter(|value| *value > 0.0).fold(most, f64::min);
    (least, most)
}

fn draw_panel<Y>(panel: &Panel, area: &DrawingArea<SVGBackend, Shift>, y: Y) -> Result<(), Failure>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let last = panel.places.len().saturating_sub(1).max(1);
    let mut chart = ChartBuilder::on(area)
        .margin(16)
        .margin_right(28)
        .caption(panel.title, ("sans-serif", 18))
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(0..last, y)?;
    let place = |at: &usize| panel.places.get(*at).cloned().unwrap_or_default();
    chart
        .configure_mesh()
        .x_desc(panel.along)
        .y_desc(panel.unit)
        .x_labels(panel.places.len())
        .x_label_formatter(&place)
        .draw()?;
    for (line, colour) in panel.lines.iter().zip(COLOURS.iter().cycle()) {
        let points = || line.values.iter().copied().enumerate();
        let key = move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2));
        chart
            .draw_series(LineSeries::new(points(), colour.stroke_width(2)))?
            .label(&line.label)
            .legend(key);
        chart.draw_series(points().map(|point| Circle::new(point, POINT, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reach_of_lines_leaves_out_what_a_logarithm_has_no_place_for() {
        let lines = [Line::new("a", [0.0, 3.0]), Line::new("b", [9.0])];
        assert_eq!(reach(&lines), (3.0, 9.0));
        assert!(reach(&[]).1 > 0.0);
    }

    #[test]
    fn a_drawing_names_its_lines_and_places() {
        let panel = |scale| Panel {
            title: "drained",
            unit: "tasks/s",
            along: "processes",
            places: vec!["1".into(), "2".into(), "4".into()],
            scale,
            lines: vec![Line::new("redis", [70_000.0, 81_000.0, 79_000.0])],
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.svg");
        draw(&[panel(Scale::Linear), panel(Scale::Logarithmic)], &file).unwrap();
        let drawn = std::fs::read_to_string(&file).unwrap();
        for word in ["drained", "tasks/s", "processes", "redis", "\n4\n"] {
            assert!(drawn.contains(word), "{word} is not in {drawn}");
        }
    }
}
