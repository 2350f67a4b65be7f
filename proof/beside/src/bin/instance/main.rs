//! The program that is built twice: against this release and against an earlier one. It uses what
//! both have.
//!
//! Arguments: the name of the instance, the URL of the store, the file for the workers' lines.

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::Arc;

use delayq_beside::{Answer, Command, READY};
use delayq_plugin::{DelayQueuePlugin, seconds};
use tokio::sync::mpsc;

mod desk;
mod obey;
mod workers;

use desk::Desk;

/// Exit code of an instance whose driver has gone.
const ORPHANED: i32 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(false)
        .init();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, url, file] = arguments.as_slice() else {
        return Err("arguments: NAME URL FILE".into());
    };
    let desk = Arc::new(Desk::new(name.clone(), Path::new(file))?);
    let plugin = DelayQueuePlugin::builder()
        .url(url)
        .component_arc(Arc::clone(&desk))
        .expect_types(workers::names())
        .start()
        .await?;
    let mut commands = commands();
    say(READY)?;
    while let Some(line) = commands.recv().await {
        let command: Command = serde_json::from_str(&line)?;
        if matches!(command, Command::Stop) {
            plugin.shutdown(seconds(10)).await;
            return Ok(());
        }
        let answer: Answer = obey::obey(command, &plugin.submit_service(), &desk).await;
        say(&serde_json::to_string(&answer)?)?;
    }
    Ok(())
}

/// Prints a line, at once.
fn say(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}

/// The lines of the input. At its end the driver has gone, and this process goes, too.
fn commands() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            // Nobody obeys any more while the plugin shuts down.
            let _ = sender.send(line);
        }
        std::process::exit(ORPHANED);
    });
    receiver
}
