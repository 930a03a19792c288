//! The chunks of version 1. Frozen: a change makes a version 2, in a file of its own. An older Remora skips and counts an added kind.
//!
//! ```text
//! kind 1  rows   of the tables: texts, frames, stack nodes, threads, threads renamed since, samples; each with its count
//! kind 2  state  present meta and loss, JSON; the last one holds
//! kind 4  scales one factor for each thread, in millionths: it multiplies the weights of all running samples so far
//! kind 5  thrown exceptions, if there are any: time, thread, type, stack
//! kind 3  end    number of rows in each table
//! ```
//! Rows refer to earlier rows only, by index. Samples are written by column, times as differences, since that compresses best.

mod decode;
mod encode;
mod state;

pub(crate) use decode::Decoder;
pub(crate) use encode::Encoder;

use remora_profile::FrameKind;

const ROWS: u32 = 1;
const STATE: u32 = 2;
const END: u32 = 3;
const SCALES: u32 = 4;
const THROWN: u32 = 5;

/// The number of a frame kind in a file.
fn frame_kind_id(kind: FrameKind) -> u64 {
    match kind {
        FrameKind::Managed => 0,
        FrameKind::Native => 1,
        FrameKind::Unknown => 2,
        FrameKind::Synthetic => 3,
    }
}

/// The frame kind with this number.
fn frame_kind(id: u64) -> Result<FrameKind, &'static str> {
    Ok(match id {
        0 => FrameKind::Managed,
        1 => FrameKind::Native,
        2 => FrameKind::Unknown,
        3 => FrameKind::Synthetic,
        _ => return Err("a frame is of no known kind"),
    })
}
