//! `page`: the web page of a store, on this machine.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;
use delayq_admin::{Admin, Role, Viewer};
use delayq_ops::Operator;
use delayq_plugin::TaskId;
use http::header::HOST;
use http::request::Parts;
use serde_json::json;
use tokio::net::TcpListener;

use crate::answer::CommandResult;
use crate::failure::Failure;
use crate::output::OutputFormat;

/// The address of the page.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// The port on 127.0.0.1; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 7881)]
    port: u16,
    /// Do not allow changes.
    #[arg(long)]
    read_only: bool,
}

/// Runs the command: until Ctrl-C.
///
/// The page can only be reached from this machine, and only by someone who knows its address, part
/// of which is random. So other users cannot use it, nor can web pages open in the same browser.
pub(super) async fn run(
    operator: &Operator,
    args: &PageArgs,
    format: OutputFormat,
) -> Result<CommandResult, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await?;
    let address = listener.local_addr()?;
    let actor = operator.actor().to_owned();
    let admin = Admin::new(operator.tasks().clone())
        .authorize(move |parts| is_meant(parts, address).then(|| Viewer::new(&actor, Role::Admin)));
    let admin = if args.read_only {
        admin.read_only()
    } else {
        admin
    };
    // 80 random bits after the 48 bits of the time.
    let path = format!("/{}", TaskId::generate());
    let serve = async {
        say(&format!("http://{address}{path}"), format)?;
        axum::serve(listener, admin.at(&path)).await
    };
    tokio::select! {
        // First, so that Ctrl-C is heard from when the address is said.
        biased;
        ended = tokio::signal::ctrl_c() => ended?,
        served = serve => served?,
    }
    Ok(CommandResult::said())
}

/// Says where the page is, once and at once: a program reads it while the page is served.
fn say(url: &str, format: OutputFormat) -> io::Result<()> {
    let text = if format.is_document() {
        format.streamed(&json!({"url": url}))?
    } else {
        format!("{url}\nthe address is the key: keep it to yourself; Ctrl-C ends the page\n")
    };
    let mut stdout = anstream::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// True if the browser meant this machine. A host name that leads here by a trick is not accepted.
fn is_meant(parts: &Parts, address: SocketAddr) -> bool {
    let port = address.port();
    let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    host.is_some_and(|host| host == address.to_string() || host == format!("localhost:{port}"))
}
