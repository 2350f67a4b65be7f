//! A picture of a run: how many tasks started, and how late, through the faults.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::history::{History, NEVER, Step};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const SIZE: (u32, u32) = (1_000, 640);
const FONT: &str = "sans-serif";
/// Room for the labels of an axis, the same in both charts, so that they stand one above the other.
const AXIS: u32 = 64;
/// What is earlier is drawn as late as this: a logarithmic scale has no zero.
const LEAST_MS: f64 = 1.0;
const LINES: [(&str, RGBColor, u32); 3] = [
    ("max", RGBColor(214, 39, 40), 1),
    ("p99", RGBColor(255, 127, 14), 2),
    ("p50", RGBColor(31, 119, 180), 2),
];

/// The starts within a short while.
#[derive(Clone, Debug, Default, PartialEq)]
struct Bin {
    /// How late each was, in milliseconds; sorted.
    late_ms: Vec<f64>,
}

impl Bin {
    /// So many of 100 were not later; nothing without a start.
    fn percentile(&self, percentile: usize) -> Option<f64> {
        let last = self.late_ms.len().checked_sub(1)?;
        self.late_ms.get(last * percentile / 100).copied()
    }
}

/// A run, cut into bins.
#[derive(Debug)]
struct Picture<'a> {
    history: &'a History,
    bins: Vec<Bin>,
    bin: Duration,
    /// When the first worker started; monotonic.
    origin_ns: u64,
}

/// Draws `history` into an SVG: starts a second above, lateness below, both by spans of `bin`;
/// faults are shaded.
///
/// # Errors
/// When the file cannot be written, or no worker has started in the run.
pub fn draw(history: &History, bin: Duration, file: &Path) -> io::Result<()> {
    let picture = Picture::new(history, bin);
    let picture = picture.ok_or_else(|| io::Error::other("no worker has started in this run"))?;
    picture
        .draw(file)
        .map_err(|error| io::Error::other(error.to_string()))
}

impl<'a> Picture<'a> {
    fn new(history: &'a History, bin: Duration) -> Option<Self> {
        let mut starts: Vec<_> = starts(history).collect();
        starts.sort_by_key(|(at_ns, _)| *at_ns);
        let (origin_ns, _) = *starts.first()?;
        let length_ns = u64::try_from(bin.as_nanos()).unwrap_or(u64::MAX).max(1);
        let mut bins = Vec::new();
        for (at_ns, late_ms) in starts {
            let place = usize::try_from((at_ns - origin_ns) / length_ns).ok()?;
            bins.resize(bins.len().max(place + 1), Bin::default());
            bins.get_mut(place)?.late_ms.push(late_ms);
        }
        for bin in &mut bins {
            bin.late_ms.sort_by(f64::total_cmp);
        }
        Some(Self {
            history,
            bins,
            bin,
            origin_ns,
        })
    }

    fn draw(&self, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::new(file, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let area = area.titled("Tasks started, and how late, through faults", (FONT, 20))?;
        let area = area.titled(&self.subtitle(), (FONT, 13))?;
        let area = area.margin(8, 8, 8, 16);
        let (above, below) = area.split_vertically(280);
        self.rates(&above)?;
        self.lateness(&below)?;
        area.present()?;
        Ok(())
    }

    fn subtitle(&self) -> String {
        let starts: usize = self.bins.iter().map(|bin| bin.late_ms.len()).sum();
        let faults = self.history.faults.len();
        let seed = self.history.plan.as_ref().map_or(0, |plan| plan.seed);
        let ms = self.bin.as_millis();
        format!(
            "{starts} starts, {faults} faults (shaded while they last), seed {seed}; {ms} ms a bar"
        )
    }

    fn seconds(&self, at_ns: u64) -> f64 {
        let begin = i128::from(at_ns) - i128::from(self.origin_ns);
        #[allow(
            clippy::cast_precision_loss,
            reason = "a pixel is far longer than 1 us"
        )]
        let seconds = begin as f64 / 1e9;
        seconds
    }

    /// Where bin number `index` begins, in seconds.
    fn begin(&self, index: usize) -> f64 {
        #[allow(
            clippy::cast_precision_loss,
            reason = "there are far fewer than 2^52 bins"
        )]
        let index = index as f64;
        index * self.bin.as_secs_f64()
    }

    fn span(&self) -> Range<f64> {
        0.0..self.begin(self.bins.len())
    }

    fn rate(&self, bin: &Bin) -> f64 {
        #[allow(
            clippy::cast_precision_loss,
            reason = "there are far fewer than 2^52 starts"
        )]
        let starts = bin.late_ms.len() as f64;
        starts / self.bin.as_secs_f64()
    }

    fn rates(&self, area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
        let most = self.bins.iter().map(|bin| self.rate(bin));
        // Above the bars is room for the names of the faults.
        let top = most.fold(1.0, f64::max) * 1.7;
        let mut chart = ChartBuilder::on(area)
            .x_label_area_size(24)
            .y_label_area_size(AXIS)
            .build_cartesian_2d(self.span(), 0.0..top)?;
        chart
            .configure_mesh()
            .y_desc("tasks started a second")
            .light_line_style(TRANSPARENT)
            .disable_x_mesh()
            .x_label_formatter(&|_| String::new())
            .y_label_formatter(&|rate| format!("{rate:.0}"))
            .label_style((FONT, 13))
            .draw()?;
        let bars = self.bins.iter().enumerate().map(|(index, bin)| {
            let corners = [
                (self.begin(index), 0.0),
                (self.begin(index + 1), self.rate(bin)),
            ];
            Rectangle::new(corners, RGBColor(127, 127, 127).mix(0.7).filled())
        });
        chart.draw_series(bars)?;
        self.shade(&mut chart, 0.0..top)?;
        let names = self.faults().map(|(begin, end, kind)| {
            let font = (FONT, 13).into_font().transform(FontTransform::Rotate90);
            let place = (f64::midpoint(begin, end), top * 0.99);
            Text::new(kind.to_owned(), place, font)
        });
        chart.draw_series(names)?;
        Ok(())
    }

    fn lateness(&self, area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
        let latest = self.bins.iter().filter_map(|bin| bin.percentile(100));
        // Above the lines is room for their names.
        let top = latest.fold(10.0, f64::max) * 30.0;
        let mut chart = ChartBuilder::on(area)
            .x_label_area_size(44)
            .y_label_area_size(AXIS)
            .build_cartesian_2d(self.span(), (LEAST_MS..top).log_scale())?;
        chart
            .configure_mesh()
            .x_desc("seconds since the first start")
            .y_desc("lateness, ms (log scale)")
            .light_line_style(TRANSPARENT)
            .label_style((FONT, 13))
            .x_label_formatter(&|seconds| format!("{seconds:.0}"))
            .y_label_formatter(&|ms| format!("{ms:.0}"))
            .draw()?;
        self.shade(&mut chart, LEAST_MS..top)?;
        for (name, colour, width) in LINES {
            let percentile = name.trim_start_matches('p').parse().unwrap_or(100);
            let style = colour.stroke_width(width);
            let key = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style);
            let lines = self.lines(percentile).into_iter();
            let drawn = lines.map(|line| PathElement::new(line, style));
            chart.draw_series(drawn)?.label(name).legend(key);
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .label_font((FONT, 13))
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.4))
            .draw()?;
        Ok(())
    }

    /// Steps through the bins; where nothing started, there is no line.
    fn lines(&self, percentile: usize) -> Vec<Vec<(f64, f64)>> {
        let mut lines = vec![Vec::new()];
        for (index, bin) in self.bins.iter().enumerate() {
            match (bin.percentile(percentile), lines.last_mut()) {
                (Some(late_ms), Some(line)) => {
                    let late_ms = late_ms.max(LEAST_MS);
                    line.push((self.begin(index), late_ms));
                    line.push((self.begin(index + 1), late_ms));
                }
                _ => lines.push(Vec::new()),
            }
        }
        lines.retain(|line| !line.is_empty());
        lines
    }

    fn shade<Y>(
        &self,
        chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<RangedCoordf64, Y>>,
        height: Range<f64>,
    ) -> Result<(), Box<dyn std::error::Error>>
    where
        Y: Ranged<ValueType = f64>,
    {
        let mut kinds = BTreeMap::new();
        for (begin, end, kind) in self.faults() {
            let next = kinds.len();
            let colour = Palette99::pick(*kinds.entry(kind).or_insert(next)).mix(0.25);
            let corners = [(begin, height.start), (end, height.end)];
            let edge = [(begin, height.start), (begin, height.end)];
            chart.draw_series([Rectangle::new(corners, colour.filled())])?;
            // A fault without length is a line.
            chart.draw_series([PathElement::new(edge, colour)])?;
        }
        Ok(())
    }

    /// Begin, end and kind of each fault within the picture.
    fn faults(&self) -> impl Iterator<Item = (f64, f64, &str)> {
        let Range { start, end } = self.span();
        let spans = self.history.faults.iter().map(move |fault| {
            let ended = match fault.ended_ns {
                NEVER => end,
                ended => self.seconds(ended),
            };
            let begun = self.seconds(fault.begun_ns);
            (begun.max(start), ended.min(end), fault.kind.as_str())
        });
        spans.filter(|(begin, end, _)| begin <= end)
    }
}

/// When workers started, and how late that was, in milliseconds.
fn starts(history: &History) -> impl Iterator<Item = (u64, f64)> {
    history.rows.iter().filter_map(|row| {
        let Step::Start { due, .. } = row.step else {
            return None;
        };
        let started_us = history.clock.micros(row.from);
        #[allow(
            clippy::cast_precision_loss,
            reason = "a lateness is far below 2^52 us"
        )]
        let late_ms = (started_us - due.as_millis() * 1_000) as f64 / 1e3;
        Some((row.from, late_ms))
    })
}

#[cfg(test)]
mod tests {
    use delayq_core::Timestamp;

    use super::*;
    use crate::event::{Event, Explains, Phase, Target, What};
    use crate::history::HistoryBuilder;

    /// Starts at these milliseconds of the monotonic clock, so late, and a fault from 300 to 900
    /// ms.
    fn history(starts: &[(u64, i64)]) -> History {
        let mut builder = HistoryBuilder::default();
        let mut add = |at_ms: u64, what| {
            let at_ns = at_ms * 1_000_000;
            builder.add("w1", Event { at_ns, what });
        };
        let (real_ns, spread_ns) = (0, 0);
        add(0, What::Clock { real_ns, spread_ns });
        for (number, (at_ms, late_ms)) in starts.iter().enumerate() {
            let start = What::WorkerStart {
                task: format!("mail/{number}"),
                worker: String::new(),
                serves: String::new(),
                attempt: 1,
                fence: 1,
                due: Timestamp::from_millis(at_ms.cast_signed() - late_ms),
                digest: 0,
                headers: None,
            };
            add(*at_ms, start);
        }
        for (at_ms, phase) in [(300, Phase::Begun), (900, Phase::Ended)] {
            let fault = What::Fault {
                id: 1,
                kind: "kill-redis".to_owned(),
                target: Target::Store,
                phase,
                explains: vec![Explains::LostLock],
            };
            add(at_ms, fault);
        }
        builder.finish()
    }

    #[test]
    fn starts_are_put_together_by_spans_and_a_span_without_any_breaks_the_line() {
        let history = history(&[(100, 1), (150, 9), (199, 4), (1_100, 500)]);
        let picture = Picture::new(&history, Duration::from_millis(250)).unwrap();
        let counts: Vec<_> = picture.bins.iter().map(|bin| bin.late_ms.len()).collect();
        assert_eq!(counts, [3, 0, 0, 0, 1]);
        assert_eq!(picture.rate(&picture.bins[0]).to_bits(), 12.0_f64.to_bits());
        assert_eq!(picture.bins[0].percentile(50), Some(4.0));
        assert_eq!(picture.bins[0].percentile(100), Some(9.0));
        let lines = picture.lines(100);
        assert_eq!(
            lines,
            [[(0.0, 9.0), (0.25, 9.0)], [(1.0, 500.0), (1.25, 500.0)]]
        );
        let faults: Vec<_> = picture.faults().collect();
        assert_eq!(faults, [(0.2, 0.8, "kill-redis")]);
    }

    #[test]
    fn a_picture_names_its_axes_and_its_faults_and_an_empty_run_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let (file, bin) = (folder.path().join("run.svg"), Duration::from_millis(250));
        draw(&history(&[(100, 1), (1_100, 500)]), bin, &file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        for words in [
            "kill-redis",
            "lateness, ms (log scale)",
            "p99",
            "2 starts, 1 faults",
        ] {
            assert!(text.contains(words), "no {words:?} in {text}");
        }
        assert!(draw(&history(&[]), bin, &file).is_err());
    }
}
