//! The form of the output: tables for people, documents for programs.

use std::ffi::OsString;
use std::io;

use clap::ValueEnum;
use serde::Serialize;

use crate::text::json;

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Tables that fit a terminal of 80 columns.
    #[default]
    Table,
    /// Tables with all columns.
    Wide,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

impl OutputFormat {
    /// True for a form that programs read.
    pub(crate) fn is_document(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }

    /// A value as a whole document, with a line break at its end.
    pub(crate) fn document(self, value: &impl Serialize) -> io::Result<String> {
        match self {
            Self::Yaml => yaml(value),
            _ => Ok(format!("{}\n", json(&serde_json::to_string_pretty(value)?))),
        }
    }

    /// A value as one of several documents: a line of JSON, or YAML after a separator.
    pub(crate) fn streamed(self, value: &impl Serialize) -> io::Result<String> {
        match self {
            Self::Yaml => Ok(format!("---\n{}", yaml(value)?)),
            _ => Ok(format!("{}\n", json(&serde_json::to_string(value)?))),
        }
    }

    /// The format that a command line asks for, if it cannot be parsed as a whole.
    pub(crate) fn asked(words: impl Iterator<Item = OsString>) -> Self {
        let words: Vec<_> = words
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let is = |wanted: Self| {
            let name = wanted.to_possible_value();
            let name = name.as_ref().map_or("", |value| value.get_name());
            let after = |pair: &[String]| {
                matches!(pair, [option, value]
                    if matches!(option.as_str(), "-o" | "--output") && value == name)
            };
            let joined = [
                format!("-o{name}"),
                format!("-o={name}"),
                format!("--output={name}"),
            ];
            words.windows(2).any(after) || words.iter().any(|word| joined.contains(word))
        };
        match (words.iter().any(|word| word == "--json"), is(Self::Yaml)) {
            (true, _) => Self::Json,
            (_, true) => Self::Yaml,
            _ if is(Self::Json) => Self::Json,
            _ => Self::Table,
        }
    }
}

fn yaml(value: &impl Serialize) -> io::Result<String> {
    let mut text = serde_saphyr::to_string(value).map_err(io::Error::other)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_known_even_if_the_rest_is_wrong() {
        let of = |line: &str| OutputFormat::asked(line.split(' ').map(OsString::from));
        assert_eq!(of("delayq lisst --json"), OutputFormat::Json);
        assert_eq!(of("delayq -o json lisst"), OutputFormat::Json);
        assert_eq!(of("delayq -oyaml lisst"), OutputFormat::Yaml);
        assert_eq!(of("delayq --output=yaml lisst"), OutputFormat::Yaml);
        assert_eq!(of("delayq lisst -o wide"), OutputFormat::Table);
    }

    #[test]
    fn yaml_holds_what_json_holds_and_steers_no_terminal() {
        let value = serde_json::json!({"id": "no", "n": 1, "error": "a\u{9b}2J\n: b", "at": null});
        let text = OutputFormat::Yaml.document(&value).unwrap();
        assert!(!text.contains('\u{9b}'), "{text:?}");
        assert!(text.contains("\"no\"") || text.contains("'no'"), "{text}");
        let streamed = OutputFormat::Yaml.streamed(&value).unwrap();
        assert!(streamed.starts_with("---\n"));
    }
}
