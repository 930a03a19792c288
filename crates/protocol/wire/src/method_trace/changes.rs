//! Changes of what is traced, while it is traced: what the recorder asks for, and what the agent has done.

use crate::bytes::{Malformed, Reader, Writer};

/// A change of what is traced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Trace the methods that match, too.
    Add {
        /// A pattern of full names.
        pattern: String,
        /// If more than so many match that are not traced yet, nothing changes.
        most: u32,
    },
    /// Restore the traced methods that match.
    Remove {
        /// A pattern of full names.
        pattern: String,
    },
    /// Record calls that last at least so many nanoseconds.
    SlowerThan(u64),
}

/// Whether a change was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// It was.
    #[default]
    Made,
    /// More methods match than the change allows. Nothing has changed.
    TooManyMethods,
    /// The agent keeps no more patterns. Nothing has changed.
    TooManyPatterns,
}

/// The effect of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changed {
    /// Whether it was made.
    pub outcome: ChangeOutcome,
    /// Methods that match: of all loaded modules for an addition, of the traced ones for a removal.
    pub found: u32,
    /// Methods that are traced now, or restored, by this change.
    pub changed: u32,
    /// Methods that match an addition, and were traced before.
    pub already: u32,
    /// Methods that are traced now.
    pub traced: u32,
    /// The HRESULT of a call of the runtime that failed; 0 if none did.
    pub code: u32,
}

impl Change {
    pub(super) fn write(&self, writer: &mut Writer) {
        match self {
            Change::Add { pattern, most } => writer.u8(0).text(pattern).u32(*most),
            Change::Remove { pattern } => writer.u8(1).text(pattern),
            Change::SlowerThan(nanoseconds) => writer.u8(2).u64(*nanoseconds),
        };
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Change, Malformed> {
        Ok(match reader.u8()? {
            0 => Change::Add { pattern: reader.text()?, most: reader.u32()? },
            1 => Change::Remove { pattern: reader.text()? },
            2 => Change::SlowerThan(reader.u64()?),
            _ => return Err(Malformed),
        })
    }
}

impl Changed {
    pub(super) fn write(&self, writer: &mut Writer) {
        let outcome = match self.outcome {
            ChangeOutcome::Made => 0,
            ChangeOutcome::TooManyMethods => 1,
            ChangeOutcome::TooManyPatterns => 2,
        };
        writer.u8(outcome).u32(self.found).u32(self.changed).u32(self.already).u32(self.traced).u32(self.code);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Changed, Malformed> {
        Ok(Changed {
            outcome: match reader.u8()? {
                0 => ChangeOutcome::Made,
                1 => ChangeOutcome::TooManyMethods,
                2 => ChangeOutcome::TooManyPatterns,
                _ => return Err(Malformed),
            },
            found: reader.u32()?,
            changed: reader.u32()?,
            already: reader.u32()?,
            traced: reader.u32()?,
            code: reader.u32()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FromTracer, ToTracer};
    use super::*;

    #[test]
    fn changes_and_their_effects_come_back_as_they_were_and_cut_ones_are_refused() {
        let pattern = || "Shop.Orders.*".to_owned();
        for change in [
            Change::Add { pattern: pattern(), most: 100 },
            Change::Remove { pattern: pattern() },
            Change::SlowerThan(50_000_000),
        ] {
            let message = ToTracer::Change(change);
            let bytes = &message.encode()[4..];
            assert_eq!(ToTracer::decode(bytes.into()), Ok(message));
            (0..bytes.len()).for_each(|length| assert_eq!(ToTracer::decode(bytes[..length].into()), Err(Malformed)));
        }
        let effect = Changed { found: 1, changed: 2, already: 3, traced: 4, code: 5, ..Changed::default() };
        for message in [
            FromTracer::Changed(effect),
            FromTracer::Changed(Changed { outcome: ChangeOutcome::TooManyMethods, ..effect }),
            FromTracer::Changed(Changed { outcome: ChangeOutcome::TooManyPatterns, ..effect }),
            FromTracer::Switched { index: 3, is_traced: true },
            FromTracer::Switched { index: 4, is_traced: false },
        ] {
            let bytes = &message.encode()[4..];
            assert_eq!(FromTracer::decode(bytes.into()), Ok(message));
            (0..bytes.len()).for_each(|length| assert_eq!(FromTracer::decode(bytes[..length].into()), Err(Malformed)));
        }
    }
}
