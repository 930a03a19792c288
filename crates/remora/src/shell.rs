//! `remora completions` and `remora man`: shell completions and manual pages, generated from the command line's definition.

use crate::args::{CommandLine, CompletionsArgs, ManArgs};
use crate::console::{Page, line, note, out};
use crate::failure::{Failure, Place};
use crate::output::{Destination, Folder};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::io;

/// Prints the completions of a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut CommandLine::command(), "remora", &mut script);
    out(&String::from_utf8_lossy(&script).lines().map(line).sum::<Page>().code())
}

/// Writes a manual page for the command and one for each of its subcommands.
pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    let failed = |error| Failure::output(Place::File(args.directory.clone()), error);
    Folder::open_or_make(&args.directory).map_err(failed)?;
    let mut command = CommandLine::command();
    command.build();
    for (name, page) in pages(&command).map_err(failed)? {
        Destination::of(&args.directory.join(name), true).write(|out| out.write_all(&page))?;
    }
    note(&format!("wrote the manual pages to {}", args.directory.display()));
    Ok(())
}

/// File name and text of the pages of a command and of all below it.
fn pages(command: &Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    let mut all = vec![(page.get_filename(), text)];
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        all.extend(pages(inner)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap_complete::Shell;

    #[test]
    fn a_script_is_printed_as_it_was_made() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut CommandLine::command(), "remora", &mut script);
            let text = String::from_utf8(script).expect("text");
            let page = text.lines().map(line).sum::<Page>();
            assert_eq!(page.trim_end(), text.trim_end(), "{shell}");
            for name in ["record", "heap", "signal-budget", "completions"] {
                assert!(text.contains(name), "{name} is not in the script for {shell}");
            }
        }
    }

    #[test]
    fn each_command_has_a_manual_page() {
        let directory = tempfile::tempdir().expect("a directory");
        man(&ManArgs { directory: directory.path().to_owned() }).expect("written");
        let page = |name: &str| std::fs::read_to_string(directory.path().join(name)).expect(name);
        assert!(page("remora.1").contains("remora\\-record(1)"), "{}", page("remora.1"));
        for name in ["remora-record.1", "remora-heap.1", "remora-heap-diff.1", "remora-completions.1"] {
            assert!(page(name).contains(".SH OPTIONS"), "{name}");
        }
        assert!(!directory.path().join("remora-lab-run.1").exists(), "it is hidden");
    }

    #[test]
    fn manual_pages_were_written_through_links_to_other_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let (precious, man_directory) = (directory.path().join("precious"), directory.path().join("man"));
        std::fs::write(&precious, "precious").expect("written");
        std::fs::create_dir(&man_directory).expect("made");
        std::os::unix::fs::symlink(&precious, man_directory.join("remora.1")).expect("linked");
        man(&ManArgs { directory: man_directory.clone() }).expect("written");
        assert_eq!(std::fs::read_to_string(&precious).expect("there"), "precious");
        assert!(std::fs::symlink_metadata(man_directory.join("remora.1")).expect("there").is_file());
    }
}
