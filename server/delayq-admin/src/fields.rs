//! The fields of a query or a form.

use std::fmt;

/// Names and values, decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    pairs: Vec<(String, String)>,
}

impl Fields {
    /// Parses `a=1&b=2`. Invalid UTF-8 becomes replacement characters.
    pub(crate) fn read(encoded: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(encoded).into_owned().collect();
        Self { pairs }
    }

    /// The first value of a field without surrounding blanks; empty if absent.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.raw(name).trim()
    }

    /// The first value of a field, unchanged.
    pub(crate) fn raw(&self, name: &str) -> &str {
        let found = self.pairs.iter().find(|(own, _)| own == name);
        found.map_or("", |(_, value)| value)
    }

    /// All values of a field that can be repeated, unchanged.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let found = self.pairs.iter().filter(move |(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The value of a field, if it is not empty.
    pub(crate) fn some(&self, name: &str) -> Option<&str> {
        Some(self.get(name)).filter(|value| !value.is_empty())
    }

    /// The value of a field as a number, if it is one.
    pub(crate) fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.get(name).parse().ok()
    }
}

/// The text with the line breaks that it had before a browser made each of them `\r\n`.
pub(crate) fn with_own_breaks(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// A path with its query, such as `/task?type=mail.send&id=order-42`.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    text: String,
    has_query: bool,
}

impl Link {
    /// A path of the page.
    pub(crate) fn to(path: &str) -> Self {
        let text = path.to_owned();
        Self {
            text,
            has_query: false,
        }
    }

    /// Adds a field. A field without a value is left out.
    pub(crate) fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        let value = value.to_string();
        if value.is_empty() {
            return self;
        }
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair(name, &value);
        self.text.push_str(&query.finish());
        self
    }

    /// The link without one of its fields.
    pub(crate) fn without(self, name: &str) -> Self {
        let (path, query) = self.text.split_once('?').unwrap_or((&self.text, ""));
        let fields = form_urlencoded::parse(query.as_bytes());
        let kept = fields.filter(|(own, _)| own != name);
        kept.fold(Self::to(path), |link, (name, value)| {
            link.with(&name, value)
        })
    }

    /// A path of the page with its query, as a form brings it back; `None` unless it stays on this
    /// site.
    pub(crate) fn back(text: &str) -> Option<Self> {
        let is_own = text.starts_with('/') && !text.starts_with("//");
        let is_plain = text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        (is_own && is_plain).then(|| Self {
            text: text.to_owned(),
            has_query: text.contains('?'),
        })
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_back_stays_on_this_site() {
        for own in ["/", "/tasks?type=a&state=dead"] {
            assert_eq!(Link::back(own).unwrap().to_string(), own);
        }
        for foreign in [
            "",
            "//evil.example",
            "https://evil.example",
            "/\\evil",
            "/a\nb",
            "/a b",
        ] {
            assert!(Link::back(foreign).is_none(), "{foreign}");
        }
        let link = Link::to("/a")
            .with("b", 1)
            .with("sort", "x")
            .with("c", "d e");
        assert_eq!(link.without("sort").to_string(), "/a?b=1&c=d+e");
    }
}
