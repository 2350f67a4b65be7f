use std::path::PathBuf;

use lexopt::prelude::*;

const HELP: &str = "\
Cancels orders that are not paid in time: a day of a shop, replayed

Usage: order_timeout [OPTIONS] [EVENTS]

Arguments:
  [EVENTS]         The events, one JSON object a line; `-` is stdin [default: the day that comes with the example]

Options:
      --speed <N>  How many seconds of the shop pass in one real second; 1 is real time [default: 1200]
      --url <URL>  Where tasks are kept [env: DELAYQ_URL=] [default: sqlite:order_timeout.sqlite]
  -h, --help       Print help
";

/// What the command line asks for.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) events: PathBuf,
    /// Seconds of the shop in one real second.
    pub(crate) speed: f64,
    pub(crate) url: String,
}

impl Args {
    /// Reads the command line; with `--help` or a mistake in it, ends the process.
    pub(crate) fn parse() -> Self {
        match Self::read(lexopt::Parser::from_env()) {
            Ok(Some(args)) => args,
            Ok(None) => {
                print!("{HELP}");
                std::process::exit(0)
            }
            Err(error) => {
                eprintln!("error: {error}\n\nFor more information, try '--help'.");
                std::process::exit(2)
            }
        }
    }

    /// `None` where help is asked for.
    fn read(mut parser: lexopt::Parser) -> Result<Option<Self>, lexopt::Error> {
        let mut events = None;
        let mut speed = 1200.0;
        let mut url = std::env::var_os("DELAYQ_URL")
            .map(ValueExt::string)
            .transpose()?;
        while let Some(arg) = parser.next()? {
            match arg {
                Long("speed") => speed = parser.value()?.parse_with(parse_speed)?,
                Long("url") => url = Some(parser.value()?.string()?),
                Short('h') | Long("help") => return Ok(None),
                Value(path) if events.is_none() => events = Some(PathBuf::from(path)),
                _ => return Err(arg.unexpected()),
            }
        }
        let own_day = concat!(env!("CARGO_MANIFEST_DIR"), "/data/shop_day.jsonl");
        Ok(Some(Self {
            events: events.unwrap_or_else(|| own_day.into()),
            speed,
            url: url.unwrap_or_else(|| "sqlite:order_timeout.sqlite".to_owned()),
        }))
    }
}

fn parse_speed(text: &str) -> Result<f64, &'static str> {
    let speed = text.parse().ok();
    let fits = speed.filter(|speed| (0.001..=1e6).contains(speed));
    fits.ok_or("the speed is a number from 0.001 to 1000000")
}
