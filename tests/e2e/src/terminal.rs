//! `remora` on a terminal: what somebody sees who types a command.

use crate::Remora;
use crate::child_process::wait_for;
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;

/// Runs `remora` to its end with standard output on a terminal of this many columns, and returns the lines shown there.
pub fn on_a_terminal<A: AsRef<OsStr>>(columns: u16, arguments: impl IntoIterator<Item = A>) -> Vec<String> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    unlockpt(&ours).expect("unlocked");
    tcsetwinsize(&ours, Winsize { ws_col: columns, ws_row: 24, ws_xpixel: 0, ws_ypixel: 0 }).expect("sized");
    let name = ptsname(&ours, Vec::new()).expect("named").into_string().expect("text");
    let theirs = File::options().read(true).write(true).open(name).expect("opened");
    let mut command = Remora::command();
    command.args(arguments).stdout(theirs);
    let mut child = command.spawn().expect("remora starts");
    drop(command);
    let reader = std::thread::spawn(move || {
        let mut shown = Vec::new();
        // A terminal that nobody has open any more ends with an error.
        let _ = File::from(ours).read_to_end(&mut shown);
        shown
    });
    let status = wait_for(&mut child, "remora");
    let shown = reader.join().expect("read");
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(status.success(), "remora ended with {status}\n{shown}");
    shown.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect()
}
