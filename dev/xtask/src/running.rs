//! A running .NET program for a task: started, ready, ended.

use crate::outcome::{Context, Outcome, bail};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A running program. It is killed, by its id, when the value is dropped.
pub struct Program {
    child: Child,
    /// Kept open: the program would end at a failed write.
    _output: Option<BufReader<ChildStdout>>,
}

impl Program {
    /// Starts it and waits until it reports that it is ready.
    pub fn start(command: &mut Command) -> Outcome<Program> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.spawn().context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        let mut output = child.stdout.take().map(BufReader::new);
        let mut line = String::new();
        let read = output.as_mut().map_or(Ok(0), |output| output.read_line(&mut line));
        let program = Program { child, _output: output };
        read.context(|| "cannot hear the program")?;
        match line.trim() {
            "ready" => Ok(program),
            said => bail!("{command:?} does not run: it said `{said}` and not `ready`"),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end; a successful exit shows that it was not harmed.
    pub fn end(mut self) -> Outcome<()> {
        if let Some(stdin) = &mut self.child.stdin {
            writeln!(stdin, "quit").context(|| "the program is gone")?;
        }
        let status = self.child.wait().context(|| "cannot wait for the program")?;
        if !status.success() {
            bail!("the program ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // After a failure it would run forever. An error here means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_ready_and_ends_when_asked() {
        let program =
            Program::start(Command::new("sh").args(["-c", "echo ready; read order; test $order = quit"])).unwrap();
        program.end().unwrap();
    }

    #[test]
    fn one_that_is_not_ready_is_a_failure_with_what_it_said() {
        let failure =
            Program::start(Command::new("sh").args(["-c", "echo 'no frameworks'"])).err().unwrap().to_string();
        assert!(failure.contains("no frameworks"), "{failure}");
    }
}
