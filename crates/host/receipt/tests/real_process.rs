//! Every judgement again, on a real process: a child of the test's own that makes each kind of residue on request.
//!
//! The child is this same test program, started once more with a variable set and only [`residues`] selected.
//! It reads one word a line, does it, and answers; nothing is timed.

use remora_receipt::{AgentThread, Facts, Kind, ProfilerSlot, Receipt, Snapshot, find_left_overs};
use std::ffi::CString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Real-time, handled by nobody.
const SIGNAL: i32 = 44;
const PLAYS: &str = "RECEIPT_TEST_CHILD_SOCKET";

/// The child, and the line to it.
struct Process {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<UnixStream>,
}

impl Process {
    fn start() -> Process {
        let (ours, theirs) = UnixStream::pair().expect("a pair can be made");
        let program = std::env::current_exe().expect("this program is somewhere");
        // SAFETY: `theirs` is open; clearing close-on-exec on it lets the child inherit just this descriptor.
        unsafe { libc::fcntl(theirs.as_raw_fd(), libc::F_SETFD, 0) };
        let mut child = Command::new(program)
            .args(["--exact", "residues", "--nocapture", "--test-threads=1"])
            .env(PLAYS, theirs.as_raw_fd().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("this program starts");
        drop(theirs);
        let orders = child.stdin.take().expect("it is piped");
        let mut process = Process { child, orders, answers: BufReader::new(ours) };
        assert_eq!(process.answer(), "ready");
        process
    }

    fn id(&self) -> u32 {
        self.child.id()
    }

    fn order(&mut self, word: &str) -> String {
        writeln!(self.orders, "{word}").expect("the child listens");
        self.answer()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the child answers");
        line.trim_end().to_owned()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::take(Path::new("/proc"), self.id()).expect("the child lives")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is collected here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child's part; in a normal run, the proof that a test program itself is free of Remora.
#[test]
fn residues() {
    let Ok(descriptor) = std::env::var(PLAYS) else {
        assert_eq!(find_left_overs(Path::new("/proc"), std::process::id()), []);
        return;
    };
    let mut answers = {
        use std::os::fd::FromRawFd;
        // SAFETY: the parent left this descriptor open for us, and nothing else in this process uses it.
        unsafe { UnixStream::from_raw_fd(descriptor.parse().expect("a number")) }
    };
    writeln!(answers, "ready").expect("the parent listens");
    for word in std::io::stdin().lines() {
        let answer = residue(word.expect("text").as_str());
        writeln!(answers, "{answer}").expect("the parent listens");
    }
}

/// Makes one residue and leaves it; answers what the recording side would know of it.
fn residue(word: &str) -> String {
    match word {
        "nothing" => String::new(),
        "ignore" => {
            // SAFETY: ignoring a signal that nobody uses.
            unsafe { libc::signal(SIGNAL, libc::SIG_IGN) };
            String::new()
        }
        "block" | "pend" => block(word == "pend"),
        "timer" => timer(),
        "thread" => thread(),
        "socket" => socket(),
        "memory" => memory(),
        "child" | "zombie" => fork(word == "zombie"),
        path => map(path),
    }
}

fn block(send: bool) -> String {
    // SAFETY: an all-zero set is a valid value to initialise.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid set.
    unsafe { libc::sigaddset(&mut set, SIGNAL) };
    // SAFETY: `set` is a valid set, and the old one is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
    if send {
        // SAFETY: the signal is blocked by this very thread, so it stays pending for it.
        unsafe { libc::pthread_kill(libc::pthread_self(), SIGNAL) };
    }
    String::new()
}

fn timer() -> String {
    // SAFETY: all-zero is a valid value, the fields that matter are set below.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_SIGNAL;
    event.sigev_signo = SIGNAL;
    let mut timer: libc::timer_t = std::ptr::null_mut();
    // SAFETY: both point to live values; the timer is never armed.
    let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) };
    made.to_string()
}

fn thread() -> String {
    let (tell, reported) = std::sync::mpsc::channel();
    let body = move || {
        // SAFETY: it takes nothing and cannot fail.
        tell.send(unsafe { libc::gettid() }).expect("the other end waits");
        std::thread::park();
    };
    std::thread::Builder::new().name("remora-agent".into()).spawn(body).expect("a thread can be made");
    reported.recv().expect("it tells").to_string()
}

fn socket() -> String {
    let pair = UnixStream::pair().expect("a pair can be made");
    let link = std::fs::read_link(format!("/proc/self/fd/{}", pair.0.as_raw_fd())).expect("it is open");
    std::mem::forget(pair);
    link.to_string_lossy().trim_start_matches("socket:[").trim_end_matches(']').to_owned()
}

fn memory() -> String {
    let name = CString::new("remora-ring").expect("no zero in it");
    // SAFETY: the name ends with a zero.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), 0) };
    // SAFETY: the descriptor is ours and open.
    unsafe { libc::ftruncate(descriptor, 4096) };
    map_descriptor(descriptor);
    descriptor.to_string()
}

fn map(path: &str) -> String {
    let file = std::fs::File::open(path).expect("the parent made it");
    map_descriptor(file.as_raw_fd());
    String::new()
}

fn map_descriptor(descriptor: i32) {
    // SAFETY: a new private read-only mapping at an address of the kernel's choice touches nothing that exists.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_PRIVATE, descriptor, 0) };
    assert_ne!(address, libc::MAP_FAILED);
}

fn fork(zombie: bool) -> String {
    let (mut ours, theirs) = UnixStream::pair().expect("a pair can be made");
    // SAFETY: the child calls nothing but prctl, write, pause and _exit, which are allowed after a fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        if zombie {
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: asks to be killed when the parent ends, so that nothing outlives the test.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        // SAFETY: one byte of a text that lives for ever, to an open descriptor.
        unsafe { libc::write(theirs.as_raw_fd(), c"x".as_ptr().cast(), 1) };
        loop {
            // SAFETY: waits for a signal.
            unsafe { libc::pause() };
        }
    }
    drop(theirs);
    // The child is ready when it has written, and over when its end is closed.
    assert_eq!(ours.read(&mut [0]).expect("it can be read"), usize::from(!zombie));
    if zombie {
        // SAFETY: all-zero is a valid value to be filled in.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: waits for our own child and leaves it uncollected.
        unsafe { libc::waitid(libc::P_PID, child as u32, &mut info, libc::WEXITED | libc::WNOWAIT) };
    }
    child.to_string()
}

fn facts() -> Facts {
    Facts {
        agent_thread_name: "remora-agent".into(),
        signal: Some(SIGNAL as u32),
        slot: ProfilerSlot::NotificationOnly,
        attach_completed: true,
        detach_confirmed: true,
        runtime: ".NET 8.0.4".into(),
        ..Facts::default()
    }
}

/// What is left after the child did as told; `known` makes facts of its answer.
fn left_after(word: &str, known: impl FnOnce(String) -> Facts) -> Vec<Kind> {
    let mut process = Process::start();
    let before = process.snapshot();
    assert_eq!(before.unread, [], "nothing of one's own child is hidden");
    let facts = known(process.order(word));
    let receipt = Receipt::between(&before, &process.snapshot(), &facts);
    receipt.left.iter().map(|left| left.kind).collect()
}

#[test]
fn a_process_that_did_nothing_is_clean() {
    assert_eq!(left_after("nothing", |_| facts()), []);
}

#[test]
fn a_real_ignored_signal_is_left() {
    assert_eq!(left_after("ignore", |_| facts()), [Kind::SignalDisposition]);
}

#[test]
fn a_real_blocked_signal_is_left() {
    assert_eq!(left_after("block", |_| facts()), [Kind::SignalMask]);
}

#[test]
fn a_real_pending_signal_is_left() {
    assert_eq!(left_after("pend", |_| facts()), [Kind::SignalDisposition, Kind::SignalMask]);
}

#[test]
fn a_real_timer_is_left() {
    let made = |answer: String| {
        assert_eq!(answer, "0", "the child could make a timer");
        facts()
    };
    assert_eq!(left_after("timer", made), [Kind::Timer]);
}

#[test]
fn a_real_thread_is_left_by_id_and_by_name() {
    let by_id = |answer: String| Facts {
        agent_threads: vec![AgentThread { id: answer.parse().expect("a number"), start_time: None }],
        agent_thread_name: String::new(),
        ..facts()
    };
    assert_eq!(left_after("thread", by_id), [Kind::Thread]);
    assert_eq!(left_after("thread", |_| facts()), [Kind::Thread]);
}

#[test]
fn a_real_socket_is_left() {
    let inode = |answer: String| Facts { socket_inodes: vec![answer.parse().expect("a number")], ..facts() };
    assert_eq!(left_after("socket", inode), [Kind::Socket]);
}

#[test]
fn real_shared_memory_is_left() {
    assert_eq!(left_after("memory", |_| facts()), [Kind::Mapping, Kind::Descriptor]);
}

#[test]
fn real_children_are_left() {
    let child = |answer: String| Facts { children: vec![answer.parse().expect("a number")], ..facts() };
    assert_eq!(left_after("child", child), [Kind::Child]);
    assert_eq!(left_after("zombie", child), [Kind::Child]);
}

#[test]
fn a_real_mapped_library_is_left_and_found_though_deleted() {
    let path = std::env::temp_dir().join(format!("libremora_agent-{}.so", std::process::id()));
    std::fs::write(&path, vec![0; 4096]).expect("a file can be written");
    let mut process = Process::start();
    let before = process.snapshot();
    process.order(path.to_str().expect("text"));
    std::fs::remove_file(&path).expect("it is there");
    let mut after = process.snapshot();
    after.look_for(&[&path]);
    let facts = Facts { placed: vec![path.clone()], ..facts() };
    let receipt = Receipt::between(&before, &after, &facts);
    assert_eq!(receipt.left.iter().map(|left| left.kind).collect::<Vec<_>>(), [Kind::Mapping]);
    assert!(receipt.left[0].what.contains("(deleted)"), "{:?}", receipt.left);
    let found = find_left_overs(Path::new("/proc"), process.id());
    assert_eq!(found.iter().map(|left| left.kind).collect::<Vec<_>>(), [Kind::Mapping]);
}

#[test]
fn memory_and_threads_of_a_real_process_are_counted() {
    let mut process = Process::start();
    let before = process.snapshot().totals();
    process.order("thread");
    let after = process.snapshot().totals();
    assert_eq!(after.threads, before.threads + 1);
    assert!(before.memory.resident > 0 && before.memory.virtual_size >= before.memory.resident);
    assert!(before.memory.proportional.is_some_and(|bytes| bytes > 0 && bytes <= before.memory.resident));
}
