//! Files used by pages: scripts and styles, embedded in the program.

use std::sync::LazyLock;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::said::hex;

/// The style sheet of the page, for pages of an application that shall look like it.
pub const SHEET: &str = include_str!("../assets/admin.css");

/// The script that applies the colours which a reader has chosen on the page, before anything is
/// drawn.
pub const THEME_SCRIPT: &str = include_str!("../assets/theme.js");

/// A file.
struct Asset {
    name: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

macro_rules! assets {
    ($($name:literal $content_type:ident),* $(,)?) => {
        [$(Asset {
            name: $name,
            content_type: $content_type,
            bytes: include_bytes!(concat!("../assets/", $name)),
        }),*]
    };
}

static ASSETS: [Asset; 9] = assets![
    "admin.css" STYLE,
    "uPlot.min.css" STYLE,
    "theme.js" SCRIPT,
    "page.js" SCRIPT,
    "charts.js" SCRIPT,
    "htmx.min.js" SCRIPT,
    "uPlot.min.js" SCRIPT,
    "htmx.LICENSE.txt" TEXT,
    "uPlot.LICENSE.txt" TEXT,
];

/// The hash of all files, which is part of their path. A new release thus has new paths.
pub(crate) static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for asset in &ASSETS {
        hash.update(asset.name.as_bytes());
        hash.update(asset.bytes);
    }
    let digest = hash.finalize();
    hex(digest.get(..8).unwrap_or_default())
});

/// Serves `/assets/HASH/NAME`. A page of an earlier release requests another hash; it gets the
/// current file, which is not cached.
pub(crate) fn serve(path: &str, headers: &HeaderMap) -> Response {
    let mut parts = path.trim_start_matches("/assets/").splitn(2, '/');
    let (hash, name) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return (StatusCode::NOT_FOUND, "no such file").into_response();
    };
    let etag = format!("\"{}\"", &*HASH);
    let cache = if hash == *HASH {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let asked = headers.get(header::IF_NONE_MATCH);
    let is_known = asked.is_some_and(|asked| asked.as_bytes() == etag.as_bytes());
    let mut reply = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Body::from(asset.bytes).into_response()
    };
    let set = reply.headers_mut();
    set.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(asset.content_type),
    );
    set.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    if let Ok(etag) = HeaderValue::try_from(etag) {
        set.insert(header::ETAG, etag);
    }
    reply
}
