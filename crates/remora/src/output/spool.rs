//! The recording so far, on disk: a kill or a full disk loses nothing recorded. For the agent that is a complete recording file
//! ([`Spool`]), for the runtime's sampler its raw stream ([`StreamSpool`]).
//!
//! The file keeps a reserve of allocated space ahead of the written data. If the disk has no room for a new reserve, the old one remains:
//! the recording ends, and the final data fits.

use super::destination::Destination;
use super::folder::{Unfinished, free_space};
use super::format::as_io;
use crate::failure::{Failure, Place};
use remora_collector::LaidOut;
use remora_heap_file::{MethodRow, State, TypeRow};
use remora_heap_stream::Foreign;
use remora_profile::Profile;
use remora_recording::Writer;
use rustix::fs::{FallocateFlags, Mode};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

/// Space allocated ahead of the written data, bytes.
const RESERVE: u64 = 4 << 20;

/// A recording in progress.
#[derive(Debug)]
pub(crate) struct Spool {
    writer: Writer<Reserved>,
    part: Unfinished,
}

impl Spool {
    /// Creates one: beside the output, or in the temporary directory where the output is no regular file.
    pub(crate) fn create(output: &Destination) -> Result<Spool, Failure> {
        let (file, part) = Reserved::create(output, "remora", false)?;
        match Writer::create(file) {
            Ok(writer) => Ok(Spool { writer, part }),
            Err(error) => {
                // The file is empty; the error to report is the failed write.
                let _ = part.remove();
                Err(refused(&part, as_io(error)))
            }
        }
    }

    /// Writes the new parts of `profile`.
    pub(crate) fn append(&mut self, profile: &Profile) -> Result<(), Failure> {
        self.writer.append(profile).map_err(|error| refused(&self.part, as_io(error)))
    }

    /// Whether the disk is so full that the recording should end now.
    pub(crate) fn is_low(&self) -> bool {
        self.writer.output().low
    }

    /// Writes the rest: if that succeeds, the file is a complete recording.
    pub(crate) fn finish(self, profile: &Profile) -> (Unfinished, Result<(), Failure>) {
        let Spool { writer, part } = self;
        let finished = writer.finish(profile).map_err(|error| refused(&part, as_io(error)));
        // Frees the rest of the reserve.
        let finished = finished
            .and_then(|reserved| reserved.file.set_len(reserved.position).map_err(|error| refused(&part, error)));
        (part, finished)
    }

    /// Removes the file: it is empty.
    pub(crate) fn discard(self) {
        // A file that cannot be removed has a name that says what it is.
        let _ = self.part.remove();
    }
}

/// The raw stream of the runtime's events, up to a limit: half of the free disk space, and for its end half of the rest.
#[derive(Debug)]
pub(crate) struct StreamSpool {
    file: Reserved,
    part: Unfinished,
    /// Maximum size in bytes.
    most: u64,
    is_cut: bool,
}

impl StreamSpool {
    /// Creates one, in the same place as [`Spool::create`].
    pub(crate) fn create(output: &Destination) -> Result<StreamSpool, Failure> {
        let (file, part) = Reserved::create(output, "nettrace", false)?;
        let most = file.free() / 2;
        Ok(StreamSpool { file, part, most, is_cut: false })
    }

    /// Stores the next piece, unless it would exceed the limit: then [`StreamSpool::is_cut`] is true, and nothing more is stored.
    pub(crate) fn write(&mut self, piece: &[u8]) -> Result<(), Failure> {
        self.is_cut |= self.file.position.saturating_add(piece.len() as u64) > self.most;
        if self.is_cut {
            return Ok(());
        }
        self.file.write_all(piece).map_err(|error| refused(&self.part, error))
    }

    /// Whether the limit was reached, so that the rest is missing.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The requested end of the stream with its names follows. Raises the limit for it, if nothing is missing before it.
    pub(crate) fn ends(&mut self) {
        self.most = self.most.saturating_add(self.file.free() / 2);
    }

    /// Whether the disk is so full that the recording should end now.
    pub(crate) fn is_low(&self) -> bool {
        self.file.low
    }

    /// Returns the file.
    pub(crate) fn into_file(self) -> Unfinished {
        self.part
    }

    /// Removes the file: its content was written elsewhere, or is worthless.
    pub(crate) fn discard(self) {
        let _ = self.part.remove();
    }
}

/// A heap snapshot in progress.
#[derive(Debug)]
pub(crate) struct HeapSpool {
    writer: remora_heap_file::Writer<Reserved>,
    part: Unfinished,
    failed: Option<Failure>,
    /// Whether a piece was dropped.
    is_cut: bool,
}

/// Names for the content of a snapshot.
pub(crate) struct Named<'a> {
    pub(crate) types: &'a [TypeRow],
    pub(crate) methods: &'a [MethodRow],
    pub(crate) laid_out: &'a LaidOut,
}

impl HeapSpool {
    /// Creates one, in the same place as [`Spool::create`]; readable by its owner only, if `private`.
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

    /// Stores the next piece of the stream as it came: whoever reads the file decodes it. After a failure [`HeapSpool::must_end`] is true,
    /// and nothing more is stored. The reserve is for the end of the file, and pieces arrive faster than the caller checks.
    pub(crate) fn stream(&mut self, piece: Foreign<&[u8]>) {
        if self.must_end() {
            self.is_cut = true;
        } else {
            self.failed = self.writer.stream(piece.unchecked()).err().map(|error| unkept(&self.part, error));
        }
    }

    /// Whether all pieces were stored.
    pub(crate) fn is_whole(&self) -> bool {
        !self.is_cut && self.failed.is_none()
    }

    /// Whether nothing more can be stored: the disk is full, or nearly.
    pub(crate) fn must_end(&self) -> bool {
        self.failed.is_some() || self.writer.output().low
    }

    /// Writes the rest, and moves the snapshot to its destination. If that fails, the failure names the file that has it.
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
        // Frees the rest of the reserve, which takes some milliseconds. The file is complete without it, so readers need not wait.
        let _ = reserved.file.set_len(reserved.position);
        Ok(path)
    }

    /// Removes the file: it is empty.
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
    /// Creates one beside the output, or in the temporary directory where the output is no regular file.
    fn create(output: &Destination, ending: &str, private: bool) -> Result<(Reserved, Unfinished), Failure> {
        let mode = Mode::from_raw_mode(if private { 0o600 } else { 0o666 });
        let (part, file) = output.begin(ending, mode)?;
        Ok((Reserved { file, position: 0, low: false }, part))
    }

    /// Free bytes on its disk; the maximum if unknown.
    fn free(&self) -> u64 {
        free_space(&self.file).unwrap_or(u64::MAX)
    }
}

impl Write for Reserved {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let ahead = bytes.len() as u64 + RESERVE;
        let allocated = rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.position, ahead);
        // Any other error means that the file system cannot allocate ahead; writing reports a full disk.
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

    /// Passes the small disk's path to the process that sees it.
    const DISK: &str = "REMORA_TEST_SMALL_DISK";
    const THIS: &str = "output::spool::tests::a_disk_that_fills_while_recording_takes_nothing_that_was_recorded";

    /// Runs itself again in a mount namespace with a small disk.
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

    /// Adds about a second of a busy recording.
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
