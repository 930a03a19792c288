//! Encodes a profile to chunks.

use super::{END, ROWS, SCALES, STATE, THROWN, frame_kind_id, state::State};
use crate::bytes::{put, put_step, put_text};
use crate::limits::{self, fitting};
use crate::{Error, FORMAT};
use remora_chunks::Unpacked;
use remora_profile::{Profile, Sample, Thread, Thrown, Watermark};

/// The progress of writing a profile.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    written: Watermark,
    /// Threads as written, to detect names learnt later.
    threads: Vec<Thread>,
    /// Depth of each stack node written.
    depths: Vec<u32>,
    /// The factors in the weights written so far.
    scales: Vec<u64>,
    /// The unpacked size, which readers check against the file's length.
    unpacked: Unpacked,
}

impl Encoder {
    pub(crate) fn watermark(&self) -> Watermark {
        self.written
    }

    /// Appends chunks for the new rows of `profile`, and its state.
    pub(crate) fn append(&mut self, profile: &Profile, out: &mut Vec<u8>) -> Result<(), Error> {
        check_sizes(profile)?;
        self.scale(profile, out);
        loop {
            let until = self.next_stop(profile);
            let renamed = self.renamed(profile);
            if until == self.written && renamed.is_empty() {
                break;
            }
            self.rows(profile, until, &renamed, out)?;
        }
        for exceptions in profile.thrown()[self.written.thrown..].chunks(limits::CHUNK_ITEMS) {
            FORMAT.put(out, THROWN, &thrown(exceptions), &mut self.unpacked);
        }
        self.written.thrown = profile.thrown().len();
        FORMAT.put(out, STATE, &State::of(profile).json(), &mut self.unpacked);
        Ok(())
    }

    /// Writes the factors, if weights were scaled since they were written. Later samples are already scaled.
    fn scale(&mut self, profile: &Profile, out: &mut Vec<u8>) {
        if self.scales == profile.scales() {
            return;
        }
        self.scales = profile.scales().to_vec();
        let mut plain = Vec::new();
        put(&mut plain, self.written.threads.min(self.scales.len()) as u64);
        self.scales.iter().take(self.written.threads).for_each(|factor| put(&mut plain, *factor));
        FORMAT.put(out, SCALES, &plain, &mut self.unpacked);
    }

    /// Appends the end chunk.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        let mut plain = Vec::new();
        let Watermark { strings, frames, stacks, threads, samples, .. } = self.written;
        for count in [strings, frames, stacks, threads, samples] {
            put(&mut plain, count as u64);
        }
        FORMAT.put(out, END, &plain, &mut self.unpacked);
    }

    /// The end of the next chunk. A table follows only after the table it refers to is written.
    fn next_stop(&self, profile: &Profile) -> Watermark {
        let (from, all) = (self.written, profile.watermark());
        let mut until = from;
        let mut text = 0;
        for string in profile.strings()[from.strings..].iter().take(limits::CHUNK_ITEMS) {
            text += string.len().min(limits::TEXT);
            if text > limits::CHUNK_TEXT {
                break;
            }
            until.strings += 1;
        }
        let reach = |from: usize, all: usize| all.min(from + limits::CHUNK_ITEMS);
        if until.strings == all.strings {
            until.frames = reach(from.frames, all.frames);
        }
        if until.frames == all.frames {
            until.stacks = reach(from.stacks, all.stacks);
        }
        until.threads = all.threads.min(from.threads + limits::CHUNK_THREADS);
        if until.stacks == all.stacks && until.frames == all.frames && until.threads == all.threads {
            until.samples = reach(from.samples, all.samples);
        }
        until
    }

    /// Threads whose name or id changed since they were written, at most a chunk's worth.
    fn renamed(&self, profile: &Profile) -> Vec<usize> {
        let changed = self.threads.iter().zip(profile.threads()).enumerate();
        changed.filter(|(_, (old, new))| old != new).map(|(index, _)| index).take(limits::CHUNK_THREADS).collect()
    }

    fn rows(&mut self, profile: &Profile, until: Watermark, renamed: &[usize], out: &mut Vec<u8>) -> Result<(), Error> {
        let from = self.written;
        let mut plain = Vec::new();
        put(&mut plain, (until.strings - from.strings) as u64);
        for string in &profile.strings()[from.strings..until.strings] {
            put_text(&mut plain, &fitting(string));
        }
        frames(profile, from.frames..until.frames, &mut plain);
        self.stacks(profile, until.stacks, &mut plain)?;
        put(&mut plain, (until.threads - from.threads) as u64);
        for thread in &profile.threads()[from.threads..until.threads] {
            put_thread(thread, &mut plain);
            self.threads.push(thread.clone());
        }
        put(&mut plain, renamed.len() as u64);
        for &index in renamed {
            put(&mut plain, index as u64);
            put_thread(&profile.threads()[index], &mut plain);
            self.threads[index] = profile.threads()[index].clone();
        }
        samples(&profile.samples()[from.samples..until.samples], &mut plain);
        FORMAT.put(out, ROWS, &plain, &mut self.unpacked);
        self.written = until;
        Ok(())
    }

    fn stacks(&mut self, profile: &Profile, until: usize, plain: &mut Vec<u8>) -> Result<(), Error> {
        let from = self.written.stacks;
        put(plain, (until - from) as u64);
        for (index, node) in profile.stacks()[from..until].iter().enumerate() {
            let depth = node.parent.map_or(0, |parent| self.depths[parent.0 as usize]) + 1;
            if depth > limits::DEPTH {
                return Err(Error::TooLarge { what: "frames in a stack", limit: u64::from(limits::DEPTH) });
            }
            self.depths.push(depth);
            // Zero is "no parent", else the distance back to the parent.
            put(plain, node.parent.map_or(0, |parent| (from + index) as u64 - u64::from(parent.0)));
            put(plain, u64::from(node.frame.0));
        }
        Ok(())
    }
}

fn frames(profile: &Profile, range: std::ops::Range<usize>, plain: &mut Vec<u8>) {
    put(plain, range.len() as u64);
    for frame in &profile.frames()[range] {
        put(plain, frame_kind_id(frame.kind));
        put(plain, u64::from(frame.name.0));
        // Zero is "none", else one more than the value.
        put(plain, frame.module.map_or(0, |module| u64::from(module.0) + 1));
        put(plain, frame.file.map_or(0, |file| u64::from(file.0) + 1));
        put(plain, frame.line.map_or(0, |line| u64::from(line) + 1));
    }
}

fn samples(samples: &[Sample], plain: &mut Vec<u8>) {
    put(plain, samples.len() as u64);
    let mut before = 0;
    for sample in samples {
        let time = sample.time.min(limits::NANOSECONDS);
        put_step(plain, before, time);
        before = time;
    }
    for sample in samples {
        let blocked = u64::from(sample.state == remora_profile::State::Blocked);
        put(plain, u64::from(sample.thread.0) << 1 | blocked);
    }
    for sample in samples {
        put(plain, u64::from(sample.stack.0));
    }
    for sample in samples {
        put(plain, sample.weight.min(limits::NANOSECONDS));
    }
}

fn thrown(exceptions: &[Thrown]) -> Vec<u8> {
    let mut plain = Vec::new();
    put(&mut plain, exceptions.len() as u64);
    let mut before = 0;
    for thrown in exceptions {
        let time = thrown.time.min(limits::NANOSECONDS);
        put_step(&mut plain, before, time);
        before = time;
        put(&mut plain, u64::from(thrown.thread.0));
        put(&mut plain, u64::from(thrown.exception.0));
        put(&mut plain, u64::from(thrown.stack.0));
    }
    plain
}

fn put_thread(thread: &Thread, plain: &mut Vec<u8>) {
    put(plain, u64::from(thread.id));
    put_text(plain, &fitting(&thread.name));
}

fn check_sizes(profile: &Profile) -> Result<(), Error> {
    let Watermark { strings, frames, stacks, threads, samples, thrown } = profile.watermark();
    let sizes = [
        ("texts", strings, limits::STRINGS),
        ("frames", frames, limits::FRAMES),
        ("stacks", stacks, limits::STACKS),
        ("threads", threads, limits::THREADS),
        ("samples", samples, limits::SAMPLES),
        ("exceptions", thrown, limits::THROWN),
    ];
    match sizes.into_iter().find(|(_, size, limit)| size > limit) {
        Some((what, _, limit)) => Err(Error::TooLarge { what, limit: limit as u64 }),
        None => Ok(()),
    }
}
