//! What comes from the runtime's own port, and recordings.

use remora_nettrace::{Event, Parser, SampledProfile, Sink, Trace, method_name};
use remora_profile::Meta;
use remora_trigger::codec::{Advertisement, Header, ProcessInfo, ProcessInfoVersion, Reply};

/// Pieces in which a stream arrives: an odd number, so that they end everywhere.
const PIECE: usize = 1021;

pub(crate) fn trigger_codec(bytes: &[u8]) -> bool {
    remora_trigger::codec::decode_anything(bytes);
    let answered = Reply::decode(bytes).is_ok() || Header::decode(bytes).is_ok();
    answered || Advertisement::decode(bytes).is_ok() || ProcessInfo::decode(ProcessInfoVersion::Two, bytes).is_ok()
}

/// Counts, and believes nothing.
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

pub(crate) fn nettrace(bytes: &[u8]) -> bool {
    let (mut parser, mut counting) = (Parser::new(), Counting::default());
    let all = bytes.chunks(PIECE).all(|piece| parser.push(piece, &mut counting).is_ok());
    assert!(all || parser.push(&[], &mut counting).is_err(), "an error is for good");
    assert_eq!(parser.finish().events, counting.events);
    let mut sampled = SampledProfile::new(remora_profile::Event::Wall);
    let _ = bytes.chunks(PIECE).try_for_each(|piece| sampled.push(piece));
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
