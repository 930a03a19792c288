//! The client against servers that behave like a runtime, badly, or not at all.

use crate::attach::{Attach, ask, attach, attach_when_ready};
use crate::codec::{CodecError, EventPipeConfig, Guid, Provider, Rundown, Stacks};
use crate::error::{Error, Reason};
use crate::hresult::HResult;
use crate::remedy::Remedy;
use crate::reverse::ReversePort;
use crate::session::EventPipeSession;
use crate::tests::process::{MadeUp, socket_name};
use remora_holds::holds;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::JoinHandle;
use std::time::Duration;

/// Long enough for any machine; only tests that wait for nothing use less.
const PATIENT: Duration = Duration::from_secs(60);
const IMPATIENT: Duration = Duration::from_millis(60);

/// A process with `serve` on its socket: one call per connection, with the request's set, command and payload.
fn process_served_by<T: Send + 'static>(
    serve: impl FnOnce(UnixListener) -> T + Send + 'static,
) -> (MadeUp, JoinHandle<T>) {
    let made = MadeUp::core_clr();
    let path = made.in_root("tmp").join(socket_name());
    std::fs::remove_file(&path).expect("removed");
    let listener = UnixListener::bind(path).expect("bound");
    (made, std::thread::spawn(move || serve(listener)))
}

fn read_request(stream: &mut UnixStream) -> ([u8; 2], Vec<u8>) {
    let mut header = [0; 20];
    stream.read_exact(&mut header).expect("a header");
    assert_eq!(&header[..14], b"DOTNET_IPC_V1\0");
    let mut payload = vec![0; usize::from(u16::from_le_bytes([header[14], header[15]])) - 20];
    stream.read_exact(&mut payload).expect("a payload");
    ([header[16], header[17]], payload)
}

fn answer(id: u8, payload: &[u8]) -> Vec<u8> {
    let size = (20 + payload.len() as u16).to_le_bytes();
    [&b"DOTNET_IPC_V1\0"[..], &size, &[0xFF, id, 0, 0], payload].concat()
}

fn one_answer(bytes: Vec<u8>) -> impl FnOnce(UnixListener) -> ([u8; 2], Vec<u8>) + Send {
    move |listener| {
        let (mut stream, _) = listener.accept().expect("a connection");
        let request = read_request(&mut stream);
        stream.write_all(&bytes).expect("written");
        request
    }
}

fn request(timeout: Duration) -> Attach {
    Attach { client_data: vec![1, 2, 3], timeout, ..Attach::new(Guid([9; 16]), "/tmp/x.so") }
}

#[test]
fn att_02_a_served_request_arrives_whole_and_succeeds() {
    let (made, server) = process_served_by(one_answer(answer(0, &[0; 4])));
    attach(&made.find_served(), &request(PATIENT)).expect("attached");
    let (command, payload) = server.join().expect("served");
    assert_eq!(command, [3, 1]);
    holds!(ATT_02 rem, payload[..4] == 60_000_u32.to_le_bytes(), "milliseconds, not seconds");
    holds!(ATT_02 rem, payload[payload.len() - 7..] == [3, 0, 0, 0, 1, 2, 3]);
}

#[test]
fn att_07_a_refusal_names_cause_and_remedy() {
    let cases = [
        (0x8013_136A_u32, "another profiler holds", Remedy::AttachNotificationOnly),
        (0x8007_007E, "could not load the library", Remedy::CheckProcess),
        (0x8013_1515, "no profiling interface", Remedy::UseEventPipe),
        (0x8765_4321, "0x87654321", Remedy::Report),
    ];
    for (code, text, remedy) in cases {
        let (made, server) = process_served_by(one_answer(answer(0xFF, &code.to_le_bytes())));
        let error = attach(&made.find_served(), &request(PATIENT)).expect_err("refused");
        assert!(matches!(error, Error::RuntimeRefused(HResult(found)) if found == code), "{error:?}");
        holds!(ATT_07 rem, error.to_string().contains(text) && error.remedies().contains(&remedy), "{error}");
        server.join().expect("served");
    }
}

#[test]
fn att_08_a_target_that_does_not_answer_in_time_may_still_do_it_later() {
    let (made, server) = process_served_by(|listener| {
        let (mut stream, _) = listener.accept().expect("a connection");
        let request = read_request(&mut stream);
        let mut rest = Vec::new();
        // Ends when the client gives up and closes its side.
        stream.read_to_end(&mut rest).expect("closed");
        request
    });
    let error = attach(&made.find_served(), &request(IMPATIENT)).expect_err("no answer");
    holds!(ATT_08 rem, matches!(error, Error::TimedOut { step: "answer", after: IMPATIENT }), "{error:?}");
    holds!(ATT_08 rem, error.to_string().contains("may still answer later"), "{error}");
    server.join().expect("served");
}

#[test]
fn att_08_a_server_that_takes_no_more_connections_cannot_hold_us() {
    let made = MadeUp::core_clr();
    let path = made.in_root("tmp").join(socket_name());
    std::fs::remove_file(&path).expect("removed");
    let socket =
        rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None).expect("made");
    rustix::net::bind(&socket, &rustix::net::SocketAddrUnix::new(&path).expect("fits")).expect("bound");
    rustix::net::listen(&socket, 0).expect("listens");
    let _fills_the_backlog = UnixStream::connect(&path).expect("connected");
    let error = attach(&made.find_served(), &request(IMPATIENT)).expect_err("full");
    holds!(ATT_08 rem, matches!(error, Error::TimedOut { step: "accept a connection", .. }), "{error:?}");
}

#[test]
fn dribbled_bytes_are_put_together_and_cannot_hold_us() {
    let whole = answer(0, &[0; 4]);
    for sent in [whole.len(), whole.len() - 1, 19, 20] {
        let bytes = whole[..sent].to_vec();
        let is_whole = sent == whole.len();
        let (made, server) = process_served_by(move |listener| {
            let (mut stream, _) = listener.accept().expect("a connection");
            read_request(&mut stream);
            bytes.iter().for_each(|byte| stream.write_all(&[*byte]).expect("written"));
            stream.read_to_end(&mut Vec::new()).expect("closed");
        });
        match attach(&made.find_served(), &request(if is_whole { PATIENT } else { IMPATIENT })) {
            Ok(()) => assert!(is_whole),
            Err(error) => assert!(!is_whole && matches!(error, Error::TimedOut { .. }), "{sent}: {error:?}"),
        }
        server.join().expect("served");
    }
}

#[test]
fn damaged_answers_are_named() {
    let mut wrong_magic = answer(0, &[0; 4]);
    wrong_magic[0] = b'X';
    let mut too_small = answer(0, &[]);
    too_small[14] = 3;
    let mut cut = answer(0, &[0; 4]);
    cut.truncate(22);
    let cases = [
        (wrong_magic, CodecError::BadMagic),
        (too_small, CodecError::BadField { field: "size", why: "smaller than a header" }),
        (cut, CodecError::Truncated { need: 4, have: 2 }),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), CodecError::BadMagic),
    ];
    for (bytes, expected) in cases {
        let (made, server) = process_served_by(one_answer(bytes));
        match attach(&made.find_served(), &request(PATIENT)) {
            Err(Error::Protocol(found)) => assert_eq!(found, expected),
            other => assert!(matches!(other, Err(Error::Protocol(_))), "{other:?}, expected {expected:?}"),
        }
        server.join().expect("served");
    }
}

#[test]
fn a_connection_that_breaks_is_distinguished_from_silence() {
    let (made, server) = process_served_by(|listener| {
        let (mut stream, _) = listener.accept().expect("a connection");
        read_request(&mut stream);
    });
    let error = attach(&made.find_served(), &request(PATIENT)).expect_err("broken");
    assert!(matches!(error, Error::Broken { step: "answer", .. }), "{error:?}");
    server.join().expect("served");
}

#[test]
fn att_11_client_data_that_is_too_large_is_refused_before_anybody_is_asked() {
    let (made, server) = process_served_by(|listener| {
        listener.set_nonblocking(true).expect("set");
        listener
    });
    let listener = server.join().expect("served");
    let large = Attach { client_data: vec![0; 65_536], ..request(PATIENT) };
    let error = attach(&made.find_served(), &large).expect_err("too large");
    assert!(matches!(error, Error::Protocol(CodecError::TooLarge { .. })), "{error:?}");
    holds!(ATT_11 rem, listener.accept().map(|_| ()).expect_err("nobody came").kind() == std::io::ErrorKind::WouldBlock);
}

#[test]
fn att_16_a_stopped_target_is_not_asked_and_one_that_stops_meanwhile_is_explained() {
    let stopped = MadeUp::core_clr();
    stopped.state('T', 0);
    let error = attach(&stopped.find_served(), &request(PATIENT)).expect_err("stopped");
    holds!(ATT_16 rem, matches!(error, Error::NotAttachable { reason: Reason::Stopped { .. }, .. }), "{error:?}");

    let (made, server) = process_served_by(|listener| listener.accept().expect("a connection"));
    let process = made.find_served();
    let asking = std::thread::spawn(move || attach(&process, &request(IMPATIENT)));
    let (mut stream, _) = server.join().expect("served");
    read_request(&mut stream);
    made.state('t', 99);
    let error = asking.join().expect("asked").expect_err("stopped");
    holds!(ATT_16 rem, error.to_string().contains("process 99, which traces it"), "{error}");
}

/// A dying runtime may hang up, break off in the middle of an answer, or refuse.
#[test]
fn a_process_that_ends_while_it_is_asked_has_ended() {
    let answers = [vec![], answer(0, &[0; 4])[..10].to_vec(), answer(0xFF, &0x8000_4005_u32.to_le_bytes())];
    // The kernel shows it as ended before the answer, or only after it.
    for (said, is_ended_before) in answers.iter().flat_map(|said| [(said, true), (said, false)]) {
        let (made, server) = process_served_by(|listener| listener.accept().expect("a connection"));
        let process = made.find_served();
        let asking = std::thread::spawn(move || attach(&process, &request(PATIENT)));
        let (mut stream, _) = server.join().expect("served");
        read_request(&mut stream);
        if is_ended_before {
            made.end();
        }
        stream.write_all(said).expect("written");
        drop(stream);
        if !is_ended_before {
            made.end();
        }
        let error = asking.join().expect("asked").expect_err("it has ended");
        assert!(matches!(error, Error::Changed { pid: 777, .. }), "{said:?}: {error:?}");
    }
}

/// A target replaced its program (exec) between the last check and the attach, which closed its socket.
#[test]
fn a_program_that_was_replaced_before_it_answered_is_reported_as_replaced() {
    let replaced = |result: Result<(), Error>| {
        let text = result.expect_err("another program").to_string();
        assert!(text.contains("process 777 has replaced its program since it was found"), "{text}");
    };
    for hangs_up in [true, false] {
        let (made, server) = process_served_by(|listener| listener);
        made.set("auxv", b"before");
        let process = made.find_served();
        let listener = server.join().expect("served");
        if hangs_up {
            let asking = std::thread::spawn(move || attach(&process, &request(PATIENT)));
            let (mut stream, _) = listener.accept().expect("a connection");
            read_request(&mut stream);
            made.set("auxv", b"after");
            drop(stream);
            replaced(asking.join().expect("asked"));
        } else {
            // Read first as the last check, then after the refused connection.
            drop(listener);
            made.becomes_a_pipe("auxv");
            let asking = std::thread::spawn(move || attach(&process, &request(PATIENT)));
            made.write_when_read("auxv", b"before", || made.replace("auxv", b"after"));
            replaced(asking.join().expect("asked"));
        }
    }
}

/// While a thread of the target began to execute another program, the library got no threads. The command reported a lack of memory.
#[test]
fn regression_a_program_that_was_being_replaced_was_said_to_have_no_memory() {
    // The library's answer, and that of .NET Core 3.1 itself.
    [HResult::OUT_OF_MEMORY, HResult::NOT_ENOUGH_MEMORY].into_iter().for_each(is_replaced_in_spite_of);
}

fn is_replaced_in_spite_of(refusal: HResult) {
    let (made, server) = process_served_by(|listener| listener.accept().expect("a connection"));
    made.set("auxv", b"before");
    let process = made.find_served();
    let asking = std::thread::spawn(move || attach(&process, &request(PATIENT)));
    let (mut stream, _) = server.join().expect("served");
    read_request(&mut stream);
    made.becomes_a_pipe("auxv");
    stream.write_all(&answer(0xFF, &refusal.0.to_le_bytes())).expect("written");
    made.write_when_read("auxv", b"before", || made.replace("auxv", b"after"));
    let error = asking.join().expect("asked").expect_err("another program");
    assert!(matches!(error, Error::Changed { pid: 777, .. }), "{error:?}");
}

#[test]
fn a_process_id_that_was_used_again_is_not_asked() {
    let made = MadeUp::core_clr();
    let process = made.find_served();
    made.set("stat", format!("777 (other) S {}654321 0 0\n", "0 ".repeat(18)).as_bytes());
    let error = attach(&process, &request(PATIENT)).expect_err("another process");
    assert!(matches!(error, Error::Changed { pid: 777, .. }), "{error:?}");
}

#[test]
fn a_stale_socket_is_refused_whether_or_not_the_kernel_lists_it() {
    let made = MadeUp::core_clr();
    let process = made.find_served();
    let error = attach(&process, &request(PATIENT)).expect_err("nobody listens");
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    made.listening(&[]);
    let error = attach(&made.find_served(), &request(PATIENT)).expect_err("nobody listens");
    assert!(matches!(error, Error::NotAttachable { reason: Reason::SocketStale { .. }, .. }), "{error:?}");
}

#[test]
fn a_socket_of_another_user_or_behind_a_link_is_not_connected_to() {
    const STRANGER: u32 = 4_000_001;
    let made = MadeUp::core_clr();
    let (bait, path) = (made.in_root("bait"), made.in_root("tmp").join(socket_name()));
    let listener = UnixListener::bind(&bait).expect("bound");
    listener.set_nonblocking(true).expect("set");
    let nobody_came = |process: &crate::Process| {
        let error = attach(process, &request(PATIENT)).expect_err("refused");
        assert!(matches!(&error, Error::Connect { .. }), "{error:?}");
        assert_eq!(listener.accept().map(drop).map_err(|error| error.kind()), Err(std::io::ErrorKind::WouldBlock));
    };
    let process = made.find_served();
    std::fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink(&bait, &path).expect("linked");
    nobody_came(&process);
    std::fs::remove_file(&path).expect("removed");
    std::fs::rename(&bait, &path).expect("moved");
    std::os::unix::fs::chown(&path, Some(STRANGER), Some(STRANGER)).expect("given");
    nobody_came(&process);
    let error = attach(&made.find_served(), &request(PATIENT)).expect_err("there is none of its own");
    assert!(matches!(&error, Error::NotAttachable { .. }), "{error:?}");
}

/// A user who can make a mount namespace can mount the socket of a root process over its own; its owner is trusted.
#[test]
fn nothing_is_sent_to_another_process_that_listens_under_the_targets_name() {
    let made = MadeUp::core_clr();
    let path = made.in_root("tmp").join(socket_name());
    std::fs::remove_file(&path).expect("removed");
    let listener = UnixListener::bind(&path).expect("bound");
    let own = std::process::id();
    let session = EventPipeSession::start(&made.find(), &configuration()).map(drop);
    for refused in [attach(&made.find(), &request(PATIENT)), ask(&made.find(), PATIENT).map(drop), session] {
        let error = refused.expect_err("it is this program that listens");
        assert!(matches!(error, Error::SocketOfAnother { listener: Some(other), .. } if other == own), "{error:?}");
        let (mut stream, _) = listener.accept().expect("it was connected to");
        assert_eq!(stream.read(&mut [0]).expect("its end"), 0, "nothing was sent");
    }
}

#[test]
fn att_03_older_runtimes_are_asked_in_older_words() {
    let text = |text: &str| -> Vec<u8> {
        let units: Vec<u8> = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
        [&(units.len() as u32 / 2).to_le_bytes()[..], &units].concat()
    };
    let payload = [&77_u64.to_le_bytes()[..], &[5; 16], &text("dotnet x.dll"), &text("Linux"), &text("x64")].concat();
    let (made, server) = process_served_by(move |listener| {
        let mut asked = Vec::new();
        for reply in [
            answer(0xFF, &0x8013_1385_u32.to_le_bytes()),
            answer(0xFF, &0x8013_1385_u32.to_le_bytes()),
            answer(0, &payload),
        ] {
            let (mut stream, _) = listener.accept().expect("a connection");
            asked.push(read_request(&mut stream).0);
            stream.write_all(&reply).expect("written");
        }
        asked
    });
    let info = ask(&made.find_served(), PATIENT).expect("answered");
    assert_eq!((info.pid, info.command_line, info.runtime_version), (77, "dotnet x.dll".into(), None));
    holds!(ATT_03 rem, server.join().expect("served") == [[4, 8], [4, 4], [4, 0]]);
}

#[test]
fn a_runtime_that_is_just_starting_is_asked_again() {
    let (made, server) = process_served_by(|listener| {
        for reply in [
            answer(0xFF, &0x8013_135B_u32.to_le_bytes()),
            answer(0xFF, &0x8013_1371_u32.to_le_bytes()),
            answer(0, &[0; 4]),
        ] {
            let (mut stream, _) = listener.accept().expect("a connection");
            read_request(&mut stream);
            stream.write_all(&reply).expect("written");
        }
    });
    attach_when_ready(&made.find_served(), &request(PATIENT)).expect("attached at the third time");
    server.join().expect("served");
}

fn configuration() -> EventPipeConfig {
    let provider = Provider { name: "P".into(), keywords: 1, level: 4, filter: String::new() };
    EventPipeConfig {
        buffer_mebibytes: 16,
        rundown: Rundown::Default,
        stacks: Stacks::Walked,
        providers: vec![provider],
    }
}

#[test]
fn a_session_streams_until_it_is_stopped_and_what_follows_the_stop_is_read_too() {
    let (made, server) = process_served_by(|listener| {
        let (mut stream, _) = listener.accept().expect("a connection");
        assert_eq!(read_request(&mut stream).0, [2, 3]);
        stream.write_all(&[answer(0, &42_u64.to_le_bytes()), b"Nettrace".to_vec()].concat()).expect("written");
        let (mut stopping, _) = listener.accept().expect("a second connection");
        let stop = read_request(&mut stopping);
        // The runtime writes the remaining events before it answers.
        stream.write_all(&vec![7; 1 << 20]).expect("written");
        drop(stream);
        stopping.write_all(&answer(0, &42_u64.to_le_bytes())).expect("written");
        stop
    });
    let mut session = EventPipeSession::start(&made.find_served(), &configuration()).expect("started");
    let mut first = [0; 8];
    session.read_exact(&mut first).expect("read");
    assert_eq!(&first, b"Nettrace");
    // A process that is stopped just then may continue: the request reaches it.
    made.state('T', 0);
    session.stop(PATIENT).expect("asked");
    let mut rest = Vec::new();
    session.read_to_end(&mut rest).expect("read");
    assert_eq!(rest.len(), 1 << 20);
    session.finish(PATIENT).expect("ended");
    assert_eq!(server.join().expect("served"), ([2, 1], 42_u64.to_le_bytes().to_vec()));
}

#[test]
fn a_runtime_that_cannot_leave_something_out_is_asked_for_all() {
    let (made, server) = process_served_by(|listener| {
        let mut asked = Vec::new();
        for reply in [answer(0xFF, &0x8013_1385_u32.to_le_bytes()), answer(0, &42_u64.to_le_bytes())] {
            let (mut stream, _) = listener.accept().expect("a connection");
            asked.push(read_request(&mut stream).0);
            stream.write_all(&reply).expect("written");
        }
        asked
    });
    let wanted = EventPipeConfig { rundown: Rundown::Keywords(8), stacks: Stacks::None, ..configuration() };
    let session = EventPipeSession::start(&made.find_served(), &wanted).expect("started");
    assert_eq!(session.config(), &configuration());
    assert_eq!(server.join().expect("served"), [[2, 5], [2, 3]]);
}

#[test]
fn a_reverse_port_tells_who_connects_and_passes_one_command_each_time() {
    let parent = tempfile::tempdir().expect("a directory");
    let port = ReversePort::open_in(parent.path()).expect("opened");
    let (name, value) = port.variable();
    assert_eq!((name, value), ("DOTNET_DiagnosticPorts", format!("{},suspend", port.path().display())));
    let path = port.path();
    let runtime = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for reply in [answer(0xFF, &0x8013_135B_u32.to_le_bytes()), answer(0, &[])] {
            let mut stream = UnixStream::connect(&path).expect("connected");
            stream.write_all(&[&b"ADVR_V1\0"[..], &[3; 16], &77_u64.to_le_bytes(), &[0, 0]].concat()).expect("written");
            asked.push(read_request(&mut stream).0);
            stream.write_all(&reply).expect("written");
        }
        asked
    });
    let first = port.accept(PATIENT).expect("connected");
    assert_eq!((first.advertisement().pid, first.advertisement().cookie), (77, Guid([3; 16])));
    assert!(first.attach(&request(PATIENT)).expect_err("not resumed").is_too_early());
    port.accept(PATIENT).expect("connected").resume(PATIENT).expect("resumed");
    assert_eq!(runtime.join().expect("served"), [[3, 1], [4, 1]]);
    assert!(matches!(port.accept(IMPATIENT), Err(Error::TimedOut { .. })));
    drop(port);
    assert_eq!(std::fs::read_dir(parent.path()).expect("readable").count(), 0, "nothing stays");
}

#[test]
fn a_stranger_on_the_reverse_port_is_refused() {
    let parent = tempfile::tempdir().expect("a directory");
    let port = ReversePort::open_in(parent.path()).expect("opened");
    let mut stranger = UnixStream::connect(port.path()).expect("connected");
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: remora.example\r\n\r\n").expect("written");
    let refused = port.accept(PATIENT);
    assert!(matches!(refused, Err(Error::Protocol(CodecError::BadMagic))), "{refused:?}");
}
