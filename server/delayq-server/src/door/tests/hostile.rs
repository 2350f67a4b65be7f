//! Clients that mean harm: each is refused in words, and the server serves on.

use delayq_tests::rig::PATIENCE;
use futures_util::future::{join_all, select_all};
use serde_json::Value;
use tokio::io::AsyncWriteExt;

use super::{Site, answer, config, rest};

const TYPE: &str = "/v1/default/types/mail";
/// Brackets of a document that no recursion survives.
const DEPTH: usize = 100_000;

impl Site {
    /// The answer to bytes, with the connection closed after them.
    async fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        // The server may have closed the connection before it has read everything.
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        rest(&mut stream).await
    }

    /// The answer to a request with a body.
    async fn send(&self, method: &str, path: &str, more: &[u8], body: &[u8]) -> String {
        let length = format!("content-length: {}\r\nconnection: close\r\n", body.len());
        let head = self.head(method, path, &length);
        let (head, _) = head.rsplit_once("\r\n").unwrap();
        let request = [head.as_bytes(), more, b"\r\n", body].concat();
        let mut stream = self.connect().await;
        let _ = stream.write_all(&request).await;
        rest(&mut stream).await
    }

    async fn serves(&self) {
        let live = self.ask("GET", "/health/live").await;
        assert!(live.starts_with("HTTP/1.1 200"), "{live}");
        let task = self.ask("PUT", &format!("{TYPE}/tasks/a?delay=1h")).await;
        assert!(task.starts_with("HTTP/1.1 20"), "{task}");
    }
}

/// Refused with a status of the client's fault, in the form of every refusal.
fn is_refused(said: &str) -> bool {
    said.starts_with("HTTP/1.1 4")
        && said.contains("application/problem+json")
        && said.contains("\"type\":\"urn:delayq:problem:")
}

#[tokio::test]
async fn no_trick_with_a_path_or_query_gets_anywhere() {
    let site = Site::open(config()).await;
    let long = "a".repeat(40_000);
    let paths = [
        "//",
        "///v1/default/types",
        "/../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e",
        "/v1/../v1/default/types",
        "/v1//types",
        "/v1/%2e%2e/types",
        "/v1/default%2ftypes",
        "/v1/%ff/types",
        "/v1/default/types//tasks/a",
        "/v1/default/types/%00/tasks/a",
        "/v1/default/types/%ff/tasks/a",
        "/v1/default/types/mail/tasks/%00",
        "/v1/default/types/mail/tasks/%ff%fe",
        "/v1/default/types/mail/tasks/%",
        "/v1/default/types/mail/tasks/%zz%20",
        "/v1/default/types/mail/tasks/a%0d%0aset-cookie:%20a",
        "/v1/default/types/mail/tasks/../../../health",
        "/v1/default/types/mail/tasks/a;b/c",
        "/v1/default/types/mail/tasks?state=%ff",
        "/v1/default/types/mail/tasks?state=",
        "/v1/default/types/mail/tasks?cursor=%ff",
        "/v1/default/types/mail/tasks?cursor=9223372036854775808:a",
        "/v1/default/types/mail/tasks?limit=-1",
        "/v1/default/types/mail/tasks?limit=0",
        "/v1/default/types/mail/tasks?limit=99999999999999999999",
        "/v1/default/types/mail/tasks?state=dead&state=done",
        "/v1/default/types/mail/tasks?%ff=%ff",
        "/openapi.json/../../x",
        "/docs/%2e%2e/style.css",
    ];
    let paths = paths.map(ToOwned::to_owned).into_iter();
    let overlong = [
        format!("/{long}"),
        format!("/v1/{long}/types"),
        format!("{TYPE}/tasks/{long}"),
        format!("{TYPE}/tasks?cursor={long}"),
    ];
    for path in paths.chain(overlong) {
        for method in ["GET", "PATCH", "TRACE"] {
            let said = site.ask(method, &path).await;
            let shown = &path[..path.len().min(80)];
            assert!(is_refused(&said), "{method} {shown}: {said}");
            assert!(said.len() < 4_000, "{method} {shown} is repeated at length");
        }
    }
    // What is no HTTP has an empty answer, or none.
    for bytes in [
        &b"GET /\xff\xfe HTTP/1.1\r\nhost: a\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\nhost: a\r\n\xff\xff: b\r\n\r\n",
        b"GET /health/live HTTP/9.9\r\n\r\n",
        b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"POST /v1/default/types/mail/tasks HTTP/1.1\r\ncontent-length: 5, 6\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\nGET",
    ] {
        let said = site.say(bytes).await;
        assert!(!said.contains("HTTP/1.1 2") && !said.contains("HTTP/1.1 5"), "{said}");
    }
    site.serves().await;
}

/// Method, path and media type of every route of the document that takes a body of JSON.
async fn json_routes(site: &Site) -> Vec<(String, String, String)> {
    let said = site.ask("GET", "/openapi.json").await;
    let (_, text) = said.split_once("\r\n\r\n").unwrap();
    let document: Value = serde_json::from_str(text).unwrap();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path.replace("{namespace}", "default").replace("{id}", "a");
        let path = path
            .replace("{task_type}", "mail")
            .replace("{types}", "mail");
        for (method, route) in methods.as_object().unwrap() {
            let media = route["requestBody"]["content"].as_object();
            let media = media.and_then(|media| media.keys().find(|name| name.contains("json")));
            if let Some(media) = media {
                let query = if path.ends_with("/done-then") {
                    "?lock=1-1"
                } else {
                    ""
                };
                let path = format!("{path}{query}");
                routes.push((method.to_uppercase(), path.clone(), media.clone()));
            }
        }
    }
    assert!(routes.len() >= 9, "{routes:?}");
    routes
}

#[tokio::test]
async fn no_body_of_json_exhausts_the_stack_or_the_memory() {
    let site = Site::open(config()).await;
    let nested = |open: &str| open.repeat(DEPTH);
    let bodies = [
        nested("[").into_bytes(),
        nested("{\"a\":").into_bytes(),
        nested("{\"headers\":").into_bytes(),
        format!(
            "[{{\"id\":\"a\",\"lock\":\"1-1\",\"end\":\"done\",\"reply\":{}",
            nested("[")
        )
        .into_bytes(),
        b"\xff\xfe".to_vec(),
        b"{\"id\":\"\xff\"}".to_vec(),
        b"{\"id\":\"\\ud800\"}".to_vec(),
        b"{\"message\":1e999999}".to_vec(),
        b"nul".to_vec(),
    ];
    for (method, path, media) in json_routes(&site).await {
        for body in &bodies {
            let kind = format!("content-type: {media}\r\n");
            let said = site.send(&method, &path, kind.as_bytes(), body).await;
            // Lines are answered line by line, and by then the status is sent.
            let is_line = media.contains("ndjson") && said.contains("urn:delayq:problem:");
            let shown = String::from_utf8_lossy(&body[..body.len().min(40)]);
            assert!(
                is_line || is_refused(&said),
                "{method} {path} {shown}: {said}"
            );
        }
        let huge = site.head(&method, &path, "content-length: 1073741824\r\n");
        let mut stream = site.connect().await;
        stream.write_all(huge.as_bytes()).await.unwrap();
        // Lines are read as they come: the declared length alone is of no concern.
        if !media.contains("ndjson") {
            let said = answer(&mut stream).await;
            assert!(is_refused(&said) && said.contains("413"), "{path}: {said}");
        }
    }
    // A line that never ends is not kept.
    let endless = vec![b' '; 2 << 20];
    let said = site
        .send("POST", &format!("{TYPE}/bulk"), b"", &endless)
        .await;
    assert!(said.contains("longer than"), "{said}");
    let target = format!("delayq-target: {}\r\n", "[".repeat(30_000));
    let said = site
        .send("PUT", &format!("{TYPE}/tasks/b"), target.as_bytes(), b"x")
        .await;
    assert!(is_refused(&said), "{said}");
    site.serves().await;
}

#[tokio::test]
async fn headers_that_are_no_text_are_refused_and_a_message_may_be_any_bytes() {
    let site = Site::open(config()).await;
    let task = format!("{TYPE}/tasks/b");
    for header in [
        &b"delayq-header-shop: \xff\xfe\r\n"[..],
        b"delayq-target: \xff\r\n",
        b"delayq-header-delayq-target-seal: a\r\n",
        b"delayq-header-: a\r\n",
    ] {
        let said = site.send("PUT", &task, header, b"x").await;
        let shown = String::from_utf8_lossy(header);
        assert!(is_refused(&said), "{shown}: {said}");
    }
    for header in [
        &b"Bearer \xff\xfe"[..],
        b"Basic YTpi",
        b"Bearer",
        b"Bearer  ",
        b"\xff",
    ] {
        let line = format!("GET {task} HTTP/1.1\r\nhost: a\r\nauthorization: ");
        let head = [line.as_bytes(), header, b"\r\n\r\n"].concat();
        let said = site.say(&head).await;
        assert!(is_refused(&said) && said.contains(" 401 "), "{said}");
    }
    let said = site.send("PUT", &task, b"", b"\0\xff\xfe").await;
    assert!(said.starts_with("HTTP/1.1 201"), "{said}");
    let found = site.ask("GET", &task).await;
    assert!(found.contains("\"message_base64\":\"AP/+\""), "{found}");
}

#[tokio::test]
async fn half_a_request_makes_no_task() {
    let site = Site::open(config()).await;
    let head = site.head(
        "PUT",
        &format!("{TYPE}/tasks/half"),
        "content-length: 5\r\n",
    );
    let request = [head.as_bytes(), b"hello"].concat();
    let halves = (1..request.len()).step_by(7).map(|bytes| {
        let (site, part) = (&site, &request[..bytes]);
        async move {
            let said = site.say(part).await;
            assert!(!said.contains("HTTP/1.1 2"), "{bytes}: {said}");
        }
    });
    join_all(halves).await;
    let found = site.ask("GET", &format!("{TYPE}/tasks/half")).await;
    assert!(found.starts_with("HTTP/1.1 404"), "{found}");
    site.serves().await;
}

/// The memory that this process has in use, in bytes. Other tests of this process have their part
/// in it, which is little beside that of ten thousand connections.
#[cfg(target_os = "linux")]
fn memory() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4_096
}

/// As many connections as are wanted, or as the limit of open files allows with both ends of each
/// in this process, and files to spare for the tests beside this one.
#[cfg(target_os = "linux")]
fn affordable(wanted: usize) -> usize {
    use rustix::process::{Resource, getrlimit};
    const SPARE: usize = 2_500;
    let _ = crate::open_files::raise(2 * wanted + SPARE);
    let allowed = getrlimit(Resource::Nofile).current;
    let allowed = allowed.and_then(|allowed| usize::try_from(allowed).ok());
    let affordable = (allowed.unwrap_or(usize::MAX).saturating_sub(SPARE) / 2).min(wanted);
    if affordable < wanted {
        println!("{affordable} connections instead of {wanted}: the limit of open files");
    }
    affordable
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn thousands_of_connections_cost_little_and_the_ones_beyond_are_refused_in_words() {
    /// Places beside them, for whoever is not to be kept out.
    const OTHERS: usize = 4;
    const IS_LONG: bool = cfg!(feature = "soak");
    let connections = affordable(if IS_LONG { 10_000 } else { 1_000 });
    let mut config = config();
    config.connections.max = connections + OTHERS;
    // None of them is closed for being idle while the others are opened.
    config.connections.header_timeout_ms = 600_000;
    let site = Site::open(config).await;
    site.serves().await;
    let before = memory();
    let (live, half) = (site.head("GET", "/health/live", ""), b"POST /v1/def");
    let mut open = Vec::new();
    for number in 0..connections {
        let mut stream = site.connect().await;
        if number % 2 == 0 {
            stream.write_all(live.as_bytes()).await.unwrap();
            assert!(answer(&mut stream).await.contains("live"));
        } else {
            stream.write_all(half).await.unwrap();
        }
        open.push(stream);
    }
    let each = memory().saturating_sub(before) / connections.max(1);
    // Measured: about 20 KiB with both ends and whatever other tests do meanwhile.
    assert!(
        !IS_LONG || each < 64 << 10,
        "a connection takes {each} bytes"
    );
    let served = tokio::time::timeout(PATIENCE, site.serves());
    served.await.expect("the server keeps others waiting");
    // With every place taken the next one is told so, unasked, and those that are open are served.
    let mut others = Vec::new();
    for _ in 0..=OTHERS {
        others.push(site.connect().await);
    }
    let said = others.iter().map(|stream| Box::pin(stream.readable()));
    let soon = tokio::time::timeout(PATIENCE, select_all(said));
    let (_, index, _) = soon.await.expect("nobody is refused");
    let refused = rest(&mut others[index]).await;
    assert!(
        refused.starts_with("HTTP/1.1 503") && refused.contains("too-many-connections"),
        "{refused}"
    );
    for stream in open.iter_mut().step_by(200) {
        stream.write_all(live.as_bytes()).await.unwrap();
        assert!(answer(stream).await.contains("live"));
    }
    drop((open, others));
    delayq_tests::rig::until("a place is given on", || async {
        let said = site.ask("GET", "/health/live").await;
        said.starts_with("HTTP/1.1 200").then_some(())
    })
    .await;
}
