//! The words of the macro: each mistake with `#[task_worker]` gives one error, which points at it
//! and says what to write.
//!
//! `ui` has one file per mistake, named for it, with the compiler's output beside it. The macro
//! runs here without a compiler, on the tokens of the file. Its messages and where each begins are
//! compared with the `error:` and `-->` lines of the output, and how far each is underlined with
//! the carets. What only a compiler sees is in `tests/compiler`.
//!
//! With the feature `soak` the compiler reads the same files, and its whole output is compared.
//! After a change of words write them anew with
//! `TRYBUILD=overwrite cargo test -p delayq-tests --features soak --test ui`, and read them.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, LineColumn, Span, TokenStream, TokenTree};
use syn::{LitStr, Macro, MacroDelimiter};

use macros::{expand, name, parse};

/// The sources of delayq-macros, which as a library can be used by the compiler alone.
#[path = "../delayq-macros/src"]
mod macros {
    pub(super) mod expand;
    pub(super) mod name;
    pub(super) mod parse;
}

/// An error, as the compiler shows it.
#[derive(Debug, Eq, PartialEq)]
struct Shown {
    message: String,
    /// From 1, as an editor counts.
    line: usize,
    column: usize,
    /// Characters below which there is a caret.
    underlined: usize,
}

#[test]
fn the_macro_points_at_each_mistake_and_says_what_to_write() {
    let cases = cases();
    // Some 30 more are in `tests/compiler`.
    assert!(cases.len() >= 110, "{} cases", cases.len());
    let wrong: Vec<_> = cases.iter().filter_map(|case| compared(case)).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[cfg(feature = "soak")]
#[test]
fn one_mistake_gives_one_error_of_the_compiler() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_source = |path: &PathBuf| path.extension().is_some_and(|found| found == "rs");
    let mut cases: Vec<_> = paths.filter(is_source).collect();
    cases.sort();
    cases
}

/// What differs in this case.
fn compared(case: &Path) -> Option<String> {
    let expected =
        shown_by_the_compiler(&fs::read_to_string(case.with_extension("stderr")).unwrap());
    let source = fs::read_to_string(case).unwrap();
    let file: TokenStream = source.parse().unwrap();
    let all: Vec<_> = file.into_iter().collect();
    let mut found = Vec::new();
    for used in uses(&all) {
        let written = expand::task_worker(used.options.clone(), used.item.clone());
        // Beside its error stands an item that can be compiled.
        match syn::parse2::<syn::File>(written) {
            Ok(file) => found.extend(errors(&file, &used, &all)),
            Err(error) => return Some(format!("{}: {error}", case.display())),
        }
    }
    let is_same = expected.len() == found.len()
        && !expected.is_empty()
        && expected
            .iter()
            .zip(&found)
            .all(|(one, two)| two.contains(one));
    (!is_same).then(|| {
        format!(
            "{}: expected {expected:#?}\nfound {found:#?}",
            case.display()
        )
    })
}

/// The errors of an output of the compiler.
fn shown_by_the_compiler(output: &str) -> Vec<Shown> {
    let mut lines = output.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let Some(message) = line.strip_prefix("error: ") else {
            continue;
        };
        let place = lines.next().unwrap().rsplit(':');
        let place: Vec<usize> = place.take(2).map(|part| part.parse().unwrap()).collect();
        let carets = lines.find(|line| line.contains('^')).unwrap();
        found.push(Shown {
            message: message.to_owned(),
            line: place[1],
            column: place[0],
            underlined: carets.matches('^').count(),
        });
    }
    found
}

/// One use of the attribute.
struct Use {
    /// Its first and last character.
    attribute: (LineColumn, LineColumn),
    options: TokenStream,
    item: TokenStream,
}

/// The uses of the attribute, with what the compiler gives to the macro: what stands in its
/// parentheses, and the item below it.
fn uses(tokens: &[TokenTree]) -> Vec<Use> {
    let mut found = Vec::new();
    let mut rest = tokens;
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (TokenTree::Punct(hash), [TokenTree::Group(attribute), below @ ..])
                if hash.as_char() == '#' && is_ours(attribute) =>
            {
                let (item, after) = below.split_at(length_of_item(below));
                found.push(Use {
                    attribute: (hash.span().start(), attribute.span().end()),
                    options: options(attribute),
                    item: item.iter().cloned().collect(),
                });
                rest = after;
            }
            (TokenTree::Group(group), _) => {
                let inner: Vec<_> = group.stream().into_iter().collect();
                found.extend(uses(&inner));
            }
            _ => {}
        }
    }
    found
}

fn is_ours(attribute: &Group) -> bool {
    let names = attribute.stream().into_iter();
    let names = names.take_while(|token| !matches!(token, TokenTree::Group(_)));
    names
        .last()
        .is_some_and(|name| name.to_string() == "task_worker")
}

fn options(attribute: &Group) -> TokenStream {
    match attribute.stream().into_iter().last() {
        Some(TokenTree::Group(options)) => options.stream(),
        _ => TokenStream::new(),
    }
}

/// Tokens up to the end of the first item: its block or its semicolon.
fn length_of_item(tokens: &[TokenTree]) -> usize {
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    };
    tokens.iter().position(is_end).expect("an item ends") + 1
}

/// The errors that the macro wrote. Each has two forms: a `Span` that was joined is as long as the
/// item here, and in a stable compiler no longer than its first token.
fn errors(file: &syn::File, used: &Use, all: &[TokenTree]) -> Vec<[Shown; 2]> {
    let calls = file.items.iter().filter_map(|item| match item {
        syn::Item::Macro(item) => Some(&item.mac),
        _ => None,
    });
    let errors = calls.filter(|call| call.path.segments.last().unwrap().ident == "compile_error");
    let shown = |call: &Macro| {
        let text: LitStr = syn::parse2(call.tokens.clone()).unwrap();
        let MacroDelimiter::Brace(brace) = &call.delimiter else {
            panic!("syn writes braces");
        };
        let (start, end) = match call.path.segments.last().unwrap().ident.span() {
            span if is_call_site(span) => used.attribute,
            span => (span.start(), brace.span.join().end()),
        };
        let token_ends = end_of_token_at(all, start).unwrap_or(end);
        [end, token_ends].map(|end| Shown {
            message: text.value(),
            line: start.line,
            column: start.column + 1,
            underlined: if start.line == end.line {
                end.column - start.column
            } else {
                0
            },
        })
    };
    errors.map(shown).collect()
}

/// Whether `span` is of no token of the file: the place of the attribute as a whole.
fn is_call_site(span: Span) -> bool {
    let nowhere = Span::call_site();
    (span.start(), span.end()) == (nowhere.start(), nowhere.end())
}

fn end_of_token_at(tokens: &[TokenTree], start: LineColumn) -> Option<LineColumn> {
    tokens.iter().find_map(|token| match token {
        token if token.span().start() == start => Some(token.span().end()),
        TokenTree::Group(group) => {
            let inner: Vec<_> = group.stream().into_iter().collect();
            end_of_token_at(&inner, start)
        }
        _ => None,
    })
}
