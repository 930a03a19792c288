//! The examples of `corprof::sdk` on live runtimes: each is attached, says what it sees, detaches, is unmapped, and does so again.
//!
//! Each tells the socket that its client data names, and leaves when the listener hangs up: so every step is a handshake.
#![forbid(unsafe_code)]

use remora_e2e::{Facts, PATIENCE, Runtime, Start, Target, diagnostics, folder, on_every_runtime, sdk_example, until};
use std::io::{BufRead, BufReader};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};

/// An example that is attached, and its other end.
struct Attached {
    pid: u32,
    library: String,
    told: BufReader<UnixStream>,
}

impl Attached {
    /// Attaches one of the examples, whose class id ends in this number.
    fn to(target: &Target, name: &str, class: [u8; 16]) -> Attached {
        let folder = folder();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let library = sdk_example(name).to_string_lossy().into_owned();
        let data = path.to_string_lossy().into_owned();
        let answer = diagnostics::attach_profiler(target.pid(), &class, &library, data.as_bytes());
        assert_eq!(answer, Ok(()), "{name} cannot attach");
        // It has called before the runtime answers.
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Attached { pid: target.pid(), library, told: BufReader::new(stream) }
    }

    /// The next line.
    #[track_caller]
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.told.read_line(&mut line).expect("the profiler says nothing more");
        assert!(line.ends_with('\n'), "the profiler broke off: `{line}`");
        line.trim_end().to_owned()
    }

    /// The lines up to one that begins so.
    #[track_caller]
    fn until_line(&mut self, start: &str) -> Vec<String> {
        let mut lines = vec![self.line()];
        while !lines.last().is_some_and(|line| line.starts_with(start)) {
            lines.push(self.line());
        }
        lines
    }

    /// Hangs up; what the profiler says until it has left and is unmapped.
    #[track_caller]
    fn leave(mut self) -> Vec<String> {
        self.told.get_ref().shutdown(Shutdown::Write).unwrap();
        let said = self.until_line("detached");
        until("the example is unmapped", || !is_mapped(self.pid, &self.library));
        said
    }
}

fn is_mapped(pid: u32, library: &str) -> bool {
    Facts::of(pid).maps.iter().any(|mapping| mapping.name == library)
}

fn quiet(runtime: &Runtime, name: &str) -> Target {
    Start::managed(runtime, name).ready()
}

/// The class id of the example that was exported under `{636F7270-726F-6600-...}` with these last eight bytes.
fn class(last: &[u8; 8]) -> [u8; 16] {
    let mut class = *b"procor\0f--------";
    class[8..].copy_from_slice(last);
    class
}

#[test]
fn cat_02_cat_07_det_04_det_05_det_08_the_sdks_module_logger_attaches_tells_and_is_gone_twice() {
    on_every_runtime(|runtime| {
        let mut target = quiet(runtime, "obedient");
        for _ in 0..2 {
            let mut logger = Attached::to(&target, "module_logger", class(b"module\0\x01"));
            let found = logger.until_line("caught up:");
            assert!(found.iter().any(|line| line.contains("System.Private.CoreLib.dll")), "{found:?}");
            target.ask("a load");
            logger.until_line("loaded ");
            target.ask("a unload");
            logger.until_line("unloading ");
            logger.leave();
        }
        assert!(target.quit().success());
    });
}
