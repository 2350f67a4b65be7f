//! The first token of a new server, and where it is told.

use std::fs;
use std::io::{ErrorKind, IsTerminal};
use std::path::Path;

use delayq_service::access::TokenBook;
use delayq_service::config::FirstTokenPlace;
use delayq_service::private_file::{flaw, write_private};

use crate::say::say;
use crate::server::{Server, ServerError};

/// Makes the first token if the server has none, and tells where it is. `url` is that of the API.
pub(crate) async fn tell(server: &Server, url: &str) -> Result<(), ServerError> {
    if server.take_given_token().await? {
        say("its first token is the bootstrap token");
    }
    let is_terminal = std::io::stdout().is_terminal();
    let token = match server.app.config.first_token_place(is_terminal) {
        FirstTokenPlace::Print => {
            let Some(token) = server.first_token().await? else {
                return Ok(());
            };
            say(format!("its first token, shown this once: {token}"));
            token
        }
        FirstTokenPlace::File(file) => {
            if !server.app.tokens.all().is_empty() {
                return Ok(());
            }
            // Whoever reads the output may be in another folder.
            let file = std::path::absolute(&file)?;
            let token = written(&file)?;
            server.take_first_token(&token).await?;
            let file = file.display();
            say(format!("its first token is in {file}, for its owner alone"));
            format!("$(cat {file})")
        }
    };
    say("send a task:");
    say(format!(
        "  curl -X POST -H \"Authorization: Bearer {token}\" --data 'hello' \
         '{url}/v1/default/types/greet/tasks?delay=10s'"
    ));
    Ok(())
}

/// A new token in a new file. A start that ended before its token was stored has left the file:
/// then it is the token there.
fn written(file: &Path) -> Result<String, ServerError> {
    let refused = |reason: &str| {
        ServerError::Refused(format!(
            "the first token cannot be written to {}: {reason}. Name another file with \
             --first-token-file, or give the token with --bootstrap-token-file",
            file.display()
        ))
    };
    let token = TokenBook::new_text()?;
    match write_private(file, &token) {
        Ok(()) => Ok(token),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let text = fs::read_to_string(file).map_err(|error| refused(&error.to_string()))?;
            let text = text.trim();
            let checked = TokenBook::check_given(text);
            checked
                .map_err(|_| refused("the file is there and has no token, and stays as it is"))?;
            if let Some(flaw) = flaw(file).map_err(|error| refused(&error.to_string()))? {
                return Err(refused(&format!("the file is there, and {flaw}")));
            }
            tracing::warn!(file = %file.display(),
                "the file of the first token is there already: it is the first token");
            Ok(text.to_owned())
        }
        Err(error) => Err(refused(&error.to_string())),
    }
}
