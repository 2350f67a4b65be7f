//! What the rules read in Rust code: production lines, used modules, impl blocks, parameters.

use crate::tree::File;

/// The code without comments, up to the file's tests: those may use what they like.
pub(crate) fn production(file: &File) -> String {
    let end = file.text.find("#[cfg(test)]\nmod ");
    let text = &file.text[..end.unwrap_or(file.text.len())];
    let production = File::new(&file.path, text);
    let lines: Vec<_> = production.code().map(|(_, line)| line).collect();
    lines.join("\n")
}

/// Whether the file holds tests alone.
pub(crate) fn is_test(file: &File) -> bool {
    let part_of_tests = |part: &str| matches!(part, "tests" | "tests.rs" | "fuzz.rs" | "benches");
    file.path.split('/').any(part_of_tests)
}

/// The modules that the code names, as paths within the crate, with their lines. `own` is the path
/// of the file's own module.
pub(crate) fn used_modules(code: &str, own: &[&str]) -> Vec<(usize, String)> {
    let mut used = Vec::new();
    for (start, _) in code.match_indices("crate::") {
        if code[..start].ends_with(['$', '_']) {
            continue;
        }
        let line = code[..start].matches('\n').count() + 1;
        let rest = &code[start + "crate::".len()..];
        used.extend(first_names(rest).into_iter().map(|name| (line, name)));
    }
    for (start, _) in code.match_indices("super::") {
        if code[..start].ends_with("super::") || code[..start].ends_with("in ") {
            continue;
        }
        let line = code[..start].matches('\n').count() + 1;
        let (mut rest, mut depth) = (&code[start..], 0);
        while let Some(inner) = rest.strip_prefix("super::") {
            (rest, depth) = (inner, depth + 1);
        }
        let Some(parents) = own.len().checked_sub(depth) else {
            continue;
        };
        match own.first().filter(|_| parents > 0) {
            // Still within one module of the crate's root.
            Some(module) => used.push((line, (*module).to_owned())),
            None => used.extend(first_names(rest).into_iter().map(|name| (line, name))),
        }
    }
    used
}

/// A path in code: `use a::{b, c as d}` are two.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) names: Vec<String>,
    /// The name that it is given.
    pub(crate) alias: Option<String>,
}

/// The paths of `use`, and those that begin with `crate` or `super` elsewhere.
pub(crate) fn paths(code: &str) -> Vec<Path> {
    let mut found = Vec::new();
    for (start, begin) in [("use ", 4), ("crate::", 0), ("super::", 0)]
        .into_iter()
        .flat_map(|(word, skip)| {
            code.match_indices(word)
                .map(move |(start, _)| (start, start + skip))
        })
    {
        let before = code[..start].chars().next_back();
        if before.is_none_or(|c| c.is_whitespace() || "([{<&!,|".contains(c)) {
            expand(&code[begin..], &mut Vec::new(), &mut found);
        }
    }
    found
}

/// Reads one tree of paths; what stands behind it.
fn expand<'a>(text: &'a str, above: &mut Vec<String>, found: &mut Vec<Path>) -> &'a str {
    let depth = above.len();
    let mut rest = text.trim_start();
    loop {
        if let Some(list) = rest.strip_prefix('{') {
            rest = list.trim_start();
            while !rest.is_empty() && !rest.starts_with('}') {
                let behind = expand(rest, above, found).trim_start();
                let behind = behind.strip_prefix(',').unwrap_or(behind).trim_start();
                if behind.len() == rest.len() {
                    break;
                }
                rest = behind;
            }
            above.truncate(depth);
            return rest.strip_prefix('}').unwrap_or(rest);
        }
        let name = first_word(rest);
        if name.is_empty() {
            above.truncate(depth);
            return rest;
        }
        rest = &rest[name.len()..];
        above.push(name);
        let Some(more) = rest.strip_prefix("::") else {
            break;
        };
        rest = more.trim_start();
    }
    let alias = rest.trim_start().strip_prefix("as ").map(first_word);
    if let Some(alias) = &alias {
        rest = rest.trim_start()["as ".len()..].trim_start();
        rest = &rest[alias.len()..];
    }
    let mut names = above.clone();
    if names.last().is_some_and(|name| name == "self") {
        names.pop();
    }
    found.push(Path { names, alias });
    above.truncate(depth);
    rest
}

/// The first name of each path in `a::b` or `{a::{b, c}, d::e}`.
fn first_names(text: &str) -> Vec<String> {
    let Some(list) = text.strip_prefix('{') else {
        return vec![first_word(text)];
    };
    let mut names = Vec::new();
    let (mut depth, mut begin) = (0, 0);
    for (at, symbol) in list.char_indices() {
        match symbol {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(first_word(list[begin..at].trim()));
                begin = at + 1;
                if symbol == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

pub(crate) fn first_word(text: &str) -> String {
    let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
    text.chars().take_while(is_word).collect()
}

/// The types of inherent `impl` blocks, with their lines.
pub(crate) fn inherent_impls(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let Some(rest) = line.strip_prefix("impl") else {
            continue;
        };
        let rest = without_generics(rest).trim_start();
        let name = first_word(rest.rsplit("::").next().unwrap_or(rest));
        let header: String = code.lines().skip(index).take(3).collect();
        let header = header.split('{').next().unwrap_or_default();
        if !name.is_empty() && !header.contains(" for ") {
            found.push((index + 1, first_word(rest)));
        }
    }
    found
}

/// `text` behind the `<..>` that it may begin with.
fn without_generics(text: &str) -> &str {
    let mut depth = 0;
    for (at, symbol) in text.char_indices() {
        match symbol {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { text } else { &text[at + 1..] };
        }
    }
    text
}

/// The parameter lists of the functions, with their lines.
pub(crate) fn parameters(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("fn ") {
        let is_word = code[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let rest = &code[start..];
        let name = first_word(&rest["fn ".len()..]);
        let Some(open) = rest.find('(').filter(|_| !is_word && !name.is_empty()) else {
            continue;
        };
        let line = code[..start].matches('\n').count() + 1;
        let mut depth = 0;
        let end = rest[open..].char_indices().find(|(_, symbol)| {
            depth += match symbol {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            depth == 0
        });
        if let Some((end, _)) = end {
            found.push((line, &rest[open + 1..open + end]));
        }
    }
    found
}

#[test]
fn modules_are_read_from_every_form_of_path() {
    let used = |code: &str, own: &[&str]| -> Vec<String> {
        let used = used_modules(code, own).into_iter();
        used.map(|(_, name)| name).collect()
    };
    assert_eq!(used("use crate::a::B;", &["x"]), ["a"]);
    assert_eq!(used("use crate::{a::B, c::{d, E}};", &["x"]), ["a", "c"]);
    assert_eq!(used("use super::a::B;", &["x"]), ["a"]);
    assert_eq!(used("use super::B;", &["x", "y"]), ["x"]);
    assert_eq!(used("use super::super::a::B;", &["x", "y"]), ["a"]);
    assert_eq!(used("pub(in crate::a) fn b() {}", &["x"]), ["a"]);
}

#[test]
fn impl_blocks_of_types_are_told_from_those_of_traits() {
    let code = "impl A {\n}\nimpl<T: Into<U>> B<T> {\n}\nimpl C for A {\n}\nimpl<T> C\n    for B<T> {\n}\n";
    let names: Vec<_> = inherent_impls(code)
        .into_iter()
        .map(|(_, name)| name)
        .collect();
    assert_eq!(names, ["A", "B"]);
}

#[test]
fn parameters_end_where_their_list_does() {
    let code = "fn a(b: fn(u8) -> u8, c: (D, E)) -> F {}\nfn g<H: Fn(u8)>(i: H) {}";
    assert_eq!(parameters(code)[0], (1, "b: fn(u8) -> u8, c: (D, E)"));
}

#[test]
fn paths_are_read_as_the_trees_that_they_are() {
    let code = "use a::{b::{C, self}, d as e};\npub(crate) use super::f;\nlet g = crate::h::i(1);";
    let paths: Vec<_> = paths(code)
        .into_iter()
        .map(|path| (path.names.join("::"), path.alias))
        .collect();
    let plain = |path: &str| (path.to_owned(), None);
    let expected = [
        plain("a::b::C"),
        plain("a::b"),
        ("a::d".to_owned(), Some("e".to_owned())),
        plain("super::f"),
        plain("crate::h::i"),
        plain("super::f"),
    ];
    assert_eq!(paths, expected);
}
