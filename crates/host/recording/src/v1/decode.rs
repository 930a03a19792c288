//! Decodes chunks to a profile. Input is untrusted: each index must be of an earlier row, and sums must not overflow.

use super::{END, ROWS, SCALES, STATE, THROWN, frame_kind, state::State};
use crate::bytes::Reader;
use crate::error::Fault;
use crate::{Recording, limits};
use remora_profile::{
    Frame, FrameIx, LARGEST_SCALE, LossCause, Profile, Sample, StackIx, StringIx, Thread, ThreadIx, Thrown, Watermark,
};

/// A profile being read.
///
/// A file's tables may repeat a row, which a [`Profile`] keeps once: the vectors translate the file's indexes.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    profile: Profile,
    state: Option<State>,
    strings: Vec<StringIx>,
    frames: Vec<FrameIx>,
    stacks: Vec<StackIx>,
    depths: Vec<u32>,
    /// Sum of all weights, checked for overflow.
    weight: u64,
    unknown_chunks: u64,
    scaled: bool,
    ended: bool,
}

impl Decoder {
    /// Samples so far.
    pub(crate) fn samples(&self) -> u64 {
        self.profile.samples().len() as u64
    }

    /// Decodes a chunk.
    pub(crate) fn chunk(&mut self, kind: u32, plain: &[u8]) -> Result<(), Fault> {
        if self.ended {
            return Err(Fault::Damaged("there is more after the end"));
        }
        match kind {
            ROWS => self.rows(plain),
            STATE => {
                self.state = Some(State::from_json(plain)?);
                Ok(())
            }
            SCALES => self.scale(plain),
            THROWN => self.thrown(plain),
            END => self.end(plain),
            _ => {
                self.unknown_chunks += 1;
                Ok(())
            }
        }
    }

    /// The recording, if it has a state chunk; without one nothing is readable.
    pub(crate) fn finish(mut self, torn_bytes: u64) -> Option<Recording> {
        let (meta, loss) = self.state?.into_domain();
        self.profile.meta = meta;
        self.profile.loss = loss;
        let complete = self.ended && torn_bytes == 0;
        if !complete {
            reconcile(&mut self.profile);
        }
        Some(Recording { profile: self.profile, complete, unknown_chunks: self.unknown_chunks, torn_bytes })
    }

    fn rows(&mut self, plain: &[u8]) -> Result<(), Fault> {
        let mut reader = Reader::new(plain);
        for _ in 0..room(reader.count()?, self.strings.len(), "texts", limits::STRINGS)? {
            let index = self.profile.string(text(&mut reader)?);
            self.strings.push(index);
        }
        for _ in 0..room(reader.count()?, self.frames.len(), "frames", limits::FRAMES)? {
            let frame = self.frame(&mut reader)?;
            let index = self.profile.frame(frame);
            self.frames.push(index);
        }
        for _ in 0..room(reader.count()?, self.stacks.len(), "stacks", limits::STACKS)? {
            self.stack(&mut reader)?;
        }
        for _ in 0..room(reader.count()?, self.profile.threads().len(), "threads", limits::THREADS)? {
            let thread = thread(&mut reader)?;
            self.profile.add_thread(thread);
        }
        for _ in 0..reader.count()? {
            let index = self.thread_index(reader.number()?)?;
            *self.profile.thread_mut(index) = thread(&mut reader)?;
        }
        self.samples_of(&mut reader)?;
        if reader.is_empty() { Ok(()) } else { Err(Fault::Damaged("a chunk of rows has more after them")) }
    }

    fn frame(&self, reader: &mut Reader<'_>) -> Result<Frame, Fault> {
        let kind = frame_kind(reader.number()?)?;
        let name = self.string(reader.number()?)?;
        let mut optional = || match reader.number() {
            Ok(0) => Ok(None),
            Ok(number) => Ok(Some(number - 1)),
            Err(malformed) => Err(malformed),
        };
        let (module, file, line) = (optional()?, optional()?, optional()?);
        Ok(Frame {
            kind,
            name,
            module: module.map(|index| self.string(index)).transpose()?,
            file: file.map(|index| self.string(index)).transpose()?,
            line: line.map(u32::try_from).transpose().map_err(|_| Fault::Damaged("a line has more than 32 bits"))?,
        })
    }

    fn stack(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        let back = reader.number()? as usize;
        let parent = match back {
            0 => None,
            _ => Some(self.stacks.len().checked_sub(back).ok_or("a stack's caller is not there")?),
        };
        let frame = *self.frames.get(reader.number()? as usize).ok_or("a stack's frame is not there")?;
        let depth = parent.map_or(0, |parent| self.depths[parent]) + 1;
        if depth > limits::DEPTH {
            return Err(Fault::TooLarge { what: "frames in a stack", limit: u64::from(limits::DEPTH) });
        }
        let index = self.profile.stack(parent.map(|parent| self.stacks[parent]), frame);
        self.stacks.push(index);
        self.depths.push(depth);
        Ok(())
    }

    fn samples_of(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        let count = room(reader.count()?, self.profile.samples().len(), "samples", limits::SAMPLES)?;
        let mut times = Vec::new();
        for _ in 0..count {
            let time = reader.step(times.last().copied().unwrap_or(0))?;
            times.push(nanoseconds(time)?);
        }
        let mut threads = Vec::new();
        for _ in 0..count {
            threads.push(reader.number()?);
        }
        let mut stacks = Vec::new();
        for _ in 0..count {
            stacks.push(*self.stacks.get(reader.number()? as usize).ok_or("a sample's stack is not there")?);
        }
        for ((time, thread), stack) in times.into_iter().zip(threads).zip(stacks) {
            let weight = nanoseconds(reader.number()?)?;
            self.weight = self.weight.checked_add(weight).ok_or("the weights are more than a number holds")?;
            let state = match thread & 1 {
                0 => remora_profile::State::Running,
                _ => remora_profile::State::Blocked,
            };
            let thread = self.thread_index(thread >> 1)?;
            self.profile.add_sample(Sample { time, thread, stack, weight, state });
        }
        Ok(())
    }

    fn thrown(&mut self, plain: &[u8]) -> Result<(), Fault> {
        let mut reader = Reader::new(plain);
        let mut before = 0;
        for _ in 0..room(reader.count()?, self.profile.thrown().len(), "exceptions", limits::THROWN)? {
            let time = nanoseconds(reader.step(before)?)?;
            before = time;
            let thread = self.thread_index(reader.number()?)?;
            let exception = self.string(reader.number()?)?;
            let stack = *self.stacks.get(reader.number()? as usize).ok_or("the stack of an exception is not there")?;
            self.profile.add_thrown(Thrown { time, thread, exception, stack });
        }
        if reader.is_empty() { Ok(()) } else { Err(Fault::Damaged("a chunk of exceptions has more after them")) }
    }

    fn scale(&mut self, plain: &[u8]) -> Result<(), Fault> {
        if std::mem::replace(&mut self.scaled, true) {
            return Err(Fault::Damaged("the samples are scaled twice"));
        }
        let mut reader = Reader::new(plain);
        let count = reader.count()?;
        if count > self.profile.threads().len() {
            return Err(Fault::Damaged("a thread that is scaled is not there"));
        }
        let scales: Vec<u64> = (0..count).map(|_| reader.number()).collect::<Result<_, _>>()?;
        if scales.iter().any(|factor| *factor > LARGEST_SCALE) {
            return Err(Fault::Damaged("a factor is out of range"));
        }
        self.profile.scale_running(scales);
        let sum = self.profile.samples().iter().try_fold(0_u64, |sum, sample| sum.checked_add(sample.weight));
        self.weight = sum.ok_or("the weights are more than a number holds")?;
        if reader.is_empty() { Ok(()) } else { Err(Fault::Damaged("a chunk of factors has more after them")) }
    }

    fn end(&mut self, plain: &[u8]) -> Result<(), Fault> {
        let mut reader = Reader::new(plain);
        let rows = Watermark {
            strings: self.strings.len(),
            frames: self.frames.len(),
            stacks: self.stacks.len(),
            ..self.profile.watermark()
        };
        for count in [rows.strings, rows.frames, rows.stacks, rows.threads, rows.samples] {
            if reader.number()? != count as u64 {
                return Err(Fault::Damaged("rows are missing"));
            }
        }
        self.ended = true;
        Ok(())
    }

    fn string(&self, index: u64) -> Result<StringIx, Fault> {
        Ok(*self.strings.get(index as usize).ok_or("a frame's text is not there")?)
    }

    fn thread_index(&self, index: u64) -> Result<ThreadIx, Fault> {
        if index >= self.profile.threads().len() as u64 {
            return Err(Fault::Damaged("a thread is not there"));
        }
        Ok(ThreadIx(index as u32))
    }
}

/// A recording that ended early may have samples after its last state: this adds them to account and duration.
fn reconcile(profile: &mut Profile) {
    let there = profile.samples().len() as u64;
    if let Some(more) = there.checked_sub(profile.loss.delivered) {
        profile.loss.taken = profile.loss.taken.saturating_add(more);
        profile.loss.delivered = there;
    } else if profile.loss.adds_up() {
        profile.loss.lose(LossCause::Damaged, profile.loss.delivered - there);
        profile.loss.delivered = there;
    }
    // The agent's count of taken samples comes last, after the detach.
    let known = profile.loss.delivered.saturating_add(profile.loss.total_lost());
    profile.loss.taken = profile.loss.taken.max(known);
    let last = profile.samples().iter().map(|sample| sample.time).max().unwrap_or(0);
    profile.meta.duration = profile.meta.duration.max(last);
}

fn room(count: usize, there: usize, what: &'static str, limit: usize) -> Result<usize, Fault> {
    if there + count > limit {
        return Err(Fault::TooLarge { what, limit: limit as u64 });
    }
    Ok(count)
}

fn text<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Fault> {
    let text = reader.text()?;
    if text.len() > limits::TEXT { Err(Fault::Damaged("a text is longer than texts are")) } else { Ok(text) }
}

fn thread(reader: &mut Reader<'_>) -> Result<Thread, Fault> {
    Ok(Thread { id: reader.small()?, name: text(reader)?.to_owned() })
}

fn nanoseconds(value: u64) -> Result<u64, Fault> {
    if value > limits::NANOSECONDS { Err(Fault::Damaged("a time is out of range")) } else { Ok(value) }
}
