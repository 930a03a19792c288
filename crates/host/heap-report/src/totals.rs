//! The totals of some objects, as JSON.

use remora_heap::tables::Totals;
use serde::Serialize;

/// Part of the JSON of types and assemblies. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct TotalsJson {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    pub(crate) retained: u64,
}

impl From<Totals> for TotalsJson {
    fn from(totals: Totals) -> TotalsJson {
        TotalsJson { count: totals.count, bytes: totals.bytes, retained: totals.retained }
    }
}
