//! The answer to a connection above the limit.

use tokio::net::TcpStream;

const ANSWER: &str = concat!(
    "HTTP/1.1 503 Service Unavailable\r\n",
    "content-type: application/problem+json\r\n",
    "content-length: 194\r\n",
    "retry-after: 1\r\n",
    "connection: close\r\n\r\n",
    r#"{"type":"urn:delayq:problem:too-many-connections","title":"the server has no place","status":503,"#,
    r#""detail":"connections.max connections are open: keep fewer","is_repeatable":true,"retry_after":1}"#,
);

/// Sends the answer without waiting. A new connection always has room for so few bytes.
pub(super) fn say(stream: &TcpStream) {
    let _ = stream.try_write(ANSWER.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::ANSWER;

    #[test]
    fn the_answer_is_as_long_as_it_says() {
        let (head, body) = ANSWER.split_once("\r\n\r\n").unwrap();
        let said = format!("content-length: {}\r\n", body.len());
        assert!(head.contains(&said), "{said}");
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["status"], 503);
    }
}
