//! `cargo xtask pictures`: the pictures of the guide, taken from the running page of the example
//! `admin_page` by headless Chromium.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::call::{Call, Failure, root};

/// Where they go, below the root.
const FOLDER: &str = "docs/pictures";
/// How long the shop lives before its first picture: figures come every 20 seconds.
const LIFE: Duration = Duration::from_secs(45);
/// How long a page draws itself, in milliseconds.
const DRAWN_MS: u32 = 4_000;

/// A picture: its name, its page, its size, and whether it is dark.
struct Picture(&'static str, &'static str, [u32; 2], bool);

const PICTURES: [Picture; 9] = [
    Picture("overview", "/", [1_280, 800], false),
    Picture("overview-dark", "/", [1_280, 800], true),
    Picture("overview-phone", "/", [390, 844], false),
    Picture("type", "/type?name=webhook.deliver", [1_280, 1_250], false),
    Picture(
        "task",
        "/task?type=sms.sent&id=order-7",
        [1_280, 900],
        false,
    ),
    Picture("dead", "/dead", [1_280, 560], true),
    Picture("health", "/health", [1_280, 900], false),
    Picture("search", "/search?q=order-7", [1_280, 700], false),
    Picture("recurring", "/recurring", [1_280, 480], false),
];

/// The example, which ends with this value.
struct Example(Child);

impl Drop for Example {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Takes all pictures anew.
pub(crate) fn run() -> Result<(), Failure> {
    if !Call::new("chromium --version").succeeds() {
        let how = "chromium takes the pictures: Debian has it in the package chromium";
        return Err(Failure(how.to_owned()));
    }
    Call::new("cargo build --locked --example admin_page").run()?;
    std::fs::create_dir_all(root().join(FOLDER))?;
    let mut command = Command::new(root().join("target/debug/examples/admin_page"));
    command.arg("127.0.0.1:0").stdout(Stdio::piped());
    let mut example = Example(command.spawn()?);
    let output = example.0.stdout.take();
    let mut lines = output
        .into_iter()
        .flat_map(|out| BufReader::new(out).lines());
    let address = lines.find_map(|line| line.ok().filter(|line| line.starts_with("http://")));
    let address = address.ok_or_else(|| Failure("the example prints no address".to_owned()))?;
    println!("  {address} lives for {} s first", LIFE.as_secs());
    live();
    for picture in &PICTURES {
        take(&address, picture)?;
    }
    Ok(())
}

#[allow(
    clippy::disallowed_methods,
    reason = "no event says that a shop has lived for a while"
)]
fn live() {
    std::thread::sleep(LIFE);
}

fn take(address: &str, picture: &Picture) -> Result<(), Failure> {
    let Picture(name, path, [width, height], is_dark) = picture;
    let profile = tempfile::tempdir()?;
    // What Chromium calls the schemes: 0 dark, 1 light.
    let scheme = u8::from(!is_dark);
    let words = format!(
        "chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
         --disable-background-networking --disable-component-update --disable-sync \
         --hide-scrollbars --timeout={DRAWN_MS} --window-size={width},{height} \
         --blink-settings=preferredColorScheme={scheme} --screenshot={FOLDER}/page-{name}.png"
    );
    let profile = profile.path().display();
    let call = Call::new(&words)
        .word(format!("--user-data-dir={profile}"))
        .word(format!("{address}{path}"));
    call.run()
}
