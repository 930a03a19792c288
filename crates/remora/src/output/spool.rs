//! What has been recorded so far, on disk, while the recording runs: a kill or a full disk takes nothing that was recorded.
//! For the agent's recordings that is a recording in its own right ([`Spool`]), for the runtime's sampler its stream ([`StreamSpool`]).
//!
//! The file keeps a reserve of allocated space ahead of what is written. When the disk has no room for a new reserve,
//! the old one is still there: the recording ends then, and what remains to be written fits.

use super::destination::Destination;
use super::folder::Unfinished;
use super::format::as_io;
use crate::failure::{Failure, Place};
use remora_collector::LaidOut;
use remora_heap_file::{MethodRow, State, TypeRow};
use remora_profile::Profile;
use remora_recording::Writer;
use rustix::fs::{FallocateFlags, Mode};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

/// Space that is allocated ahead of what is written, bytes.
const RESERVE: u64 = 4 << 20;

/// A recording in progress.
#[derive(Debug)]
pub(crate) struct Spool {
    writer: Writer<Reserved>,
    part: Unfinished,
}

impl Spool {
    /// Begins one: beside the output, or in the temporary directory where the output is no regular file.
    pub(crate) fn create(output: &Destination) -> Result<Spool, Failure> {
        let (file, part) = Reserved::create(output, "remora", false)?;
        match Writer::create(file) {
            Ok(writer) => Ok(Spool { writer, part }),
            Err(error) => {
                // It holds nothing; the failure to tell is that it could not be written.
                let _ = part.remove();
                Err(refused(&part, as_io(error)))
            }
        }
    }

    /// Writes what is new in `profile`.
    pub(crate) fn append(&mut self, profile: &Profile) -> Result<(), Failure> {
        self.writer.append(profile).map_err(|error| refused(&self.part, as_io(error)))
    }

    /// Whether the disk is so full that the recording should end now.
    pub(crate) fn is_low(&self) -> bool {
        self.writer.output().low
    }

    /// Writes the rest: from here on it is a whole recording, if that went well.
    pub(crate) fn finish(self, profile: &Profile) -> (Unfinished, Result<(), Failure>) {
        let Spool { writer, part } = self;
        let finished = writer.finish(profile).map_err(|error| refused(&part, as_io(error)));
        // Gives the rest of the reserve back.
        let finished = finished
            .and_then(|reserved| reserved.file.set_len(reserved.position).map_err(|error| refused(&part, error)));
        (part, finished)
    }

    /// Takes it away: there is nothing in it.
    pub(crate) fn discard(self) {
        // What cannot be removed is a file beside the output with a name that says what it is.
        let _ = self.part.remove();
    }
}

/// A stream of the runtime's own events, as it came, up to a bound: half of what is free on the disk, and half of the rest for its end.
#[derive(Debug)]
pub(crate) struct StreamSpool {
    file: Reserved,
    part: Unfinished,
    /// Bytes that it may have.
    most: u64,
    is_cut: bool,
}

impl StreamSpool {
    /// Begins one, in the same place as [`Spool::create`].
    pub(crate) fn create(output: &Destination) -> Result<StreamSpool, Failure> {
        let (file, part) = Reserved::create(output, "nettrace", false)?;
        let most = file.free() / 2;
        Ok(StreamSpool { file, part, most, is_cut: false })
    }

    /// Keeps the next piece, unless it would be too long with it: [`StreamSpool::is_cut`] says so then, and nothing more is kept.
    pub(crate) fn write(&mut self, piece: &[u8]) -> Result<(), Failure> {
        self.is_cut |= self.file.position.saturating_add(piece.len() as u64) > self.most;
        if self.is_cut {
            return Ok(());
        }
        self.file.write_all(piece).map_err(|error| refused(&self.part, error))
    }

    /// Whether it grew too long, and its rest is missing.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// What comes now is the end that was asked for, with names: there is room for it, if nothing is missing before it.
    pub(crate) fn ends(&mut self) {
        self.most = self.most.saturating_add(self.file.free() / 2);
    }

    /// Whether the disk is so full that the recording should end now.
    pub(crate) fn is_low(&self) -> bool {
        self.file.low
    }

    /// Nothing more comes: the file in which it is.
    pub(crate) fn into_file(self) -> Unfinished {
        self.part
    }

    /// Takes it away: what was in it is somewhere else, or worth nothing.
    pub(crate) fn discard(self) {
        let _ = self.part.remove();
    }
}

/// A snapshot of a heap, as it is taken.
#[derive(Debug)]
pub(crate) struct HeapSpool {
    writer: remora_heap_file::Writer<Reserved>,
    part: Unfinished,
    failed: Option<Failure>,
    /// Whether a piece was let go of.
    is_cut: bool,
}

/// What things in a snapshot are called.
pub(crate) struct Named<'a> {
    pub(crate) types: &'a [TypeRow],
    pub(crate) methods: &'a [MethodRow],
    pub(crate) laid_out: &'a LaidOut,
}

impl HeapSpool {
    /// Begins one, in the same place as [`Spool::create`]; one for its owner's eyes alone, if it is `private`.
    pub(crate) fn create(output: &Destination, private: bool) -> Result<HeapSpool, Failure> {
        let (file, part) = Reserved::create(output, "remora-heap", private)?;
        match remora_heap_file::Writer::create(file) {
            Ok(writer) => Ok(HeapSpool { writer, part, failed: None, is_cut: false }),
            Err(error) => {
                let _ = part.remove();
                Err(unkept(&part, error))
            }
        }
    }

    /// Keeps the next piece of the stream. Where that fails, [`HeapSpool::must_end`] says so, and no more is kept: the reserve is for what
    /// must be written at the end, and pieces come faster than anybody looks whether it must.
    pub(crate) fn stream(&mut self, piece: &[u8]) {
        if self.must_end() {
            self.is_cut = true;
        } else {
            self.failed = self.writer.stream(piece).err().map(|error| unkept(&self.part, error));
        }
    }

    /// Whether all pieces were kept.
    pub(crate) fn is_whole(&self) -> bool {
        !self.is_cut && self.failed.is_none()
    }

    /// Whether no more can be kept: the disk is full, or nearly so.
    pub(crate) fn must_end(&self) -> bool {
        self.failed.is_some() || self.writer.output().low
    }

    /// Writes the rest, and puts the whole snapshot where it was asked for. Where that fails, what was kept stays where the failure says.
    pub(crate) fn finish(
        mut self,
        named: &Named<'_>,
        state: &State,
        destination: &Destination,
    ) -> Result<PathBuf, Failure> {
        let refused = |error| unkept(&self.part, error).kept_in(self.part.kept());
        if let Some(failure) = self.failed {
            return Err(failure.kept_in(self.part.kept()));
        }
        self.writer.types(named.types).map_err(refused)?;
        self.writer.methods(named.methods).map_err(refused)?;
        self.writer.layouts(&named.laid_out.layouts).map_err(refused)?;
        self.writer.statics(&named.laid_out.statics).map_err(refused)?;
        let reserved = self.writer.finish(state).map_err(refused)?;
        let path = match destination {
            Destination::File { path, .. } if destination.is_regular() => {
                destination.put(&self.part).map_err(|failure| failure.kept_in(self.part.kept()))?;
                destination.path().unwrap_or_else(|| path.to_owned())
            }
            _ => self.part.path(),
        };
        // Gives the rest of the reserve back, which takes some milliseconds: whoever waits for the file has it. It is whole without this.
        let _ = reserved.file.set_len(reserved.position);
        Ok(path)
    }

    /// Takes it away: there is nothing in it.
    pub(crate) fn discard(self) {
        let _ = self.part.remove();
    }
}

fn unkept(part: &Unfinished, error: remora_heap_file::Error) -> Failure {
    match error {
        remora_heap_file::Error::Write(error) => refused(part, error),
        error => Failure::HeapFile { file: part.path(), error },
    }
}

fn refused(part: &Unfinished, error: io::Error) -> Failure {
    Failure::output(Place::File(part.path()), error)
}

/// A file with space allocated ahead.
#[derive(Debug)]
struct Reserved {
    file: File,
    position: u64,
    low: bool,
}

impl Reserved {
    /// One beside the output, or in the temporary directory where the output is no regular file.
    fn create(output: &Destination, ending: &str, private: bool) -> Result<(Reserved, Unfinished), Failure> {
        let mode = Mode::from_raw_mode(if private { 0o600 } else { 0o666 });
        let (part, file) = output.begin(ending, mode)?;
        Ok((Reserved { file, position: 0, low: false }, part))
    }

    /// Bytes that are free where it is; more than any file has where that cannot be told.
    fn free(&self) -> u64 {
        match rustix::fs::fstatvfs(&self.file) {
            Ok(disk) if disk.f_blocks > 0 => disk.f_bavail.saturating_mul(disk.f_frsize),
            _ => u64::MAX,
        }
    }
}

impl Write for Reserved {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let ahead = bytes.len() as u64 + RESERVE;
        let allocated = rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.position, ahead);
        // Any other refusal is of a file system that cannot allocate ahead; writing will tell when it is full.
        self.low |= matches!(allocated, Err(Errno::NOSPC | Errno::DQUOT));
        let written = self.file.write(bytes)?;
        self.position += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::{Frame, Sample, State, Thread};
    use std::path::Path;
    use std::process::Command;

    /// Names the small disk to the process that sees it.
    const DISK: &str = "REMORA_TEST_SMALL_DISK";
    const THIS: &str = "output::spool::tests::a_disk_that_fills_while_recording_takes_nothing_that_was_recorded";

    /// Runs itself again where a small disk is mounted, which nobody else sees.
    #[test]
    fn a_disk_that_fills_while_recording_takes_nothing_that_was_recorded() {
        if let Some(disk) = std::env::var_os(DISK) {
            return fill_while_recording(Path::new(&disk));
        }
        let directory = tempfile::tempdir().expect("a directory");
        let root = rustix::process::geteuid().is_root();
        let ran = Command::new("unshare")
            .args([if root { "--mount" } else { "-rm" }, "sh", "-c"])
            .arg("mount -t tmpfs -o size=16m tmpfs \"$REMORA_TEST_SMALL_DISK\" && exec \"$@\"")
            .arg("sh")
            .arg(std::env::current_exe().expect("this test"))
            .args(["--exact", THIS])
            .env(DISK, directory.path())
            .output()
            .expect("unshare is there");
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    }

    fn fill_while_recording(disk: &Path) {
        let mut profile = Profile::default();
        let mut spool = Spool::create(&Destination::of(&disk.join("out.html"), false)).expect("there is room");
        grow(&mut profile);
        spool.append(&profile).expect("there is room");
        assert!(!spool.is_low());
        let mut rest = File::create(disk.join("rest")).expect("there is room");
        let piece = vec![0; 1 << 12];
        let full = loop {
            if let Err(error) = rest.write_all(&piece) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        grow(&mut profile);
        spool.append(&profile).expect("the reserve takes it");
        assert!(spool.is_low());
        grow(&mut profile);
        let (part, finished) = spool.finish(&profile);
        finished.expect("the reserve takes this, too");
        let read = remora_recording::read(File::open(part.path()).expect("it is there")).expect("it is whole");
        assert!(read.complete);
        assert_eq!(read.profile.samples(), profile.samples());
    }

    #[test]
    fn a_stream_ends_at_its_bound_and_its_end_has_room_beyond_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let output = Destination::of(&directory.path().join("out.html"), false);
        let begin = || StreamSpool::create(&output).expect("there is room");
        let length = |spool: &StreamSpool| std::fs::metadata(spool.part.path()).expect("it is there").len();
        let mut spool = begin();
        assert!(spool.most > 100 && spool.most <= spool.file.free(), "it follows from what is free");
        spool.most = 100;
        for piece in [&[1; 60][..], &[2; 40]] {
            spool.write(piece).expect("there is room");
        }
        assert!(!spool.is_cut());
        spool.ends();
        spool.write(&[3; 10]).expect("there is room");
        assert!(!spool.is_cut() && length(&spool) == 110);
        spool.discard();
        let mut spool = begin();
        spool.most = 100;
        for piece in [&[1; 60][..], &[2; 60], &[3; 10]] {
            spool.write(piece).expect("what is too long is let go of");
        }
        assert!(spool.is_cut() && length(&spool) == 60, "nothing is missing in between");
        spool.ends();
        spool.write(&[3; 10]).expect("what is too long is let go of");
        assert_eq!(length(&spool), 60, "nothing is missing in between");
        spool.discard();
    }

    /// As much as a second of a busy recording.
    fn grow(profile: &mut Profile) {
        let name = profile.string("Busy.Work()");
        let frame = profile.frame(Frame::unknown(name));
        let stack = profile.stack(None, frame);
        let thread = profile.add_thread(Thread { id: 1, name: String::new() });
        for number in 0..100_000u64 {
            let weight = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            profile.add_sample(Sample { time: number * 10_000, thread, stack, weight, state: State::Running });
        }
    }
}
