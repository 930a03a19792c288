//! Codes and marks in the answers about metadata.

use corprof::HResult;
use std::ffi::c_void;

/// CLDB_E_INDEX_NOTFOUND and CLDB_E_RECORD_NOTFOUND: no such row, and no row with this content (source: corerror.h).
pub(super) const NO_ROW: HResult = HResult(0x8013_1124_u32 as i32);
pub(super) const NOT_FOUND: HResult = HResult::CLDB_E_RECORD_NOTFOUND;
/// META_E_BAD_INPUT_PARAMETER and META_E_INVALID_TOKEN_TYPE.
pub(super) const BAD_INPUT: HResult = HResult(0x8013_1193_u32 as i32);
pub(super) const WRONG_KIND: HResult = HResult(0x8013_115F_u32 as i32);
/// CLDB_E_FILE_CORRUPT: also a user string at an offset where none begins.
pub(super) const CORRUPT: HResult = HResult(0x8013_110E_u32 as i32);
/// META_E_CANNOTRESOLVETYPEREF: other modules are not searched.
pub(super) const UNRESOLVED: HResult = HResult(0x8013_1196_u32 as i32);
/// pmCallConvWinapi: no signature here specifies another (source: corhdr.h).
pub(super) const PLATFORMS_OWN: u32 = 0x0100;
/// CALG_SHA1, which compilers write.
pub(super) const SHA1: u32 = 0x8004;
/// No assembly of the model is signed.
pub(super) const NO_KEY: *const c_void = std::ptr::null();
/// The runtime that it was compiled for: every compiler since the .NET Framework 4 writes this.
pub(super) const VERSION: &str = "v4.0.30319";

/// mdPrivate, mdStatic and mdHideBySig (source: corhdr.h).
pub(super) const PRIVATE_STATIC: u32 = 0x91;
