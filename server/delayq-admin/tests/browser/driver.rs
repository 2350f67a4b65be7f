//! A chromedriver of this test, and sessions of Chromium.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

/// Why there is no browser here, for the line that says what is left out.
const MISSING: &str = "LEFT OUT: chromium and chromedriver are not here, which the tests of the \
                       page need (Debian has them in the packages chromium and chromium-driver)";

/// A running chromedriver. With this value it ends, and so do its browsers, which are in its group
/// of processes: also after a test that failed.
pub(crate) struct Driver {
    process: Child,
    port: u16,
}

impl Driver {
    /// Starts one on a free port; `None`, and a line, where it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let started = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let Ok(mut process) = started else {
            println!("{MISSING}");
            return None;
        };
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("started successfully on port ")?;
            rest.trim_end_matches('.').parse().ok()
        });
        let port = port.expect("chromedriver says on which port it is");
        Some(Self { process, port })
    }

    /// A new browser, with nothing stored.
    pub(crate) async fn browser(&self) -> Browser {
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--force-device-scale-factor=1",
            "--hide-scrollbars",
        ];
        let capabilities = json!({
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        });
        let Value::Object(capabilities) = capabilities else {
            unreachable!("it is written as one");
        };
        let client = ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{}", self.port))
            .await
            .expect("chromium starts");
        Browser { client }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It may have ended by itself.
        let group = Pid::from_child(&self.process);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.process.wait();
    }
}

/// One session.
pub(crate) struct Browser {
    pub(crate) client: Client,
}

impl Browser {
    /// The size of the window, and whether the system is dark.
    pub(crate) async fn look(&self, width: u32, height: u32, is_dark: bool) {
        self.client.set_window_size(width, height).await.unwrap();
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", json!({"features": features}))
            .await;
    }

    /// The JavaScript of the pages is not run from the next page on.
    pub(crate) async fn without_scripts(&self) {
        let off = json!({"value": true});
        self.devtools("Emulation.setScriptExecutionDisabled", off)
            .await;
    }

    /// What the console has of warnings and errors since the last call.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let read = Extension {
            path: "se/log",
            body: json!({"type": "browser"}),
        };
        let entries = self.client.issue_cmd(read).await.unwrap();
        let entries = entries.as_array().unwrap();
        let level = |entry: &&Value| entry["level"] == "SEVERE" || entry["level"] == "WARNING";
        let bad = entries.iter().filter(level);
        bad.map(|entry| entry["message"].to_string()).collect()
    }

    async fn devtools(&self, command: &str, parameters: Value) {
        let call = Extension {
            path: "goog/cdp/execute",
            body: json!({"cmd": command, "params": parameters}),
        };
        self.client.issue_cmd(call).await.unwrap();
    }
}

/// A command that only chromedriver has.
#[derive(Debug)]
struct Extension {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Extension {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        let session = session.unwrap_or_default();
        base.join(&format!("session/{session}/{}", self.path))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}
