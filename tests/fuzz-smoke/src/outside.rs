//! Data from the runtime's own port, and recordings.

use remora_attach::codec::{Advertisement, Header, ProcessInfo, ProcessInfoVersion, Reply};
use remora_nettrace::{Event, Parser, SampledProfile, Sink, Trace, method_name};
use remora_profile::Meta;

/// Bytes of each piece of a stream: an odd number, so that pieces end everywhere.
const PIECE: usize = 1021;

pub(crate) fn trigger_codec(bytes: &[u8]) -> bool {
    remora_attach::codec::decode_anything(bytes);
    let answered = Reply::decode(bytes).is_ok() || Header::decode(bytes).is_ok();
    answered || Advertisement::decode(bytes).is_ok() || ProcessInfo::decode(ProcessInfoVersion::Two, bytes).is_ok()
}

/// Files of a target: the runtime, the C library, other mapped files.
pub(crate) fn trigger_elf(bytes: &[u8]) -> bool {
    let understood = remora_attach::read_any_elf(bytes);
    let library = remora_attach::Requirements::of_library(bytes);
    assert!(understood || library.is_err());
    understood
}

/// The kernel's files about a process, with parts that the process controls: paths, names of threads.
pub(crate) fn trigger_proc(bytes: &[u8]) -> bool {
    use remora_attach::proc::{parse_listening, parse_mounts, parse_stat, parse_status};
    let lines = bytes.split(|byte| *byte == b'\n').count();
    let (mounts, listening) = (parse_mounts(bytes), parse_listening(bytes));
    assert!(mounts.len().max(listening.len()) <= lines);
    let status = parse_status(bytes);
    let listed = !mounts.is_empty() || !listening.is_empty();
    listed || remora_attach::read_any_group(bytes) || parse_stat(bytes).is_some() || status.process_id != 0
}

/// The same files as the receipt reads them.
pub(crate) fn receipt_proc(bytes: &[u8]) -> bool {
    remora_receipt::parse_anything(&String::from_utf8_lossy(bytes))
}

/// Counts events.
#[derive(Default)]
struct Counting {
    events: u64,
}

impl Sink for Counting {
    fn trace(&mut self, _: &Trace) {}
    fn event(&mut self, _: &Event<'_>) {
        self.events += 1;
    }
    fn dropped(&mut self, _: u64, _: u64) {}
}

/// Requests to the page of a heap, from a browser or any other client of the port.
pub(crate) fn heap_request(bytes: &[u8]) -> bool {
    remora_heap_view::read_any_request(bytes)
}

pub(crate) fn nettrace(bytes: &[u8]) -> bool {
    let (mut parser, mut counting) = (Parser::new(), Counting::default());
    let all = bytes.chunks(PIECE).all(|piece| parser.push(piece.into(), &mut counting).is_ok());
    assert!(all || parser.push([].as_slice().into(), &mut counting).is_err(), "an error is for good");
    assert_eq!(parser.finish().events, counting.events);
    let mut sampled = SampledProfile::new(remora_profile::Event::Wall);
    let _ = bytes.chunks(PIECE).try_for_each(|piece| sampled.push(piece.into()));
    let profile = sampled.finish(Meta::default());
    assert!(profile.loss.adds_up());
    assert_eq!(profile.loss.delivered, profile.samples().len() as u64);
    assert!(profile.samples().len() <= bytes.len());
    let text = String::from_utf8_lossy(bytes.get(..256).unwrap_or(bytes));
    let _ = method_name(&text, &text, &text);
    counting.events > 0
}

pub(crate) fn recording(bytes: &[u8]) -> bool {
    let Ok(recording) = remora_recording::read(bytes) else { return false };
    let written = remora_recording::Writer::create(Vec::new()).and_then(|writer| writer.finish(&recording.profile));
    let Ok(written) = written else { panic!("what was read cannot be written") };
    match remora_recording::read(&written[..]) {
        Ok(again) => {
            assert!(again.complete && again.unknown_chunks == 0);
            assert_eq!(again.profile.samples(), recording.profile.samples());
            assert_eq!(again.profile.loss, recording.profile.loss);
        }
        Err(error) => panic!("what was written cannot be read: {error}"),
    }
    recording.complete
}
