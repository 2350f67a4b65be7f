//! Small pictures drawn by the server, visible without scripts.

use std::fmt::Write as _;

/// The width of a sparkline: one unit a minute.
const MINUTES: usize = 60;
/// The height of a sparkline.
const HEIGHT: u64 = 20;
/// The height of bars.
const BAR_HEIGHT: u64 = 60;

/// The path data (`d`) of a line and the area below it, for 60 numbers of at least 0. The picture
/// is 60 x 22 units.
pub(crate) fn spark(numbers: &[u64]) -> String {
    let most = numbers.iter().copied().max().unwrap_or(0).max(1);
    let mut path = String::new();
    for (nth, number) in numbers.iter().take(MINUTES).enumerate() {
        let y = HEIGHT + 1 - scaled(*number, most, HEIGHT);
        let _ = write!(path, "{}{nth} {y}", if nth == 0 { 'M' } else { 'L' });
    }
    path
}

/// One bar of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    pub(crate) x: u64,
    pub(crate) y: u64,
    pub(crate) height: u64,
    pub(crate) title: String,
}

/// Bars of 10 units each, in a picture 60 units high. A bar that is not zero is always visible.
pub(crate) fn bars(numbers: impl IntoIterator<Item = (u64, String)>) -> Vec<Bar> {
    let numbers: Vec<_> = numbers.into_iter().collect();
    let most = numbers.iter().map(|(number, _)| *number).max();
    let most = most.unwrap_or(0).max(1);
    let bars = numbers.into_iter().zip(0..).map(|((number, title), nth)| {
        let height = scaled(number, most, BAR_HEIGHT).max(u64::from(number > 0));
        Bar {
            x: nth * 10,
            y: BAR_HEIGHT - height,
            height,
            title,
        }
    });
    bars.collect()
}

fn scaled(number: u64, most: u64, height: u64) -> u64 {
    let scaled = u128::from(number) * u128::from(height) / u128::from(most.max(1));
    u64::try_from(scaled).unwrap_or(height).min(height)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_number_is_as_high_as_the_picture_and_the_smallest_can_be_seen() {
        assert_eq!(spark(&[0, 5, 10]), "M0 21L1 11L2 1");
        assert_eq!(spark(&[]), "");
        let drawn = bars([
            (0, String::new()),
            (1, String::new()),
            (u64::MAX, String::new()),
        ]);
        let heights: Vec<_> = drawn.iter().map(|bar| (bar.x, bar.y, bar.height)).collect();
        assert_eq!(heights, [(0, 60, 0), (10, 59, 1), (20, 0, 60)]);
    }
}
