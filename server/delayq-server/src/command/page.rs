//! What belongs to the program and needs no configuration: its man page and its completions.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Args, Command};

/// Prints the man page or the completions; `None` for any other command.
pub(crate) fn print(command: &Command) -> Option<ExitCode> {
    let printed = match command {
        Command::Man => man(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Args::command(), "delayq-server", &mut script);
            io::stdout().write_all(&script)
        }
        _ => return None,
    };
    Some(match printed {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output, such as `head`, has read enough and closed it.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    })
}

fn man() -> io::Result<()> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Args::command()).render(&mut page)?;
    io::stdout().write_all(&page)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Args;

    #[test]
    fn the_man_page_has_every_command() {
        let mut page = Vec::new();
        let command = Args::command();
        clap_mangen::Man::new(command.clone())
            .render(&mut page)
            .unwrap();
        let page = String::from_utf8(page).unwrap();
        for command in command.get_subcommands() {
            let name = command.get_name().replace('-', "\\-");
            assert!(page.contains(&name), "{name}");
        }
    }
}
