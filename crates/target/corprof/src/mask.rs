//! Event masks as types: a mask that the runtime would refuse cannot be built, or needs an [`Irreversible`].
//!
//! | profiler | low half | high half |
//! |---|---|---|
//! | attached | [`AttachMask`] | [`HighAttachMask`] |
//! | attached, notification-only | [`NotificationMask`] | [`HighAttachMask`] |
//! | attached, never to detach | [`IrreversibleMask`] | [`HighAttachMask`] |
//! | loaded at startup | [`StartupMask`] | [`HighStartupMask`] |

use crate::sys;
use core::fmt;
use core::ops::BitOr;

/// A half of an event mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// The first argument of SetEventMask2, and the only one of SetEventMask.
    Low,
    /// The second argument.
    High,
}

/// Bits that a mask may not hold. Names the clause of the contract that forbids each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForbiddenBits {
    /// The half.
    pub half: Half,
    /// The bits.
    pub bits: u32,
}

/// The bits with a clause of their own. ATT-12 forbids all others: after attach, or to all but a main profiler.
const CLAUSES: [(Half, u32, &str); 4] = [
    (Half::Low, sys::COR_PRF_ENABLE_OBJECT_ALLOCATED | sys::COR_PRF_MONITOR_OBJECT_ALLOCATED, "ATT-14"),
    (Half::High, sys::COR_PRF_HIGH_MONITOR_PINNEDOBJECT_ALLOCATED, "ATT-14"),
    (Half::Low, sys::COR_PRF_MONITOR_ENTERLEAVE, "ELT-02"),
    (Half::Low, sys::COR_PRF_ENABLE_REJIT, "DET-02"),
];

impl ForbiddenBits {
    /// The clauses that forbid these bits, each with its bits.
    pub fn clauses(self) -> impl Iterator<Item = (&'static str, u32)> {
        let own = CLAUSES.iter().filter(move |(half, _, _)| *half == self.half);
        let other = own.clone().fold(self.bits, |rest, (_, bits, _)| rest & !bits);
        let own = own.map(move |(_, bits, clause)| (*clause, bits & self.bits));
        own.chain([("ATT-12", other)]).filter(|(_, bits)| *bits != 0)
    }
}

impl fmt::Display for ForbiddenBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let half = if self.half == Half::Low { "low" } else { "high" };
        let (some, bits) = (if self.bits.count_ones() == 1 { "flag" } else { "flags" }, self.bits);
        write!(f, "this kind of profiler may not ask for the event {some} 0x{bits:X} of the {half} half")?;
        for (at, (clause, bits)) in self.clauses().enumerate() {
            write!(f, "{} 0x{bits:X} by {clause}", if at == 0 { ":" } else { "," })?;
        }
        f.write_str(" of the contract")
    }
}

impl core::error::Error for ForbiddenBits {}

/// A token for every call that a detach cannot undo and that the runtime does not always prevent.
///
/// Only [`irreversible`] makes one, so a search for that name finds every such call:
/// ```compile_fail,E0423
/// let word = corprof::Irreversible(());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Irreversible(());

/// Confirms a call that cannot be undone: the profiler will never detach, or its detach leaves something behind.
pub const fn irreversible() -> Irreversible {
    Irreversible(())
}

macro_rules! masks {
    ($($(#[$meta:meta])* $name:ident, $half:ident half, allowed $allowed:expr, { $($(#[$doc:meta])* $constant:ident = $raw:ident,)* })*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
            pub struct $name(u32);

            impl $name {
                /// No flag at all.
                pub const NONE: $name = $name(0);
                /// Every flag that this mask may hold.
                pub const ALLOWED: u32 = $allowed;
                $($(#[$doc])* pub const $constant: $name = $name(sys::$raw);)*

                /// The mask with these bits, or an error with the forbidden ones.
                pub const fn from_bits(bits: u32) -> Result<$name, ForbiddenBits> {
                    match bits & !Self::ALLOWED {
                        0 => Ok($name(bits)),
                        bits => Err(ForbiddenBits { half: Half::$half, bits }),
                    }
                }

                /// The bits, as passed to the runtime.
                pub const fn bits(self) -> u32 {
                    self.0
                }

                /// The union of both; `|` for constants.
                pub const fn with(self, other: $name) -> $name {
                    $name(self.0 | other.0)
                }

                /// This mask without the flags of `other`.
                pub const fn without(self, other: $name) -> $name {
                    $name(self.0 & !other.0)
                }
            }

            impl BitOr for $name {
                type Output = $name;

                fn bitor(self, other: $name) -> $name {
                    self.with(other)
                }
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    write!(f, concat!(stringify!($name), "(0x{:X})"), self.0)
                }
            }
        )*
    };
}

masks! {
    /// What an attached profiler may request and still detach: COR_PRF_ALLOWABLE_AFTER_ATTACH without ENABLE_REJIT.
    AttachMask, Low half, allowed sys::COR_PRF_ALLOWABLE_AFTER_ATTACH & !sys::COR_PRF_ENABLE_REJIT, {
        /// Loads and unloads of classes.
        CLASS_LOADS = COR_PRF_MONITOR_CLASS_LOADS,
        /// Loads and unloads of modules.
        MODULE_LOADS = COR_PRF_MONITOR_MODULE_LOADS,
        /// Loads and unloads of assemblies.
        ASSEMBLY_LOADS = COR_PRF_MONITOR_ASSEMBLY_LOADS,
        /// Application domains created and shut down.
        APPDOMAIN_LOADS = COR_PRF_MONITOR_APPDOMAIN_LOADS,
        /// Compilations, of dynamic methods too.
        JIT_COMPILATION = COR_PRF_MONITOR_JIT_COMPILATION,
        /// Exceptions thrown, searched and unwound.
        EXCEPTIONS = COR_PRF_MONITOR_EXCEPTIONS,
        /// Every object of every GC. Disables concurrent GC, and may be newly set only inside `initialize_for_attach`.
        GC = COR_PRF_MONITOR_GC,
        /// Threads created, destroyed, assigned and named.
        THREADS = COR_PRF_MONITOR_THREADS,
        /// Suspensions and resumptions of the runtime.
        SUSPENDS = COR_PRF_MONITOR_SUSPENDS,
        /// Allows DoStackSnapshot.
        STACK_SNAPSHOT = COR_PRF_ENABLE_STACK_SNAPSHOT,
    }
    /// What an attached notification-only profiler may request: an [`AttachMask`] without GC.
    NotificationMask, Low half, allowed AttachMask::ALLOWED & sys::COR_PRF_ALLOWABLE_NOTIFICATION_PROFILER, {
        /// Loads and unloads of classes.
        CLASS_LOADS = COR_PRF_MONITOR_CLASS_LOADS,
        /// Loads and unloads of modules.
        MODULE_LOADS = COR_PRF_MONITOR_MODULE_LOADS,
        /// Loads and unloads of assemblies.
        ASSEMBLY_LOADS = COR_PRF_MONITOR_ASSEMBLY_LOADS,
        /// Application domains created and shut down.
        APPDOMAIN_LOADS = COR_PRF_MONITOR_APPDOMAIN_LOADS,
        /// Compilations, of dynamic methods too.
        JIT_COMPILATION = COR_PRF_MONITOR_JIT_COMPILATION,
        /// Exceptions thrown, searched and unwound.
        EXCEPTIONS = COR_PRF_MONITOR_EXCEPTIONS,
        /// Threads created, destroyed, assigned and named.
        THREADS = COR_PRF_MONITOR_THREADS,
        /// Suspensions and resumptions of the runtime.
        SUSPENDS = COR_PRF_MONITOR_SUSPENDS,
        /// Allows DoStackSnapshot.
        STACK_SNAPSHOT = COR_PRF_ENABLE_STACK_SNAPSHOT,
    }
    /// The high half for an attached profiler, main or notification-only. Runtimes before .NET 5 refuse EVENT_PIPE.
    HighAttachMask, High half, allowed sys::COR_PRF_HIGH_ALLOWABLE_AFTER_ATTACH & sys::COR_PRF_HIGH_ALLOWABLE_NOTIFICATION_PROFILER, {
        /// Symbols of modules in memory changed.
        IN_MEMORY_SYMBOLS_UPDATED = COR_PRF_HIGH_IN_MEMORY_SYMBOLS_UPDATED,
        /// Dynamic methods unloaded.
        DYNAMIC_FUNCTION_UNLOADS = COR_PRF_HIGH_MONITOR_DYNAMIC_FUNCTION_UNLOADS,
        /// Begin and end of GCs, without slowing them.
        BASIC_GC = COR_PRF_HIGH_BASIC_GC,
        /// Objects moved by GCs.
        GC_MOVED_OBJECTS = COR_PRF_HIGH_MONITOR_GC_MOVED_OBJECTS,
        /// Allocations of large objects.
        LARGEOBJECT_ALLOCATED = COR_PRF_HIGH_MONITOR_LARGEOBJECT_ALLOCATED,
        /// New EventPipe providers.
        EVENT_PIPE = COR_PRF_HIGH_MONITOR_EVENT_PIPE,
    }
    /// What a profiler loaded at startup may request: anything. It must know itself what cannot be undone.
    StartupMask, Low half, allowed u32::MAX, {}
    /// The high half for a profiler loaded at startup.
    HighStartupMask, High half, allowed u32::MAX, {}
}

impl From<NotificationMask> for AttachMask {
    fn from(mask: NotificationMask) -> AttachMask {
        AttachMask(mask.0)
    }
}

/// An [`AttachMask`] with ENABLE_REJIT: from then on the runtime refuses every detach, even if the flag is cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IrreversibleMask(u32);

impl IrreversibleMask {
    /// Adds ENABLE_REJIT to `mask`.
    pub const fn enable_rejit(mask: AttachMask, _word: Irreversible) -> IrreversibleMask {
        IrreversibleMask(mask.0 | sys::COR_PRF_ENABLE_REJIT)
    }

    /// The bits, as passed to the runtime.
    pub const fn bits(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_holds::holds;

    fn low(bits: u32) -> ForbiddenBits {
        ForbiddenBits { half: Half::Low, bits }
    }

    fn high(bits: u32) -> ForbiddenBits {
        ForbiddenBits { half: Half::High, bits }
    }

    #[test]
    fn att_12_a_mask_for_attach_holds_only_what_attach_allows() {
        holds!(ATT_12 rem, AttachMask::ALLOWED == 0x1001_02FE);
        holds!(ATT_12 rem, NotificationMask::ALLOWED == 0x1001_027E);
        holds!(ATT_12 rem, HighAttachMask::ALLOWED == 0xF6);
        for bit in (0..32).map(|shift| 1u32 << shift) {
            holds!(ATT_12 rem, AttachMask::from_bits(bit).is_ok() == (bit & 0x1001_02FE != 0), "low 0x{bit:X}");
            holds!(ATT_12 rem, NotificationMask::from_bits(bit).is_ok() == (bit & 0x1001_027E != 0), "notification 0x{bit:X}");
            holds!(ATT_12 rem, HighAttachMask::from_bits(bit).is_ok() == (bit & 0xF6 != 0), "high 0x{bit:X}");
        }
        let asked = AttachMask::MODULE_LOADS.bits() | sys::COR_PRF_MONITOR_ENTERLEAVE | sys::COR_PRF_DISABLE_INLINING;
        assert_eq!(AttachMask::from_bits(asked), Err(low(0x20_1000)));
    }

    #[test]
    fn att_14_object_allocated_is_not_in_any_mask_for_attach() {
        let asked = sys::COR_PRF_ENABLE_OBJECT_ALLOCATED | sys::COR_PRF_MONITOR_OBJECT_ALLOCATED;
        holds!(ATT_14 rem, AttachMask::from_bits(asked) == Err(low(asked)));
        holds!(ATT_14 rem, NotificationMask::from_bits(asked) == Err(low(asked)));
        let pinned = sys::COR_PRF_HIGH_MONITOR_PINNEDOBJECT_ALLOCATED;
        assert_eq!(HighAttachMask::from_bits(pinned), Err(high(pinned)));
    }

    #[test]
    fn det_02_no_mask_that_may_detach_holds_an_immutable_or_irreversible_flag() {
        holds!(DET_02 rem, AttachMask::ALLOWED & sys::COR_PRF_MONITOR_IMMUTABLE == 0);
        assert_eq!(HighAttachMask::ALLOWED & sys::COR_PRF_HIGH_MONITOR_IMMUTABLE, 0);
        holds!(DET_02 rem, AttachMask::from_bits(sys::COR_PRF_ENABLE_REJIT) == Err(low(0x4_0000)));
        let mask = IrreversibleMask::enable_rejit(AttachMask::MODULE_LOADS, irreversible());
        assert_eq!(mask.bits(), 0x4_0004);
    }

    #[test]
    fn att_19_what_a_mask_refuses_it_refuses_with_the_clause_that_forbids_it() {
        let clauses = |bits: ForbiddenBits| bits.clauses().collect::<Vec<_>>();
        // Each bit alone: one clause, and the same for both kinds of attached profiler.
        for bit in (0..32).map(|shift| 1_u32 << shift) {
            let clause = match bit {
                sys::COR_PRF_MONITOR_OBJECT_ALLOCATED | sys::COR_PRF_ENABLE_OBJECT_ALLOCATED => "ATT-14",
                sys::COR_PRF_MONITOR_ENTERLEAVE => "ELT-02",
                sys::COR_PRF_ENABLE_REJIT => "DET-02",
                _ => "ATT-12",
            };
            let refused = [AttachMask::from_bits(bit).err(), NotificationMask::from_bits(bit).err()];
            for forbidden in refused.into_iter().flatten() {
                holds!(ATT_19 rem, clauses(forbidden) == [(clause, bit)]);
                holds!(ATT_19 rem, forbidden.to_string().contains(clause), "{forbidden}");
            }
            if let Err(forbidden) = HighAttachMask::from_bits(bit) {
                let clause = if bit == sys::COR_PRF_HIGH_MONITOR_PINNEDOBJECT_ALLOCATED { "ATT-14" } else { "ATT-12" };
                assert_eq!(clauses(forbidden), [(clause, bit)]);
            }
        }
        // Several bits: each forbidden one is reported, and the allowed one is not.
        let all = AttachMask::from_bits(0xA4_1004).unwrap_err();
        holds!(ATT_19 rem, all.to_string() == "this kind of profiler may not ask for the event flags 0xA41000 of the low half: \
             0x800000 by ATT-14, 0x1000 by ELT-02, 0x40000 by DET-02, 0x200000 by ATT-12 of the contract");
    }

    #[test]
    fn masks_are_joined_and_parted() {
        let mask = AttachMask::MODULE_LOADS | AttachMask::THREADS;
        assert_eq!((mask.bits(), mask.without(AttachMask::THREADS)), (0x204, AttachMask::MODULE_LOADS));
        assert_eq!(AttachMask::from(NotificationMask::SUSPENDS), AttachMask::SUSPENDS);
        assert_eq!(format!("{mask:?}"), "AttachMask(0x204)");
    }
}
